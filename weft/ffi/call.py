"""ffi_call and ffi_lowering: native code called by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import weft.ffi.attributes as attrs
from weft.core.boundary import api_boundary
from weft.core.errors import ShardingTypeError
from weft.core.trace import Tracer
from weft.ffi.checks import (
    alias_pairs,
    check_aliases,
    check_batch_dims,
    check_layouts,
    operand_types,
    result,
)
from weft.ffi.op import check_vmap_method, emit_call, ffi_call_p, note
from weft.ffi.rule import ShardingRule, as_rule, batch_rule
from weft.sharding.explicit import reshard
from weft.sharding.spec import PartitionSpec

if TYPE_CHECKING:
    from weft._xla.mlir import ir
    from weft.core.aval import ShapedArray
    from weft.lowering.context import RuleContext
    from weft.typing import ArrayLike


def _check_options(label: str, vmap_method: str | None, version: int, config: object) -> None:
    check_vmap_method(label, vmap_method)
    if version not in (1, 2, 3, 4):
        raise ValueError(
            f"{label}: custom_call_api_version must be 4 (typed FFI) or 1, 2, 3 (untyped), got "
            f"{version!r}"
        )
    if not isinstance(config, str | None):
        raise TypeError(f"{label}: legacy_backend_config must be a string, got {config!r}")
    if config is not None and version == 4:
        raise ValueError(
            f"{label}: legacy_backend_config is for custom_call_api_version < 4; pass attributes "
            "as keyword arguments of the call"
        )


def _check_attributes(label: str, attributes: dict[str, Any], version: int) -> None:
    if attributes and version < 4:
        raise ValueError(
            f"{label}: attributes need custom_call_api_version=4; an untyped call takes "
            "legacy_backend_config"
        )
    for name, value in attributes.items():
        if isinstance(value, Tracer):
            raise TypeError(
                f"{label}: attribute {name!r} is a traced array; attributes are constants of "
                "the compiled program. Pass it as an operand, or mark it static"
            )


@api_boundary
def ffi_call(
    target_name: str,
    result_shape_dtypes: Any,
    *,
    has_side_effect: bool = False,
    vmap_method: str | None = None,
    input_layouts: Sequence[Any] | None = None,
    output_layouts: object = None,
    input_output_aliases: Mapping[int, int] | None = None,
    custom_call_api_version: int = 4,
    legacy_backend_config: str | None = None,
    sharding_rule: str | ShardingRule | None = None,
    num_batch_dims: int = 0,
) -> Callable[..., Any]:
    """Return a function that calls the native target `target_name` with operands and attributes.

    result_shape_dtypes: anything with shape and dtype (None: a token), or a sequence of such; the
    call returns one array, or a tuple or list of them. has_side_effect: keep the call
    even if no result is used.
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
    floats, NumPy scalars, strings, arrays, enums, dicts of these.

    Raises TypeError or ValueError naming the argument; an unregistered target raises
    UnregisteredTargetError, a ValueError and RuntimeError, when the program is compiled.

    Source: XLA, "Foreign function interface"; Shardy, `op_sharding_rule`.

    >>> import weft
    >>> call = weft.ffi.ffi_call("no_such_target", weft.ShapeDtypeStruct((2,), "float32"))
    >>> call(weft.numpy.ones(2))
    Traceback (most recent call last):
        ...
    weft.ffi.registry.UnregisteredTargetError: ...: target 'no_such_target' is not registered...
    """
    if not isinstance(target_name, str) or not target_name:
        raise TypeError(f"ffi_call: target_name must be a non-empty string, got {target_name!r}")
    label = f"ffi_call of {target_name!r}"
    single = not isinstance(result_shape_dtypes, Sequence)
    as_tuple = isinstance(result_shape_dtypes, tuple)
    results = tuple(
        result(label, i, r)
        for i, r in enumerate([result_shape_dtypes] if single else result_shape_dtypes)
    )
    # All of this is fixed before the first call; below is what depends on its arguments.
    _check_options(label, vmap_method, custom_call_api_version, legacy_backend_config)
    rule = as_rule(sharding_rule)
    given_outputs = [output_layouts] if single and output_layouts is not None else output_layouts
    out_layouts = check_layouts(label, "output_layouts", given_outputs, results)
    aliases = alias_pairs(label, input_output_aliases)

    @api_boundary
    def call(*args: ArrayLike, **kwargs: object) -> Any:
        avals = operand_types(label, args)
        _check_attributes(label, kwargs, custom_call_api_version)
        # Params of an op are compared and hashed, so attributes become tuples.
        frozen = attrs.freeze_all(label, kwargs)
        ins = check_layouts(label, "input_layouts", input_layouts, avals)
        check_aliases(label, aliases, avals, results, ins, out_layouts)
        check_batch_dims(label, num_batch_dims, avals, results)
        fitted = None if rule is None else rule.fit(len(avals), len(results))
        if fitted is not None:
            fitted.sizes(avals, results, label)
        outs = ffi_call_p.bind(
            *place(args, avals, results, fitted, num_batch_dims, label),
            target=target_name,
            results=results,
            attributes=frozen,
            has_side_effect=bool(has_side_effect),
            vmap_method=vmap_method,
            input_layouts=ins,
            output_layouts=out_layouts,
            aliases=aliases,
            api_version=int(custom_call_api_version),
            legacy_config=legacy_backend_config,
            sharding_rule=fitted,
            num_batch_dims=int(num_batch_dims),
            callback=None,
        )
        if single:
            return outs[0]
        return tuple(outs) if as_tuple else list(outs)

    return call


def place(
    args: Sequence[Any],
    avals: Sequence[Any],
    results: Sequence[Any],
    rule: ShardingRule | None,
    num_batch_dims: int,
    label: str,
) -> Sequence[Any]:
    """Return the operands, made whole in dimensions that explicit shardings must not split.

    Raises ShardingTypeError where nothing says which those are: every device would gather all.
    """
    if all(a.sharding is None for a in avals):
        return args
    has_rule = rule is not None or num_batch_dims > 0
    rule = rule or batch_rule(avals, results, num_batch_dims)
    allowed = rule.splittable()
    placed: list = []
    for x, a, group in zip(args, avals, rule.operands, strict=True):
        if a.sharding is not None:
            axes = [a.sharding.spec.axes_of(d) for d in range(a.ndim)]
            kept = [s if f in allowed else () for s, f in zip(axes, group, strict=True)]
            if kept != axes:
                if not has_rule:
                    raise _without_rule(label, len(placed), a, results)
                whole = PartitionSpec(*(k or None for k in kept))
                x = reshard(x, a.sharding.with_spec(whole))
        placed.append(x)
    return placed


def _without_rule(
    label: str, i: int, aval: ShapedArray, results: Sequence[Any]
) -> ShardingTypeError:
    whole = PartitionSpec(*(None,) * aval.ndim)
    names = " ".join("ijklmnopq"[d % 9] for d in range(aval.ndim))
    like = any(r.shape == aval.shape for r in results)
    rule = f"'{names} -> {names}'" if like and len(results) == 1 else f"'{names}, … -> …'"
    return ShardingTypeError(
        f"{label}: operand {i} of type {aval.str_short()} is split, but nothing says how the call "
        "may be split, so every device would have to gather the whole operand. Say it: "
        f"sharding_rule={rule} names each dimension, those of operands and results that are split "
        "alike by the same letter; num_batch_dims=n is short for n independent leading dimensions. "
        f"Or gather the operand where the program shows it: weft.reshard(x, {whole})"
    )


def ffi_lowering(
    call_target_name: str,
    *,
    operand_layouts: Sequence[Any] | None = None,
    result_layouts: Sequence[Any] | None = None,
    backend_config: str | Mapping[str, Any] | None = None,
    has_side_effect: bool = False,
    operand_output_aliases: Mapping[int, int] | None = None,
    api_version: int = 4,
    sharding_rule: str | ShardingRule | None = None,
    num_batch_dims: int = 0,
) -> Callable[..., list]:
    """Make a lowering rule `(ctx, *operands, **attributes)` for a `Primitive` of native code.

    operand_layouts, result_layouts: dimension orders from fastest to slowest, as XLA has them (of
    `ffi_call` the other way round). backend_config: attributes besides those the rule is called
    with, or for api_version below 4 the call's configuration string. Other arguments as of
    `ffi_call`, with its errors, raised when the rule runs.

    >>> import weft
    >>> rule = weft.ffi.ffi_lowering("my_target")
    """
    label = f"ffi_lowering of {call_target_name!r}"
    if not isinstance(call_target_name, str) or not call_target_name:
        raise TypeError(
            f"ffi_lowering: call_target_name must be a non-empty string, got {call_target_name!r}"
        )
    if api_version not in (1, 2, 3, 4):
        raise ValueError(
            f"{label}: api_version must be 4 (typed FFI) or 1, 2, 3 (untyped), got {api_version!r}"
        )
    rule = as_rule(sharding_rule)

    # JAX gives these layouts from minor to major, ffi_call from major to minor.
    def outward(layouts: Sequence[Any] | None) -> list | None:
        if layouts is None:
            return None
        return [x if x is None or hasattr(x, "major_to_minor") else tuple(x)[::-1] for x in layouts]

    def lower(ctx: RuleContext, *operands: ir.Value, **kwargs: object) -> list:
        typed = api_version == 4
        if typed and isinstance(backend_config, str):
            raise TypeError(f"{label}: backend_config of a typed call must be a dict of attributes")
        if not typed and kwargs:
            raise ValueError(f"{label}: attributes need api_version=4, got {sorted(kwargs)}")
        # The rule's keyword arguments are attributes, which win over the configuration's.
        config = {**(backend_config or {}), **kwargs} if not isinstance(backend_config, str) else {}
        ins = check_layouts(label, "operand_layouts", outward(operand_layouts), ctx.avals_in)
        outs = check_layouts(label, "result_layouts", outward(result_layouts), ctx.avals_out)
        aliases = alias_pairs(label, operand_output_aliases)
        check_aliases(label, aliases, ctx.avals_in, ctx.avals_out, ins, outs)
        check_batch_dims(label, num_batch_dims, ctx.avals_in, ctx.avals_out)
        note(ctx, call_target_name)
        return emit_call(
            ctx,
            operands,
            ctx.avals_in,
            ctx.avals_out,
            target=call_target_name,
            attributes=attrs.freeze_all(label, config),
            has_side_effect=has_side_effect,
            input_layouts=ins,
            output_layouts=outs,
            aliases=aliases,
            api_version=api_version,
            legacy_config=backend_config if isinstance(backend_config, str) else None,
            sharding_rule=rule and rule.fit(len(ctx.avals_in), len(ctx.avals_out)),
            num_batch_dims=num_batch_dims,
        )

    return lower
