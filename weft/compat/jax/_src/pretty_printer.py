# Tests: tests/compat/test_pretty_printer.py
"""jax._src.pretty_printer, for haliax and others: documents that are laid out to a width.

Source: Christian Lindig, "Strictly Pretty" (2000). Colors are taken and not printed.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

Color = enum.IntEnum("Color", "BLACK RED GREEN YELLOW BLUE MAGENTA CYAN WHITE RESET", start=30)
Intensity = enum.IntEnum("Intensity", "DIM NORMAL BRIGHT", start=0)
CAN_USE_COLOR = False


@dataclass(frozen=True, slots=True)
class Doc:
    """A document: text, a break (`breaks`), or children that are laid out together.

    indent: of the children's lines. grouped: whether they go into one line where they fit.
    """

    text: str = ""
    annotation: str | None = None
    breaks: bool = False
    children: tuple[Doc, ...] = ()
    indent: int = 0
    grouped: bool = False
    source: Any = None

    def __add__(self, other: Doc) -> Doc:
        return concat([self, other])

    def __str__(self) -> str:
        return self.format()

    def leaves(self) -> Iterator[Doc]:
        if not self.children:
            yield self
        for child in self.children:
            yield from child.leaves()

    def fits(self, width: int) -> bool:
        return sum(len(leaf.text) for leaf in self.leaves()) <= width

    def format(
        self,
        width: int = 80,
        *,
        annotation_prefix: str = " # ",
        source_map: list[list[tuple[int, int, Any]]] | None = None,
        **options: object,
    ) -> str:
        """Return the text in lines of this width where groups can be broken to it.

        source_map: an empty list, which gets, for each line, (start, end, source) of each part that
        has one.
        """
        lines: list[str] = [""]
        notes: list[list[str]] = [[]]
        sources: list[list[tuple[int, int, Any]]] = [[]]
        todo = [(self, 0, False, None)]  # document, indentation, in one line, source
        while todo:
            doc, indent, flat, source = todo.pop()
            source = source if doc.source is None else doc.source
            if doc.children:
                flat = flat or (doc.grouped and doc.fits(width - len(lines[-1])))
                inner = indent + doc.indent
                todo += [(child, inner, flat, source) for child in reversed(doc.children)]
            elif doc.breaks and not flat:
                lines.append(" " * indent)
                notes.append([])
                sources.append([])
            elif doc.text:
                start = len(lines[-1])
                lines[-1] += doc.text
                if doc.annotation is not None:
                    notes[-1].append(doc.annotation)
                if source is not None:
                    marks = sources[-1]
                    if marks and marks[-1][1:] == (start, source):
                        start = marks.pop()[0]
                    marks.append((start, len(lines[-1]), source))
        if source_map is not None:
            source_map.extend(sources)
        longest = max(map(len, lines))
        return "\n".join(
            line.ljust(longest) + annotation_prefix + " ".join(said) if said else line
            for line, said in zip(lines, notes, strict=True)
        )


def nil() -> Doc:
    return Doc()


def text(text: str, annotation: str | None = None, *links: object, **more: object) -> Doc:
    return Doc(text, annotation)


def concat(children: Sequence[Doc]) -> Doc:
    return Doc(children=tuple(children))


def brk(text: str = " ") -> Doc:
    """Return a new line, or this text where its group is in one line."""
    return Doc(text, breaks=True)


def group(doc: Doc) -> Doc:
    return Doc(children=(doc,), grouped=True)


def nest(n: int, doc: Doc) -> Doc:
    return Doc(children=(doc,), indent=n)


def color(child: Doc, *colors: object, **more: object) -> Doc:
    return child


type_annotation = keyword = color


def source_map(doc: Doc, source: Any) -> Doc:
    """Return the document, whose parts of the output `format` tells with this source."""
    return Doc(children=(doc,), source=source)


def join(sep: Doc, docs: Sequence[Doc]) -> Doc:
    joined = [part for doc in docs for part in (sep, doc)]
    return concat(joined[1:])
