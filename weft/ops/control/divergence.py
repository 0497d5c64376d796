# Tests: tests/ops/test_control_diverging.py
"""Control flow that devices take differently: its types, and communication that some never reach.

Inside a shard_map, what decides on a branch may vary over mesh axes. The branches then communicate
nothing along these, nor may their derivatives: a value that is equal on all devices is cast to
varying in front of the branches, where the sum over the devices of its cotangents belongs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from weft.autodiff.manual_casts import as_state
from weft.core import dtypes
from weft.core.aval import NO_MAT, ShapedArray
from weft.core.errors import names_text
from weft.core.jaxpr import ClosedJaxpr, Eqn, jaxpr_axes, subjaxprs
from weft.core.source import warn
from weft.core.state import state
from weft.core.trace import Tracer, typeof
from weft.core.trace_body import derived
from weft.core.tree import flatten, tree_map

if TYPE_CHECKING:
    from weft.typing import ArrayLike


def vary(x: ArrayLike, axes: frozenset) -> Any:
    """Return the value as varying over the axes; partial sums stay what they are."""
    mat = getattr(typeof(x), "mat", None)
    if mat is None or axes <= mat.varying:
        return x
    missing = axes - mat.varying - mat.unreduced
    return as_state(x, tuple(sorted(missing, key=str)), "varying") if missing else x


class _Ending:
    """A function whose results vary over mesh axes."""

    __slots__ = ("__weakref__", "axes", "fun")

    def __init__(self, fun: Callable, axes: Any) -> None:
        self.fun = fun
        self.axes = axes

    @property
    def __name__(self) -> str:
        return getattr(self.fun, "__name__", "body")

    def __call__(self, *args: object) -> Any:
        return tree_map(lambda x: vary(x, self.axes), self.fun(*args))


def ending_varying(fun: Callable, axes: frozenset) -> Callable:
    """Return the function, its results cast to varying; one for each function."""
    key = f"varying over {tuple(sorted(axes, key=str))}"
    return derived(fun, key, lambda f: _Ending(f, axes))


def spread_alike(functions: Sequence[Callable], bodies: Sequence[Any]) -> list | None:
    """Return the functions with results that vary alike over the axes of a vmap's spmd_axis_name.

    Only what is mapped varies over these, which the functions know nothing of. bodies: as traced.
    None where there is nothing to do.
    """
    if not state.spread or len({body.out_tree for body in bodies}) > 1:
        return None
    mats = [[getattr(a, "mat", NO_MAT) for a in body.jaxpr.out_avals] for body in bodies]
    want = tuple(
        frozenset().union(*(m.varying for m in same)) & state.spread
        for same in zip(*mats, strict=True)
    )
    if all(w <= m.varying for body_mats in mats for w, m in zip(want, body_mats, strict=True)):
        return None
    key = f"varying over {[tuple(sorted(w, key=str)) for w in want]}"
    return [derived(f, key, lambda f: _EndingEach(f, want)) for f in functions]


class _EndingEach(_Ending):
    """The same, with axes for each result."""

    __slots__ = ()

    def __call__(self, *args: object) -> Any:
        leaves, tree = flatten(self.fun(*args))
        return tree.unflatten([vary(x, w) for x, w in zip(leaves, self.axes, strict=True)])


def equal_over(x: ArrayLike, axes: frozenset) -> bool:
    """Return whether a differentiable value is known to be equal along some of the axes."""
    aval = typeof(x)
    return (
        isinstance(aval, ShapedArray)
        and dtypes.is_inexact(aval.dtype)
        and not axes <= aval.mat.varying | aval.mat.unreduced | aval.mat.reduced
    )


@contextmanager
def seen_as_varying(values: Sequence[Tracer], axes: frozenset) -> Iterator[None]:
    """Let functions traced inside close over the values as if these were varying already."""
    before = [x.aval for x in values]
    outer = state.assumed_varying
    state.assumed_varying = outer | axes
    try:
        for x, aval in zip(values, before, strict=True):
            free = axes - aval.mat.unreduced - aval.mat.reduced
            x.aval = aval.update(mat=aval.mat.replace(varying=aval.mat.varying | free))
        yield
    finally:
        state.assumed_varying = outer
        for x, aval in zip(values, before, strict=True):
            x.aval = aval


_CHOOSE = (
    "Communicate outside and choose with weft.numpy.where, or, if the value is the same on all "
    "devices, say so with weft.lax.pmax(x, {axes})"
)
_CAST = (
    "Cast what the branches use of equal values in front of the cond, with weft.lax.pcast(x, "
    "{axes}, to='varying'), so that their cotangents are added up there"
)


def check_reached_by_all(
    api: str, label: str, aval: ShapedArray, *jaxprs: ClosedJaxpr, remedy: str = _CHOOSE
) -> None:
    """Warn where a condition may differ among devices that communicate inside the branches or the
    loop.

    Those that arrive would wait for the others forever. It is no error, since a value of varying
    type may be equal all the same (the result of an all_gather, for one).
    """
    mat = getattr(aval, "mat", None)
    if mat is None or not mat.varying:
        return
    for jaxpr in jaxprs:
        axes = mat.varying & jaxpr_axes(jaxpr)
        communication = _communication(jaxpr, axes) if axes else None
        if communication is None:
            continue
        named = communication.primitive.named_axes(communication.rule_params)
        met = tuple(sorted(axes.intersection(named), key=str))
        text = names_text(met)
        warn(
            f"{api}: {label} of type {aval.str_short()} may differ along {text}, over which "
            f"{communication.primitive.name} ({communication.source}) communicates inside: devices "
            f"that do not get there are waited for forever. {remedy.format(axes=text)}"
        )
        return


def _communication(jaxpr: Any, axes: frozenset) -> Eqn | None:
    """Return the first equation that sends something along one of the axes."""
    for eqn in jaxpr.eqns:
        rule = eqn.primitive.named_axes
        if rule is None or not axes.intersection(rule(eqn.rule_params)):
            continue
        inner = [j for _, j in subjaxprs(eqn.rule_params)]
        if not (inner or eqn.primitive.silent):
            return eqn
        for j in inner:
            first = _communication(j, axes)
            if first is not None:
                return first
    return None


def check_derivative(
    index: object, forward: Sequence[ClosedJaxpr], back: Sequence[ClosedJaxpr]
) -> None:
    """Warn if branches that communicate nothing have derivatives that do.

    That is left where a branch would not take equal values as varying ones.
    """
    axes = typeof(index).mat.varying
    if axes and not any(axes & jaxpr_axes(j) for j in forward):
        api = "the derivative of cond"
        check_reached_by_all(api, "the index", typeof(index), *back, remedy=_CAST)
