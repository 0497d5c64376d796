"""ffi_call: one primitive for every native target, with all its rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from weft.core import dtypes
from weft.core.aval import TOKEN, AbstractToken, ShapedArray
from weft.core.effects import FFI
from weft.core.jaxpr import NO_EFFECTS
from weft.core.primitive import Primitive
from weft.core.source import capture
from weft.core.trace import Tracer, typeof
from weft.ffi import attributes as attrs
from weft.ffi.registry import check_registered, is_batch_partitionable
from weft.ffi.rule import ShardingRule, as_rule, batch_rule
from weft.transforms.boundary import api_boundary

VMAP_METHODS = (
    "sequential",
    "sequential_unrolled",
    "expand_dims",
    "broadcast_all",
    "legacy_vectorized",
)


# The primitive --------------------------------------------------------------------------------


def _abstract(*avals: Any, results: tuple, **params: Any) -> list:
    return list(results)


def _effects(avals: Any, params: dict[str, Any]) -> frozenset:
    return frozenset({FFI}) if params["has_side_effect"] else NO_EFFECTS


def _jvp(primals: Any, tangents: Any, *, target: str, **params: Any) -> tuple:
    raise TypeError(
        f"ffi_call of {target!r} has no derivative: native code has none of its own. Write it as\n"
        f"    call = weft.custom_vjp(lambda *args: weft.ffi.ffi_call({target!r}, …)(*args))\n"
        "    call.defvjp(forward, backward)  # forward returns (result, residuals)\n"
        "or use weft.ffi.differentiable(forward, backward)"
    )


def _batch(axis: Any, args: Any, dims: Any, **params: Any) -> tuple:
    from weft.ops.shape import broadcast_to_dim, expand_dims, moveaxis

    method, target = params["vmap_method"], params["target"]
    if method is None:
        raise ValueError(
            f"ffi_call of {target!r} under vmap: say how it batches with vmap_method=, one of "
            f"{', '.join(map(repr, VMAP_METHODS))}. 'broadcast_all' calls it once on arrays with a "
            "new leading dimension, 'sequential' once for each example"
        )
    batched = [d is not None for d in dims]
    if method in ("sequential", "sequential_unrolled"):
        return _batch_sequential(axis, args, dims, params)
    moved = []
    for a, d in zip(args, dims, strict=True):
        if d is not None:
            a = moveaxis(a, d, 0)
        elif method == "broadcast_all":
            a = broadcast_to_dim(a, 0, axis.size)
        elif method == "expand_dims":
            a = expand_dims(a, (0,))
        moved.append(a)
    wide = [b or method != "legacy_vectorized" for b in batched]
    full = [b or method == "broadcast_all" for b in batched]
    rule = params["sharding_rule"]
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
            "num_batch_dims": params["num_batch_dims"] + 1,
            "input_layouts": tuple(
                _grown(layout) if w else layout
                for layout, w in zip(params["input_layouts"], wide, strict=True)
            ),
            "output_layouts": tuple(_grown(layout) for layout in params["output_layouts"]),
        },
    )
    return outs, [0 if isinstance(r, ShapedArray) else None for r in results]


def _batched_rule(rule: ShardingRule, wide: Sequence[bool], full: Sequence[bool]) -> ShardingRule:
    """The rule with a batch factor; operands of size 1 there get a factor of their own."""
    grown = rule.batched(full)
    used = {f for g in grown.operands + grown.results for f in g}
    operands = []
    for i, (group, w, f) in enumerate(zip(grown.operands, wide, full, strict=True)):
        if w and not f:
            name = next(n for n in (f"one{i}_{k}" for k in range(99)) if n not in used)
            group = (name, *group)
        operands.append(group)
    grown.operands = tuple(operands)
    return grown


def _grown(layout: tuple | None) -> tuple | None:
    """A minor-to-major layout with a new, slowest dimension 0."""
    return None if layout is None else (*(d + 1 for d in layout), 0)


def _batch_sequential(axis: Any, args: Any, dims: Any, params: dict[str, Any]) -> tuple:
    from weft.ops.control.scan import scan
    from weft.ops.shape import moveaxis

    moved = [a if d is None else moveaxis(a, d, 0) for a, d in zip(args, dims, strict=True)]
    batched = [d is not None for d in dims]

    def body(carry: Any, xs: Any) -> tuple:
        given = iter(xs)
        full = [next(given) if b else a for a, b in zip(moved, batched, strict=True)]
        return carry, tuple(ffi_call_p.bind(*full, **params))

    xs = tuple(a for a, b in zip(moved, batched, strict=True) if b)
    unroll = axis.size if params["vmap_method"] == "sequential_unrolled" else 1
    _, outs = scan(body, (), xs, length=axis.size, unroll=unroll)
    return list(outs), [0] * len(outs)


def _lower(ctx: Any, *operands: Any, **params: Any) -> list:
    return emit_call(ctx, operands, ctx.avals_in, ctx.avals_out, **params)


def emit_call(
    ctx: Any,
    operands: Sequence[Any],
    avals_in: Sequence[Any],
    avals_out: Sequence[Any],
    *,
    target: str,
    attributes: attrs.Frozen,
    has_side_effect: bool,
    input_layouts: Sequence[Any],
    output_layouts: Sequence[Any],
    aliases: Sequence[tuple[int, int]],
    api_version: int,
    legacy_config: str | None,
    sharding_rule: ShardingRule | None,
    num_batch_dims: int,
    **params: Any,
) -> list:
    """Emits the custom call, always with layouts: XLA's partitioner aborts without them."""
    check_registered(target, ctx.module.platforms, ctx.eqn.source)
    entries: dict[str, Any] = {
        "call_target_name": ctx.string(target),
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
    rule = sharding_rule
    if ctx.module.num_partitions > 1 and avals_out:
        if num_batch_dims and is_batch_partitionable(target):
            if rule is None:
                rule = batch_rule(avals_in, avals_out, num_batch_dims)
            lead = avals_out[0].shape[:num_batch_dims]
            if all(a.shape[:num_batch_dims] == lead for a in (*avals_in, *avals_out)):
                entries["mhlo.frontend_attributes"] = ctx.attr(
                    f'{{num_batch_dims = "{num_batch_dims}"}}'
                )
        if rule is not None and ctx.module.use_shardy:
            text = rule.text(avals_in, avals_out, f"ffi_call of {target!r}")
            entries["sdy.sharding_rule"] = ctx.attr(text)
    types = [ctx.type_of(a) for a in avals_out]
    return list(ctx.op("stablehlo.custom_call", list(operands), types, entries))


def _layouts(ctx: Any, avals: Sequence[Any], layouts: Sequence[Any]) -> Any:
    texts = []
    for aval, layout in zip(avals, layouts, strict=True):
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
    sharding="ffi_call",  # type: ignore[arg-type]
    multiple_results=True,
)


# The public function --------------------------------------------------------------------------


@api_boundary
def ffi_call(
    target_name: str,
    result_shape_dtypes: Any,
    *,
    has_side_effect: bool = False,
    vmap_method: str | None = None,
    input_layouts: Sequence[Any] | None = None,
    output_layouts: Any = None,
    input_output_aliases: Mapping[int, int] | None = None,
    custom_call_api_version: int = 4,
    legacy_backend_config: str | None = None,
    sharding_rule: str | ShardingRule | None = None,
    num_batch_dims: int = 0,
) -> Callable[..., Any]:
    """A function that calls the native target `target_name` with its operands and attributes.

    result_shape_dtypes: anything with shape and dtype, or a sequence of such; the call returns
    one array or a list of them. has_side_effect: keep the call even if no result is used.
    vmap_method: how vmap batches it: 'broadcast_all' and 'expand_dims' call it once with a new
    leading dimension (of size 1 on unbatched operands for expand_dims), 'sequential' and
    'sequential_unrolled' once for each example, 'legacy_vectorized' leaves unbatched operands as
    they are. input_layouts, output_layouts: per operand and result the dimensions from slowest
    to fastest, None for row-major. input_output_aliases: operand -> result that shares its
    memory. custom_call_api_version: 4 for XLA's typed FFI; 1 to 3 for the untyped calls of old,
    configured by the string legacy_backend_config. sharding_rule: an Einstein-like rule
    (`ShardingRule`) along which the call may run on shards. num_batch_dims: leading dimensions
    that the target, registered as batch-partitionable, treats independently.

    The returned function takes operands by position and attributes by keyword: bools, ints,
    floats, NumPy scalars, strings, 1-D arrays, enums, dicts of these.

    Raises TypeError or ValueError naming the argument; an unregistered target raises when the
    call is lowered.

    Source: XLA, "Foreign function interface"; Shardy, `op_sharding_rule`.

    >>> import weft
    >>> call = weft.ffi.ffi_call("no_such_target", weft.ShapeDtypeStruct((2,), "float32"))
    >>> call(weft.numpy.ones(2))
    Traceback (most recent call last):
        ...
    ValueError: ffi_call (...): target 'no_such_target' is not registered for platform 'cpu'...
    """
    if not isinstance(target_name, str) or not target_name:
        raise TypeError(f"ffi_call: target_name must be a non-empty string, got {target_name!r}")
    what = f"ffi_call of {target_name!r}"
    single = not isinstance(result_shape_dtypes, Sequence)
    results = tuple(
        _result(what, i, r)
        for i, r in enumerate([result_shape_dtypes] if single else result_shape_dtypes)
    )
    if vmap_method is not None and vmap_method not in VMAP_METHODS:
        raise ValueError(
            f"{what}: vmap_method must be one of {', '.join(map(repr, VMAP_METHODS))} or None, got "
            f"{vmap_method!r}"
        )
    if custom_call_api_version not in (1, 2, 3, 4):
        raise ValueError(
            f"{what}: custom_call_api_version must be 4 (typed FFI) or 1, 2, 3 (untyped), got "
            f"{custom_call_api_version!r}"
        )
    if legacy_backend_config is not None and custom_call_api_version == 4:
        raise ValueError(
            f"{what}: legacy_backend_config is for custom_call_api_version < 4; pass attributes as "
            "keyword arguments of the call"
        )
    rule = as_rule(sharding_rule)
    given_outputs = [output_layouts] if single and output_layouts is not None else output_layouts
    outs = _check_layouts(what, "output_layouts", given_outputs, results)
    aliases = tuple(sorted((input_output_aliases or {}).items()))

    @api_boundary
    def call(*args: Any, **kwargs: Any) -> Any:
        avals = [typeof(a) for a in args]
        if kwargs and custom_call_api_version < 4:
            raise ValueError(
                f"{what}: attributes need custom_call_api_version=4; an untyped call takes "
                "legacy_backend_config"
            )
        for name, value in kwargs.items():
            if isinstance(value, Tracer):
                raise TypeError(
                    f"{what}: attribute {name!r} is a traced array; attributes are constants of "
                    "the compiled program. Pass it as an operand, or mark it static"
                )
        frozen = ("dict", tuple((k, attrs.freeze(k, v)) for k, v in sorted(kwargs.items())))
        ins = _check_layouts(what, "input_layouts", input_layouts, avals)
        _check_aliases(what, aliases, avals, results, ins, outs)
        _check_batch_dims(what, num_batch_dims, avals, results)
        if rule is not None:
            rule.sizes(avals, results, what)
        result = ffi_call_p.bind(
            *args,
            target=target_name,
            results=results,
            attributes=frozen,
            has_side_effect=bool(has_side_effect),
            vmap_method=vmap_method,
            input_layouts=ins,
            output_layouts=outs,
            aliases=aliases,
            api_version=int(custom_call_api_version),
            legacy_config=legacy_backend_config,
            sharding_rule=rule,
            num_batch_dims=int(num_batch_dims),
        )
        return result[0] if single else result

    return call


def _result(what: str, i: int, r: Any) -> Any:
    if r is None or isinstance(r, AbstractToken):
        return TOKEN
    if not hasattr(r, "shape") or not hasattr(r, "dtype"):
        raise TypeError(
            f"{what}: result_shape_dtypes[{i}] must have shape and dtype, such as "
            f"weft.ShapeDtypeStruct((2, 3), 'float32'), got {type(r).__name__}"
        )
    for d in r.shape:
        if isinstance(d, Tracer):
            raise TypeError(
                f"{what}: the shape of result {i} depends on a traced value ({d!r}, made at "
                f"{d.source() or capture()}); shapes must be known while tracing. Mark what they "
                "depend on static"
            )
    return ShapedArray(tuple(r.shape), dtypes.canonicalize_dtype(r.dtype))


def _check_layouts(what: str, name: str, layouts: Any, avals: Sequence[Any]) -> tuple:
    """Layouts from slowest to fastest as XLA's minor-to-major tuples."""
    if layouts is None:
        return (None,) * len(avals)
    if len(layouts) != len(avals):
        raise ValueError(f"{what}: {name} has {len(layouts)} entries for {len(avals)} arrays")
    checked = []
    for i, (layout, aval) in enumerate(zip(layouts, avals, strict=True)):
        if layout is None:
            checked.append(None)
            continue
        order = tuple(getattr(layout, "major_to_minor", layout))
        if sorted(order) != list(range(len(aval.shape))):
            raise ValueError(
                f"{what}: {name}[{i}] is {order}, which is not an order of the {len(aval.shape)} "
                f"dimensions of {aval.str_short()}"
            )
        checked.append(tuple(reversed(order)))
    return tuple(checked)


def _check_aliases(
    what: str, aliases: Any, avals: Any, results: Any, ins: Sequence, outs: Sequence
) -> None:
    taken: set[int] = set()
    for i, o in aliases:
        if not 0 <= i < len(avals):
            raise ValueError(
                f"{what}: input_output_aliases names operand {i}; the call has {len(avals)}"
            )
        if not 0 <= o < len(results):
            raise ValueError(
                f"{what}: input_output_aliases names result {o}; the call has {len(results)}"
            )
        if o in taken:
            raise ValueError(f"{what}: input_output_aliases gives result {o} to two operands")
        taken.add(o)
        a, r = avals[i], results[o]
        if (a.shape, a.dtype) != (r.shape, r.dtype):
            raise ValueError(
                f"{what}: operand {i} of type {a.str_short()} cannot share memory with result {o} "
                f"of type {r.str_short()}; aliased arrays have one shape and dtype"
            )
        if ins[i] != outs[o]:
            raise ValueError(
                f"{what}: operand {i} and result {o} are aliased but have different layouts"
            )


def _check_batch_dims(what: str, n: int, avals: Any, results: Any) -> None:
    if not isinstance(n, int) or n < 0:
        raise ValueError(f"{what}: num_batch_dims must be a nonnegative int, got {n!r}")
    if not n:
        return
    lead = results[0].shape[:n] if results else None
    for kind, group in (("operand", avals), ("result", results)):
        for i, a in enumerate(group):
            if len(a.shape) < n:
                raise ValueError(
                    f"{what}: num_batch_dims={n} is larger than the rank of {kind} {i} of type "
                    f"{a.str_short()}"
                )
            if lead is not None and a.shape[:n] != lead:
                raise ValueError(
                    f"{what}: the first {n} dimensions of {kind} {i} of type {a.str_short()} "
                    f"differ from those of result 0, {lead}; batch dimensions agree everywhere"
                )


def ffi_lowering(
    call_target_name: str,
    *,
    operand_layouts: Sequence[Any] | None = None,
    result_layouts: Sequence[Any] | None = None,
    backend_config: str | Mapping[str, Any] | None = None,
    has_side_effect: bool = False,
    api_version: int = 4,
) -> Callable[..., list]:
    """A lowering rule `(ctx, *operands, **attributes)` for a `Primitive` backed by native code.

    >>> import weft
    >>> rule = weft.ffi.ffi_lowering("my_target")
    """

    def lower(ctx: Any, *operands: Any, **kwargs: Any) -> list:
        what = f"ffi_lowering of {call_target_name!r}"
        config = kwargs if backend_config is None else backend_config
        legacy = config if isinstance(config, str) else None
        items = () if legacy is not None else sorted(config.items())
        return emit_call(
            ctx,
            operands,
            ctx.avals_in,
            ctx.avals_out,
            target=call_target_name,
            attributes=("dict", tuple((k, attrs.freeze(k, v)) for k, v in items)),
            has_side_effect=has_side_effect,
            input_layouts=_check_layouts(what, "operand_layouts", operand_layouts, ctx.avals_in),
            output_layouts=_check_layouts(what, "result_layouts", result_layouts, ctx.avals_out),
            aliases=(),
            api_version=api_version,
            legacy_config=legacy,
            sharding_rule=None,
            num_batch_dims=0,
        )

    return lower
