"""Values picked by a mask, and put back to where they were."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any


def pick(values: Sequence[Any], mask: Sequence[bool]) -> list:
    """The values at the marked places."""
    return [v for v, m in zip(values, mask, strict=True) if m]


def unpick(picked: Iterable[Any], mask: Iterable[bool]) -> list:
    """The picked values at the marked places, None elsewhere."""
    values = iter(picked)
    return [next(values) if m else None for m in mask]
