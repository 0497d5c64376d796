"""Depthwise convolutions and their gradients by native kernels, against sums of NumPy."""

from functools import partial

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import lax
from weft.core.config import options

GEOMETRIES = {  # strides, padding, dilation of the window, dilation of the operand
    "plain": ((1, 1), ((1, 1), (2, 2)), (1, 1), (1, 1)),
    "strided": ((2, 2), ((1, 1), (0, 3)), (1, 1), (1, 1)),
    "dilated": ((2, 1), ((0, 2), (3, 1)), (1, 2), (1, 1)),
    "transposed": ((1, 1), ((2, 2), (2, 2)), (1, 1), (2, 2)),
    "cropped": ((1, 1), ((-1, 1), (0, -2)), (1, 1), (1, 1)),
}
LAYOUTS = {"features first": ("NCHW", "OIHW", "NCHW"), "last": ("NHWC", "HWIO", "NHWC")}


def windows(x, geometry, window):
    """What each tap of the window reads of x[b, f, y, x]: (row, column, values)."""
    strides, padding, dilation, spread = geometry
    size = [(n - 1) * s + 1 for n, s in zip(x.shape[2:], spread, strict=True)]
    wide = np.zeros((*x.shape[:2], *size), x.dtype)
    wide[:, :, :: spread[0], :: spread[1]] = x
    for axis, (low, high) in enumerate(padding, 2):
        zeros = [(0, 0)] * 4
        zeros[axis] = (max(low, 0), max(high, 0))
        end = wide.shape[axis] + min(high, 0)
        wide = np.pad(np.take(wide, range(max(-low, 0), end), axis), zeros)
    reach = [(k - 1) * d for k, d in zip(window, dilation, strict=True)]
    for i in range(window[0]):
        for j in range(window[1]):
            y, x0 = i * dilation[0], j * dilation[1]
            part = wide[:, :, y : wide.shape[2] - reach[0] + y, x0 : wide.shape[3] - reach[1] + x0]
            yield i, j, part[:, :, :: strides[0], :: strides[1]]


def reference(x, w, geometry):
    multiplier = w.shape[0] // x.shape[1]
    return sum(
        np.repeat(part, multiplier, 1) * w[:, 0, i, j][:, None, None]
        for i, j, part in windows(x, geometry, w.shape[2:])
    )


@pytest.mark.parametrize(("features", "multiplier"), [(8, 1), (8, 2), (1, 3)])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_values_and_gradients_are_sums_over_the_window(geometry, layout, features, multiplier, rng):
    numbers, geometry = LAYOUTS[layout], GEOMETRIES[geometry]
    x = rng.standard_normal((3, features, 13, 17)).astype(np.float32)
    w = rng.standard_normal((features * multiplier, 1, 3, 5)).astype(np.float32)
    expected = reference(x, w, geometry)
    cotangent = rng.standard_normal(expected.shape).astype(np.float32)
    first = layout == "features first"
    turn = (lambda v: v) if first else (lambda v: v.transpose(0, 2, 3, 1))
    own_w = w if first else w.transpose(2, 3, 1, 0)
    strides, padding, dilation, spread = geometry

    def f(x, w):
        return lax.conv_general_dilated(
            x, w, strides, padding, spread, dilation, numbers, feature_group_count=features
        )

    out = weft.jit(f)(turn(x), own_w)
    np.testing.assert_allclose(out, turn(expected), rtol=1e-4, atol=1e-4)
    loss = lambda w: (f(turn(x), w) * turn(cotangent)).sum()  # noqa: E731
    got = np.asarray(weft.jit(weft.grad(loss))(own_w))
    got = got if first else got.transpose(3, 2, 0, 1)
    of_filter = np.zeros_like(w)
    for i, j, part in windows(x, geometry, w.shape[2:]):
        of_filter[:, 0, i, j] = (np.repeat(part, multiplier, 1) * cotangent).sum((0, 2, 3))
    np.testing.assert_allclose(got, of_filter, rtol=1e-3, atol=1e-3)
    if multiplier == 1:  # <ct, conv(v, w)> is <gradient, v> for any v
        gradient = weft.jit(weft.grad(lambda x: (f(x, own_w) * turn(cotangent)).sum()))(turn(x))
        v = rng.standard_normal(x.shape).astype(np.float32)
        np.testing.assert_allclose(
            (np.asarray(gradient) * turn(v)).sum(),
            (cotangent * reference(v, w, geometry)).sum(),
            rtol=1e-3,
            atol=1e-2,
        )


def test_one_dimension_is_a_row(rng):
    x = rng.standard_normal((4, 16, 200)).astype(np.float32)
    w = rng.standard_normal((16, 1, 7)).astype(np.float32)
    out = lax.conv_general_dilated(x, w, (1,), [(3, 3)], feature_group_count=16)
    plain = ((1, 1), ((0, 0), (3, 3)), (1, 1), (1, 1))
    expected = reference(x[:, :, None], w[:, :, None], plain)[:, :, 0]
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("lengths", [(600, 1), (520, 7), (1000, 64), (900, 900), (5003, 1023)])
def test_convolutions_of_vectors(lengths, dtype, rng):
    x, y = (rng.standard_normal(n).astype(dtype) for n in lengths)
    for mode in ("full", "same", "valid"):
        for name in ("convolve", "correlate"):
            ours = weft.jit(partial(getattr(wnp, name), mode=mode))
            for a, b in ((x, y), (y, x)):
                want = getattr(np, name)(*(v.astype(np.float64) for v in (a, b)), mode)
                np.testing.assert_allclose(ours(a, b), want, rtol=1e-4, atol=1e-3)
    assert "weft_native_depthwise" in ours.lower(x, y).compile().as_text()
    x[300] = np.inf
    got = np.asarray(weft.jit(wnp.convolve)(x, abs(y)))
    np.testing.assert_array_equal(np.flatnonzero(got == np.inf), 300 + np.arange(lengths[1]))
    assert np.isfinite(got[:300]).all()


def test_batches_and_shards_of_convolutions(rng):
    x = rng.standard_normal((8, 8, 16, 16)).astype(np.float32)
    w = rng.standard_normal((8, 1, 3, 3)).astype(np.float32)
    plain = ((1, 1), ((1, 1), (1, 1)), (1, 1), (1, 1))
    expected = reference(x, w, plain)

    def f(x, w):
        return lax.conv_general_dilated(x, w, (1, 1), "SAME", feature_group_count=8)

    both = weft.vmap(f)(np.stack([x, 2 * x]), np.stack([w, 3 * w]))
    np.testing.assert_allclose(both[1], 6 * expected, rtol=1e-4, atol=1e-4)
    mesh = weft.make_mesh((4, 2), ("a", "b"), axis_types=(weft.AxisType.Auto,) * 2)
    for spec in (weft.P("a"), weft.P("a", "b"), weft.P(None, None, "a")):
        placed = weft.device_put(x, weft.NamedSharding(mesh, spec))
        np.testing.assert_allclose(weft.jit(f)(placed, w), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("size", [(5, 5), (13, 11)], ids=str)
@pytest.mark.parametrize("layout", [*LAYOUTS.values(), ("NHWC", "OIHW", "NHWC")], ids="-".join)
def test_windows_of_one_element_are_products(layout, size, rng):
    x = rng.standard_normal((3, 8, *size)).astype(np.float32)
    w = rng.standard_normal((6, 8, 1, 1)).astype(np.float32)
    own_x = x if layout[0] == "NCHW" else x.transpose(0, 2, 3, 1)
    own_w = w if layout[1] == "OIHW" else w.transpose(2, 3, 1, 0)

    def f(x, w, stride=1):
        strides = (stride, stride)
        return lax.conv_general_dilated(x, w, strides, "SAME", dimension_numbers=layout)

    expected = np.einsum("bi...,oi->bo...", x, w[:, :, 0, 0])
    expected = expected if layout[0] == "NCHW" else expected.transpose(0, 2, 3, 1)
    np.testing.assert_allclose(weft.jit(f)(own_x, own_w), expected, rtol=1e-4, atol=1e-4)
    gradient = weft.jit(weft.grad(lambda x: f(x, own_w).sum()))(own_x)
    sums = w[:, :, 0, 0].sum(0).reshape((1, 8, 1, 1) if layout[0] == "NCHW" else (1, 1, 1, 8))
    np.testing.assert_allclose(gradient, np.broadcast_to(sums, own_x.shape), rtol=1e-4, atol=1e-4)
    rows = slice(None, None, 2)
    part = (..., rows, rows) if layout[0] == "NCHW" else (slice(None), rows, rows)
    strided = weft.jit(lambda x, w: f(x, w, 2))(own_x, own_w)
    np.testing.assert_allclose(strided, expected[part], rtol=1e-4, atol=1e-4)
    text = weft.jit(f).lower(own_x, own_w).compile().as_text()
    assert "convolution(" not in text


def test_depthwise_kernels_can_be_switched_off():
    def f(x, w):
        return lax.conv_general_dilated(x, w, (1, 1), "SAME", feature_group_count=16)

    def hlo():
        x, w = np.zeros((2, 16, 30, 30), np.float32), np.zeros((16, 1, 3, 3), np.float32)
        return weft.jit(lambda x, w: f(x, w)).lower(x, w).compile().as_text()

    assert "weft_native_depthwise" in hlo()
    with options["native_ops"](False):
        assert "weft_native" not in hlo()
