# Tests: tests/compat/test_other_modules.py
"""Primitives that programs define by JAX's registries, as primitives of weft.

`Primitive` is weft's, with JAX's way to give it rules one by one. The registries are mappings from
primitives to rules: what is written there becomes the rule of weft's primitive, what is read there
is weft's rule, each with JAX's conventions (`Zero` where weft has None, the axis of a batch spread
out, lowering by platform).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any

from weft.autodiff.jvp import DualTrace, RuleTrace, cotangent_aval, has_tangent, tangent_aval
from weft.autodiff.transpose import UndefinedPrimal
from weft.core import primitive as _primitive
from weft.core.primitive import PRIMITIVES
from weft.core.state import current_trace, state
from weft.core.trace import EVAL, EvalTrace, typeof
from weft.tree_util import register_pytree_node

if TYPE_CHECKING:
    from weft.autodiff.vmap import AxisData
    from weft.core.aval import ShapedArray
    from weft.runtime.array import Array
    from weft.typing import ArrayLike


class Zero:
    """A tangent or cotangent that is zero everywhere, of which only the type is known."""

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray) -> None:
        self.aval = aval

    @staticmethod
    def from_primal_value(value: ArrayLike) -> Zero:
        return Zero(tangent_aval(typeof(value)))

    def instantiate(self) -> Any:
        return instantiate_zeros(self)

    def __repr__(self) -> str:
        return f"Zero({self.aval})"


register_pytree_node(Zero, lambda z: ((), z.aval), lambda aval, _: Zero(aval))


def instantiate_zeros(tangent: object) -> Any:
    """Return an array of zeros for a `Zero`; other values as they are."""
    if not isinstance(tangent, Zero):
        return tangent
    from weft.autodiff.zeros import instantiate_zero

    return instantiate_zero(tangent.aval)


class _PrimitiveType(type):
    """Makes weft's own primitives instances of JAX's class, by which programs know them."""

    def __instancecheck__(cls, instance: object) -> bool:
        known = _primitive.Primitive if cls is Primitive else cls
        return issubclass(type(instance), known)


class Primitive(_primitive.Primitive, metaclass=_PrimitiveType):
    """A primitive whose rules are given one by one, as in `jax.extend.core`."""

    call_primitive = False
    map_primitive = False

    def __init__(self, name: str) -> None:
        before = PRIMITIVES.get(name)
        super().__init__(name)
        self.abstract = self._untyped
        # Types are not memoized: programs keep what their rules learn of the equation in params.
        self.higher_order = True
        if before is not None:  # weft looks its own primitives up by name
            PRIMITIVES[name] = before
        self.lowerings: dict[str | None, Callable] = {}

    def _untyped(self, *avals: object, **params: object) -> Any:
        raise NotImplementedError(
            f"Abstract evaluation for {self.name!r} not implemented: tracing needs the result's "
            f"type; give it with {self.name}_p.def_abstract_eval(function)"
        )

    def def_impl(self, impl: Callable) -> Callable:
        self.impl = impl
        return impl

    def def_abstract_eval(self, abstract_eval: Callable) -> Callable:
        self.abstract = abstract_eval
        return abstract_eval

    def def_effectful_abstract_eval(self, abstract_eval: Callable) -> Callable:
        self.abstract = lambda *avals, **params: abstract_eval(*avals, **params)[0]
        self.effects = lambda avals, params: frozenset(abstract_eval(*avals, **params)[1])
        return abstract_eval

    def_effectful_abstract_eval2 = def_effectful_abstract_eval

    def abstract_eval(self, *avals: object, **params: object) -> tuple:
        effects = frozenset() if self.effects is None else self.effects(avals, params)
        return self.abstract(*avals, **params), effects

    def is_effectful(self, params: dict[str, Any]) -> bool:
        return self.effects is not None

    def is_high(self, *avals: object, **params: object) -> bool:
        return False

    def bind(self, *args: object, **params: object) -> Any:
        if state.trace is EVAL and self.impl is None and self.lower is None:
            raise NotImplementedError(
                f"Evaluation rule for {self.name!r} not implemented: give one with "
                f"{self.name}_p.def_impl(function), or a lowering with mlir.register_lowering"
            )
        takes_refs: Any = _primitive._TakesRefs
        return takes_refs.bind(self, *args, **params)


class CallPrimitive(Primitive):
    """A primitive that calls a function of its operands."""

    multiple_results = True
    call_primitive = True


def apply_primitive(prim: Primitive, *args: object, **params: object) -> Any:
    """Run one op by itself, compiled."""
    return EvalTrace.dispatch(prim, args, params)


# Rules with JAX's conventions as weft's, and back -------------------------------------------------


def _zeros_as_none(values: list, primals: Sequence[Any]) -> list:
    return [
        None if t is None or isinstance(t, Zero) or not has_tangent(typeof(p)) else t
        for t, p in zip(values, primals, strict=True)
    ]


def _jvp_in(prim: Primitive, rule: Callable) -> Callable:
    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: object) -> tuple:
        tangents_in = [
            Zero.from_primal_value(p) if t is None else t
            for p, t in zip(primals, tangents, strict=True)
        ]
        t = state.trace
        # The rule may compute primals and tangents by one op, as users' rules do.
        with current_trace(RuleTrace(t.parent, t.frame) if isinstance(t, DualTrace) else t):
            out, out_tangent = rule(tuple(primals), tuple(tangents_in), **params)
        if prim.multiple_results:
            return list(out), _zeros_as_none(out_tangent, out)
        return out, _zeros_as_none([out_tangent], [out])[0]

    return jvp


def _jvp_out(prim: Primitive) -> Callable | None:
    rule = prim.jvp
    if rule is None:
        return None

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: object) -> tuple:
        from weft.autodiff.jvp import _linear_rule

        tangents_in = [None if isinstance(t, Zero) else t for t in tangents]
        if isinstance(rule, str):
            out, out_tangent = _linear_rule(prim, list(primals), tangents_in, params)
        else:
            out, out_tangent = rule(list(primals), tangents_in, **params)
        if prim.multiple_results:
            return out, [
                Zero.from_primal_value(o) if t is None else t
                for o, t in zip(out, out_tangent, strict=True)
            ]
        return out, Zero.from_primal_value(out) if out_tangent is None else out_tangent

    return jvp


def _transpose_in(prim: Primitive, rule: Callable) -> Callable:
    def transpose(cts: Array | list, *args: Array | UndefinedPrimal, **params: object) -> list:
        if prim.multiple_results and any(ct is None for ct in cts):
            avals = [a.aval if isinstance(a, UndefinedPrimal) else typeof(a) for a in args]
            outs = prim.abstract(*avals, **params)
            cts = [
                Zero(cotangent_aval(o)) if ct is None else ct
                for o, ct in zip(outs, cts, strict=True)
            ]
        result = rule(cts, *args, **params)
        if result is None:
            return [None] * len(args)
        return [None if isinstance(ct, Zero) else ct for ct in result]

    return transpose


def _transpose_out(prim: Primitive) -> Callable | None:
    rule = prim.transpose
    if rule is None:
        return None

    def transpose(cts: Any, *args: object, **params: object) -> list:
        if prim.multiple_results:
            cts = [None if isinstance(ct, Zero) else ct for ct in cts]
        elif isinstance(cts, Zero):
            return [None] * len(args)
        return rule(cts, *args, **params)

    return transpose


def _plain_dim(dim: int | None) -> Any:
    return dim if dim is None else int(dim)


def _batch_in(prim: Primitive, rule: Callable) -> Callable:
    def batch(axis: AxisData, args: Sequence[Any], dims: Sequence[Any], **params: object) -> tuple:
        return _batched(prim, rule(tuple(args), tuple(map(_plain_dim, dims)), **params))

    return batch


def _batch_out(prim: Primitive) -> Callable | None:
    rule = prim.batch
    if rule is None:
        return None

    def batch(args: Sequence[Any], dims: Sequence[Any], **params: object) -> tuple:
        from weft.autodiff.vmap import AxisData

        sizes = (typeof(a).shape[d] for a, d in zip(args, dims, strict=True) if d is not None)
        return rule(AxisData(None, next(sizes)), list(args), list(dims), **params)

    return batch


def _axis_batch_in(prim: Primitive, rule: Callable) -> Callable:
    def batch(axis: AxisData, args: Sequence[Any], dims: Sequence[Any], **params: object) -> tuple:
        dims = tuple(map(_plain_dim, dims))
        return _batched(prim, rule(axis.size, axis.name, None, tuple(args), dims, **params))

    return batch


def _axis_batch_out(prim: Primitive) -> Callable | None:
    rule = prim.batch
    if rule is None:
        return None

    def batch(size: int, name: Any, _: object, args: Any, dims: Any, **params: Any) -> tuple:
        from weft.autodiff.vmap import AxisData

        return rule(AxisData(name, size), list(args), list(dims), **params)

    return batch


def _fancy_batch_in(prim: Primitive, rule: Callable) -> Callable:
    def batch(axis: object, args: Sequence[Any], dims: Sequence[Any], **params: object) -> tuple:
        dims = tuple(map(_plain_dim, dims))
        return _batched(prim, rule(axis, tuple(args), dims, **params))

    return batch


def _batched(prim: Primitive, result: tuple) -> tuple:
    """Return the results with their dimensions, where one dimension may stand for all."""
    outs, dims = result
    if not prim.multiple_results:
        return outs, dims
    outs = list(outs)
    return outs, [dims] * len(outs) if dims is None or isinstance(dims, int) else list(dims)


class Rules(MutableMapping):
    """A registry of JAX's: the rules of one kind of all primitives."""

    def __init__(
        self,
        slot: str,
        read: Callable[[Any, Callable], Callable],
        write: Callable[[Any], Callable | None],
    ) -> None:
        self._slot = slot
        self._as_weft = read
        self._as_jax = write
        self._given: dict[Any, Callable] = {}

    def __setitem__(self, prim: Primitive, rule: Callable) -> None:
        self._given[prim] = rule
        setattr(prim, self._slot, self._as_weft(prim, rule))

    def __getitem__(self, prim: Primitive) -> Callable:
        rule = self._given.get(prim)
        if rule is None and isinstance(prim, _primitive.Primitive):
            rule = self._as_jax(prim)
        if rule is None:
            raise KeyError(prim)
        return rule

    def __delitem__(self, prim: Primitive) -> None:
        del self._given[prim]
        setattr(prim, self._slot, None)

    def __iter__(self) -> Iterator:
        others = (p for p in PRIMITIVES.values() if p not in self._given)
        yield from self._given
        yield from (p for p in others if getattr(p, self._slot) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)


primitive_jvps = Rules("jvp", _jvp_in, _jvp_out)
primitive_transposes = Rules("transpose", _transpose_in, _transpose_out)
primitive_batchers = Rules("batch", _batch_in, _batch_out)
axis_primitive_batchers = Rules("batch", _axis_batch_in, _axis_batch_out)
fancy_primitive_batchers = Rules("batch", _fancy_batch_in, lambda prim: prim.batch)
