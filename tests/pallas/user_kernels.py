"""Kernels as users of Pallas write them, each with inputs and what NumPy says.

python -m tests.pallas.user_kernels    # native against XLA's version of the same, larger sizes
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import weft
import weft.numpy as jnp
import weft.pallas as pl
from tests.pallas.user_products import (
    block_sparse_inputs,
    block_sparse_matmul,
    block_sparse_reference,
    flash_attention,
    flash_gradient,
    flash_inputs,
    flash_reference,
    fused_matmul,
    fused_matmul_inputs,
    grouped_inputs,
    grouped_matmul,
    grouped_reference,
    normal,
    paged_attention,
    paged_inputs,
    paged_reference,
    quantized_inputs,
    quantized_matmul,
    silu,
    struct,
)
from weft import lax

# Layers -----------------------------------------------------------------------------------------


def rms_norm(x, scale, *, rows=4, **options):
    """Forward and backward; the scale's gradient is summed over the programs of the grid."""
    shape = x.shape
    width = shape[1]
    tile = pl.BlockSpec((rows, width), lambda i: (i, 0))
    whole = pl.BlockSpec((1, width), lambda i: (0, 0))

    def inverse(x):
        return lax.rsqrt((x * x).mean(axis=1, keepdims=True) + 1e-6)

    def forward_kernel(x, scale, out):
        v = x[...]
        out[...] = v * inverse(v) * scale[...]

    def backward_kernel(x, scale, d_out, dx, d_scale):
        v, g = x[...], d_out[...]
        r = inverse(v)
        n, gs = v * r, g * scale[...]
        dx[...] = r * (gs - n * (gs * n).mean(axis=1, keepdims=True))

        @pl.when(pl.program_id(0) == 0)
        def _():
            d_scale[...] = jnp.zeros_like(d_scale)

        d_scale[...] += (g * n).sum(axis=0, keepdims=True)

    @weft.custom_vjp
    def norm(x, scale):
        return pl.pallas_call(
            forward_kernel,
            struct(*shape),
            grid=shape[0] // rows,
            in_specs=[tile, whole],
            out_specs=tile,
            **options,
        )(x, scale)

    def backward(saved, d_out):
        return pl.pallas_call(
            backward_kernel,
            (struct(*shape), struct(1, width)),
            grid=shape[0] // rows,
            in_specs=[tile, whole, tile],
            out_specs=(tile, whole),
            **options,
        )(*saved, d_out)

    norm.defvjp(lambda x, scale: (norm(x, scale), (x, scale)), backward)
    return norm(x, scale)


def rms_inputs(rng, scale=1):
    return normal(rng, 8 * scale, 12 * scale), normal(rng, 1, 12 * scale)


def rms_reference(x, scale):
    return x / np.sqrt((x**2).mean(1, keepdims=True) + 1e-6) * scale


def rms_gradient(x, scale):
    r = 1 / np.sqrt((x.astype("f8") ** 2).mean(1, keepdims=True) + 1e-6)
    n = x * r
    g = n * scale
    gs = g * scale
    return r * (gs - n * (gs * n).mean(1, keepdims=True)), (g * n).sum(0, keepdims=True)


def rotary(positions, x, *, rows=4, **options):
    """Pairs (x[i], x[i + half]) turned by an angle that the position and i decide."""
    length, heads, width = x.shape
    half = width // 2

    def kernel(positions, x, out):
        i = lax.broadcasted_iota(jnp.float32, (rows, half), 1)
        angle = positions[...].astype(jnp.float32) * jnp.exp(i * (-np.log(1e4) / half))
        c, s = jnp.cos(angle)[:, None], jnp.sin(angle)[:, None]
        a, b = x[:, :, :half], x[:, :, half:]
        out[:, :, :half] = a * c - b * s
        out[:, :, half:] = b * c + a * s

    tile = pl.BlockSpec((rows, heads, width), lambda i: (i, 0, 0))
    return pl.pallas_call(
        kernel,
        struct(*x.shape),
        grid=length // rows,
        in_specs=[pl.BlockSpec((rows, 1), lambda i: (i, 0)), tile],
        out_specs=tile,
        **options,
    )(positions, x)


def rotary_inputs(rng, scale=1):
    n = 8 * scale
    return rng.integers(0, 100, (n, 1)).astype("i4"), normal(rng, n, 2 * scale, 16)


def rotary_reference(positions, x):
    half = x.shape[-1] // 2
    angle = positions * np.exp(np.arange(half) * (-np.log(1e4) / half))
    z = (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * angle)[:, None]
    return np.concatenate([z.real, z.imag], -1)


def cross_entropy(logits, labels, *, rows=4, columns=16, **options):
    """The loss of each row, online over blocks of a vocabulary that they need not divide."""
    n, vocabulary = logits.shape
    steps = pl.cdiv(vocabulary, columns)
    tile = pl.BlockSpec((rows, columns), lambda i, j: (i, j))
    row = pl.BlockSpec((rows, 1), lambda i, j: (i, 0))

    def numbers(j):
        return j * columns + lax.broadcasted_iota(jnp.int32, (rows, columns), 1)

    def forward_kernel(logits, labels, loss, lse, top, total, chosen):
        j = pl.program_id(1)

        @pl.when(j == 0)
        def _():
            top[...] = jnp.full_like(top, -jnp.inf)
            total[...] = jnp.zeros_like(total)
            chosen[...] = jnp.zeros_like(chosen)

        at = numbers(j)
        x = jnp.where(at < vocabulary, logits[...], -jnp.inf)
        new = jnp.maximum(top[...], x.max(axis=1, keepdims=True))
        total[...] = total[...] * jnp.exp(top[...] - new) + jnp.exp(x - new).sum(
            axis=1, keepdims=True
        )
        top[...] = new
        chosen[...] += jnp.where(at == labels[...], x, 0).sum(axis=1, keepdims=True)

        @pl.when(j == steps - 1)
        def _():
            lse[...] = top[...] + jnp.log(total[...])
            loss[...] = lse[...] - chosen[...]

    def backward_kernel(logits, labels, lse, d_loss, d_logits):
        hit = numbers(pl.program_id(1)) == labels[...]
        p = jnp.exp(logits[...] - lse[...])
        d_logits[...] = (p - hit.astype(jnp.float32)) * d_loss[...]

    def forward(logits):
        loss, lse = pl.pallas_call(
            forward_kernel,
            (struct(n, 1), struct(n, 1)),
            grid=(n // rows, steps),
            in_specs=[tile, row],
            out_specs=(row, row),
            scratch_shapes=[pl.LOCAL((rows, 1), "float32")] * 3,
            **options,
        )(logits, labels)
        return loss, (logits, lse)

    def backward(saved, d_loss):
        logits, lse = saved
        return (
            pl.pallas_call(
                backward_kernel,
                struct(n, vocabulary),
                grid=(n // rows, steps),
                in_specs=[tile, row, row, row],
                out_specs=tile,
                **options,
            )(logits, labels, lse, d_loss),
        )

    loss = weft.custom_vjp(lambda logits: forward(logits)[0])
    loss.defvjp(forward, backward)
    return loss(logits)


def entropy_inputs(rng, scale=1):
    n, vocabulary = 8 * scale, 50 * scale
    labels = rng.integers(0, vocabulary, (n, 1)).astype("i4")
    return normal(rng, n, vocabulary) * 3, labels


def entropy_reference(logits, labels):
    x = logits.astype("f8")
    lse = np.log(np.exp(x - x.max(1, keepdims=True)).sum(1, keepdims=True)) + x.max(
        1, keepdims=True
    )
    return lse - np.take_along_axis(x, labels, 1)


def entropy_gradient(logits, labels):
    x = logits.astype("f8")
    p = np.exp(x - x.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    loss = entropy_reference(logits, labels)
    np.put_along_axis(p, labels, np.take_along_axis(p, labels, 1) - 1, 1)
    return (p * loss,)


def route(logits, *, rows=4, chosen=2, **options):
    """The best experts of each token, their weights, and the place in each one's queue."""
    n, experts = logits.shape

    def kernel(logits, weights, numbers, places, load):
        @pl.when(pl.program_id(0) == 0)
        def _():
            load[...] = jnp.zeros_like(load)

        x = logits[...]
        expert = lax.broadcasted_iota(jnp.int32, x.shape, 1)
        found, best = [], []
        for _ in range(chosen):
            k = jnp.argmax(x, axis=1).astype(jnp.int32)
            hit = expert == k[:, None]
            found.append(k)
            best.append(x.max(axis=1))
            x = jnp.where(hit, -jnp.inf, x)
        weights[...] = weft.nn.softmax(jnp.stack(best, 1), axis=1)
        numbers[...] = jnp.stack(found, 1)
        hits = sum((expert == k[:, None]).astype(jnp.int32) for k in found)
        before = lax.cumsum(hits, axis=0) - hits + load[...]
        for c, k in enumerate(found):
            places[:, c] = jnp.where(expert == k[:, None], before, 0).sum(axis=1, dtype=jnp.int32)
        load[...] += hits.sum(axis=0, keepdims=True, dtype=jnp.int32)

    out = pl.BlockSpec((rows, chosen), lambda i: (i, 0))
    return pl.pallas_call(
        kernel,
        (
            struct(n, chosen),
            struct(n, chosen, dtype="int32"),
            struct(n, chosen, dtype="int32"),
            struct(1, experts, dtype="int32"),
        ),
        grid=n // rows,
        in_specs=[pl.BlockSpec((rows, experts), lambda i: (i, 0))],
        out_specs=(out, out, out, pl.BlockSpec((1, experts), lambda i: (0, 0))),
        **options,
    )(logits)


def route_reference(logits):
    numbers = np.argsort(-logits, 1)[:, :2].astype("i4")
    best = np.exp(np.take_along_axis(logits, numbers, 1))
    load, places = np.zeros(logits.shape[1], "i4"), np.zeros_like(numbers)
    for i, row in enumerate(numbers):
        places[i] = load[row]
        load[row] += 1
    return best / best.sum(1, keepdims=True), numbers, places, load[None]


# Scans, stencils, orders ------------------------------------------------------------------------


def prefix_sum(x, *, block=8, **options):
    """Running sums, the total so far carried in scratch from block to block."""
    n = x.shape[0]

    def kernel(x, out, carry):
        @pl.when(pl.program_id(0) == 0)
        def _():
            carry[...] = jnp.zeros_like(carry)

        sums = lax.cumsum(x[...], axis=0) + carry[...]
        out[...] = sums
        carry[...] = sums[-1:]

    tile = pl.BlockSpec((block,), lambda i: (i,))
    return pl.pallas_call(
        kernel,
        struct(n),
        grid=n // block,
        in_specs=[tile],
        out_specs=tile,
        scratch_shapes=[pl.LOCAL((1,), "float32")],
        **options,
    )(x)


def stencil_3d(x, *, block=2, **options):
    """The discrete Laplacian with zeros around; blocks are read with a plane more each side."""
    n, height, width = x.shape

    def kernel(x, out):
        v = x[...]
        inner = v[1:-1]
        total = v[:-2] + v[2:] - 6 * inner
        for axis in (1, 2):
            zeros = jnp.zeros_like(lax.slice_in_dim(inner, 0, 1, axis=axis))
            size = inner.shape[axis]
            total += jnp.concatenate([zeros, lax.slice_in_dim(inner, 0, size - 1, axis=axis)], axis)
            total += jnp.concatenate([lax.slice_in_dim(inner, 1, size, axis=axis), zeros], axis)
        out[...] = total

    padded = jnp.pad(x, ((1, 1), (0, 0), (0, 0)))
    return pl.pallas_call(
        kernel,
        struct(*x.shape),
        grid=n // block,
        in_specs=[
            pl.BlockSpec((pl.Element(block + 2), height, width), lambda i: (i * block, 0, 0))
        ],
        out_specs=pl.BlockSpec((block, height, width), lambda i: (i, 0, 0)),
        **options,
    )(padded)


def stencil_reference(x):
    p = np.pad(x, 1)
    near = p[:-2, 1:-1, 1:-1] + p[2:, 1:-1, 1:-1] + p[1:-1, :-2, 1:-1] + p[1:-1, 2:, 1:-1]
    return near + p[1:-1, 1:-1, :-2] + p[1:-1, 1:-1, 2:] - 6 * x


def causal_conv(x, taps, *, block=8, **options):
    """Depthwise: out[t] = Σ taps[k] x[t - k]; a program sees its block and the one before."""
    length, channels = x.shape
    count = taps.shape[0]

    def kernel(before, here, taps, out):
        first = pl.program_id(0) == 0
        past = jnp.where(first, 0, before[block - count + 1 :, :])
        both = jnp.concatenate([past, here[...]])
        total = jnp.zeros_like(out)
        for k in range(count):
            start = count - 1 - k
            total += taps[k] * both[start : start + block]
        out[...] = total

    return pl.pallas_call(
        kernel,
        struct(length, channels),
        grid=length // block,
        in_specs=[
            pl.BlockSpec((block, channels), lambda i: (jnp.maximum(i - 1, 0), 0)),
            pl.BlockSpec((block, channels), lambda i: (i, 0)),
            pl.BlockSpec(),
        ],
        out_specs=pl.BlockSpec((block, channels), lambda i: (i, 0)),
        **options,
    )(x, x, taps)


def conv_reference(x, taps):
    out = np.zeros_like(x)
    for k, tap in enumerate(taps):
        out[k:] += tap * x[: len(x) - k]
    return out


def bitonic_sort(x, *, rows=2, **options):
    """Sorts each row, a power of two long, by compare-exchanges at fixed places."""
    n, width = x.shape

    def kernel(x, out):
        v = x[...]
        place = lax.broadcasted_iota(jnp.int32, (rows, width), 1)
        size = 2
        while size <= width:
            up = (place & size) == 0
            step = size // 2
            while step:
                pairs = v.reshape(rows, width // (2 * step), 2, step)
                other = jnp.flip(pairs, axis=2).reshape(rows, width)
                low = (place & step) == 0
                v = jnp.where(low == up, jnp.minimum(v, other), jnp.maximum(v, other))
                step //= 2
            size *= 2
        out[...] = v

    tile = pl.BlockSpec((rows, width), lambda i: (i, 0))
    return pl.pallas_call(
        kernel, struct(n, width), grid=n // rows, in_specs=[tile], out_specs=tile, **options
    )(x)


def histogram(x, *, block=16, bins=8, **options):
    """Programs count at the same time; each adds its counts by atomics."""
    n = x.shape[0]

    def kernel(x, start, out):
        pl.atomic_add(out, (x[...],), jnp.ones(block, jnp.int32))

    return pl.pallas_call(
        kernel,
        struct(bins, dtype="int32"),
        grid=n // block,
        in_specs=[pl.BlockSpec((block,), lambda i: (i,)), pl.BlockSpec()],
        out_specs=pl.BlockSpec(),
        input_output_aliases={1: 0},
        compiler_params=pl.CompilerParams(dimension_semantics=("parallel",)),
        **options,
    )(x, jnp.zeros(bins, jnp.int32))


@dataclass(frozen=True)
class Case:
    """A kernel, its inputs from (rng, scale), its reference; for gradients those of Σ out²/2."""

    run: Callable
    inputs: Callable
    reference: Callable
    gradient: Callable | None = None
    wrt: tuple[int, ...] = ()
    xla: Callable | None = None
    large: tuple[int, dict[str, Any]] = (1, {})


def xla_attention(q, k, v, segments):
    n = q.shape[0]
    s = jnp.dot(q, k.T) / np.sqrt(q.shape[1])
    i = jnp.arange(n)
    s = jnp.where((i[:, None] >= i) & (segments[:, None] == segments), s, -jnp.inf)
    return jnp.dot(weft.nn.softmax(s, axis=1), v)


def xla_entropy(logits, labels):
    x = weft.nn.log_softmax(logits, axis=1)
    return -jnp.take_along_axis(x, labels, axis=1)


def xla_stencil(x):
    p = jnp.pad(x, 1)
    near = p[:-2, 1:-1, 1:-1] + p[2:, 1:-1, 1:-1] + p[1:-1, :-2, 1:-1] + p[1:-1, 2:, 1:-1]
    return near + p[1:-1, 1:-1, :-2] + p[1:-1, 1:-1, 2:] - 6 * x


def xla_conv(x, taps):
    n, count = x.shape[0], taps.shape[0]
    p = jnp.pad(x, ((count - 1, 0), (0, 0)))
    return sum(taps[k] * p[count - 1 - k : count - 1 - k + n] for k in range(count))


def xla_rotary(positions, x):
    half = x.shape[-1] // 2
    angle = positions * jnp.exp(jnp.arange(half) * (-np.log(1e4) / half))
    c, s = jnp.cos(angle)[:, None], jnp.sin(angle)[:, None]
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * c - b * s, b * c + a * s], -1)


def xla_quantized(x, w, row_scale, column_scale):
    return jnp.dot(x, w, preferred_element_type=jnp.int32) * row_scale * column_scale


KERNELS: dict[str, Case] = {
    "fused matmul": Case(
        fused_matmul,
        fused_matmul_inputs,
        lambda x, w, b: silu(x @ w + b),
        xla=lambda x, w, b: weft.nn.silu(x @ w + b),
        large=(32, {"block": 128}),
    ),
    "block sparse matmul": Case(block_sparse_matmul, block_sparse_inputs, block_sparse_reference),
    "grouped matmul": Case(
        grouped_matmul,
        grouped_inputs,
        grouped_reference,
        xla=lambda offsets, groups, tiles, x, w: lax.ragged_dot(x, w, jnp.diff(offsets)),
        large=(32, {}),
    ),
    "quantized matmul": Case(
        quantized_matmul,
        quantized_inputs,
        lambda x, w, r, c: (x.astype("i4") @ w.astype("i4")) * r * c,
        xla=xla_quantized,
        large=(32, {"block": 128}),
    ),
    "flash attention": Case(
        flash_attention,
        flash_inputs,
        flash_reference,
        flash_gradient,
        (0, 1, 2),
        xla_attention,
        (32, {"block": 64}),
    ),
    "paged attention": Case(paged_attention, paged_inputs, paged_reference),
    "rms norm": Case(
        rms_norm,
        rms_inputs,
        rms_reference,
        rms_gradient,
        (0, 1),
        lambda x, s: x * lax.rsqrt((x * x).mean(1, keepdims=True) + 1e-6) * s,
        (128, {"rows": 32}),
    ),
    "rotary": Case(
        rotary, rotary_inputs, rotary_reference, xla=xla_rotary, large=(64, {"rows": 8})
    ),
    "cross entropy": Case(
        cross_entropy,
        entropy_inputs,
        entropy_reference,
        entropy_gradient,
        (0,),
        xla_entropy,
        (64, {"rows": 16, "columns": 1024}),
    ),
    "routing": Case(
        route,
        lambda rng, scale=1: (normal(rng, 8 * scale, 6),),
        route_reference,
    ),
    "prefix sum": Case(
        prefix_sum,
        lambda rng, scale=1: (normal(rng, 32 * scale),),
        np.cumsum,
        xla=jnp.cumsum,
        large=(30000, {"block": 4096 // 8 * 15}),
    ),
    "stencil": Case(
        stencil_3d,
        lambda rng, scale=1: (normal(rng, 6 * scale, 5 * scale, 7 * scale),),
        stencil_reference,
        xla=xla_stencil,
        large=(32, {"block": 4}),
    ),
    "causal convolution": Case(
        causal_conv,
        lambda rng, scale=1: (normal(rng, 24 * scale, 6 * scale), normal(rng, 4, 6 * scale)),
        conv_reference,
        xla=xla_conv,
        large=(64, {"block": 64}),
    ),
    "bitonic sort": Case(
        bitonic_sort,
        lambda rng, scale=1: (normal(rng, 4 * scale, 16 * min(scale, 16)),),
        partial(np.sort, axis=1),
        xla=lambda x: jnp.sort(x, axis=1),
        large=(128, {"rows": 8}),
    ),
    "histogram": Case(
        histogram,
        lambda rng, scale=1: (rng.integers(0, 8, 64 * scale).astype("i4"),),
        partial(np.bincount, minlength=8),
        xla=partial(jnp.bincount, length=8),
        large=(10000, {"block": 6400}),
    ),
}


def _seconds(f, *args):
    weft.block_until_ready(f(*args))
    times = []
    for _ in range(7):
        start = time.perf_counter()
        weft.block_until_ready(f(*args))
        times.append(time.perf_counter() - start)
    return min(times)


def main():
    """Prints the time of each kernel and of XLA's version."""
    for name, case in KERNELS.items():
        if case.xla is None:
            continue
        scale, options = case.large
        args = case.inputs(np.random.default_rng(0), scale)
        args = [jnp.asarray(a) for a in args]
        native = _seconds(weft.jit(partial(case.run, **options)), *args)
        xla = _seconds(weft.jit(case.xla), *args)
        print(
            f"{name:20} native {native * 1e3:8.2f} ms, XLA {xla * 1e3:8.2f} ms, {native / xla:.2f}"
        )


if __name__ == "__main__":
    main()
