"""Displays in notebooks: each class names the function that draws it, imported when it is shown."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection
from typing import Any, TypeVar

_C = TypeVar("_C", bound=type[Any])

# Every class with a drawing: those of shardings are made in several files.
drawn_classes: list[Any] = []


def displayed(module: str, function: str) -> Callable[[_C], _C]:
    """Give a class IPython's display methods: its repr and, where `function(self)` is HTML, that.

    The function, found by name so that no drawing is imported with weft, returns None for objects
    that have no drawing.
    """

    def html(self: object) -> str | None:
        return getattr(importlib.import_module(module), function)(self)

    def mimebundle(
        self: object,
        include: Collection[str] | None = None,
        exclude: Collection[str] | None = None,
    ) -> dict[str, str]:
        drawn = html(self)
        texts = {"text/plain": repr(self)} | ({} if drawn is None else {"text/html": drawn})
        wanted = set(include or texts) - set(exclude or ())
        return {kind: text for kind, text in texts.items() if kind in wanted}

    def decorate(cls: _C) -> _C:
        for name, method in (("_repr_html_", html), ("_repr_mimebundle_", mimebundle)):
            setattr(cls, name, method)
        drawn_classes.append(cls)
        return cls

    return decorate
