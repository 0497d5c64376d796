"""Reads a page of HTML, and refuses tags that do not close."""

from html.parser import HTMLParser


class Page(HTMLParser):
    """Tags that stay open, every link to elsewhere, and the text that people see."""

    VOID = {"meta", "br", "link", "img", "rect"}

    def __init__(self):
        super().__init__()
        self.open, self.links, self.tags, self.text = [], [], [], ""

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [v for k, v in attrs if k in ("src", "href")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, (tag, self.open[-3:])
        self.open.pop()

    def handle_data(self, data):
        self.text += data


def parsed(html):
    """Return the page of well-formed HTML."""
    page = Page()
    page.feed(html)
    page.close()
    assert not page.open, page.open
    return page
