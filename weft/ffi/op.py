# Tests: tests/ffi/test_call.py, tests/ffi/test_transforms.py
"""The op of native calls: one primitive for every target, with all its rules."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import weft.ffi.attributes as attrs
from weft._xla.callback import buffer_target_name
from weft.autodiff.shape import broadcast_to_dim, expand_dims, moveaxis
from weft.autodiff.vmap import VMAP_METHODS, AxisData
from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.effects import FFI
from weft.core.jaxpr import NO_EFFECTS
from weft.core.primitive import Primitive
from weft.core.trace import typeof
from weft.ffi.native_errors import note_call
from weft.ffi.registry import check_registered, is_batch_partitionable, let_partition, name_for
from weft.ffi.rule import ShardingRule, batch_rule
from weft.lowering.manual import manual_attr
from weft.ops.control.scan import scan_rows
from weft.runtime.cpu_joint_failure import calls_of, failing_together
from weft.runtime.host_calls import finish_before_exit, reporting

if TYPE_CHECKING:
    from weft._xla.mlir import ir
    from weft.core.aval import AbstractToken
    from weft.ffi.buffer import BufferFunction
    from weft.lowering.context import RuleContext
    from weft.typing import ArrayLike


def check_vmap_method(label: str, method: str | None) -> None:
    if method is not None and method not in VMAP_METHODS:
        raise ValueError(
            f"{label}: vmap_method must be one of {', '.join(map(repr, VMAP_METHODS))} or None, "
            f"got {method!r}"
        )


def _abstract(*avals: AbstractToken | ShapedArray, results: tuple, **params: object) -> list:
    return list(results)


def _factors(avals: list, outs: list, *, target: str, **params: Any) -> str:
    """Return the call's dimensions as factors of explicit sharding types."""
    rule = params["sharding_rule"]
    if rule is None:
        rule = batch_rule(avals, outs, params["num_batch_dims"])
    return rule.factor_text()


def _effects(avals: list, params: dict[str, Any]) -> frozenset:
    return frozenset({FFI}) if params["has_side_effect"] else NO_EFFECTS


def _called(target: str, params: dict[str, Any]) -> str:
    return target if params["callback"] is not None else f"ffi_call of {target!r}"


def _jvp(primals: list, tangents: list, *, target: str, **params: object) -> tuple:
    call = "weft.ffi.buffer_callback(…)"
    if params["callback"] is None:
        call = f"weft.ffi.ffi_call({target!r}, …)"
    raise ValueError(
        f"{_called(target, params)} has no derivative: nobody knows what its code computes. Write "
        f"it as\n    f = weft.custom_vjp(lambda *args: {call}(*args))\n"
        "    f.defvjp(forward, backward)  # forward returns (result, residuals)\n"
        "or use weft.ffi.differentiable(forward, backward)"
    )


def _batch(axis: AxisData, args: list, dims: list, **params: Any) -> tuple:
    method, target = params["vmap_method"], params["target"]
    if method is None:
        raise NotImplementedError(
            f"{_called(target, params)} under vmap: say how it batches with vmap_method=, one of "
            f"{', '.join(map(repr, VMAP_METHODS))}. 'broadcast_all' calls it once on arrays with a "
            "new leading dimension, 'sequential' once for each example"
        )
    batched = [d is not None for d in dims]
    if method in ("sequential", "sequential_unrolled"):
        return _batch_sequential(axis, args, dims, params)
    # An operand that shares memory with a result needs the result's shape.
    aliased = {i for i, _ in params["aliases"]}
    full = [b or method == "broadcast_all" or i in aliased for i, b in enumerate(batched)]
    wide = [f or method == "expand_dims" for f in full]
    moved = []
    # The new dimension goes in front, of its full size or of size 1 as the method says.
    for a, d, f, w in zip(args, dims, full, wide, strict=True):
        if d is not None:
            a = moveaxis(a, d, 0)
        elif f:
            a = broadcast_to_dim(a, 0, axis.size)
        elif w:
            a = expand_dims(a, (0,))
        moved.append(a)
    rule, num_batch_dims = params["sharding_rule"], params["num_batch_dims"] + 1
    if rule is None and not all(wide):
        # Not all operands have the new dimension, so a number of leading ones says too little.
        num_batch_dims = 0
        if is_batch_partitionable(target):
            avals = [_example(a, d) for a, d in zip(args, dims, strict=True)]
            rule = batch_rule(avals, params["results"], params["num_batch_dims"])
    if rule is not None:
        rule = _batched_rule(rule, wide, full)
    results = tuple(
        ShapedArray((axis.size, *r.shape), r.dtype) if isinstance(r, ShapedArray) else r
        for r in params["results"]
    )
    outs = ffi_call_p.bind(
        *moved,
        **{
            **params,
            "results": results,
            "sharding_rule": rule,
            "num_batch_dims": num_batch_dims,
            "input_layouts": tuple(
                _grown(layout) if w else layout
                for layout, w in zip(params["input_layouts"], wide, strict=True)
            ),
            "output_layouts": tuple(_grown(layout) for layout in params["output_layouts"]),
        },
    )
    return outs, [0 if isinstance(r, ShapedArray) else None for r in results]


def _example(x: ArrayLike, dim: int | None) -> ShapedArray:
    """Return the type of one example of a batched operand."""
    aval = typeof(x)
    if dim is None:
        return aval
    return ShapedArray(aval.shape[:dim] + aval.shape[dim + 1 :], aval.dtype)


def _batched_rule(rule: ShardingRule, wide: Sequence[bool], full: Sequence[bool]) -> ShardingRule:
    """Return the rule with a batch factor; operands of size 1 there get a factor of their own."""
    grown = rule.batched(full)
    used = {f for g in grown.operands + grown.results for f in g}
    operands = []
    for i, (group, w, f) in enumerate(zip(grown.operands, wide, full, strict=True)):
        if w and not f:
            name = next(n for n in (f"one{i}_{k}" for k in range(99)) if n not in used)
            group = (name, *group)
        operands.append(group)
    return grown.regrouped(operands, grown.results)


def _grown(layout: tuple | None) -> tuple | None:
    """Return a minor-to-major layout with a new, slowest dimension 0."""
    return None if layout is None else (*(d + 1 for d in layout), 0)


def _batch_sequential(axis: AxisData, args: list, dims: list, params: dict[str, Any]) -> tuple:
    unroll = axis.size if params["vmap_method"] == "sequential_unrolled" else 1
    return scan_rows(partial(ffi_call_p.bind, **params), axis, args, dims, unroll)


def _lower(ctx: RuleContext, *operands: ir.Value, callback: tuple | None, **params: Any) -> list:
    if callback is not None:
        params.update(_host_callback(ctx, params["target"], *callback))
    else:
        note(ctx, params["target"])
    return emit_call(ctx, operands, ctx.avals_in, ctx.avals_out, **params)


def note(ctx: RuleContext, target: str) -> None:
    """Remember where the target is called; that it is registered is checked at compilation."""
    source = ctx.eqn.source
    note_call(ctx.module, target, source, partial(check_registered, target, source))


def _host_callback(
    ctx: RuleContext, label: str, function: BufferFunction, command_buffer: bool
) -> dict[str, Any]:
    """Target and attributes of a call of a Python function on buffers."""
    name = buffer_target_name(ctx.module.platforms[0], command_buffer=command_buffer)
    index = len(ctx.module.host_callbacks)
    called = reporting(function, f"{label} at {ctx.eqn.source}")
    calls = calls_of(ctx.module)
    if calls is not None:
        calls.on_shards = True
        called = failing_together(calls, called, function.write_blanks)
    ctx.module.host_callbacks.append(called)
    return {"target": name, "attributes": ("dict", (("index", ("scalar", "uint64", index)),))}


def emit_call(
    ctx: RuleContext,
    operands: Sequence[Any],
    avals_in: Sequence[Any],
    avals_out: Sequence[Any],
    *,
    target: str,
    attributes: attrs.Frozen = ("dict", ()),
    has_side_effect: bool = False,
    input_layouts: Sequence[Any] | None = None,
    output_layouts: Sequence[Any] | None = None,
    aliases: Sequence[tuple[int, int]] = (),
    api_version: int = 4,
    legacy_config: str | None = None,
    sharding_rule: ShardingRule | None = None,
    num_batch_dims: int = 0,
    **params: object,
) -> list:
    """Emit the custom call, always with layouts: XLA's partitioner aborts without them."""
    finish_before_exit()
    shards = None
    if ctx.module.num_partitions > 1 and avals_out:
        shards = _sharding(
            ctx, target, avals_in, avals_out, sharding_rule, num_batch_dims, bool(aliases)
        )
    entries: dict[str, Any] = {
        "call_target_name": ctx.string(name_for(calls_of(ctx.module), target)),
        "has_side_effect": ctx.bool(has_side_effect),
        "api_version": ctx.i32(api_version),
        "operand_layouts": _layouts(ctx, avals_in, input_layouts),
        "result_layouts": _layouts(ctx, avals_out, output_layouts),
    }
    if api_version == 4:
        entries["backend_config"] = ctx.attr(attrs.text(attributes))
    else:
        entries["backend_config"] = ctx.string(legacy_config or "")
    if aliases:
        single = len(avals_out) == 1
        entries["output_operand_aliases"] = ctx.attr(
            "["
            + ", ".join(
                f"#stablehlo.output_operand_alias<output_tuple_indices = [{'' if single else o}], "
                f"operand_index = {i}, operand_tuple_indices = []>"
                for i, o in aliases
            )
            + "]"
        )
    entries.update(shards or {})
    types = [ctx.type_of(a) for a in avals_out]
    if has_side_effect and ctx.module.manual_axes and not ctx.module.use_shardy:
        entries["mhlo.sharding"] = manual_attr(ctx, types)
    return list(ctx.op("stablehlo.custom_call", list(operands), types, entries))


def _sharding(
    ctx: RuleContext,
    target: str,
    avals_in: Sequence[Any],
    avals_out: Sequence[Any],
    rule: ShardingRule | None,
    num_batch_dims: int,
    aliased: bool,
) -> dict[str, Any]:
    """Return the attributes for partitioners: dimensions along which the call may be split.

    weft's partitioner and Shardy's propagation read the rule. XLA's own partitioner knows
    leading batch dimensions only (quirks.GSPMD_BATCH_CALLS): those that all of them share.
    """
    if rule is None:
        if not num_batch_dims or not is_batch_partitionable(target):
            return {}
        rule = batch_rule(avals_in, avals_out, num_batch_dims)
    else:
        let_partition(target)
    # XLA gathers calls of which no dimension is left besides the batch: GSPMD_BATCH_CALLS.
    entries = {}
    leading = min([rule.leading_shared(), *(len(a.shape) - 1 for a in avals_in)])
    # A call that XLA splits loses its aliases.
    if leading > 0 and not aliased:
        entries["mhlo.frontend_attributes"] = ctx.attr(f'{{num_batch_dims = "{leading}"}}')
    if ctx.module.use_shardy:
        text = rule.text(avals_in, avals_out, f"ffi_call of {target!r}")
        entries["sdy.sharding_rule"] = ctx.attr(text)
    return entries


def _layouts(ctx: RuleContext, avals: Sequence[Any], layouts: Sequence[Any] | None) -> Any:
    texts = []
    for aval, layout in zip(avals, layouts or [None] * len(avals), strict=True):
        rank = len(aval.shape)
        if rank and dtypes.is_extended(aval.dtype):
            rank += len(aval.dtype.physical_shape)
        order = tuple(range(rank - 1, -1, -1)) if layout is None else layout
        body = ", ".join(map(str, order))
        texts.append(
            f"dense<[{body}]> : tensor<{rank}xindex>" if rank else "dense<> : tensor<0xindex>"
        )
    return ctx.attr("[" + ", ".join(texts) + "]")


ffi_call_p = Primitive(
    "ffi_call",
    abstract=_abstract,
    effects=_effects,
    jvp=_jvp,
    batch=_batch,
    lower=_lower,
    sharding=_factors,
    multiple_results=True,
)
