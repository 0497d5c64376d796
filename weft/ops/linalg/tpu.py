# Tests: tests/ops/test_tpu.py
"""Decompositions on TPUs: calls that XLA's compiler for them knows by name, and what they give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.core.trace import typeof
from weft.ops.control.scan import scan
from weft.ops.elementwise_api import abs as magnitude
from weft.ops.elementwise_api import add, clamp, div, eq
from weft.ops.joining import concatenate, pad, rev
from weft.ops.linalg.matrix import adjoint, as_dtype, diagonal, matmul, scale_columns
from weft.ops.slicing import slice_in_dim
from weft.sharding.text import batch_rule_text

if TYPE_CHECKING:
    from weft.lowering.context import RuleContext
    from weft.typing import ArrayLike


def on_tpu(ctx: RuleContext) -> bool:
    return ctx.module.platforms[0] == "tpu"


def call(ctx: RuleContext, target: str, operands: Sequence[Any], config: str = "") -> list:
    """Call XLA's own `target`, whose results are the op's, on batches of matrices."""
    avals = [*ctx.avals_in, *ctx.avals_out]
    attrs = {
        "call_target_name": ctx.string(target),
        "api_version": ctx.i32(1),
        "backend_config": ctx.string(config),
    }
    batch = ctx.avals_in[0].shape[:-2]
    if batch:
        rule = batch_rule_text([a.shape for a in avals], len(ctx.avals_in), batch)
        attrs["sdy.sharding_rule"] = ctx.attr(rule)
    return list(ctx.op("stablehlo.custom_call", list(operands), ctx.out_types(), attrs))


def multiply_by_q(a: ArrayLike, taus: object, c: Any, left: bool, transpose: bool) -> Any:
    """c times the whole product of the reflectors, or its adjoint; XLA:TPU has no ormqr."""
    from weft.ops.linalg.qr import householder_product_p

    m, n = typeof(a).shape[-2:]
    zero = typeof(a).dtype.type(0)
    whole = pad(a, zero, [(0, 0, 0)] * (typeof(a).ndim - 1) + [(0, m - n, 0)])
    q = householder_product_p.bind(whole, taus)
    q = adjoint(q) if transpose else q
    return matmul(q, c) if left else matmul(c, q)


def svd_by_polar(x: ArrayLike, full: bool, vectors: bool) -> list:
    """Singular values, and vectors if wanted: those of the Hermitian factor of x's polar form.

    x = q r, r = p h with unitary p, h = v s v^H: so x = (q p v) s v^H. Where x has no full rank,
    some columns of q p v are lost; a QR decomposition of it completes them.

    Source: Nakatsukasa and Higham, "Stable and efficient spectral divide and conquer algorithms for
    the symmetric eigenvalue decomposition and the SVD" (2013).
    """
    from weft.ops.linalg.eigen import eigh
    from weft.ops.linalg.polar import qdwh
    from weft.ops.linalg.qr import qr

    aval = typeof(x)
    if aval.ndim > 2:
        return list(scan(lambda _, one: (None, svd_by_polar(one, full, vectors)), None, x)[1])
    m, n = aval.shape
    if m < n:
        s, *rest = svd_by_polar(adjoint(x), full, vectors)
        return [s, *map(adjoint, reversed(rest))]
    q, r = qr(x, full_matrices=False)
    p, h, _, _ = qdwh(r)
    v, w = eigh(h, symmetrize_input=False)
    real = typeof(w).dtype
    s = clamp(real.type(0), rev(w, (0,)), real.type(np.inf))
    if not vectors:
        return [s]
    v = rev(v, (1,))
    u, turned = qr(matmul(q, matmul(p, v)), full_matrices=full)
    phase = diagonal(slice_in_dim(turned, 0, n, axis=0))
    size = magnitude(phase)
    lost = as_dtype(eq(size, typeof(size).dtype.type(0)), phase)
    phase = div(add(phase, lost), add(as_dtype(size, phase), lost))
    turned_back = scale_columns(slice_in_dim(u, 0, n, axis=1), phase)
    rest = slice_in_dim(u, n, typeof(u).shape[1], axis=1)
    return [s, concatenate([turned_back, rest], 1), adjoint(v)]
