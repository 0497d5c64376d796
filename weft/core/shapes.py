# Tests: tests/refs/test_views.py
"""Shapes: which dimensions correspond where an array is reshaped."""

from __future__ import annotations

import math
from collections.abc import Sequence


def dimension_groups(old: Sequence[int], new: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Return the dimensions of two shapes, other than 1, in runs that hold as many elements.

    >>> from weft.core.shapes import dimension_groups
    >>> dimension_groups((8, 3, 1, 4), (2, 4, 12))
    [([0], [0, 1]), ([1, 3], [2])]
    """
    if 0 in old:
        return [([*range(len(old))], [*range(len(new))])]
    groups = []
    old_dims = [d for d, n in enumerate(old) if n != 1][::-1]
    new_dims = [d for d, n in enumerate(new) if n != 1][::-1]
    while new_dims:
        a, b = [old_dims.pop()], [new_dims.pop()]
        while (x := math.prod(old[d] for d in a)) != (y := math.prod(new[d] for d in b)):
            if x < y:
                a.append(old_dims.pop())
            else:
                b.append(new_dims.pop())
        groups.append((a, b))
    return groups


def corresponding_dimensions(
    old: Sequence[int], new: Sequence[int]
) -> list[tuple[list[int], list[int]]]:
    """Return dimensions of two shapes that hold the same indices, as few at a time as can be.

    >>> from weft.core.shapes import corresponding_dimensions
    >>> corresponding_dimensions((8, 3, 1, 4), (2, 4, 12))
    [([2], []), ([0], [0, 1]), ([1, 3], [2])]
    """
    ones: list[tuple[list[int], list[int]]] = [([d], []) for d, n in enumerate(old) if n == 1]
    ones += [([], [d]) for d, n in enumerate(new) if n == 1]
    return ones + dimension_groups(old, new)
