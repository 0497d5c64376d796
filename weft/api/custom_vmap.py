"""custom_vmap: functions that bring their own batching rule."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from weft.api.custom_common import Signature, call_primitive, trace_call
from weft.autodiff.jvp import forward_trace
from weft.autodiff.vmap import AxisData, batch_jaxpr, to_front
from weft.core.boundary import api_boundary
from weft.core.jaxpr import ClosedJaxpr, eval_closed
from weft.core.state import current_trace
from weft.core.trace import typeof
from weft.core.tree import broadcast_prefix, flatten


class Call:
    """One call of a custom_vmap function, on flat arguments."""

    __slots__ = ("in_tree", "name", "out_tree", "owner", "static", "traces")

    def __init__(self, owner: custom_vmap, in_tree: Any) -> None:
        self.owner = owner
        self.name = owner._signature.name
        self.in_tree = in_tree
        self.static = ()
        self.traces = owner._traces
        self.out_tree: Any = None

    def fun(self, *leaves: Any) -> list:
        outs, self.out_tree = flatten(self.owner.fun(*self.in_tree.unflatten(leaves)))
        return outs

    def rule(self, size: int, batched: Sequence[bool], args: Sequence[Any]) -> tuple[list, list]:
        result = self.owner.vmap_rule(
            size, list(self.in_tree.unflatten(batched)), *self.in_tree.unflatten(args)
        )
        who = f"the vmap rule of {self.name}"
        if not (isinstance(result, tuple | list) and len(result) == 2):
            raise TypeError(
                f"{who} must return a pair (output, which outputs are batched), got "
                f"{type(result).__name__}"
            )
        outs, out_tree = flatten(result[0])
        if self.out_tree is not None and out_tree != self.out_tree:
            raise TypeError(
                f"{who} must return the structure of the function's output, {self.out_tree}, got "
                f"{out_tree}"
            )
        self.out_tree = out_tree
        flags = broadcast_prefix(result[1], out_tree, f"{who}: the second result")
        for i, (o, b) in enumerate(zip(outs, flags, strict=True)):
            if not isinstance(b, bool):
                raise TypeError(f"{who}: whether output {i} is batched must be a bool, got {b!r}")
            shape = typeof(o).shape
            if b and (not shape or shape[0] != size):
                raise ValueError(
                    f"{who}: output {i} is said to be batched, but its shape {shape} does not "
                    f"begin with the axis size {size}"
                )
        return outs, flags


def push_inline(
    fun: Callable[..., Sequence[Any]], primals: Sequence[Any], tangents: Sequence[Any]
) -> tuple[list, list]:
    """Values and tangents of a flat function, inside a jvp or linearize rule."""
    trace = forward_trace()
    args = [trace.wrap(p, x) for p, x in zip(primals, tangents, strict=True)]
    with current_trace(trace):
        outs = fun(*args)
    trace.finished = True
    pairs = [trace.unwrap(o) for o in outs]
    return [p for p, _ in pairs], [x for _, x in pairs]


def _jvp(primals: Any, tangents: Any, **params: Any) -> tuple:
    """The value keeps its batching rule; the tangent is that of the function's body."""
    call, jaxpr = params["call"], params["jaxpr"]
    outs = custom_vmap_p.bind(*primals, **params)
    fun = call.fun if jaxpr is None else lambda *xs: eval_closed(jaxpr, *xs)
    return outs, push_inline(fun, primals, tangents)[1]


def _batch(
    axis: AxisData,
    args: Any,
    dims: Any,
    *,
    call: Any,
    jaxpr: ClosedJaxpr | None,
    num_consts: int,
) -> tuple:
    moved, batched = to_front(args, dims)
    if any(batched[:num_consts]) or call.__class__ is not Call:
        # The rule only knows the arguments: what is closed over is batched through the body.
        assert jaxpr is not None
        inner, out = batch_jaxpr(jaxpr, axis, batched)
        return eval_closed(inner, *moved), [0 if b else None for b in out]
    outs, flags = call.rule(axis.size, batched[num_consts:], moved[num_consts:])
    return outs, [0 if b else None for b in flags]


def _stage(trace: Any, args: Any, params: dict) -> list | None:
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


custom_vmap_p = call_primitive("custom_vmap_call", jvp=_jvp, batch=_batch, stage=_stage)


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
        """Sets the rule; returns it, so it serves as a decorator."""
        if not callable(vmap_rule):
            raise TypeError(
                f"def_vmap: the rule must be a function, got {type(vmap_rule).__name__}"
            )
        self.vmap_rule = vmap_rule
        return vmap_rule

    @api_boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
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
    """A function that vmap applies to one example after the other, by `weft.lax.map`.

    >>> import weft
    >>> f = weft.custom_batching.sequential_vmap(lambda x: x * 2)
    >>> weft.vmap(f)(weft.numpy.arange(3))
    Array([0, 2, 4], dtype=int32)
    """
    mapped = custom_vmap(f)

    @mapped.def_vmap
    def rule(axis_size: int, in_batched: list, *args: Any) -> tuple:
        from weft.api.mapping import map as sequential_map

        leaves, tree = flatten(args)
        flags = flatten(tuple(in_batched))[0]

        def one(batched: list) -> Any:
            it = iter(batched)
            full = [next(it) if b else x for x, b in zip(leaves, flags, strict=True)]
            return mapped(*tree.unflatten(full))

        out = sequential_map(one, [x for x, b in zip(leaves, flags, strict=True) if b])
        return out, True

    return mapped
