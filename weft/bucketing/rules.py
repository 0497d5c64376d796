# Tests: tests/bucketing/test_call.py
"""How each operation runs on padded operands: a table of rules, and masks where they are needed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft import lax
from weft.autodiff.shape import broadcast_in_dim, reshape
from weft.autodiff.zeros import full
from weft.bucketing.padded import Case
from weft.core.primitive import Primitive
from weft.core.shapes import dimension_groups
from weft.core.trace import typeof
from weft.ops.combiner import IDENTITIES
from weft.ops.reduce import highest, lowest
from weft.sharding.factors import RULES, parse_factors

Results = list
Rule = Callable[[Case], Any]


def apply(c: Case) -> Results:
    """Return the equation's results at padded sizes."""
    p = c.eqn.primitive
    if not c.is_padded:
        outs = c.plain()
    elif c.eqn.effects:
        raise c.refused("it has side effects, and would see the padding")
    else:
        outs = _rule_of(p)(c)
    outs = list(outs) if p.multiple_results else [outs]
    for out, shape in zip(outs, c.out_shapes, strict=True):
        if getattr(out, "shape", ()) != shape:
            raise c.refused(f"its result has shape {out.shape} instead of {shape}")
    return outs


def _rule_of(p: Primitive) -> Rule:
    rule = _RULES.get(p.name)
    if rule is not None:
        return rule
    if p.calls:
        return _call
    if p.sharding == "elementwise" and not p.name.startswith("random_"):
        return _elementwise
    return _independent


# Operations that need no mask ---------------------------------------------------------------------


def _elementwise(c: Case) -> Any:
    c.allow()
    return c.plain()


def _moved(c: Case) -> Any:
    """Bucket broadcasts, transposes, iotas: elements keep their positions from the start on."""
    c.allow("shape", "sharding")
    return c.plain()


def _independent(c: Case) -> Any:
    """Batches, by the factors of the op's sharding: results there depend on nothing beside them."""
    p = c.eqn.primitive
    c.allow()
    if p.sharding not in ("fft", "vectors", "matrices", "batched_custom_call", "sort", "reduce"):
        raise c.refused("no rule says how it treats padding")
    avals = [typeof(x) for x in c.ins]
    outs = [v.aval for v in c.eqn.outvars]
    text = RULES[p.sharding](avals, outs, **c.params)
    (operands, _), _ = parse_factors(text)
    for dims, names in zip(c.dims, operands, strict=True):
        for size, factor in zip(dims, names, strict=True):
            if size is not None and factor[0][0] in "!+*":
                raise c.refused("it mixes elements along the padded dimension")
    return c.plain()


def _random(c: Case) -> Any:
    """Element i of the bits depends on i counted through the shape: its first size is free."""
    c.allow("shape")
    shape = c.slots.params["shape"]
    padded = [i for i, s in enumerate(shape) if s in c.padded.varying]
    rest = math.prod(c.params["shape"][:1]) if padded == [0] else 0
    batched = any(d is not None for dims in c.dims for d in dims)
    if not c.params.get("partitionable", True) or (padded and (not rest or batched)):
        raise c.refused("random numbers of another shape would be others")
    return c.plain()


# Reductions ---------------------------------------------------------------------------------------


NEUTRAL: dict[str, Callable] = {
    **IDENTITIES,
    "sum": IDENTITIES["add"],
    "prod": IDENTITIES["mul"],
    "logsumexp": lowest,
}


def _reduction(neutral: Callable) -> Rule:
    def rule(c: Case) -> Any:
        c.allow()
        return c.bind(c.masked(0, c.params["axes"], neutral))

    return rule


def _arg_reduction(neutral: Callable) -> Rule:
    def rule(c: Case) -> Any:
        c.allow()
        axes = c.params["axes"]
        if len(axes) > 1 and any(c.dims[0][a] is not None for a in axes):
            raise c.refused("positions count through several dimensions, one of them padded")
        # Of equal elements the first counts, which is never one of the padding.
        return c.bind(c.masked(0, axes, neutral))

    return rule


def _cumulative(neutral: Callable) -> Rule:
    def rule(c: Case) -> Any:
        c.allow()
        if not c.params["reverse"]:
            return c.plain()
        return c.bind(c.masked(0, (c.params["axis"],), neutral))

    return rule


def _window(neutral: Callable) -> Rule:
    def rule(c: Case) -> Any:
        c.allow("padding")
        _check_low_padding(c, "padding")
        return c.bind(c.masked(0, range(len(c.dims[0])), neutral))

    return rule


def _check_low_padding(c: Case, name: str) -> None:
    for pair in c.slots.params[name]:
        if c.padded.varies(pair[0]) or (len(pair) > 2 and c.padded.varies(pair[2])):
            raise c.refused(f"its {name} at the start depends on the bucketed size")


def _softmax(c: Case) -> Any:
    c.allow()
    return c.bind(c.masked(0, c.params["axes"], lowest))


def _dot(c: Case) -> Any:
    c.allow()
    (left, right), _ = c.params["dimension_numbers"]
    # Both sides: what is beyond may be infinite, and 0 * inf is NaN.
    return c.bind(c.masked(0, left, NEUTRAL["sum"]), c.masked(1, right, NEUTRAL["sum"]))


def _conv(c: Case) -> Any:
    c.allow("padding")
    _check_low_padding(c, "padding")
    numbers = c.params["dimension_numbers"]
    (batch, feature, *space), kernel = numbers.lhs_spec, numbers.rhs_spec
    if any(c.dims[1][d] is not None for d in kernel[2:]):
        raise c.refused("the window's size is bucketed")
    grouped = c.params["feature_group_count"] > 1 and (
        c.dims[0][feature] is not None or any(c.dims[1][d] is not None for d in kernel[:2])
    )
    if grouped or (c.params["batch_group_count"] > 1 and c.dims[0][batch] is not None):
        raise c.refused("groups are made of the padded dimension")
    lhs = c.masked(0, (feature, *space), NEUTRAL["sum"])
    return c.bind(lhs, c.masked(1, (kernel[1],), NEUTRAL["sum"]))


# Order --------------------------------------------------------------------------------------------


def _sort(c: Case) -> Any:
    c.allow()
    d = c.params["dimension"]
    if all(dims[d] is None for dims in c.dims):
        return c.plain()
    shape = c.ins[0].shape
    beyond = lax.ge(lax.iota("int32", shape[d]), c.size(0, d))
    key = broadcast_in_dim(lax.convert_element_type(beyond, "int32"), shape, (d,))
    return c.bind(key, *c.ins, num_keys=c.params["num_keys"] + 1)[1:]


def _top_k(c: Case) -> Any:
    c.allow()
    return c.bind(c.masked(0, (c.params["axis"],), lowest))


def _shifted(x: Any, starts: Sequence[Any], shape: Sequence[int]) -> Any:
    """Slice the given shape from positions known at run time, perhaps past the end."""
    config = [
        (0, max(s, 0) if not isinstance(at, int) else max(0, at + s - n), 0)
        for at, s, n in zip(starts, shape, x.shape, strict=True)
    ]
    x = lax.pad(x, full((), 0, typeof(x).dtype), config)
    return lax.dynamic_slice(x, [lax.convert_element_type(s, "int32") for s in starts], shape)


def _rev(c: Case) -> Any:
    c.allow()
    x = c.ins[0]
    starts = [
        x.shape[d] - c.size(0, d) if d in c.params["dimensions"] and n is not None else 0
        for d, n in enumerate(c.dims[0])
    ]
    return (
        _shifted(c.plain(), starts, x.shape)
        if any(type(s) is not int for s in starts)
        else c.plain()
    )


# Shapes -------------------------------------------------------------------------------------------


def _slice(c: Case) -> Any:
    c.allow("start_indices", "limit_indices")
    x, n = c.ins[0], c.ins[0].ndim
    starts = [c.number("start_indices", i) for i in range(n)]
    if all(isinstance(s, int) for s in starts):
        return c.plain()
    strides = c.params["strides"] or (1,) * n
    spans = [max(s - 1, 0) * k + min(s, 1) for s, k in zip(c.out_shapes[0], strides, strict=True)]
    y = _shifted(x, starts, spans)
    return lax.slice(y, (0,) * n, spans, strides)


def _split(c: Case) -> Any:
    c.allow("sizes")
    x, axis = c.ins[0], c.params["axis"]
    start: Any = 0
    results = []
    for i, shape in enumerate(c.out_shapes):
        starts = [start if d == axis else 0 for d in range(x.ndim)]
        results.append(_shifted(x, starts, shape))
        start = start + c.number("sizes", i)
    return results


def _concatenate(c: Case) -> Any:
    c.allow()
    d = c.params["dimension"]
    if all(dims[d] is None for dims in c.dims[:-1]):
        return c.plain()
    # Each piece overwrites what is beyond the true end of the one before.
    out = full(c.out_shapes[0], 0, typeof(c.ins[0]).dtype)
    at: Any = np.int32(0)
    for i, x in enumerate(c.ins):
        starts = [at if k == d else np.int32(0) for k in range(x.ndim)]
        out = lax.dynamic_update_slice(out, x, starts)
        at = at + lax.convert_element_type(c.size(i, d), "int32")
    return out


def _pad(c: Case) -> Any:
    c.allow("padding_config")
    _check_low_padding(c, "padding_config")
    value = c.ins[1]
    x = c.ins[0]
    for d, size in enumerate(c.dims[0]):
        if size is not None:
            inside = lax.lt(lax.iota("int32", x.shape[d]), size)
            spread = broadcast_in_dim(inside, x.shape, (d,))
            x = lax.select(spread, x, broadcast_in_dim(value, x.shape, ()))
    return c.bind(x, value)


def _reshape(c: Case) -> Any:
    c.allow("new_sizes", "sharding")
    x, shape = c.ins[0], c.out_shapes[0]
    padded = c.padded
    from_slots = c.operand_slots[0]
    to_slots = c.slots.shapes[0]
    for old, new in dimension_groups(x.shape, shape):
        inner = (*(c.dims[0][i] for i in old[1:]), *(c.out_dims[0][i] for i in new[1:]))
        if any(s is not None for s in inner):
            break
        before = tuple(from_slots[i] for i in old)
        if not padded.agree(before, tuple(to_slots[i] for i in new)):
            break
    else:
        return c.plain()
    # Each element of the result is fetched from where it is at the padded sizes.
    flat: Any = 0
    stride: Any = 1
    for d in reversed(range(len(shape))):
        position = lax.iota("int32", shape[d])
        flat = flat + broadcast_in_dim(position * stride, shape, (d,))
        size = c.out_dims[0][d]
        stride = stride * (shape[d] if size is None else size)
    source: Any = 0
    step = 1
    for d in reversed(range(x.ndim)):
        size = lax.convert_element_type(c.size(0, d), "int32")
        source = source + lax.rem(flat, broadcast_in_dim(size, shape, ())) * np.int32(step)
        flat = lax.div(flat, broadcast_in_dim(size, shape, ()))
        step *= x.shape[d]
    from weft.numpy import take

    return take(reshape(x, (x.size,)), source, mode="clip")


# Positions known at run time ----------------------------------------------------------------------


def _clamped(c: Case, index: Any, limit: Any) -> Any:
    index = lax.convert_element_type(index, "int32")
    return lax.max(lax.min(index, lax.convert_element_type(limit, "int32")), np.int32(0))


def _dynamic_slice(c: Case) -> Any:
    c.allow("slice_sizes")
    x, starts = c.ins[0], c.ins[1:]
    shape = c.out_shapes[0]
    true = [shape[d] if s is None else s for d, s in enumerate(c.out_dims[0])]
    at = [_clamped(c, s, c.size(0, d) - true[d]) for d, s in enumerate(starts)]
    return _shifted(x, at, shape)


def _dynamic_update_slice(c: Case) -> Any:
    c.allow()
    x, update, *starts = c.ins
    at = [_clamped(c, s, c.size(0, d) - c.size(1, d)) for d, s in enumerate(starts)]
    zero = full((), 0, typeof(x).dtype)
    wide = lax.pad(x, zero, [(0, n, 0) for n in update.shape])
    replaced = lax.dynamic_slice(wide, at, update.shape)
    for d, size in enumerate(c.dims[1]):
        if size is not None:
            inside = lax.lt(lax.iota("int32", update.shape[d]), size)
            update = lax.select(broadcast_in_dim(inside, update.shape, (d,)), update, replaced)
    return lax.slice(lax.dynamic_update_slice(wide, update, at), (0,) * x.ndim, x.shape)


def _columns(c: Case, i: int, positions: Sequence[int], windows: Sequence[Any]) -> tuple:
    """Return the indices' columns as int32, and the largest true position of each."""
    indices = lax.convert_element_type(c.ins[i], "int32")
    last = indices.ndim - 1
    columns = [lax.slice_in_dim(indices, k, k + 1, axis=last) for k in range(len(positions))]
    limits = [
        lax.convert_element_type(c.size(0, d) - w, "int32")
        for d, w in zip(positions, windows, strict=True)
    ]
    return columns, limits


def _gather(c: Case) -> Any:
    c.allow("slice_sizes")
    numbers, sizes = c.params["dimension_numbers"], c.params["slice_sizes"]
    positions = numbers.start_index_map
    if c.dims[1] and c.dims[1][-1] is not None:
        raise c.refused("the number of its indices is bucketed")
    for d, slot in enumerate(c.slots.params["slice_sizes"]):
        if slot in c.padded.varying and sizes[d] != c.ins[0].shape[d]:
            raise c.refused("it takes slices of a bucketed size")
        if (
            slot not in c.padded.varying
            and c.dims[0][d] is not None
            and d not in positions
            and d not in numbers.operand_batching_dims
        ):
            raise c.refused("it takes a part of a bucketed dimension")
    true = [c.number("slice_sizes", d) for d in positions]
    columns, limits = _columns(c, 1, positions, true)
    fills = "fill" in str(c.params["mode"]).lower()
    moved = []
    for column, limit, d in zip(columns, limits, positions, strict=True):
        if fills:
            outside = lax.gt(column, broadcast_in_dim(limit, column.shape, ()))
            far = full(column.shape, np.int32(c.ins[0].shape[d]), np.dtype("int32"))
            moved.append(lax.select(outside, far, column))
        else:
            spread = broadcast_in_dim(limit, column.shape, ())
            moved.append(lax.max(lax.min(column, spread), np.int32(0)))
    indices = lax.concatenate(moved, moved[0].ndim - 1) if moved else c.ins[1]
    return c.bind(c.ins[0], indices, indices_are_sorted=False)


def _scatter(c: Case) -> Any:
    c.allow("update_shape")
    x, _, updates = c.ins
    numbers = c.params["dimension_numbers"]
    positions = numbers.scatter_dims_to_operand_dims
    if c.dims[1] and c.dims[1][-1] is not None:
        raise c.refused("the number of its indices is bucketed")
    batched = dict(
        zip(numbers.operand_batching_dims, numbers.scatter_indices_batching_dims, strict=True)
    )
    dropped = {*numbers.inserted_window_dims, *batched}
    rows = [d for d in range(x.ndim) if d not in dropped]
    window = dict(zip(rows, numbers.update_window_dims, strict=True))
    for d in rows:
        if c.dims[2][window[d]] is not None and updates.shape[window[d]] != x.shape[d]:
            raise c.refused("it writes slices of a bucketed size")
    true = [c.size(2, window[d]) if d in window else 1 for d in positions]
    if not positions:
        return c.plain()
    columns, limits = _columns(c, 1, positions, true)
    clips = "clip" in str(c.params["mode"]).lower()
    shape = columns[0].shape
    outside = full(shape, False, np.dtype(bool))
    for k, limit in enumerate(limits):
        spread = broadcast_in_dim(limit, shape, ())
        if clips:
            columns[k] = lax.max(lax.min(columns[k], spread), np.int32(0))
        else:
            outside = outside | (columns[k] > spread)
    # An update of the padding is written nowhere.
    for d, size in enumerate(c.dims[1]):
        if size is not None:
            beyond = lax.ge(lax.iota("int32", shape[d]), size)
            outside = outside | broadcast_in_dim(beyond, shape, (d,))
    moved = [
        lax.select(outside, full(shape, np.int32(x.shape[d]), np.dtype("int32")), column)
        for column, d in zip(columns, positions, strict=True)
    ]
    indices = lax.concatenate(moved, len(shape) - 1)
    mode = lax.GatherScatterMode.FILL_OR_DROP
    return c.bind(x, indices, updates, mode=mode, indices_are_sorted=False, unique_indices=False)


# Programs in programs -----------------------------------------------------------------------------


def _inner(c: Case, name: str, args: Sequence[Any], *path: int) -> list:
    jaxpr, slots = c.params[name], c.slots.params[name]
    for i in path:
        jaxpr, slots = jaxpr[i], slots[i]
    return c.padded.jaxpr(jaxpr, slots, args)


def _call(c: Case) -> Any:
    return _inner(c, "jaxpr", c.ins)


def _scan(c: Case) -> Any:
    p = c.params
    c.allow("jaxpr", "length")
    k, m = p["num_consts"], p["num_carry"]
    consts, init, xs = c.ins[:k], c.ins[k : k + m], c.ins[k + m :]
    length = c.number("length")
    static = isinstance(length, int)

    def body(carry: list, at: tuple) -> tuple:
        i, x = at
        outs = _inner(c, "jaxpr", [*consts, *carry, *x])
        new = outs[:m]
        if not static:  # beyond the true length nothing is carried on
            inside = lax.lt(i, length)
            new = [
                lax.select(broadcast_in_dim(inside, np.shape(a), ()), a, b)
                for a, b in zip(new, carry, strict=True)
            ]
        return new, outs[m:]

    steps = lax.iota("int32", p["length"])
    result: tuple[list, list] = lax.scan(
        body, init, (steps, xs), length=p["length"], reverse=p["reverse"], unroll=p["unroll"]
    )
    carry, ys = result
    return [*carry, *ys]


def _while(c: Case) -> Any:
    p = c.params
    c.allow("cond_jaxpr", "body_jaxpr")
    a, b = p["cond_nconsts"], p["body_nconsts"]
    return lax.while_loop(
        lambda carry: _inner(c, "cond_jaxpr", [*c.ins[:a], *carry])[0],
        lambda carry: _inner(c, "body_jaxpr", [*c.ins[a : a + b], *carry]),
        c.ins[a + b :],
    )


def _cond(c: Case) -> Any:
    c.allow("branches")
    index, *operands = c.ins
    branches = [
        lambda *args, i=i: _inner(c, "branches", args, i) for i in range(len(c.params["branches"]))
    ]
    return lax.switch(index, branches, *operands)


_RULES: dict[str, Rule] = {
    **{f"reduce_{n}": _reduction(f) for n, f in NEUTRAL.items()},
    **{f"cum{n}": _cumulative(f) for n, f in NEUTRAL.items()},
    **{f"reduce_window_{n}": _window(NEUTRAL[n]) for n in ("sum", "max", "min")},
    "argmax": _arg_reduction(lowest),
    "argmin": _arg_reduction(highest),
    **dict.fromkeys(("broadcast_in_dim", "transpose", "iota", "optimization_barrier"), _moved),
    **dict.fromkeys(("sharding_constraint", "reshard", "device_put", "mesh_cast"), _moved),
    **dict.fromkeys(("random_bits", "random_split"), _random),
    **dict.fromkeys(("softmax", "log_softmax"), _softmax),
    "dot_general": _dot,
    "conv_general_dilated": _conv,
    "sort": _sort,
    "top_k": _top_k,
    "rev": _rev,
    "slice": _slice,
    "split": _split,
    "concatenate": _concatenate,
    "pad": _pad,
    "reshape": _reshape,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "gather": _gather,
    **dict.fromkeys(
        ("scatter", "scatter-add", "scatter-mul", "scatter-min", "scatter-max"), _scatter
    ),
    "scan": _scan,
    "while": _while,
    "cond": _cond,
}
