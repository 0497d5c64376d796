"""Operations with their own rules for derivatives and batches: `jax.experimental.hijax`.

An operation is one call with rules, as a `weft.custom_vjp` and a `weft.custom_jvp` function are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from weft.api import custom_jvp, custom_vjp
from weft.api.custom_common import (
    FunctionWithRules,
    SymbolicZero,
    batch_call,
    call_primitive,
    trace_call,
)
from weft.autodiff.jvp import cotangent_aval, tangent_aval
from weft.autodiff.vmap import AxisData
from weft.compat.primitive import Zero
from weft.core.aval import ShapedArray
from weft.core.jaxpr import ClosedJaxpr
from weft.core.trace import StagingTrace, typeof
from weft.core.tree import flatten, tree_map
from weft.ops.elementwise_api import add

if TYPE_CHECKING:
    from weft.typing import ArrayLike


class HiType:
    """A type of values that lower to several arrays."""

    def lower_val(self, hi_val: object) -> list:
        raise NotImplementedError(f"{type(self).__name__} must define lower_val and raise_val")

    def raise_val(self, *lo_vals: ArrayLike) -> Any:
        return self.lower_val(lo_vals)


def _missing(rule: str) -> Any:
    def missing(self: object, *_: object) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must define {rule}")

    return missing


class VJPHiPrimitive:
    """An operation with an implementation in JAX, `expand`, and rules of its own beside it.

    Rules: vjp_fwd and vjp_bwd_retval or vjp_bwd, jvp, lin and linearized, batch; without `batch`
    the other rules are batched. Values of a `HiType` are their lower ones in a program, and an
    operation on them has no derivative.
    """

    in_avals: tuple
    out_aval: object
    params: dict
    effects: frozenset = frozenset()
    batch: Callable | None = None
    lin: Callable | None = None

    def __init__(self) -> None:
        for name in ("in_avals", "out_aval", "params"):
            if not hasattr(self, name):
                raise AttributeError(
                    f"{type(self).__name__}: set self.{name} in __init__, before super().__init__()"
                )
        if _has(self, "vjp_bwd") and _has(self, "vjp_bwd_retval"):
            raise AttributeError(
                f"{type(self).__name__}: give one of vjp_bwd and vjp_bwd_retval, not both"
            )
        self.in_avals_flat, self.in_tree = flatten(self.in_avals)
        self.out_avals_flat, self.out_tree = flatten(self.out_aval)
        self.__dict__.update(self.params)
        self._rules = _Rules(self)
        self.check(*self.in_avals)

    def check(self, *arg_tys: object) -> None:
        """To be overridden by what raises where the types do not fit."""

    expand = _missing("expand, its implementation")
    vjp_fwd = _missing("vjp_fwd for reverse mode (grad, vjp)")
    vjp_bwd_retval = _missing("vjp_bwd_retval or vjp_bwd for reverse mode")
    jvp = _missing("jvp for forward mode")

    def vjp_bwd(self, res: object, outgrad: object, /, *arg_accums: object) -> None:
        cts = self.vjp_bwd_retval(res, outgrad)
        tree_map(lambda accumulator, ct: accumulator.accum(ct), arg_accums, tuple(cts))

    def __call__(self, *args: object) -> Any:
        rules = self._rules
        lowered = rules.lower(self.in_avals, args)
        return rules.lift(self.out_aval, rules._apply(_call_p, _Call, lowered, {}))

    def __repr__(self) -> str:
        return f"{type(self).__name__}[{self.params}]"

    def __hash__(self) -> int:
        return hash((type(self).__name__, tuple(self.params.items()), self.effects))

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self)["params"] == vars(other)["params"]


def _has(prim: VJPHiPrimitive, rule: str) -> bool:
    return getattr(type(prim), rule) is not getattr(VJPHiPrimitive, rule)


class _Accumulator:
    """Takes the parts of one argument's cotangent."""

    def __init__(self, aval: ShapedArray) -> None:
        self.aval = aval
        self.sum: ArrayLike | None = None

    def accum(self, ct: ArrayLike | Zero | None) -> None:
        if ct is not None and not isinstance(ct, Zero):
            self.sum = ct if self.sum is None else add(self.sum, ct)


def _as_zeros(tree: object) -> Any:
    """Return the tree with JAX's class of symbolic zeros."""
    return tree_map(lambda x: Zero(x.aval) if isinstance(x, SymbolicZero) else x, tree)


def _is_zero(x: object) -> bool:
    return isinstance(x, Zero)


class _Rules(FunctionWithRules):
    """The operation as a function of arrays with rules."""

    def __init__(self, prim: VJPHiPrimitive) -> None:
        self.prim = prim
        types = [*prim.in_avals_flat, *prim.out_avals_flat]
        self.high = any(isinstance(t, HiType) for t in types)
        super().__init__(self._expand)
        self._signature.name = type(prim).__name__
        self._symbolic_zeros = True

    def lower(self, types: object, values: object) -> Any:
        """Return trees of values as trees with the arrays of each."""
        if not self.high:
            return values
        return tree_map(lambda t, x: t.lower_val(x) if isinstance(t, HiType) else x, types, values)

    def lift(self, types: object, values: object) -> Any:
        """Return the inverse of `lower`."""
        if not self.high:
            return values
        return tree_map(lambda t, x: t.raise_val(*x) if isinstance(t, HiType) else x, types, values)

    def _expand(self, *args: object) -> Any:
        out = self.prim.expand(*self.lift(self.prim.in_avals, args))
        return self.lower(self.prim.out_aval, out)

    def _check(self) -> None:
        if self.high:
            raise NotImplementedError(
                f"{self.prim}: weft does not differentiate operations on values of hijax types; "
                "give its arrays as arguments of their own"
            )

    def fwd(self, *args: object) -> tuple:
        self._check()
        out, residuals, *_ = self.prim.vjp_fwd(
            tree_map(lambda x: x.perturbed, args), *tree_map(lambda x: x.value, args)
        )
        return out, residuals

    def bwd(self, residuals: object, ct: object) -> tuple:
        types = tree_map(cotangent_aval, self.prim.in_avals)
        accumulators = tree_map(_Accumulator, types)
        self.prim.vjp_bwd(residuals, _as_zeros(ct), *accumulators)
        return tree_map(lambda a: SymbolicZero(a.aval) if a.sum is None else a.sum, accumulators)

    def jvp(self, primals: tuple, tangents: tuple) -> tuple:
        self._check()
        out, tangent = self.prim.jvp(primals, _as_zeros(tangents))
        as_leaf = lambda t: SymbolicZero(t.aval) if isinstance(t, Zero) else t  # noqa: E731
        return out, tree_map(as_leaf, tangent, is_leaf=_is_zero)


class _Call(custom_vjp.Call, custom_jvp.Call):
    """One application: `custom_vjp`'s rules and `custom_jvp`'s."""

    __slots__ = ()


class _BatchedCall(custom_vjp.BatchedVJP, custom_jvp.BatchedJVP):
    """The same over a batch."""

    __slots__ = ()


def _linearize(
    primals: list, tangents: list, *, call: Any, jaxpr: ClosedJaxpr | None, num_consts: int
) -> tuple:
    prim = call.owner.prim
    if prim.lin is None or _has(prim, "vjp_fwd") or not isinstance(call, _Call):
        return custom_vjp._linearize(
            primals, tangents, call=call, jaxpr=jaxpr, num_consts=num_consts
        )
    n, tree = num_consts, call.in_tree
    nonzero = tree.unflatten([t is not None for t in tangents[n:]])
    out, residuals, *_ = prim.lin(nonzero, *tree.unflatten(primals[n:]))
    filled = [
        SymbolicZero(tangent_aval(typeof(p))) if t is None else t
        for p, t in zip(primals[n:], tangents[n:], strict=True)
    ]
    tangent = prim.linearized(residuals, *_as_zeros(tree.unflatten(filled)))
    flat = flatten(tangent, _is_zero)[0]
    outs, call.out_tree = flatten(out)
    return outs, [None if _is_zero(t) else t for t in flat]


_batch_rules = batch_call(lambda: _call_p, _BatchedCall)


def _batch(
    axis: AxisData, args: list, dims: list, *, call: Any, num_consts: int, **params: object
) -> tuple:
    prim, n = call.owner.prim, num_consts
    if prim.batch is None or not isinstance(call, _Call):
        return _batch_rules(axis, args, dims, call=call, num_consts=n, **params)
    unflatten = call.in_tree.unflatten
    out, out_dims = prim.batch(axis, unflatten(args[n:]), unflatten(dims[n:]))
    outs, call.out_tree = flatten(out)
    return outs, call.out_tree.flatten_up_to(out_dims)


def _stage(trace: StagingTrace, args: Sequence[ArrayLike], params: dict) -> list | None:
    if params["jaxpr"] is not None:
        return None
    call = params["call"]
    traced, _ = trace_call(call, [typeof(a) for a in args], ())
    staged = {"call": call, "jaxpr": traced.jaxpr, "num_consts": len(traced.consts)}
    return trace.process(_call_p, [*traced.consts, *args], staged)


_call_p = call_primitive(
    "call_hi_primitive",
    jvp=custom_jvp._jvp,
    linearize=_linearize,
    batch=_batch,
    stage=_stage,
)
