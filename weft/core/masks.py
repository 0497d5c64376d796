"""Masks: values picked by them and put back, and what they grow to."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any


def pick(values: Sequence[Any], mask: Sequence[bool]) -> list:
    """Return the values at the marked places."""
    return [v for v, m in zip(values, mask, strict=True) if m]


def unpick(
    picked: Iterable[Any], mask: Iterable[bool], elsewhere: Iterable[Any] = itertools.repeat(None)
) -> list:
    """Return the picked values at the marked places, those of `elsewhere` or None at others."""
    values = iter(picked)
    return [next(values) if m else x for m, x in zip(mask, elsewhere, strict=False)]


def closed_under(mask: Iterable[bool], step: Callable[[list[bool]], Iterable[bool]]) -> list[bool]:
    """Enlarge a mask until it contains step(mask)."""
    marked = list(mask)
    while True:
        joined = [a or b for a, b in zip(marked, step(marked), strict=False)]
        if joined == marked:
            return marked
        marked = joined
