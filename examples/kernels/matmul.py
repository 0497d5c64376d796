"""A matrix product in tiles: one program for each tile of the result."""

import weft
import weft.numpy as wnp
from weft import pallas as pl


def matmul(a: weft.Array, b: weft.Array, block_m: int = 128, block_n: int = 128) -> weft.Array:
    """a[m, k] @ b[k, n]; every program multiplies block_m rows of a with block_n columns of b."""
    (m, k), n = a.shape, b.shape[1]

    def kernel(a: weft.Ref, b: weft.Ref, out: weft.Ref) -> None:
        out[...] = wnp.dot(a[...], b[...]).astype(out.dtype)

    return pl.pallas_call(
        kernel,
        out_shape=weft.ShapeDtypeStruct((m, n), a.dtype),
        grid=(pl.cdiv(m, block_m), pl.cdiv(n, block_n)),
        in_specs=[
            pl.BlockSpec((block_m, k), lambda i, j: (i, 0)),
            pl.BlockSpec((k, block_n), lambda i, j: (0, j)),
        ],
        out_specs=pl.BlockSpec((block_m, block_n), lambda i, j: (i, j)),
        name="matmul",
    )(a, b)
