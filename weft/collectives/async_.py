"""Asynchronous collectives: each started here, its value taken where `.done()` is called.

`x_start(...)` takes the arguments of `x` and returns a `Future`. In the jaxpr, `x_start` gives a
value of type `in_flight[x f32[8]]` and `done` takes it. In StableHLO they are `async_start` and
`async_done`, with what stands between them free to overlap.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from weft._xla.mlir import ir
from weft.collectives.async_types import AsyncType, no_keys
from weft.collectives.exchange import all_to_all, all_to_all_p, lower_in_front
from weft.collectives.futures import FutureTree, register
from weft.collectives.gather import all_gather, all_gather_p, pbroadcast, pbroadcast_p
from weft.collectives.groups import as_bytes, named_axes
from weft.collectives.permute import ppermute, ppermute_p
from weft.collectives.reduce import psum, psum_p
from weft.collectives.scatter import psum_scatter, psum_scatter_p
from weft.core.aval import ShapedArray
from weft.core.primitive import Primitive
from weft.core.state import current_trace, state
from weft.core.trace import typeof
from weft.core.tree import tree_map

if TYPE_CHECKING:
    from weft.autodiff.vmap import AxisData
    from weft.lowering.context import RuleContext


class InFlight(AsyncType):
    """The type of a collective in flight: which one, and the type of its value."""

    __slots__ = ()

    def __new__(cls, collective: str, value: ShapedArray) -> InFlight:
        return cls._of(f"{collective} in flight", value, collective)

    collective = property(lambda self: self.key[0])
    remedy = "call .done() on the future"

    def finish(self, x: object) -> Any:
        return done_p.bind(x)

    def wrap(self, x: object) -> Any:
        return landed_p.bind(x, collective=self.collective)

    def str_short(self) -> str:
        return f"in_flight[{self.collective} {self.value.str_short()}]"


class _Starting:
    """While the batch rule of a collective runs: the collective itself is started instead."""

    __slots__ = ("finished", "parent", "start", "sync")

    def __init__(self, parent: Any, sync: Primitive, start: Primitive) -> None:
        self.parent, self.sync, self.start = parent, sync, start
        self.finished = False

    def process(self, prim: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        prim = self.start if prim is self.sync else prim
        return self.parent.process(prim, args, params)


STARTS: dict[Primitive, Primitive] = {}
"""Collective → the op that starts it."""


def _start_of(sync: Primitive) -> Primitive:
    """Return the op that starts a collective; all its rules come from the collective's."""

    def batch(axis: AxisData, args: list, dims: list, /, **params: Any) -> tuple:
        if axis.name in params["over"].names:  # becomes local work, and maybe other collectives
            out, dim = sync.batch(axis, args, dims, **params)  # type: ignore[misc]
            return landed_p.bind(out, collective=sync.name), dim
        with current_trace(_Starting(state.trace, sync, start)):
            return sync.batch(axis, args, dims, **params)  # type: ignore[misc]

    def abstract(x: ShapedArray, **params: object) -> InFlight:
        no_keys(start.name, x)
        return InFlight(sync.name, sync.abstract(x, **params))  # type: ignore[misc]

    start = Primitive(
        f"{sync.name}_start",
        abstract=abstract,
        jvp="linear",
        transpose=sync.transpose,
        batch=batch,
        lower=lambda ctx, x, **params: _lower_start(ctx, sync, x, params),
        named_axes=named_axes,
        own_types=True,
    )
    STARTS[sync] = start
    return start


psum_start_p = _start_of(psum_p)
all_gather_start_p = _start_of(all_gather_p)
psum_scatter_start_p = _start_of(psum_scatter_p)
all_to_all_start_p = _start_of(all_to_all_p)
pbroadcast_start_p = _start_of(pbroadcast_p)
ppermute_start_p = _start_of(ppermute_p)


done_p = Primitive(
    "done",
    abstract=lambda future: future.value,
    jvp="linear",
    transpose=lambda ct, future: [ct],
    batch=lambda axis, args, dims: (done_p.bind(args[0]), dims[0]),
    lower=lambda ctx, future: _lower_done(ctx, future),
    own_types=True,
)
landed_p = Primitive(
    "landed",
    abstract=lambda x, *, collective: InFlight(collective, x),
    jvp="linear",
    transpose=lambda ct, x, *, collective: [ct],
    batch=lambda axis, args, dims, **params: (landed_p.bind(args[0], **params), dims[0]),
    lower=lambda ctx, x, *, collective: x,
    own_types=True,
)
"""A value that is here already, where one in flight is expected."""


# Lowering -----------------------------------------------------------------------------------------
#
# A value in flight is represented by the result of its async_done, which `start` emits right behind
# async_start, and `done` moves to its own place. So a future may also be carried by a loop or pass
# through a branch, which HLO cannot: it then arrives at the boundary.

_COLLECTIVES = frozenset(
    f"stablehlo.{name}"
    for name in (
        "all_reduce",
        "all_gather",
        "reduce_scatter",
        "all_to_all",
        "collective_permute",
        "collective_broadcast",
    )
)
_TAILS = frozenset(
    f"stablehlo.{name}" for name in ("reshape", "bitcast_convert", "convert", "transpose")
)


def _tail(x: ir.Value, names: frozenset, source: ir.Value | None = None) -> tuple[list, Any]:
    """Return the unary ops behind the op that matters, last first, and that op.

    None if it is not found this side of `source`, an SSA value.
    """
    chain: list = []
    while source is None or x != source:
        op = x.owner
        if isinstance(op, ir.Block):
            break
        if op.name in names:
            return chain, op
        if op.name not in _TAILS:
            break
        chain.append(op)
        x = op.operands[0]
    return chain, None


def _lower_start(ctx: RuleContext, sync: Primitive, x: ir.Value, params: dict[str, Any]) -> Any:
    if as_bytes(ctx, params["over"]):
        return sync.lower(ctx, x, **params)  # type: ignore[misc]
    lower = lower_in_front if sync is all_to_all_p else sync.lower
    value = lower(ctx, x, **params)  # type: ignore[misc]
    chain, op = _tail(value, _COLLECTIVES, x)
    if op is None or not ctx.avals_in[0].size:
        return value  # nothing to wait for, and quirks.ASYNC_EMPTY
    (operand,), (result,) = op.operands, op.results
    future = ctx.type(f"!stablehlo.future<{result.type}>")
    with ir.InsertionPoint(op):
        start = ctx.operation("stablehlo.async_start", [operand], [future], {}, regions=1)
        block = start.regions[0].blocks.append(operand.type, arg_locs=[ctx.loc])
        done = ctx.operation("stablehlo.async_done", [start.results[0]], [result.type])
    result.replace_all_uses_with(done.results[0])
    op.operands[0] = block.arguments[0]
    with ir.InsertionPoint(block):
        end = ctx.operation("stablehlo.return", [op.results[0]], [])
    op.move_before(end)
    return value if chain else done.results[0]


def _lower_done(ctx: RuleContext, future: ir.Value) -> Any:
    chain, done = _tail(future, frozenset(("stablehlo.async_done",)))
    block = ir.InsertionPoint.current.block
    if done is None or done.operation.block != block:
        return future
    ops = [*chain, done]
    users = [len(list(op.results[0].uses)) for op in ops]
    if users[0] or any(n != 1 for n in users[1:]):
        return future  # taken already
    for op in reversed(ops):
        block.append(op.operation)  # blocks are built in order: we are at the end
    return future


# Public functions ---------------------------------------------------------------------------------


class Future(FutureTree):
    """A collective in flight; `done()` gives its value (a pytree if the operand is one)."""

    __slots__ = ()

    remedy = InFlight.remedy

    def done(self) -> Any:
        """Return the collective's value. Work traced before this call may overlap with it."""
        return tree_map(
            lambda x: done_p.bind(x) if isinstance(typeof(x), InFlight) else x, self._started
        )


class _Started:
    """While a public collective runs: the last op it binds is started instead."""

    __slots__ = ("finished", "parent", "start", "sync")

    def __init__(self, parent: Any, sync: Primitive) -> None:
        self.parent, self.sync, self.start = parent, sync, STARTS[sync]
        self.finished = False

    def process(self, prim: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        if prim is not self.sync:
            return self.parent.process(prim, args, params)
        return self.parent.process(self.start, args, params)


def _say_start(error: Exception, api: str) -> None:
    """Reword a collective's error for its started form."""
    text = error.args[0] if error.args else None
    if isinstance(text, str) and text.startswith((f"{api}:", f"{api} ", f"{api}()")):
        error.args = (f"{api}_start{text[len(api) :]}", *error.args[1:])


def _public(function: Callable, sync: Primitive, example: str, result: str) -> Callable:
    name = f"{function.__name__}_start"

    def started(*args: object, **kwargs: object) -> Future:
        with current_trace(_Started(state.trace, sync)):
            try:
                return Future(function(*args, **kwargs))
            except Exception as error:
                _say_start(error, function.__name__)
                raise

    started.__name__ = started.__qualname__ = name
    taken = inspect.signature(function)
    started.__signature__ = taken.replace(return_annotation="Future")  # type: ignore[attr-defined]
    started.__doc__ = f"""Start `{function.__name__}`; `.done()` on the result gives its value.

    Arguments, types, errors and derivative are those of `{function.__name__}`. Between start and
    done, other work may overlap with the communication. The future is a pytree: it may be
    returned from branches and carried by loops, where it arrives at the boundary.

    Source: StableHLO specification, `async_start`.

    >>> import weft
    >>> f = lambda x: weft.lax.{name}({example}).done()
    >>> weft.vmap(f, axis_name="i")(weft.numpy.arange(2))
    {result}
    """
    return started


psum_start = _public(psum, psum_p, 'x, "i"', "Array([1, 1], dtype=int32)")
all_gather_start = _public(
    all_gather, all_gather_p, 'x, "i"', "Array([[0, 1],\n           [0, 1]], dtype=int32)"
)
psum_scatter_start = _public(
    psum_scatter, psum_scatter_p, 'x[None].repeat(2), "i"', "Array([1, 1], dtype=int32)"
)
all_to_all_start = _public(
    all_to_all,
    all_to_all_p,
    'x[None].repeat(2), "i", 0, 0, tiled=True',
    "Array([[0, 1],\n           [0, 1]], dtype=int32)",
)
pbroadcast_start = _public(pbroadcast, pbroadcast_p, 'x, "i", 1', "Array([1, 1], dtype=int32)")
ppermute_start = _public(
    ppermute, ppermute_p, 'x, "i", [(0, 1), (1, 0)]', "Array([1, 0], dtype=int32)"
)
register(Future)
