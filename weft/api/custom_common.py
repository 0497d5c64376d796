# Tests: tests/api/test_custom_jvp.py, tests/api/test_custom_vjp.py
"""Shared parts of custom_jvp and custom_vjp: arguments, symbolic zeros, traced rules."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autodiff.jvp import tangent_aval
from weft.autodiff.transpose import backward_pass
from weft.autodiff.vmap import (
    AxisData,
    EqualDim,
    batch_flat,
    batch_jaxpr,
    dims_in_front,
    move_dim,
    to_front,
)
from weft.autodiff.zeros import instantiate_zero, match_type
from weft.core.aval import ShapedArray
from weft.core.config import config
from weft.core.errors import names_text
from weft.core.jaxpr import ClosedJaxpr, eval_closed, jaxpr_axes
from weft.core.primitive import Primitive
from weft.core.source import function_name
from weft.core.state import axes_key
from weft.core.trace import Tracer, closed_call_jaxpr, typeof
from weft.core.tree import flatten, tree_map
from weft.ops.elementwise_api import convert
from weft.runtime.transfers import put_host

if TYPE_CHECKING:
    from weft.core.ref import AbstractRef
    from weft.core.tree import PyTreeDef
    from weft.typing import ArrayLike


def call_primitive(name: str, **rules: Any) -> Primitive:
    """Return the op of calls of functions with rules: params call, jaxpr (the body if traced) and
    num_consts. Run, lowered and transposed it is its body; `rules` are jvp, batch, stage, …"""
    return Primitive(
        name,
        impl=lambda *args, call, jaxpr, num_consts: (
            call.fun(*args) if jaxpr is None else eval_closed(jaxpr, *args)
        ),
        abstract=lambda *avals, call, jaxpr, num_consts: list(jaxpr.out_avals),
        effects=lambda avals, params: params["jaxpr"].effects,
        transpose=lambda cts, *args, call, jaxpr, num_consts: backward_pass(
            jaxpr.jaxpr, jaxpr.consts, args, cts
        ),
        lower=lambda ctx, *xs, call, jaxpr, num_consts: ctx.inline(jaxpr, *xs),
        named_axes=lambda params: () if params["jaxpr"] is None else jaxpr_axes(params["jaxpr"]),
        calls=True,
        multiple_results=True,
        own_types=True,
        higher_order=True,
        **rules,
    )


def batch_call(prim: Callable[[], Primitive], batched_call: Callable[..., Any]) -> Callable:
    """Return the batching rule of such an op, whose rules are batched by a `batched_call`."""

    def batch(
        axis: AxisData,
        args: list,
        dims: list,
        *,
        call: object,
        jaxpr: ClosedJaxpr | None,
        num_consts: int,
    ) -> tuple:
        if jaxpr is None:
            batched = batched_call(call, axis, dims)
            outs = prim().bind(*args, call=batched, jaxpr=None, num_consts=0)
            return outs, batched.out_dims
        moved, mask = to_front(args, dims)
        varying = batch_jaxpr(jaxpr, axis, mask)[1]
        inner, _ = batch_jaxpr(jaxpr, axis, mask, True)
        out_dims = [EqualDim(0) if d is None else d for d in dims_in_front(varying)]
        batched = batched_call(call, axis, [0 if m else None for m in mask], out_dims)
        outs = prim().bind(*moved, call=batched, jaxpr=inner, num_consts=num_consts)
        return outs, out_dims

    return batch


def batch_results(
    outs: Sequence[Any], dims: Sequence[Any], axis: AxisData
) -> tuple[list, list[int | None]]:
    """Return results of a call over a batch, all of them batched.

    A rule is that of one example: it takes that example's tangents or cotangents, also of results
    that do not depend on the example.
    """
    mapped = [dims[i] is None and isinstance(typeof(o), ShapedArray) for i, o in enumerate(outs)]
    return (
        [move_dim(o, None, 0, axis) if m else o for o, m in zip(outs, mapped, strict=True)],
        [EqualDim(0) if m else d for d, m in zip(dims, mapped, strict=True)],
    )


class BatchedCall:
    """A call over a batch; how its rules are batched, subclasses say."""

    __slots__ = ("axis", "call", "dims", "name", "out_dims", "owner", "traces")

    def __init__(
        self, call: Any, axis: AxisData, dims: Sequence[Any], out_dims: list | None = None
    ) -> None:
        self.call = call
        self.name = call.name
        self.owner = getattr(call, "owner", None)
        self.axis = axis
        self.dims = list(dims)
        self.out_dims = out_dims  # known from the start where the call has a jaxpr
        self.traces = None

    def fun(self, *vals: ArrayLike) -> list:
        outs, dims = batch_flat(self.call.fun, self.axis, vals, self.dims)
        outs, self.out_dims = batch_results(outs, dims, self.axis)
        return outs

    def own(self, consts: Sequence[Any], primals: Sequence[Any]) -> Sequence[Any]:
        """Return the call's own leading values. Others, before them, are those of its jaxpr."""
        return consts[len(consts) + len(primals) - len(self.dims) :]


class SymbolicZero:
    """A zero tangent or cotangent that is not computed; it has a type only."""

    __slots__ = ("aval",)

    def __init__(self, aval: Any) -> None:
        self.aval = aval

    shape = property(lambda self: self.aval.shape)
    dtype = property(lambda self: self.aval.dtype)
    ndim = property(lambda self: self.aval.ndim)
    size = property(lambda self: self.aval.size)

    def instantiate(self) -> Any:
        """Return the zero as an array."""
        return instantiate_zero(self.aval)

    def __repr__(self) -> str:
        return f"SymbolicZero({self.aval.str_short()})"

    @staticmethod
    def from_primal_value(val: object) -> SymbolicZero:
        """Return the zero tangent of a value."""
        return zero_from_primal(val, symbolic_zeros=True)


def zero_from_primal(val: object, symbolic_zeros: bool = False) -> Any:
    """Return the zero tangents of the values in a tree, as arrays or as `SymbolicZero`s.

    >>> import weft
    >>> weft.custom_derivatives.zero_from_primal(weft.numpy.ones(2))
    Array([0., 0.], dtype=float32)
    >>> weft.custom_derivatives.zero_from_primal(weft.numpy.array([1, 2])).dtype
    dtype([('float0', 'V')])
    """

    def zero(x: ArrayLike) -> Any:
        symbolic = SymbolicZero(tangent_aval(typeof(x)))
        return symbolic if symbolic_zeros else symbolic.instantiate()

    return tree_map(zero, val)


def instantiate(aval: ShapedArray | AbstractRef) -> Any:
    return SymbolicZero(aval).instantiate()


class Signature:
    """How a function with custom rules is called: which arguments its rules differentiate."""

    __slots__ = ("_plain", "_signature", "api", "name", "nondiff")

    def __init__(
        self, api: str, fun: Callable, nondiff_argnums: Any, nondiff_argnames: Any
    ) -> None:
        if not callable(fun):
            raise TypeError(f"{api}: expected a function, got {type(fun).__name__}: {fun!r:.100}")
        self.api = api
        self.name = function_name(fun)
        try:
            self._signature: Any = inspect.signature(fun)
        except (TypeError, ValueError):
            self._signature = None
        # Calls by position with all parameters given, which most are, need no binding.
        self._plain = -1
        names: list[str] = []
        if self._signature is not None:
            parameters = list(self._signature.parameters.values())
            names = [p.name for p in parameters]
            if all(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters):
                self._plain = len(parameters)
        numbers = [nondiff_argnums] if isinstance(nondiff_argnums, int) else list(nondiff_argnums)
        argnames = (
            [nondiff_argnames] if isinstance(nondiff_argnames, str) else list(nondiff_argnames)
        )
        for name in argnames:
            if name not in names:
                raise ValueError(
                    f"{api}: nondiff_argnames has {name!r}, but {self.name} has the parameters "
                    f"{', '.join(names)}"
                )
            numbers.append(names.index(name))
        self.nondiff = tuple(sorted({int(n) for n in numbers}))

    def positional(self, args: tuple, kwargs: dict) -> tuple:
        """Return all arguments by position, defaults included."""
        if not kwargs and len(args) == self._plain:
            return args
        if self._signature is None:
            if kwargs:
                raise TypeError(
                    f"{self.api}: the signature of {self.name} is unknown, so call it by position"
                )
            return args
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self.api} of {self.name}{self._signature}: {error}") from None
        bound.apply_defaults()
        passed = sorted(bound.kwargs.keys() & kwargs)
        if passed:  # those that have their defaults are known to the function alone
            raise TypeError(
                f"{self.api}: keyword-only arguments {passed} of {self.name} cannot "
                "be passed on to its rules; make them positional or close over them"
            )
        return bound.args

    def split(self, args: tuple) -> tuple[tuple, tuple]:
        """Return the differentiated arguments and the others."""
        if not self.nondiff:
            return args, ()
        n = len(args)
        numbers = {i + n if i < 0 else i for i in self.nondiff}
        if max(numbers) >= n:
            raise ValueError(
                f"{self.api}: nondiff_argnums {self.nondiff} is out of range for the {n} "
                f"arguments of {self.name}"
            )
        return (
            tuple(a for i, a in enumerate(args) if i not in numbers),
            tuple(args[i] for i in sorted(numbers)),
        )

    def join(self, dynamic: Sequence[Any], static: tuple) -> list:
        """Return the arguments in their own order again."""
        if not static:
            return list(dynamic)
        n = len(dynamic) + len(static)
        numbers = {i + n if i < 0 else i for i in self.nondiff}
        dynamic_values, fixed = iter(dynamic), iter(static)
        return [next(fixed) if i in numbers else next(dynamic_values) for i in range(n)]


class FlatCall:
    """One call on flat arguments: the function, and how its arguments are put together."""

    __slots__ = ("in_tree", "name", "out_tree", "owner", "static", "traces")

    def __init__(self, owner: FunctionWithRules, in_tree: PyTreeDef, static: tuple) -> None:
        self.owner: Any = owner
        self.name = owner._signature.name
        self.in_tree = in_tree
        self.static = static
        self.traces = owner._traces
        self.out_tree: Any = None

    def fun(self, *leaves: ArrayLike) -> list:
        owner = self.owner
        args = owner._signature.join(self.in_tree.unflatten(leaves), self.static)
        outs, self.out_tree = flatten(owner.fun(*args))
        return outs


_NUMBERS = (bool, int, float, complex, np.generic)


def numbers_as_arrays(leaves: Sequence[Any]) -> list:
    """Return the leaves, single numbers as arrays: rules may ask for dtypes and shapes."""
    return [_as_array(x) if isinstance(x, _NUMBERS) else x for x in leaves]


def _as_array(x: object) -> Any:
    aval = typeof(x)
    return put_host(np.array(x, aval.dtype), weak_type=aval.weak_type)


class FunctionWithRules:
    """The base of custom_jvp and custom_vjp functions: all but their rules."""

    def __init__(
        self,
        fun: Callable,
        nondiff_argnums: int | Sequence[int] = (),
        nondiff_argnames: str | Sequence[str] = (),
    ) -> None:
        callable_self: Any = self  # the kinds have a __call__
        functools.update_wrapper(callable_self, fun)
        self.fun = fun
        self._signature = Signature(type(self).__name__, fun, nondiff_argnums, nondiff_argnames)
        self._symbolic_zeros = False
        self._traces: dict = {}
        self._tracing_rules = False

    def __getattr__(self, name: str) -> Any:
        """Return the attributes of the function, such as `def_vmap` of a custom_vmap function.

        Not those of Python's own: what has its `__globals__` passes for a function. Copying and
        pickling ask before there is a `fun`.
        """
        if name == "fun" or name.startswith("__"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.fun, name)

    def _apply(self, prim: Primitive, kind: type[FlatCall], args: tuple, kwargs: dict) -> Any:
        args = self._signature.positional(args, kwargs)
        dynamic, static = self._signature.split(args)
        leaves, in_tree = flatten(dynamic)
        call = kind(self, in_tree, static)
        outs = prim.bind(*numbers_as_arrays(leaves), call=call, jaxpr=None, num_consts=0)
        return call.out_tree.unflatten(outs)

    @property
    def nondiff_argnums(self) -> tuple[int, ...]:
        """Positions of the arguments that the rules do not differentiate."""
        return self._signature.nondiff

    @property
    def symbolic_zeros(self) -> bool:
        """Whether zero tangents reach the rules as `SymbolicZero`."""
        return self._symbolic_zeros

    def __get__(self, instance: object, owner: object = None) -> Any:
        function: Any = self
        return self if instance is None else functools.partial(function, instance)


class Traced:
    """A function traced to a jaxpr, with the tree of its result."""

    __slots__ = ("consts", "jaxpr", "out_tree")

    def __init__(self, jaxpr: ClosedJaxpr, consts: list, out_tree: PyTreeDef | None) -> None:
        self.jaxpr = jaxpr
        self.consts = consts
        self.out_tree = out_tree


def trace_call(
    call: Any, avals: Sequence[Any], functions: Sequence[Callable]
) -> tuple[Traced, bool]:
    """Trace `call.fun`; also say whether it, or one of `functions`, closes over tracers.

    What does not is kept with `call.traces` and not traced again.
    """
    key = None
    if call.traces is not None:
        key = (call.in_tree, call.static, tuple(avals), config.trace_key(), axes_key())
        try:
            cached = call.traces.get(key)
        except TypeError:  # a nondiff argument without hash
            cached = key = None
        if cached is not None:
            call.out_tree = cached.out_tree
            return cached, False
    jaxpr, consts = closed_call_jaxpr(call.fun, avals, call.name)
    traced = Traced(jaxpr, consts, getattr(call, "out_tree", None))
    closes = any(isinstance(c, Tracer) for c in consts) or any(map(closes_over_tracers, functions))
    if key is not None and not closes:
        call.traces[key] = traced
    return traced, closes


@contextmanager
def tracing_rules(owner: Any) -> Iterator[None]:
    """While the rules of a function that closes over tracers are traced."""
    if owner is None:
        yield
        return
    owner._tracing_rules = True
    try:
        yield
    finally:
        owner._tracing_rules = False


def closes_over_tracers(fun: Callable) -> bool:
    """Return whether a function's own closure, or arguments bound to it, hold tracers."""
    values = [getattr(fun, "args", ()), getattr(fun, "keywords", {}) or {}]
    for cell in getattr(fun, "__closure__", None) or ():
        try:
            values.append(cell.cell_contents)
        except ValueError:  # not assigned yet
            continue
    try:
        return any(isinstance(x, Tracer) for x in flatten(values)[0])
    except (TypeError, ValueError):
        return any(isinstance(x, Tracer) for x in values)


def fitted(
    value: ArrayLike, want: ShapedArray, got: ShapedArray, varies: Callable[[str], str]
) -> Any:
    """Convert a rule's result, which passed `check_type`, to exactly the type wanted.

    varies(axes): what to say if it differs along mesh axes where it has to be equal.
    """
    if isinstance(value, bool | int | float | complex):
        return want.dtype.type(value)
    if got.dtype != want.dtype:
        value = convert(value, want.dtype)
    if isinstance(want, ShapedArray) and want.mat is not got.mat:
        extra = got.mat.varying - want.mat.varying
        if extra:
            raise TypeError(varies(names_text(extra)))
        value = match_type(value, want)
    return value


def check_type(
    api: str,
    label: str,
    want: ShapedArray,
    got: ShapedArray,
    name: str,
    error: type[Exception] = TypeError,
) -> None:
    """Raise if a rule's tangent or cotangent has not the type it must have."""
    if not (isinstance(want, ShapedArray) and isinstance(got, ShapedArray)):
        return
    if got.shape != want.shape or (got.dtype != want.dtype and not got.weak_type):
        raise error(
            f"{api}: {label} {name} must have type {want.str_short()}, got {got.str_short()}"
        )
