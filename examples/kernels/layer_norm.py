"""Layer normalization with its backward pass, two kernels joined by custom_vjp."""

import functools

import weft
import weft.numpy as wnp
from weft import pallas as pl

ROWS = 8


def _specs(x: weft.Array) -> tuple[pl.BlockSpec, pl.BlockSpec, pl.BlockSpec]:
    rows = pl.BlockSpec((ROWS, x.shape[1]), lambda i: (i, 0))
    vector = pl.BlockSpec((x.shape[1],), lambda i: (0,))
    column = pl.BlockSpec((ROWS, 1), lambda i: (i, 0))
    return rows, vector, column


def _forward(
    x: weft.Array, scale: weft.Array, bias: weft.Array, epsilon: float
) -> tuple[weft.Array, ...]:
    """The result, and what the backward pass needs: means and reciprocal deviations."""
    rows, vector, column = _specs(x)
    n = x.shape[0]

    def kernel(
        x: weft.Ref,
        scale: weft.Ref,
        bias: weft.Ref,
        out: weft.Ref,
        mean: weft.Ref,
        factor: weft.Ref,
    ) -> None:
        mean[...] = x[...].mean(axis=1, keepdims=True)
        centred = x[...] - mean[...]
        variance = (centred * centred).mean(axis=1, keepdims=True)
        factor[...] = 1 / wnp.sqrt(variance + epsilon)
        out[...] = centred * factor[...] * scale[...] + bias[...]

    statistic = weft.ShapeDtypeStruct((n, 1), x.dtype)
    return pl.pallas_call(
        kernel,
        out_shape=[weft.ShapeDtypeStruct(x.shape, x.dtype), statistic, statistic],
        grid=pl.cdiv(n, ROWS),
        in_specs=[rows, vector, vector],
        out_specs=[rows, column, column],
        name="layer_norm",
    )(x, scale, bias)


def _backward(
    x: weft.Array, scale: weft.Array, mean: weft.Array, factor: weft.Array, cotangent: weft.Array
) -> tuple[weft.Array, weft.Array, weft.Array]:
    """The cotangents of x, and of scale and bias as one row for each block of rows."""
    rows, vector, column = _specs(x)
    n, width = x.shape
    blocks = pl.cdiv(n, ROWS)
    partial = pl.BlockSpec((1, width), lambda i: (i, 0))

    def kernel(
        x: weft.Ref,
        scale: weft.Ref,
        mean: weft.Ref,
        factor: weft.Ref,
        ct: weft.Ref,
        d_x: weft.Ref,
        d_scale: weft.Ref,
        d_bias: weft.Ref,
    ) -> None:
        normal = (x[...] - mean[...]) * factor[...]
        scaled = ct[...] * scale[...]
        along = (scaled * normal).mean(axis=1, keepdims=True)
        d_x[...] = (scaled - scaled.mean(axis=1, keepdims=True) - normal * along) * factor[...]
        # Rows past the end of the arrays hold nothing.
        row = pl.program_id(0) * ROWS + wnp.arange(ROWS)[:, None]
        valid = row < n
        d_scale[...] = wnp.where(valid, ct[...] * normal, 0).sum(axis=0, keepdims=True)
        d_bias[...] = wnp.where(valid, ct[...], 0).sum(axis=0, keepdims=True)

    sums = weft.ShapeDtypeStruct((blocks, width), x.dtype)
    d_x, d_scale, d_bias = pl.pallas_call(
        kernel,
        out_shape=[weft.ShapeDtypeStruct(x.shape, x.dtype), sums, sums],
        grid=blocks,
        in_specs=[rows, vector, column, column, rows],
        out_specs=[rows, partial, partial],
        name="layer_norm_backward",
    )(x, scale, mean, factor, cotangent)
    return d_x, d_scale.sum(axis=0), d_bias.sum(axis=0)


@functools.partial(weft.custom_vjp, nondiff_argnums=(3,))
def layer_norm(
    x: weft.Array, scale: weft.Array, bias: weft.Array, epsilon: float = 1e-5
) -> weft.Array:
    """(x - mean) / sqrt(variance + epsilon) * scale + bias along the last axis of a matrix."""
    return _forward(x, scale, bias, epsilon)[0]


def _forward_rule(
    x: weft.Array, scale: weft.Array, bias: weft.Array, epsilon: float
) -> tuple[weft.Array, tuple[weft.Array, ...]]:
    out, mean, factor = _forward(x, scale, bias, epsilon)
    return out, (x, scale, mean, factor)


def _backward_rule(
    epsilon: float, saved: tuple[weft.Array, ...], cotangent: weft.Array
) -> tuple[weft.Array, weft.Array, weft.Array]:
    x, scale, mean, factor = saved
    return _backward(x, scale, mean, factor, cotangent)


layer_norm.defvjp(_forward_rule, _backward_rule)
