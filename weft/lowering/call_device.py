# Tests: tests/api/test_callback.py
"""The device that makes a callback's call: what `sharding=` of callbacks asks for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from weft._xla import mlir
from weft._xla.mlir import ir
from weft.sharding.named import NamedSharding, Sharding

if TYPE_CHECKING:
    from weft.driver.program import Program
    from weft.lowering.context import RuleContext
    from weft.runtime.backend import Device
    from weft.sharding.physical import SingleDeviceSharding

MARK = "weft_device"
"""The frontend attribute of a call with the mesh position of its device."""


class CalledOn:
    """A call of a program that one device has to make."""

    __slots__ = ("device", "label")

    def __init__(self, device: Device, label: str) -> None:
        self.device, self.label = device, label

    def check(self, devices: Sequence[Any]) -> None:
        """Raise ValueError if the program does not run on the device."""
        if self.device not in devices:
            raise ValueError(
                f"{self.label}: sharding asks for the device {self.device}, but the program runs "
                f"on {', '.join(map(str, devices))}. Name one of these, or leave sharding out"
            )


def device_of(api: str, sharding: SingleDeviceSharding | None) -> Any:
    """Return the device of a callback's `sharding`, or None; raises unless it is exactly one."""
    if sharding is None:
        return None
    if not isinstance(sharding, Sharding | NamedSharding):
        raise TypeError(
            f"{api}: sharding must be a weft.sharding.SingleDeviceSharding or None, got "
            f"{sharding!r:.100}"
        )
    if sharding.num_devices != 1:
        raise ValueError(
            f"{api}: sharding names the one device that makes the call, such as "
            f"weft.sharding.SingleDeviceSharding(weft.devices()[0]); got {sharding!r}. The "
            "callback gets whole arrays wherever they are, so nothing else is needed"
        )
    (device,) = sharding.device_set
    return device


def mark(ctx: RuleContext, attrs: dict[str, Any], device: Device, label: str) -> None:
    """Note in the attributes of a call which device makes it."""
    module = ctx.module
    if module.manual_axes:
        raise ValueError(
            f"{label}: in shard_map each device makes the call for its own shard, so sharding= has "
            "no place; leave it out, or call outside of shard_map"
        )
    call = CalledOn(device, label)
    module.keepalives.append(call)
    if module.num_partitions > 1 and hasattr(module.mesh, "devices"):
        devices = list(module.mesh.devices.flat)
        call.check(devices)
        attrs["mhlo.frontend_attributes"] = ctx.attr(f'{{{MARK} = "{devices.index(device)}"}}')


def marked(op: ir.Operation) -> int | None:
    """Return the mesh position of the device that has to make a call, or None."""
    if "mhlo.frontend_attributes" in op.attributes:
        for entry in op.attributes["mhlo.frontend_attributes"]:
            if entry.name == MARK:
                return int(entry.attr.value)
    return None


def settle(program: Program, module: ir.Module, localized: bool) -> Any:
    """Return the module to compile: XLA's partitioner is told who makes the calls.

    Left alone, it makes them on every device, and refuses those with effects (quirks.GSPMD_CALLS).

    localized: weft's partitioner made the program of each device, and has seen the marks.

    Raises:
      ValueError: a call asks for a device that the program does not run on, or for a native target
        that is not registered for its devices.
    """
    for call in program.keepalives:
        if hasattr(call, "check"):  # it says where it cannot be made
            call.check(program.devices)
    if localized or len(program.devices) == 1 or not (program.host_callbacks or program.keepalives):
        return module
    with mlir.context(), mlir.unknown_location():
        calls: list[tuple[ir.Operation, int]] = []
        _find(module.body, calls)
        if not calls:
            return module
        module = mlir.parse(module.operation.get_asm(enable_debug_info=True))
        calls.clear()
        _find(module.body, calls)
        for op, position in calls:
            (_place_by_shardy if program.use_shardy else _place)(module, op, position)
    return module


def _find(block: Any, calls: list[tuple[ir.Operation, int]]) -> None:
    """Return calls of whole arrays that one device makes, with its position."""
    for view in block.operations:
        op = view.operation
        if op.name == "stablehlo.custom_call":
            placed = {"sdy.sharding", "mhlo.sharding", "sdy.sharding_rule"} & {*op.attributes}
            target = op.attributes["call_target_name"].value
            effect = "has_side_effect" in op.attributes and op.attributes["has_side_effect"].value
            whole = effect or target.startswith("xla_ffi_python_")
            if whole and not placed and not target.startswith("xla_ffi_partitioned_"):
                calls.append((op, marked(op) or 0))
        elif op.name != "sdy.manual_computation":
            for region in op.regions:
                for inner in region.blocks:
                    _find(inner, calls)


def _place(module: ir.Module, op: ir.Operation, position: int) -> None:
    op.attributes["mhlo.sharding"] = ir.StringAttr.get(f"{{maximal device={position}}}")


def _place_by_shardy(module: ir.Module, op: ir.Operation, position: int) -> None:
    """Return a mesh of the one device, and whole operands: XLA would warn of gathering them."""
    if not op.attributes["call_target_name"].value.startswith("xla_ffi_python_"):
        return _on_every_device(module, op)
    for i, x in enumerate(op.operands):
        if isinstance(x.type, ir.RankedTensorType):
            dims = ", ".join(["{}"] * x.type.rank)
            whole = ir.Operation.create(
                "sdy.sharding_constraint",
                results=[x.type],
                operands=[x],
                attributes={"sharding": ir.Attribute.parse(f"#sdy.sharding<@mesh, [{dims}]>")},
                ip=ir.InsertionPoint(op),
            )
            op.operands[i] = whole.results[0]
    name = f"maximal_mesh_{position}"
    if name not in {_symbol(o.operation) for o in module.body.operations}:
        attrs = {
            "sym_name": ir.StringAttr.get(name),
            "mesh": ir.Attribute.parse(f"#sdy.mesh<[], device_ids=[{position}]>"),
        }
        first = ir.InsertionPoint.at_block_begin(module.body)
        ir.Operation.create("sdy.mesh", attributes=attrs, ip=first)
    each = [f"<@{name}, []>"] * max(len(op.results), 1)
    text = f"#sdy.sharding_per_value<[{', '.join(each)}]>"
    op.attributes["sdy.sharding"] = ir.Attribute.parse(text)


def _on_every_device(module: ir.Module, op: ir.Operation) -> None:
    """Put a native call with effects in a manual region: XLA places only Python's itself."""
    operands = list(op.operands)
    types = [x.type for x in operands]
    if not operands and not op.results:
        target = op.attributes["call_target_name"].value.removesuffix(".together")
        raise ValueError(
            f"ffi_call of {target!r} is called for its effect, with neither "
            "operands nor results: XLA's own partitioner cannot place such a call. "
            "Give it an operand, or use weft's partitioner"
        )
    (declared,) = [o.operation for o in module.body.operations if _symbol(o.operation) == "mesh"]
    axes = re.findall(r'"[^"]+"(?==)', str(declared.attributes["mesh"]))

    def whole(values: list) -> ir.Attribute:
        ranks = [t.rank if isinstance(t, ir.RankedTensorType) else 0 for t in values]
        each = [f"<@mesh, [{', '.join(['{}'] * rank)}]>" for rank in ranks]
        return ir.Attribute.parse(f"#sdy.sharding_per_value<[{', '.join(each)}]>")

    results = [r.type for r in op.results]
    region = ir.Operation.create(
        "sdy.manual_computation",
        results=results,
        operands=operands,
        attributes={
            "in_shardings": whole(types),
            "out_shardings": whole(results),
            "manual_axes": ir.Attribute.parse(f"#sdy<manual_axes{{{', '.join(axes)}}}>"),
        },
        regions=1,
        ip=ir.InsertionPoint(op),
    )
    block = region.regions[0].blocks.append(*types)
    for old, new in zip(op.results, region.results, strict=True):
        old.replace_all_uses_with(new)
    # The call moves into the region with the region's arguments as operands.
    op.detach_from_parent()
    block.append(op)
    for i, argument in enumerate(list(block.arguments)):
        op.operands[i] = argument
    ir.Operation.create("sdy.return", operands=list(op.results), ip=ir.InsertionPoint(block))


def _symbol(op: ir.Operation) -> str:
    return op.attributes["sym_name"].value if "sym_name" in op.attributes else ""
