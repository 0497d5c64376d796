"""Where arrays and traced values are placed: `inspect_array_sharding`, told when it is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from weft._xla import mlir, sdy
from weft.autodiff.vmap import AxisData
from weft.core.boundary import api_boundary
from weft.core.effects import INSPECT
from weft.core.primitive import Primitive
from weft.core.trace import Tracer
from weft.driver.use_partitioner import sharding_of_layout
from weft.partition.axis_layout import AxisLayout
from weft.partition.localize import read_mesh
from weft.partition.propagate import propagate
from weft.partition.walk import clone
from weft.runtime.visualize import placement, visualize_sharding
from weft.sharding.mesh import Mesh
from weft.sharding.named import NamedSharding
from weft.sharding.physical import SingleDeviceSharding
from weft.sharding.spec import PartitionSpec
from weft.sharding.text import batch_rule_text

if TYPE_CHECKING:
    from weft._xla.mlir import ir
    from weft.driver.program import Program
    from weft.lowering.context import RuleContext

TARGET = "weft_inspect_sharding"
_EFFECTS = frozenset((INSPECT,))


@api_boundary
def inspect_array_sharding(value: object, *, callback: Callable[[Any], Any]) -> None:
    """Call callback(sharding) with the sharding of an array, or of a traced value.

    Under jit, placements over Auto axes are known once shardings have been propagated: the callback
    is called whenever the program is lowered, for Shardy's choice; what a partitioner makes of it
    may differ. Under vmap it is told of the array with the mapped dimension.

    Args:
      value: an array, or a traced value.
      callback: is given a `Sharding`.

    Raises:
      TypeError: value is no array, or callback is not callable.
      ValueError: the program is lowered without Shardy (`weft.config.use_shardy`), so that only
        XLA's partitioner will know; or the value is one device's, in `shard_map`.

    Example:
        >>> import weft
        >>> weft.debug.inspect_array_sharding(weft.numpy.ones(4), callback=print)
        SingleDeviceSharding(device=CpuDevice(id=0))
        >>> mesh = weft.make_mesh((4,), ("x",), axis_types=(weft.AxisType.Auto,))
        >>> def f(x):
        ...     weft.debug.inspect_array_sharding(x.T, callback=lambda s: print(s.spec))
        ...     return x
        >>> rows = weft.NamedSharding(mesh, weft.P("x"))
        >>> y = weft.jit(f, in_shardings=rows)(weft.numpy.ones((4, 2)))
        P(None, 'x')
    """
    if not callable(callback):
        raise TypeError(f"inspect_array_sharding: callback must be a function, got {callback!r}")
    if not hasattr(value, "sharding"):
        raise TypeError(f"inspect_array_sharding: value must be an array, got {value!r:.100}")
    if isinstance(value, Tracer) and value.sharding is None:
        inspect_p.bind(value, callback=callback)
    else:
        callback(placement("inspect_array_sharding", value))


@api_boundary
def visualize_array_sharding(arr: Any, **kwargs: Any) -> None:
    """Print which device holds which part of an array (see `visualize_sharding`).

    Of a traced value over Auto axes it is printed when the program is lowered.

    Example:
        >>> import weft, numpy as np
        >>> weft.debug.visualize_array_sharding(weft.device_put(np.ones(4)))
        ┌─────────┐
        │  CPU 0  │
        └─────────┘
    """
    shape = arr.shape
    inspect_array_sharding(arr, callback=lambda s: visualize_sharding(shape, s, **kwargs))


# The op -----------------------------------------------------------------------------------------


def _impl(x: Any, *, callback: Callable) -> list:
    callback(x.sharding)
    return []


def _jvp(primals: list, tangents: list, *, callback: Callable) -> tuple:
    return inspect_p.bind(*primals, callback=callback), []


def _batch(axis: AxisData, args: list, dims: list, *, callback: Callable) -> tuple:
    return inspect_p.bind(*args, callback=callback), []


def _lower(ctx: RuleContext, x: ir.Value, *, callback: Callable) -> list:
    """Return a call that nothing runs: `tell` takes it out, having read its result's sharding."""
    module = ctx.module
    number = len(module.inspections)
    module.inspections.append((callback, ctx.eqn.source))
    if module.mesh is None or not module.use_shardy:
        return []
    if module.manual_axes:
        raise ValueError(
            f"inspect_array_sharding at {ctx.eqn.source}: in shard_map, {ctx.avals_in[0]} is one "
            "device's part; look at the argument outside of shard_map"
        )
    attrs = {
        "call_target_name": ctx.string(TARGET),
        "has_side_effect": ctx.bool(True),
        "backend_config": ctx.string(str(number)),
    }
    if x.type.rank:
        shape = tuple(x.type.shape)
        attrs["sdy.sharding_rule"] = ctx.attr(batch_rule_text((shape, shape), 1, shape))
    ctx.op("stablehlo.custom_call", [x], [x.type], attrs)
    return []


inspect_p = Primitive(
    "inspect_sharding",
    abstract=lambda aval, callback: [],
    effects=lambda avals, params: _EFFECTS,
    impl=_impl,
    jvp=_jvp,
    transpose=lambda cts, *args, **params: [None] * len(args),
    batch=_batch,
    lower=_lower,
    multiple_results=True,
    own_types=True,
)


# Telling ----------------------------------------------------------------------------------------


def tell(program: Program, tells: bool) -> None:
    """Take the marks out of a lowered program and, if it tells, call the callbacks.

    Raises ValueError if the program has no Shardy shardings to propagate.
    """
    told: list[tuple[Callable, Any]] = []
    if program.partitions == 1:
        default: Any = SingleDeviceSharding(program.devices[0]) if program.devices else None
        if isinstance(program.mesh, Mesh):
            default = NamedSharding(program.mesh, PartitionSpec())
        told = [(callback, default) for callback, _ in program.inspections]
    elif not program.use_shardy:
        where = program.inspections[0][1]
        raise ValueError(
            f"inspect_array_sharding at {where}: without Shardy only XLA's partitioner knows where "
            "a value is placed; set weft.config.use_shardy"
        )
    else:
        with mlir.context(), mlir.unknown_location():
            if tells:
                told = _propagated(program)
            for op in _marks(program.module):
                op.erase()
    for callback, sharding in told if tells else ():
        callback(sharding)


def _propagated(program: Program) -> list[tuple[Callable, Any]]:
    module = propagate(clone(program.module))
    mesh = read_mesh(module)
    told = []
    for op in _marks(module):
        dims: Sequence[Sequence[sdy.AxisRef]] = [()] * op.operands[0].type.rank
        if "sdy.sharding" in op.attributes:
            dims = sdy.dims_of(sdy.per_value(op.attributes["sdy.sharding"])[0])
        atoms = tuple(tuple(i for ref in axes for i in mesh.atoms_of(*ref)) for axes in dims)
        layout = AxisLayout(mesh, tuple(op.operands[0].type.shape), atoms)
        callback, _ = program.inspections[int(op.attributes["backend_config"].value)]
        told.append((callback, sharding_of_layout(program, layout)))
    return told


def _marks(module: ir.Module) -> list[Any]:
    marks: list[Any] = []

    def look(view: ir.Operation) -> Any:
        op = view.operation
        if op.name == "stablehlo.custom_call" and op.attributes["call_target_name"].value == TARGET:
            marks.append(op)
        return mlir.ir.WalkResult.ADVANCE

    module.operation.walk(look)
    return marks
