"""Heat flow on a grid: each program copies its rows and a halo, and applies a 5-point stencil."""

import weft
import weft.numpy as wnp
from weft import pallas as pl


def diffuse(field: weft.Array, rate: float = 0.1, rows: int = 32) -> weft.Array:
    """One explicit step of the heat equation; outside of the field it is 0. rows must divide it."""
    n, m = field.shape
    padded = wnp.pad(field, 1)

    def kernel(source: weft.Ref, out: weft.Ref, halo: weft.Ref, arrived: weft.Ref) -> None:
        copy = pl.async_copy(source.at[pl.ds(pl.program_id(0) * rows, rows + 2), :], halo, arrived)
        copy.start()
        copy.wait()
        middle = halo[1:-1, 1:-1]
        around = halo[:-2, 1:-1] + halo[2:, 1:-1] + halo[1:-1, :-2] + halo[1:-1, 2:]
        out[...] = middle + rate * (around - 4 * middle)

    return pl.pallas_call(
        kernel,
        out_shape=weft.ShapeDtypeStruct((n, m), field.dtype),
        grid=n // rows,
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
        out_specs=pl.BlockSpec((rows, m), lambda i: (i, 0)),
        scratch_shapes=[pl.LOCAL((rows + 2, m + 2), field.dtype), pl.SemaphoreType.DMA],
        compiler_params=pl.CompilerParams(dimension_semantics=("parallel",)),
        name="diffuse",
    )(padded)
