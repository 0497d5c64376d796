# Tests: tests/core/test_manual_states.py, tests/collectives/test_table.py
"""pcast and pvary: the casts between manual-axis states as users call them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.autodiff.manual_casts import pcast_p, varying_over
from weft.collectives.groups import axis_names, entry_of
from weft.core.manual_states import INVARYING, REDUCED, UNREDUCED, VARYING
from weft.core.state import state
from weft.core.trace import typeof
from weft.core.tree import tree_map

if TYPE_CHECKING:
    from weft.typing import ArrayLike


def _tracked(api: str, axis_name: str | tuple) -> tuple:
    names = axis_names(api, axis_name)
    return tuple(n for n in names if entry_of(n).tracked)


def pcast(x: ArrayLike, axis_name: Any, *, to: str) -> Any:
    """Cast values, leaf by leaf, to another state along manual axes; no data moves.

    axis_name: an axis or a tuple of axes of the enclosing shard_map. to: 'varying' (from
    invarying or reduced), 'reduced' (from invarying) or 'unreduced' (from varying). Where states
    are not tracked (axes of vmap, check_vma=False), the value is returned as it is.

    Raises:
      ValueError: an unknown `to`, or a cast that does not exist; the message says what to use.

    Source: the table of manual-axis states in weft/core/manual_states.py.

    >>> import weft
    >>> mesh = weft.make_mesh((4,), ("x",))
    >>> f = weft.shard_map(
    ...     lambda v: weft.lax.pcast(v, "x", to="varying") * weft.lax.axis_index("x"),
    ...     mesh=mesh, in_specs=weft.P(), out_specs=weft.P("x"))
    >>> f(weft.numpy.ones(1, int))
    Array([0, 1, 2, 3], dtype=int32)
    """
    if not isinstance(to, str) or to not in (VARYING, REDUCED, UNREDUCED):
        raise ValueError(
            f"pcast: to must be 'varying', 'reduced' or 'unreduced', got {to!r}"
            + ("; psum and pmax give invarying values" if to == INVARYING else "")
        )
    axes = _tracked("pcast", axis_name)
    if not axes:
        return x
    return tree_map(lambda leaf: _cast(leaf, axes, to), x)


def _cast(x: ArrayLike, axes: tuple, to: str) -> Any:
    if to != UNREDUCED and state.assumed_varying:  # reduced: varying serves as well there
        done = typeof(x).mat.varying & state.assumed_varying
        axes = tuple(a for a in axes if a not in done)
        if not axes:
            return x
    return pcast_p.bind(x, axes=axes, to=to)


def pvary(x: ArrayLike, axis_name: Any) -> Any:
    """Cast values to varying along the axes over which they are invarying.

    axis_name: an axis or a tuple of axes of the enclosing shard_map.

    >>> import weft
    >>> mesh = weft.make_mesh((2,), ("x",))
    >>> f = weft.shard_map(lambda v: weft.lax.pvary(v, "x"), mesh=mesh,
    ...                    in_specs=weft.P(), out_specs=weft.P("x"))
    >>> f(weft.numpy.arange(2))
    Array([0, 1, 0, 1], dtype=int32)
    """
    axes = _tracked("pvary", axis_name)
    return tree_map(lambda leaf: varying_over(leaf, axes), x) if axes else x
