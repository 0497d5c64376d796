"""A pipeline of two programs: one applies the first layer to a block of rows while the other
applies the second layer to the block before, with two buffers between them."""

import weft
import weft.numpy as wnp
from weft import lax
from weft import pallas as pl

SLOTS = 2


def two_layers(x: weft.Array, w1: weft.Array, w2: weft.Array, rows: int = 64) -> weft.Array:
    """tanh(tanh(x @ w1) @ w2), its layers on two cores at the same time; rows must divide x."""
    n, hidden = x.shape[0], w1.shape[1]
    blocks = n // rows
    first, second = pl.Mesh({"core": 1}, name="first"), pl.Mesh({"core": 1}, name="second")

    def produce(
        x: weft.Ref,
        w1: weft.Ref,
        w2: weft.Ref,
        out: weft.Ref,
        boxes: weft.Ref,
        full: weft.Ref,
        empty: weft.Ref,
    ) -> None:
        def step(i: weft.Array, carry: weft.Array) -> weft.Array:
            slot = i % SLOTS

            @pl.when(i >= SLOTS)
            def _() -> None:
                pl.semaphore_wait(empty.at[slot])

            boxes[slot] = wnp.tanh(wnp.dot(x[pl.ds(i * rows, rows), :], w1[...]))
            pl.semaphore_signal(full.at[slot])
            return carry

        lax.fori_loop(0, blocks, step, 0)

    def consume(
        x: weft.Ref,
        w1: weft.Ref,
        w2: weft.Ref,
        out: weft.Ref,
        boxes: weft.Ref,
        full: weft.Ref,
        empty: weft.Ref,
    ) -> None:
        def step(i: weft.Array, carry: weft.Array) -> weft.Array:
            slot = i % SLOTS
            pl.semaphore_wait(full.at[slot])
            out[pl.ds(i * rows, rows), :] = wnp.tanh(wnp.dot(boxes[slot], w2[...]))

            @pl.when(i < blocks - SLOTS)
            def _() -> None:
                pl.semaphore_signal(empty.at[slot])

            return carry

        lax.fori_loop(0, blocks, step, 0)

    return pl.mpmd_map(
        [(first, produce), (second, consume)],
        weft.ShapeDtypeStruct((n, w2.shape[1]), x.dtype),
        [
            pl.SHARED((SLOTS, rows, hidden), x.dtype),
            pl.SemaphoreType.REGULAR((SLOTS,)) @ second,
            pl.SemaphoreType.REGULAR((SLOTS,)) @ first,
        ],
        name="two_layers",
    )(x, w1, w2)


def one_after_the_other(
    x: weft.Array, w1: weft.Array, w2: weft.Array, rows: int = 64
) -> weft.Array:
    """The same blocks and layers by one program on one core."""
    n = x.shape[0]

    def kernel(x: weft.Ref, w1: weft.Ref, w2: weft.Ref, out: weft.Ref, box: weft.Ref) -> None:
        def step(i: weft.Array, carry: weft.Array) -> weft.Array:
            box[...] = wnp.tanh(wnp.dot(x[pl.ds(i * rows, rows), :], w1[...]))
            out[pl.ds(i * rows, rows), :] = wnp.tanh(wnp.dot(box[...], w2[...]))
            return carry

        lax.fori_loop(0, n // rows, step, 0)

    return pl.mpmd_map(
        [(pl.Mesh({"core": 1}), kernel)],
        weft.ShapeDtypeStruct((n, w2.shape[1]), x.dtype),
        [pl.LOCAL((rows, w1.shape[1]), x.dtype)],
        name="one_after_the_other",
    )(x, w1, w2)
