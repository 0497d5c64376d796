"""A histogram: every core counts its part of the data, then adds its counts atomically."""

import weft
import weft.numpy as wnp
from weft import lax
from weft import pallas as pl


def histogram(values: weft.Array, bins: int, cores: int = 4) -> weft.Array:
    """How often each of 0 … bins - 1 occurs in a vector of integers; cores must divide its size."""
    part = values.shape[0] // cores
    mesh = pl.Mesh({"core": cores})

    def kernel(values: weft.Ref, zeros: weft.Ref, counts: weft.Ref, mine: weft.Ref) -> None:
        mine[...] = wnp.zeros((bins,), "int32")
        first = lax.axis_index("core") * part

        def count(i: weft.Array, carry: weft.Array) -> weft.Array:
            mine[values[first + i]] += 1
            return carry

        lax.fori_loop(0, part, count, 0)
        pl.atomic_add(counts, (wnp.arange(bins),), mine[...])

    return pl.mpmd_map(
        [(mesh, kernel)],
        weft.ShapeDtypeStruct((bins,), "int32"),
        [pl.LOCAL((bins,), "int32")],
        input_output_aliases={1: 0},
        name="histogram",
    )(values, wnp.zeros((bins,), "int32"))
