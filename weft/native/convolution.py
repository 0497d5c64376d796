"""Depthwise convolutions and the gradients of their filters as calls of kernels.

XLA:CPU has no code of its own for a feature group of one: it runs a loop (quirks.DEPTHWISE).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from weft._xla import stablehlo
from weft._xla.mlir import ir
from weft.lowering.limits import DEPTHWISE, ONE_FEATURE
from weft.native.calls import call, has_compiler, target
from weft.native.engine import host
from weft.native.parallel import threads
from weft.partition.emit import Emitter

_BYTES = {"f32": 4, "f64": 8}


def ints(op: ir.Operation, name: str, count: int, default: int) -> list[int]:
    """Return the numbers of an attribute, or so many times its default."""
    return [int(v) for v in op.attributes[name]] if name in op.attributes else [default] * count


def depthwise(e: Emitter, op: ir.Operation, _: int) -> Sequence[ir.Value] | None:
    """Replace a convolution each of whose features reads one feature, in one or two dimensions."""
    x, w = op.operands
    out = op.results[0].type
    name, rank = str(out.element_type), out.rank
    d = stablehlo.conv_dimensions(op.attributes["dimension_numbers"])
    orders = [
        [d.lhs_batch, d.lhs_feature, *d.lhs_spatial],
        [d.rhs_out, d.rhs_in, *d.rhs_spatial],
        [d.out_batch, d.out_feature, *d.out_spatial],
    ]
    features = op.attributes["feature_group_count"].value
    batches = op.attributes["batch_group_count"].value
    spatial = rank - 2
    (xb, xf), (_, wi) = (
        [v.type.shape[d] for d in o[:2]] for v, o in zip((x, w), orders, strict=False)
    )
    of_filters = batches > 1 and batches == xb
    if spatial not in (1, 2) or name not in _BYTES or math.prod(out.shape) == 0:
        return None
    if {str(v.type.element_type) for v in (x, w)} != {name} or not has_compiler():
        return None
    if not of_filters and (features != xf or wi != 1 or batches != 1):
        return None
    reversal, smallest = ints(op, "window_reversal", spatial, 0), 0 if xf == 1 else DEPTHWISE
    if any(reversal) or max(math.prod(v.shape) for v in (x.type, w.type, out)) < smallest:
        return None
    # With one feature XLA has a product of matrices, which leaves out what strides do.
    strides = ints(op, "window_strides", spatial, 1)
    if xf == batches == 1 and (max(strides) > 2 or math.prod(w.type.shape) > ONE_FEATURE):
        return None

    dilation = ints(op, "lhs_dilation", spatial, 1)
    for i, factor in enumerate(dilation):
        x = e.pad(x, orders[0][2 + i], 0, 0, interior=factor - 1)
    # Planes have to be contiguous; batches and features may stand in any order in front of them.
    x, w = (_planes(e, v, order) for v, order in zip((x, w), orders, strict=False))
    front = [sorted(order[:2]).index(order[0]) for order in orders]
    shapes = [list(v.shape) for v in (x.type, w.type)]
    sizes = [out.shape[d] for d in sorted(orders[2][:2])] + [out.shape[d] for d in orders[2][2:]]

    # One list of sizes parametrizes the kernel, so that shapes share its code.
    geometry = _geometry(op, spatial, shapes, sizes, front, batches if of_filters else features)
    taps = math.prod(shapes[1][2:])
    if not of_filters and taps > 1024:
        return None
    num_parts = min(parts(), sizes[0] * sizes[1]) if of_filters else min(parts(), xb * xf)
    lanes = vector_bytes() // _BYTES[name]
    geometry.append(plane_size(geometry, lanes))
    geometry += _strides(shapes, sizes, front, of_filters)
    kernel = target(
        "depthwise",
        "filters" if of_filters else "depthwise",
        {"T": name, "LANES": lanes, "PARTS": num_parts},
    )
    scratch = e.type([2 * num_parts * geometry[17]], out.element_type)
    result, _unused = call(e, kernel, [x, w], [e.type(sizes, out.element_type), scratch], geometry)
    return [_back(e, result, orders[2])]


def vector_bytes() -> int:
    return host().vector_bytes


def parts() -> int:
    """Return how many parts of many planes are computed at once."""
    return 4 * threads() if threads() > 1 else 1


def _in_front(order: Sequence[int]) -> list[int]:
    """Return the dimensions, batches and features first and in order, then spatial ones."""
    return [*sorted(order[:2]), *order[2:]]


def _planes(e: Emitter, x: ir.Value, order: Sequence[int]) -> ir.Value:
    permutation = _in_front(order)
    return x if permutation == sorted(permutation) else e.transpose(x, permutation)


def _back(e: Emitter, x: ir.Value, order: Sequence[int]) -> ir.Value:
    permutation = _in_front(order)
    if permutation == sorted(permutation):
        return x
    return e.transpose(x, [permutation.index(d) for d in range(len(permutation))])


def _geometry(
    op: ir.Operation,
    spatial: int,
    shapes: Sequence[Sequence[int]],
    sizes: Sequence[int],
    front: Sequence[int],
    groups: int,
) -> list[int]:
    """Return the kernel's parameters up to the size of the padded plane; one dimension is a row."""

    def two(values: Sequence[int], missing: int) -> list[int]:
        return [*[missing] * (2 - spatial), *values]

    strides = two(ints(op, "window_strides", spatial, 1), 1)
    dilation = two(ints(op, "rhs_dilation", spatial, 1), 1)
    low = two(ints(op, "padding", 2 * spatial, 0)[::2], 0)
    size, window, outs = (two(s[2:], 1) for s in (*shapes, sizes))
    needed = [
        (o - 1) * s + (k - 1) * d + 1
        for o, s, k, d in zip(outs, strides, window, dilation, strict=True)
    ]
    x_batch = shapes[0][front[0]]
    if "batch_group_count" in op.attributes and op.attributes["batch_group_count"].value > 1:
        x_batch = shapes[0][1 - front[0]]  # what is summed over: the batch of the forward pass
    features = sizes[1 - front[2]]
    return [
        x_batch, groups, features // groups,
        *size, *outs, *window, *strides, *dilation, *low, *needed,
    ]  # fmt: skip


def plane_size(geometry: Sequence[int], lanes: int) -> int:
    """Return elements of a padded plane, with what vectors read past its end."""
    down, across = geometry[15:17]
    return -(-(down * across + across * geometry[10] + 8 * lanes) // 16) * 16


def _strides(
    shapes: Sequence[Sequence[int]], sizes: Sequence[int], front: Sequence[int], of_filters: bool
) -> list[int]:
    """Return how far apart batches and features are in x, w and the result."""
    result = []
    for shape, first in zip((*shapes, sizes), front, strict=True):
        inner = math.prod(shape[2:])
        outer = shape[1] * inner
        result += [outer, inner] if first == 0 else [inner, outer]
    xb, xf, wo, wi, ob, of = result
    return [xf, xb, wo, wi, ob, of] if of_filters else [xb, xf, wo, wi, ob, of]
