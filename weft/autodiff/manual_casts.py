# Tests: tests/core/test_manual_states.py
"""Casts between manual-axis states: no data moves, types and derivatives change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.core import provided
from weft.core.aval import Mat, ShapedArray
from weft.core.errors import names_text
from weft.core.manual_states import (
    CASTS,
    INVARYING,
    REDUCED,
    UNREDUCED,
    VARYING,
    moved,
    state_over,
)
from weft.core.primitive import Primitive
from weft.core.state import state
from weft.core.trace import typeof
from weft.sharding.mesh import get_abstract_mesh

if TYPE_CHECKING:
    from weft.typing import ArrayLike


def _abstract(x: ShapedArray, *, axes: tuple, to: str) -> ShapedArray:
    before = state_over("pcast", x, axes)
    if (before, to) not in CASTS:
        raise _unsupported(x, axes, before, to)
    return x.update(mat=moved(x.mat, axes, to))


def _unsupported(x: ShapedArray, axes: tuple, before: str, to: str) -> ValueError:
    listing = ", ".join(f"{a} to {b}" for a, b in sorted(CASTS))
    advice = {
        (VARYING, INVARYING): "use psum, pmax or all_gather(..., to='invarying') to make it equal",
        (UNREDUCED, INVARYING): "use psum to add the partial sums up",
        (UNREDUCED, VARYING): "use psum or psum_scatter to add the partial sums up",
        (INVARYING, UNREDUCED): "cast to varying first (the value is then counted once per device)",
        (VARYING, REDUCED): "use all_gather(..., to='reduced')",
        (REDUCED, INVARYING): "cast to varying, then use a collective",
    }.get((before, to))
    return ValueError(
        f"pcast over {names_text(axes)}: a value of type {x.str_short()} is {before} along the "
        f"axis and cannot be cast to {to}"
        + (f"; {advice}" if advice else "")
        + f". The casts are: {listing}"
    )


def _transpose(ct: ArrayLike, x: Any, *, axes: tuple, to: str) -> list:
    before = state_over("pcast", x.aval, axes)
    if before == INVARYING:
        state_of_sum = VARYING if to == VARYING else UNREDUCED
        return [provided.psum_over_axes(as_state(ct, axes, state_of_sum), axes, sizes_of(axes))]
    after = UNREDUCED if before == REDUCED else VARYING
    return [pcast_p.bind(ct, axes=axes, to=after)]


def sizes_of(axes: tuple) -> tuple[int, ...]:
    """Return the sizes of manual axes in scope, or of the mesh in context."""
    sizes = []
    for name in axes:
        entry = state.axes.get(name)
        if entry is not None:
            sizes.append(entry.size)
        else:
            sizes.append(get_abstract_mesh().shape[name])
    return tuple(sizes)


pcast_p = Primitive(
    "pcast",
    abstract=_abstract,
    jvp="linear",
    transpose=_transpose,
    batch=lambda axis, args, dims, **params: (pcast_p.bind(args[0], **params), dims[0]),
    lower=lambda ctx, x, **params: x,
    own_types=True,
    structural=True,
)


def as_state(x: ArrayLike, axes: tuple, to: str) -> Any:
    """Return the value with the given state along the axes, cast where it is not in it yet."""
    mat = typeof(x).mat
    missing = tuple(a for a in axes if mat.state(a) != to)
    if not missing:
        return x
    if to == UNREDUCED:
        x = as_state(x, missing, VARYING)
    return pcast_p.bind(x, axes=missing, to=to)


def cast_to(x: ArrayLike, mat: Mat) -> Any:
    """Cast a value that is invarying along the axes where it differs from `mat` to that type.

    Only zeros may become unreduced this way: any other value would be counted once per device.
    """
    if typeof(x).mat is mat:
        return x
    for name in (VARYING, REDUCED, UNREDUCED):
        axes = getattr(mat, name)
        if axes:
            x = as_state(x, tuple(sorted(axes, key=str)), name)
    return x


def varying_over(x: object, tracked: tuple) -> Any:
    """Return the operand of a collective: promoted along the axes over which it is invarying."""
    aval = typeof(x)
    mat = aval.mat
    missing = tuple(
        a
        for a in tracked
        if a not in mat.varying and a not in mat.unreduced and a not in mat.reduced
    )
    return pcast_p.bind(x, axes=missing, to=VARYING) if missing else x
