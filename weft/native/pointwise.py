# Tests: tests/native/test_elementwise.py, tests/native/test_reductions.py
"""Convolutions with windows of one element as products of matrices, which XLA:CPU is faster at."""

from __future__ import annotations

import math
from collections.abc import Sequence

from weft._xla import stablehlo
from weft._xla.mlir import ir
from weft.lowering.limits import FEW_PLACES
from weft.native.convolution import ints
from weft.native.dense import dense
from weft.partition.emit import Emitter


def pointwise(e: Emitter, op: ir.Operation, _: int) -> Sequence[ir.Value] | None:
    """Replace a convolution whose windows have one element.

    One that reads every place is a product where features stand behind the batch, or last.
    """
    x, w = op.operands
    out = op.results[0].type
    plain = (("window_strides", 1), ("padding", 0), ("lhs_dilation", 1))
    if any(set(ints(op, n, 1, v)) != {v} for n, v in plain):
        return dense(e, op, 0)
    d = stablehlo.conv_dimensions(op.attributes["dimension_numbers"])
    of_x = d.lhs_batch, d.lhs_feature, d.lhs_spatial
    rank = out.rank
    first = of_x == (0, 1, tuple(range(2, rank)))
    if of_x != (d.out_batch, d.out_feature, d.out_spatial) or rank < 3:
        return None
    if not first and of_x != (0, rank - 1, tuple(range(1, rank - 1))):
        return None
    counts = (op.attributes[f"{n}_group_count"].value for n in ("feature", "batch"))
    if set(counts) != {1}:
        return None
    if any(w.type.shape[n] != 1 for n in d.rhs_spatial):
        return None
    if {str(v.type.element_type) for v in (x, w)} != {str(out.element_type)}:
        return None
    if str(out.element_type) not in ("f32", "f64") or math.prod(out.shape) == 0:
        return None

    outputs_first = d.rhs_out < d.rhs_in
    features_out, features_in = w.type.shape[d.rhs_out], w.type.shape[d.rhs_in]
    batch, size = x.type.shape[0], math.prod(x.type.shape) // x.type.shape[0] // features_in
    w = e.reshape(w, [features_out, features_in] if outputs_first else [features_in, features_out])
    summed_dim = 1 if outputs_first else 0  # the dimension of w that is summed over
    # Features last: places are rows of one product. Features first: few places join those of the
    # whole batch, many make a product for each image.
    if not first:
        rows = e.reshape(x, [batch * size, features_in])
        result = _dot(e, op, rows, w, [batch * size, features_out], (1, summed_dim))
    elif size <= FEW_PLACES:
        planes = e.reshape(x, [batch, features_in, size])
        result = _dot(e, op, w, planes, [features_out, batch, size], (summed_dim, 1))
        result = e.transpose(result, [1, 0, 2])
    else:
        planes = e.reshape(x, [batch, features_in, size])
        each = e.broadcast(w, [batch, *w.type.shape], [1, 2])
        shape = [batch, features_out, size]
        result = _dot(e, op, each, planes, shape, (summed_dim + 1, 1), batched=True)
    return [e.reshape(result, list(out.shape))]


def _dot(
    e: Emitter,
    op: ir.Operation,
    x: ir.Value,
    y: ir.Value,
    shape: Sequence[int],
    contracting: tuple[int, int],
    batched: bool = False,
) -> ir.Value:
    """Return the product of a convolution's operands, as precise as it is."""
    batch = "[0]" if batched else "[]"
    numbers = (
        f"lhs_batching_dimensions = {batch}, rhs_batching_dimensions = {batch}, "
        f"lhs_contracting_dimensions = [{contracting[0]}], "
        f"rhs_contracting_dimensions = [{contracting[1]}]"
    )
    attributes = {"dot_dimension_numbers": e.attr(f"#stablehlo.dot<{numbers}>")}
    if "precision_config" in op.attributes:
        attributes["precision_config"] = op.attributes["precision_config"]
    type_ = e.type(shape, x.type.element_type)
    return e.op("stablehlo.dot_general", [x, y], [type_], attributes).results[0]
