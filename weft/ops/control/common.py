# Tests: tests/ops/test_control.py, tests/ops/test_control_table.py
"""Shared parts of control-flow ops: tracing bodies, checking their types, reordering jaxprs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autodiff.dependence import depends
from weft.autodiff.jvp import has_tangent
from weft.autodiff.shape import broadcast_in_dim
from weft.core import provided
from weft.core.aval import ShapedArray, plain_type
from weft.core.config import config
from weft.core.errors import mark_difference, names_text
from weft.core.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Var, jaxpr_axes
from weft.core.masks import closed_under
from weft.core.primitive import Primitive
from weft.core.source import function_name, with_cells
from weft.core.trace import Tracer, check_unchangeable, is_array_like, typeof
from weft.core.trace_body import args_tree, derived, trace_body
from weft.core.tree import names_in
from weft.ops.elementwise_api import select_n_p

if TYPE_CHECKING:
    from weft.collectives.async_ import InFlight
    from weft.core.aval import Mat
    from weft.core.tree import PyTreeDef
    from weft.typing import ArrayLike


def check_function(api: str, label: str, fun: object) -> None:
    if not callable(fun):
        raise TypeError(
            f"{api}: {label} must be a function, got {type(fun).__name__}: {fun!r:.100}"
        )


def value_in_python(x: ArrayLike) -> Any:
    """Return the number that decides on a branch or a loop under `disable_jit`, or None.

    That of a batch is not, and neither is what an enclosing program is traced for.
    """
    if not config.disable_jit:
        return None
    value = x.concrete() if isinstance(x, Tracer) else x
    return None if value is None or np.size(value) != 1 else np.asarray(value).item()


def avals_of(api: str, leaves: Sequence[Any], names: Callable[[], Sequence[str]]) -> list:
    """Return the types of values; TypeError naming the first that is no array."""
    check_unchangeable(leaves)
    try:
        return [typeof(x) for x in leaves]
    except TypeError:
        for x, name in zip(leaves, names(), strict=True):
            if not is_array_like(x):
                raise TypeError(
                    f"{api}: {name} is not an array or a number but {type(x).__name__}: "
                    f"{x!r:.100}; close over it, or bind it with functools.partial"
                ) from None
        raise


def function_text(fun: Callable) -> str:
    """Return a function's name and the line it is defined in, for messages."""
    code = getattr(fun, "__code__", None)
    name = function_name(fun)
    if code is None:
        return name
    return f"{name} ({with_cells(code.co_filename)}:{code.co_firstlineno})"


# Types -----------------------------------------------------------------------------------------


def same_type(a: ShapedArray, b: ShapedArray) -> bool:
    """Return whether two types are equal, weak types aside.

    A value without an explicit sharding may stand for a replicated one.
    """
    return a is b or plain_type(a) == plain_type(b)


def remedy_for(
    expected: InFlight | ShapedArray, got: InFlight | ShapedArray, first: str, second: str
) -> str:
    """Suggest how `second`, of type `got`, comes to agree with `first`, of type `expected`."""
    if not (isinstance(expected, ShapedArray) and isinstance(got, ShapedArray)):
        return f"Give {second} the type of {first}."
    if expected.shape != got.shape:
        return f"Give {second} the shape {expected.shape}, or {first} the shape {got.shape}."
    if expected.dtype != got.dtype:
        return (
            f"Convert {second} with .astype({str(expected.dtype)!r}), "
            f"or {first} with .astype({str(got.dtype)!r})."
        )
    if expected.mat is not got.mat:
        for value, mine, other in ((second, got, expected), (first, expected, got)):
            cast = _cast_text(mine.mat, other.mat)
            if cast is not None:
                return f"Cast {value}: {cast}."
        return f"Cast {second} with weft.lax.pcast, or add it up with weft.lax.psum."
    if expected.sharding is None:
        return f"Place {first} alike: weft.reshard(x, weft.{got.sharding.spec})."
    return f"Place {second} alike: weft.reshard(x, weft.{expected.sharding.spec})."


_CASTS = {
    ("invarying", "varying"): "weft.lax.pcast(x, {axes}, to='varying')",
    ("invarying", "reduced"): "weft.lax.pcast(x, {axes}, to='reduced')",
    ("reduced", "varying"): "weft.lax.pcast(x, {axes}, to='varying')",
    ("invarying", "unreduced"): "weft.lax.pcast(weft.lax.pcast(x, {axes}, to='varying'), {axes}, "
    "to='unreduced'), which counts it once for each device (nothing, if it is zero)",
    ("varying", "unreduced"): "weft.lax.pcast(x, {axes}, to='unreduced')",
}


def _cast_text(mine: Mat, other: Mat) -> str | None:
    """Write the casts from one manual-axis type to another; None if there are none."""
    axes: dict[tuple[str, str], list] = {}
    for a in sorted(mine.vur | other.vur, key=str):
        if mine.state(a) != other.state(a):
            axes.setdefault((mine.state(a), other.state(a)), []).append(a)
    if not axes or not all(change in _CASTS for change in axes):
        return None
    texts = []
    for change, names in axes.items():
        texts.append(_CASTS[change].format(axes=names_text(names)))
    return ", then ".join(texts)


def check_same_types(
    api: str,
    expected: Sequence[Any],
    got: Sequence[Any],
    names: Callable[[], Sequence[str]],
    values: tuple[str, str],
) -> None:
    """Raise TypeError that shows both types of every leaf that differs.

    `values` says in words what has the expected type and what has the other.
    """
    wrong = [i for i, (e, g) in enumerate(zip(expected, got, strict=True)) if not same_type(e, g)]
    if not wrong:
        return
    leaves = names()
    lines = [f"{api}:"]
    for i in wrong[:8]:
        e, g = expected[i], got[i]
        lines += [leaves[i], mark_difference(_text(e, g), _text(g, e))]
        lines.append("  " + remedy_for(e, g, *values))
    raise TypeError("\n".join(lines))


def _text(aval: InFlight | ShapedArray, other: InFlight | ShapedArray) -> str:
    text = aval.str_short()
    if text == other.str_short() and getattr(aval, "sharding", None) is not None:
        text += f" ({aval.sharding})"
    return text


def names_of(tree: PyTreeDef, root: str) -> Callable[[], list[str]]:
    return lambda: names_in(tree, root)


# Rules common to all ops with inner jaxprs ------------------------------------------------------


def join_axes(*jaxprs: ClosedJaxpr) -> frozenset:
    """Return the named axes over which any of the jaxprs communicates."""
    result: frozenset = frozenset()
    for j in jaxprs:
        result |= jaxpr_axes(j)
    return result


def eager(holder: Callable[[dict], ClosedJaxpr], prim: Callable[[], Primitive]) -> Callable:
    """Return an eager rule that keeps the compiled op with the jaxpr it came from."""

    def impl(*args: ArrayLike, **params: object) -> Any:
        key = ("eager", prim(), *params.items())
        return holder(params).memo(key, lambda: provided.op_function(prim(), params))(*args)

    return impl


def ordered_effects_of(*jaxprs: ClosedJaxpr) -> list:
    ordered = {e for j in jaxprs for e in j.effects if e.ordered}
    return sorted(ordered, key=lambda e: e.name)


# Jaxprs ----------------------------------------------------------------------------------------


def reorder(closed: ClosedJaxpr, inputs: Sequence[int], outputs: Sequence[int]) -> ClosedJaxpr:
    """Permute a jaxpr's inputs and outputs (outputs may repeat or be left out)."""
    key = ("reorder", tuple(inputs), tuple(outputs))

    def make() -> ClosedJaxpr:
        j = closed.jaxpr
        return ClosedJaxpr(
            j.replace(
                invars=[j.invars[i] for i in inputs], outvars=[j.outvars[i] for i in outputs]
            ),
            closed.consts,
        )

    return closed.memo(key, make)


def dependents(jaxpr: Jaxpr, start: Iterable[Var], differentiable: bool = False) -> set[Var]:
    """Return the variables computed from any of `start`, these included.

    differentiable: only through values that have tangents (an upper bound of what is nonzero).
    """
    dependent = set(start)
    for eqn in jaxpr.eqns:
        marked = [v.__class__ is Var and v in dependent for v in eqn.invars]
        if any(marked) and not (differentiable and eqn.primitive.name == "stop_gradient"):
            outs = zip(eqn.outvars, depends(eqn, marked), strict=True)
            dependent.update(
                v for v, m in outs if m and not (differentiable and not has_tangent(v.aval))
            )
    return dependent


def out_mask(jaxpr: Jaxpr, in_mask: Sequence[bool], differentiable: bool = False) -> list[bool]:
    """Return which outputs depend on the marked inputs."""
    start = [v for v, m in zip(jaxpr.invars, in_mask, strict=True) if m]
    dependent = dependents(jaxpr, start, differentiable)
    return [v.__class__ is Var and v in dependent for v in jaxpr.outvars]


def carry_fixpoint(
    jaxpr: Jaxpr, carry: Sequence[bool], mask: Callable, differentiable: bool
) -> list[bool]:
    """Return the least set of marked carries closed under the body.

    mask(carry) gives the input mask of the body for these carries; outputs start with the carry.
    """
    return closed_under(carry, lambda marked: out_mask(jaxpr, mask(marked), differentiable))


def needed_eqns(eqns: Sequence[Eqn], outputs: Iterable[Any]) -> list[Eqn]:
    """Return the equations that the outputs are computed from, in order; effects do not count.

    Of an op with an inner program only what makes these outputs stays, and what that reads.
    """
    live = {v for v in outputs if v.__class__ is Var}
    kept = []
    for eqn in reversed(eqns):
        if any(v in live for v in eqn.outvars):
            rule = eqn.primitive.dce
            if rule is not None:
                eqn = rule(eqn, [v in live for v in eqn.outvars])
            kept.append(eqn)
            live.update(v for v in eqn.invars if v.__class__ is Var)
    return kept[::-1]


def select_rows(which: Any, *cases: object) -> Any:
    """Select each example's case by a batch of indices or booleans, with the batch in front."""
    aval = typeof(cases[0])
    if hasattr(aval, "finish"):  # values in flight are chosen among once they are here
        return aval.wrap(select_rows(which, *map(aval.finish, cases)))
    if aval.ndim > 1:
        which = broadcast_in_dim(which, aval.shape, (0,))
    return select_n_p.bind(which, *cases)


__all__ = [
    "args_tree",
    "avals_of",
    "carry_fixpoint",
    "check_function",
    "check_same_types",
    "dependents",
    "derived",
    "eager",
    "function_text",
    "join_axes",
    "names_of",
    "needed_eqns",
    "ordered_effects_of",
    "out_mask",
    "reorder",
    "same_type",
    "select_rows",
    "trace_body",
]
