"""Softmax over rows: each program holds some rows and reads them once."""

import weft
import weft.numpy as wnp
from weft import pallas as pl


def softmax(x: weft.Array, rows: int = 8) -> weft.Array:
    """exp(x) / sum(exp(x)) along the last axis of a matrix."""
    block = pl.BlockSpec((rows, x.shape[1]), lambda i: (i, 0))

    def kernel(x: weft.Ref, out: weft.Ref) -> None:
        weights = wnp.exp(x[...] - x[...].max(axis=1, keepdims=True))
        out[...] = weights / weights.sum(axis=1, keepdims=True)

    return pl.pallas_call(
        kernel,
        out_shape=weft.ShapeDtypeStruct(x.shape, x.dtype),
        grid=pl.cdiv(x.shape[0], rows),
        in_specs=[block],
        out_specs=block,
        name="softmax",
    )(x)
