# Tests: tests/pallas/test_array_functions.py
"""Ops that Triton lacks, made of others: sorting, and writing a part at a traced place.

Rows are sorted by K. Batcher's bitonic network ("Sorting networks and their applications", 1968):
every exchange is a reshape and a flip, so that no element is addressed by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.core import dtypes
from weft.core.jaxpr import Eqn

if TYPE_CHECKING:
    from weft.runtime.array import Array

# Sorting ----------------------------------------------------------------------------------------


def _less_and_equal(a: Array, b: Array) -> tuple[Any, Any]:
    """Return whether a comes before b, and whether neither comes first; NaN comes last."""
    less, equal = a < b, a == b
    if dtypes.is_float(a.dtype):
        less = less | ((a == a) & (b != b))
        equal = equal | ((a != a) & (b != b))
    return less, equal


def is_before(first: Sequence[Any], second: Sequence[Any]) -> Any:
    """Return whether the keys of the first precede those of the second."""
    result = None
    for a, b in reversed(list(zip(first, second, strict=True))):
        less, equal = _less_and_equal(a, b)
        result = less if result is None else less | (equal & result)
    return result


def _sorted_rows(keys: list[Any], others: list[Any]) -> list[Any]:
    """Permute arrays along the last dimension by the keys; equal ones keep their order."""
    import weft.numpy as jnp
    from weft import lax

    *lead, n = keys[0].shape
    width = 1 << (n - 1).bit_length()
    position = lax.broadcasted_iota("int32", (*lead, width), len(lead))
    widths = [(0, 0)] * len(lead) + [(0, width - n)]
    padded = [jnp.pad(x, widths) for x in (*keys, *others)]
    # Past the end last; the place makes all keys different.
    count = len(padded)
    ends = [(position >= n).astype("int32")] if width != n else []
    arrays = [*padded, position, *ends]

    def compared(values: list[Any]) -> list[Any]:
        return [*values[count + 1 :], *values[: len(keys)], values[count]]

    def exchange(values: list[Any], size: int, step: int) -> list[Any]:
        def partner(x: Array) -> Any:
            pairs = x.reshape(*lead, width // (2 * step), 2, step)
            return jnp.flip(pairs, axis=-2).reshape(*lead, width)

        theirs = [partner(x) for x in values]
        first = is_before(compared(values), compared(theirs))
        low = (position & step) == 0
        up = (position & size) == 0
        keep = first == (low == up)
        return [jnp.where(keep, x, y) for x, y in zip(values, theirs, strict=True)]

    size = 2
    while size <= width:
        step = size // 2
        while step:
            arrays = exchange(arrays, size, step)
            step //= 2
        size *= 2
    return [x[..., :n] for x in arrays[:count]]


def _sort(eqn: Eqn, *operands: Array) -> list[Any]:
    import weft.numpy as jnp

    if operands[0].size == 0:
        return list(operands)
    dim, num_keys = eqn.rule_params["dimension"], eqn.rule_params["num_keys"]
    moved = [jnp.moveaxis(x, dim, -1) for x in operands]
    outs = _sorted_rows(moved[:num_keys], moved[num_keys:])
    return [jnp.moveaxis(x, -1, dim) for x in outs]


# Parts ------------------------------------------------------------------------------------------


def _dynamic_update_slice(eqn: Eqn, x: Array, update: Array, *starts: Array) -> list[Any]:
    """Return the update, padded so that every shift of it is a slice, where it lies."""
    import weft.numpy as jnp
    from weft import lax

    inside = None
    for axis, (n, size, start) in enumerate(zip(x.shape, update.shape, starts, strict=True)):
        room = n - size
        if not room:
            continue
        start = jnp.clip(start.astype("int32"), 0, room)
        widths = [(0, 0)] * x.ndim
        widths[axis] = (room, room)
        update = lax.dynamic_slice_in_dim(jnp.pad(update, widths), room - start, n, axis=axis)
        position = lax.broadcasted_iota("int32", x.shape, axis)
        in_window = (position >= start) & (position < start + np.int32(size))
        inside = in_window if inside is None else inside & in_window
    return [update if inside is None else jnp.where(inside, update, x)]


FORMULAS: dict[str, Callable[..., list]] = {
    "sort": _sort,
    "dynamic_update_slice": _dynamic_update_slice,
}
"""Op → function (equation, *operands) of other ops."""
