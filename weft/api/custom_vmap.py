"""custom_vmap: functions that bring their own batching rule."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from weft.api.custom_common import Signature, call_primitive, trace_call
from weft.api.grad import vjp
from weft.api.mapping import map as sequential_map
from weft.autodiff.jvp import filled_tangents, forward_trace, has_tangent, tangent_aval
from weft.autodiff.shape import broadcast_in_dim
from weft.autodiff.vmap import AxisData, batch_flat, batch_jaxpr, remove_dim, to_front
from weft.core.boundary import api_boundary
from weft.core.jaxpr import ClosedJaxpr, eval_closed, jaxpr_axes
from weft.core.masks import pick, unpick
from weft.core.primitive import Primitive
from weft.core.state import current_trace
from weft.core.trace import typeof
from weft.core.tree import broadcast_prefix, flatten
from weft.core.undefined import is_undefined

if TYPE_CHECKING:
    from weft.core.aval import ShapedArray
    from weft.core.trace import StagingTrace
    from weft.core.tree import PyTreeDef
    from weft.core.undefined import UndefinedPrimal
    from weft.typing import ArrayLike


class Call:
    """One call of a custom_vmap function, on flat arguments."""

    __slots__ = ("in_tree", "name", "out_tree", "owner", "static", "traces")

    def __init__(self, owner: custom_vmap, in_tree: PyTreeDef) -> None:
        self.owner = owner
        self.name = owner._signature.name
        self.in_tree = in_tree
        self.static = ()
        self.traces = owner._traces
        self.out_tree: Any = None

    def fun(self, *leaves: ArrayLike) -> list:
        outs, self.out_tree = flatten(self.owner.fun(*self.in_tree.unflatten(leaves)))
        return outs

    def rule(self, size: int, batched: Sequence[bool], args: Sequence[Any]) -> tuple[list, list]:
        result = self.owner.vmap_rule(
            size, list(self.in_tree.unflatten(batched)), *self.in_tree.unflatten(args)
        )
        api = f"the vmap rule of {self.name}"
        if not (isinstance(result, tuple | list) and len(result) == 2):
            raise TypeError(
                f"{api} must return a pair (output, which outputs are batched), got "
                f"{type(result).__name__}"
            )
        outs, out_tree = flatten(result[0])
        want_tree, wanted = self.output(batched, args)
        if out_tree != want_tree:
            raise ValueError(
                f"{api} must return the structure of the function's output, {want_tree}, got "
                f"{out_tree}"
            )
        self.out_tree = out_tree
        flags = broadcast_prefix(result[1], out_tree, f"{api}: the second result")
        for i, (o, b, want) in enumerate(zip(outs, flags, wanted, strict=True)):
            if not isinstance(b, bool):
                raise TypeError(f"{api}: whether output {i} is batched must be a bool, got {b!r}")
            shape = typeof(o).shape
            if b and (not shape or shape[0] != size):
                raise ValueError(
                    f"{api}: output {i} is said to be batched, but its shape {shape} does not "
                    f"begin with the axis size {size}"
                )
            got = typeof(o)
            example = got.shape[1:] if b else got.shape
            if (example, got.dtype) != (want.shape, want.dtype):
                expected = f"[{size}] in front of {want.str_short()}" if b else want.str_short()
                raise ValueError(
                    f"{api}: output {i} has type {got.str_short()}, but the function gives "
                    f"{want.str_short()}: expected {expected}"
                )
        return outs, flags

    def output(self, batched: Sequence[bool], args: Sequence[Any]) -> tuple[Any, list]:
        """Return the structure and the types of the function's own output for one example."""
        avals = [_example(typeof(x), b) for x, b in zip(args, batched, strict=True)]
        traced = trace_call(self, avals, (self.owner.fun,))[0]
        return traced.out_tree, traced.jaxpr.out_avals


def push_inline(
    fun: Callable[..., Sequence[Any]], primals: Sequence[Any], tangents: Sequence[Any]
) -> tuple[list, list]:
    """Return values and tangents of a flat function, inside a jvp or linearize rule."""
    trace = forward_trace()
    args = [trace.wrap(p, x) for p, x in zip(primals, tangents, strict=True)]
    with current_trace(trace):
        outs = fun(*args)
    trace.finished = True
    pairs = [trace.unwrap(o) for o in outs]
    return [p for p, _ in pairs], [x for _, x in pairs]


class DerivedCall:
    """Differentiate a call: the function, and in a batch the function's rule.

    derive(fun, n): of the n operands of `fun` and more the derivative's results. spread(flags):
    which operands it needs batched where these are. lead: how many operands in front are values
    that the function closes over, of which its rule knows nothing.
    """

    __slots__ = ("body", "call", "lead", "name", "num_args", "owner", "traces")

    def __init__(self, like: Call | DerivedCall, body: Callable, counts: tuple) -> None:
        self.call, self.body = like, body
        self.name, self.owner = like.name, like.owner
        self.lead, self.num_args = counts
        self.traces = None

    def derive(self, fun: Callable) -> Callable:
        raise NotImplementedError

    def spread(self, batched: Sequence[bool]) -> list[bool]:
        raise NotImplementedError

    def fun(self, *args: ArrayLike) -> list:
        return self.derive(self.body)(*args)

    def rule(self, size: int, batched: Sequence[bool], args: Sequence[Any]) -> tuple[list, list]:
        n, lead = self.num_args, self.lead
        flags = self.spread(batched)
        full = [
            x if b or not f else _repeated(x, size)
            for x, b, f in zip(args, batched, flags, strict=True)
        ]
        if any(batched[:lead]):
            dims = [0 if f else None for f in flags]
            outs, out_dims = batch_flat(self.fun, AxisData(None, size), full, dims)
            return to_front(outs, out_dims)

        def whole(*xs: ArrayLike) -> list:
            outs, out_flags = self.call.rule(size, flags[lead:n], xs[lead:])
            return [o if f else _repeated(o, size) for o, f in zip(outs, out_flags, strict=True)]

        outs = self.derive(whole)(*full)
        return outs, [True] * len(outs)


class Pushed(DerivedCall):
    """Of operands and the tangents that are not zero: the results and their tangents, or those."""

    __slots__ = ("nonzero", "values")

    def __init__(
        self, like: Call, body: Callable, lead: int, nonzero: Sequence[bool], values: bool
    ) -> None:
        super().__init__(like, body, (lead, len(nonzero)))
        self.nonzero, self.values = nonzero, values

    def derive(self, fun: Callable) -> Callable:
        def pushed(*args: ArrayLike) -> list:
            n = self.num_args
            outs, tangents = push_inline(fun, args[:n], unpick(args[n:], self.nonzero))
            pairs = zip(outs, filled_tangents(outs, tangents), strict=True)
            moving = [t for o, t in pairs if has_tangent(typeof(o))]
            return [*outs, *moving] if self.values else moving

        return pushed

    def spread(self, batched: Sequence[bool]) -> list[bool]:
        tangent_batched = unpick(batched[self.num_args :], self.nonzero)
        flags = [
            b or bool(t) for b, t in zip(batched[: self.num_args], tangent_batched, strict=True)
        ]
        return flags + [f for f, nz in zip(flags, self.nonzero, strict=True) if nz]


class Pulled(DerivedCall):
    """Of operands and the cotangents of results that have some: the cotangents of operands."""

    __slots__ = ("nonzero", "wanted")

    def __init__(
        self,
        like: Call | Pulled | Pushed,
        body: Callable,
        lead: int,
        nonzero: Sequence[bool],
        wanted: Sequence[bool],
    ) -> None:
        super().__init__(like, body, (lead, len(nonzero)))
        self.nonzero, self.wanted = nonzero, wanted

    def derive(self, fun: Callable) -> Callable:
        def pulled(*args: object) -> list:
            primals = args[: self.num_args]

            def of_moving(*moving: object) -> list:
                tangents = unpick(moving, self.nonzero)
                xs = [p if m is None else m for p, m in zip(primals, tangents, strict=True)]
                return [o for o, w in zip(fun(*xs), self.wanted, strict=True) if w]

            moving = [p for p, nz in zip(primals, self.nonzero, strict=True) if nz]
            return list(vjp(of_moving, *moving)[1](list(args[self.num_args :])))

        return pulled

    def spread(self, batched: Sequence[bool]) -> list[bool]:
        flags = [b or nz for b, nz in zip(batched[: self.num_args], self.nonzero, strict=True)]
        return flags + [True] * (len(batched) - self.num_args)


def _example(aval: ShapedArray, batched: bool) -> Any:
    return remove_dim(aval, 0) if batched else aval


def _repeated(x: ArrayLike, size: int) -> Any:
    shape = typeof(x).shape
    return broadcast_in_dim(x, (size, *shape), tuple(range(1, len(shape) + 1)))


def _body(call: Call | Pulled | Pushed, jaxpr: ClosedJaxpr | None) -> Callable[..., list]:
    return call.fun if jaxpr is None else lambda *xs: eval_closed(jaxpr, *xs)


def _derivative(
    rule: Callable[..., tuple[list, list]], primals: list, tangents: list, params: dict
) -> tuple[list, list]:
    """Differentiate a call with a rule; in closed-over values, by its body."""
    if any(t is not None for t in tangents[: params["num_consts"]]):
        outs = custom_vmap_p.bind(*primals, **params)
        body = _body(params["call"], params["jaxpr"])
        return outs, push_inline(body, primals, tangents)[1]
    nonzero = tuple(t is not None for t in tangents)
    operands = [*primals, *(t for t in tangents if t is not None)]
    outs, moving = rule(operands, nonzero, **params)
    return outs, unpick(moving, [has_tangent(typeof(o)) for o in outs])


def _jvp(primals: list, tangents: list, **params: object) -> tuple:
    def rule(
        operands: list, nonzero: tuple, *, call: Call, jaxpr: ClosedJaxpr, num_consts: int
    ) -> tuple:
        derived = Pushed(call, _body(call, jaxpr), num_consts, nonzero, True)
        results = custom_vmap_p.bind(*operands, call=derived, jaxpr=None, num_consts=0)
        n = len(results) - _num_moving(results)
        return results[:n], results[n:]

    return _derivative(rule, primals, tangents, params)


def _num_moving(results: Sequence[Any]) -> int:
    """Count the tangents among the results, at their end: one of each before that can have one."""
    moving = [has_tangent(typeof(r)) for r in results]
    return next(k for k in range(len(results) + 1) if sum(moving[: len(results) - k]) == k)


def _linearize(primals: list, tangents: list, **params: object) -> tuple:
    def rule(
        operands: list,
        nonzero: tuple,
        *,
        call: Call | Pulled | Pushed,
        jaxpr: ClosedJaxpr | None,
        num_consts: int,
    ) -> tuple:
        outs = custom_vmap_p.bind(*primals, **params)
        avals = [typeof(o) for o in outs]
        moving = custom_vmap_linear_p.bind(
            *operands,
            call=call,
            jaxpr=jaxpr,
            num_consts=num_consts,
            nonzero=nonzero,
            moving=tuple(map(has_tangent, avals)),
            out_avals=tuple(tangent_aval(a) for a in avals if has_tangent(a)),
        )
        return outs, moving

    return _derivative(rule, primals, tangents, params)


def _tangents_of(params: dict) -> Callable[..., list]:
    """Return the function of a linear op's operands: the tangents, by a call with a rule."""

    def evaluate(*operands: ArrayLike) -> list:
        body = _body(params["call"], params["jaxpr"])
        derived = Pushed(params["call"], body, params["num_consts"], params["nonzero"], False)
        return custom_vmap_p.bind(*operands, call=derived, jaxpr=None, num_consts=0)

    return evaluate


def _linear_transpose(cts: list, *args: ArrayLike | UndefinedPrimal, **params: Any) -> list:
    nonzero, call = params["nonzero"], params["call"]
    n = len(nonzero)
    moving_cts = unpick(cts, params["moving"])
    wanted = tuple(ct is not None for ct in moving_cts)
    if not any(wanted):
        return [None] * len(args)
    body = _body(call, params["jaxpr"])
    derived = Pulled(call, body, params["num_consts"], nonzero, wanted)
    operands = [*args[:n], *(ct for ct in moving_cts if ct is not None)]
    cotangents = custom_vmap_p.bind(*operands, call=derived, jaxpr=None, num_consts=0)
    tangent_cts = [
        ct if is_undefined(a) else None for ct, a in zip(cotangents, args[n:], strict=True)
    ]
    return [None] * n + tangent_cts


custom_vmap_linear_p = Primitive(
    "custom_vmap_linear",
    abstract=lambda *avals, out_avals, **params: list(out_avals),
    impl=lambda *args, **params: _tangents_of(params)(*args),
    jvp=lambda primals, tangents, **params: push_inline(_tangents_of(params), primals, tangents),
    transpose=_linear_transpose,
    batch=lambda axis, args, dims, **params: batch_flat(_tangents_of(params), axis, args, dims),
    lower=lambda ctx, *args, **params: ctx.lower_fun(_tangents_of(params), *args),
    named_axes=lambda params: () if params["jaxpr"] is None else jaxpr_axes(params["jaxpr"]),
    multiple_results=True,
    own_types=True,
    higher_order=True,
)
"""The tangents of a call's results: the call's operands, and the tangents that are not zero."""


def _batch(
    axis: AxisData,
    args: list,
    dims: list,
    *,
    call: Call | Pulled | Pushed,
    jaxpr: ClosedJaxpr | None,
    num_consts: int,
) -> tuple:
    moved, batched = to_front(args, dims)
    if any(batched[:num_consts]):
        # The rule only knows the arguments: what is closed over is batched through the body.
        assert jaxpr is not None
        inner, out = batch_jaxpr(jaxpr, axis, batched)
        return eval_closed(inner, *moved), [0 if b else None for b in out]
    outs, flags = call.rule(axis.size, batched[num_consts:], moved[num_consts:])
    return outs, [0 if b else None for b in flags]


def _stage(trace: StagingTrace, args: Sequence, params: dict) -> list | None:
    call = params["call"]
    if params["jaxpr"] is not None:
        return None
    owner = call.owner
    traced, closes = trace_call(call, [typeof(a) for a in args], (owner.fun,))
    new = {"call": call, "jaxpr": traced.jaxpr, "num_consts": len(traced.consts)}
    operands = [*traced.consts, *args]
    # What is closed over may belong to a trace above the one that records.
    return (
        custom_vmap_p.bind(*operands, **new)
        if closes
        else trace.process(custom_vmap_p, operands, new)
    )


custom_vmap_p = call_primitive(
    "custom_vmap_call", jvp=_jvp, linearize=_linearize, batch=_batch, stage=_stage
)


class custom_vmap:  # noqa: N801  (the public name is JAX's)
    """A function with a batching rule of its own; use as a decorator.

    `def_vmap(rule)` gives the rule: `rule(axis_size, in_batched, *args)` returns (output,
    out_batched). in_batched has the structure of the arguments' list with a bool for each leaf;
    batched values have the axis in front; out_batched is a pytree prefix of the output.

    >>> import weft
    >>> @weft.custom_batching.custom_vmap
    ... def f(x):
    ...     return x + 1
    >>> @f.def_vmap
    ... def rule(axis_size, in_batched, x):
    ...     return x + 10, in_batched[0]
    >>> weft.vmap(f)(weft.numpy.arange(2))
    Array([10, 11], dtype=int32)
    """

    def __init__(self, fun: Callable) -> None:
        functools.update_wrapper(self, fun)
        self.fun = fun
        self._signature = Signature("custom_vmap", fun, (), ())
        self._traces: dict = {}
        self.vmap_rule: Any = None

    def def_vmap(self, vmap_rule: Callable) -> Callable:
        """Set the rule; return it, so it serves as a decorator."""
        if not callable(vmap_rule):
            raise TypeError(
                f"def_vmap: the rule must be a function, got {type(vmap_rule).__name__}"
            )
        self.vmap_rule = vmap_rule
        return vmap_rule

    @api_boundary
    def __call__(self, *args: object, **kwargs: object) -> Any:
        if self.vmap_rule is None:
            raise AttributeError(
                f"custom_vmap function {self._signature.name} has no rule; give one with "
                f"{self._signature.name}.def_vmap"
            )
        leaves, in_tree = flatten(self._signature.positional(args, kwargs))
        call = Call(self, in_tree)
        outs = custom_vmap_p.bind(*leaves, call=call, jaxpr=None, num_consts=0)
        return call.out_tree.unflatten(outs)


@api_boundary
def sequential_vmap(f: Callable) -> custom_vmap:
    """Return a function that vmap applies to one example after the other, by `weft.lax.map`.

    >>> import weft
    >>> f = weft.custom_batching.sequential_vmap(lambda x: x * 2)
    >>> weft.vmap(f)(weft.numpy.arange(3))
    Array([0, 2, 4], dtype=int32)
    """
    mapped = custom_vmap(f)

    @mapped.def_vmap
    def rule(axis_size: int, in_batched: list, *args: ArrayLike) -> tuple:
        leaves, tree = flatten(args)
        flags = flatten(tuple(in_batched))[0]

        def one(batched: list) -> Any:
            return mapped(*tree.unflatten(unpick(batched, flags, leaves)))

        out = sequential_map(one, pick(leaves, flags))
        return out, True

    return mapped
