"""Make corpus.txt from SQLite's header: `python extract.py sqlite3.h corpus.txt`."""

import re
import sys
from pathlib import Path

SIZE = 262_144  # characters kept, cut back to the last full paragraph


def prose(header: str) -> str:
    """The header's documentation comments as plain paragraphs, without C and without markup."""
    paragraphs: list[str] = []
    for comment in re.findall(r"/\*\n(.*?)\*/", header, re.DOTALL):
        lines = [re.sub(r"^\*\* ?", "", line.rstrip()) for line in comment.splitlines()]
        text = "\n".join(lines)
        text = re.sub(r"^(CAPI3REF|KEYWORDS|METHOD|CONSTRUCTOR|DESTRUCTOR):?", "", text, flags=re.M)
        text = re.sub(r"\[([^\]|]*)\|\s*([^\]]*)\]", r"\2", text)  # [target | shown text]
        text = re.sub(r"\[([^\]]*)\]", r"\1", text)
        text = re.sub(r"</?[a-zA-Z][^>]*>", "", text)
        text = (
            text.replace("^", "").replace("&lt;", "<").replace("&gt;", ">").replace("&nbsp;", " ")
        )
        text = "".join(ch for ch in text if ch == "\n" or " " <= ch <= "~")
        text = re.sub(r"[ \t]+\n", "\n", text)
        text = re.sub(r"\n{3,}", "\n\n", text).strip()
        if len(text) > 200:
            paragraphs.append(text)
    return "\n\n".join(paragraphs) + "\n"


if __name__ == "__main__":
    source, target = sys.argv[1:]
    text = prose(Path(source).read_text(encoding="utf-8"))[:SIZE]
    Path(target).write_text(text[: text.rindex("\n\n") + 1], encoding="ascii")
