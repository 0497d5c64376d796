"""Gradients of filters by a native kernel, against sums of NumPy over the windows."""

import numpy as np
import pytest

import weft
from tests.native.test_convolution import GEOMETRIES, windows
from weft import lax
from weft.core.config import options

LAYOUTS = {
    "features first": ("NCHW", "OIHW", "NCHW"),
    "features last": ("NHWC", "HWIO", "NHWC"),
    "of two kinds": ("NCHW", "HWIO", "NHWC"),
}


def gradient(x, w, ct, geometry, numbers=LAYOUTS["features first"]):
    """The gradient of <ct, conv(x, w)> for w, compiled; and the compiled text."""
    strides, padding, dilation, spread = geometry

    def loss(w, x, ct):
        return (
            lax.conv_general_dilated(x, w, strides, padding, spread, dilation, numbers) * ct
        ).sum()

    compiled = weft.jit(weft.grad(loss)).lower(w, x, ct).compile()
    return np.asarray(compiled(w, x, ct)), compiled.as_text()


def expected(x, ct, geometry, window):
    result = np.zeros((ct.shape[1], x.shape[1], *window), np.float64)
    for i, j, part in windows(x, geometry, window):
        result[:, :, i, j] = np.einsum("boyx,biyx->oi", ct, part, dtype=np.float64)
    return result


def arranged(value, letters, spec):
    return value.transpose([letters.index(d) for d in spec])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("geometry", [g for g in GEOMETRIES if g != "transposed"])
def test_gradients_are_sums_over_the_places_of_a_tap(geometry, layout, rng):
    numbers, geometry = LAYOUTS[layout], GEOMETRIES[geometry]
    x = rng.standard_normal((3, 19, 21, 23)).astype(np.float32)
    outs = next(part for _, _, part in windows(x, geometry, (3, 5))).shape[2:]
    ct = rng.standard_normal((3, 40, *outs)).astype(np.float32)
    w = np.zeros((40, 19, 3, 5), np.float32)
    order = zip((x, w, ct), LAYOUTS["features first"], numbers, strict=True)
    operands = [arranged(*each) for each in order]
    got, text = gradient(*operands, geometry, numbers)
    want = arranged(expected(x, ct, geometry, (3, 5)), "OIHW", numbers[1])
    assert "weft_native_filters" in text
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("inputs", [1, 3, 26])
@pytest.mark.parametrize("outputs", [7, 33, 48, 130])
def test_any_number_of_features_is_summed(inputs, outputs, dtype, rng):
    plain = ((1, 1), ((1, 1), (1, 1)), (1, 1), (1, 1))
    with options["enable_x64"](True):
        for size in ((20, 130), (130, 30)):
            x = rng.standard_normal((2, inputs, *size)).astype(dtype)
            ct = rng.standard_normal((2, outputs, *size)).astype(dtype)
            w = np.zeros((outputs, inputs, 3, 3), dtype)
            got, _ = gradient(x, w, ct, plain)
            tolerance = 1e-3 if dtype == np.float32 else 1e-11
            want = expected(x, ct, plain, (3, 3))
            np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def test_long_rows_small_images_and_one_dimension(rng):
    for shape in ((40, 16, 6, 5), (2, 5, 3, 700), (2, 8, 1, 3000)):
        x = rng.standard_normal(shape).astype(np.float32)
        ct = rng.standard_normal((shape[0], 24, *shape[2:])).astype(np.float32)
        plain = ((1, 1), ((0, 0), (2, 2)), (1, 1), (1, 1))
        want = expected(x, ct, plain, (1, 5))
        got, _ = gradient(x, np.zeros((24, shape[1], 1, 5), np.float32), ct, plain)
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=2e-3)
        if shape[2] == 1:
            line = ((1,), ((2, 2),), (1,), (1,))
            w = np.zeros((24, shape[1], 5), np.float32)
            got, text = gradient(x[:, :, 0], w, ct[:, :, 0], line, ("NCH", "OIH", "NCH"))
            assert "weft_native_filters" in text
            np.testing.assert_allclose(got, want[:, :, 0], rtol=1e-3, atol=2e-3)


def test_a_value_that_is_not_finite_stays_with_its_features(rng):
    plain = ((1, 1), ((1, 1), (1, 1)), (1, 1), (1, 1))
    x = rng.standard_normal((2, 13, 30, 30)).astype(np.float32)
    ct = rng.standard_normal((2, 21, 30, 30)).astype(np.float32)
    x[1, 5, 10, 10], ct[0, 3, 4, 4] = np.inf, np.nan
    got, _ = gradient(x, np.zeros((21, 13, 3, 3), np.float32), ct, plain)
    odd = np.zeros((21, 13), bool)
    odd[:, 5] = odd[3] = True
    assert np.isfinite(got[~odd]).all() and not np.isfinite(got[odd]).any()


def test_shards_of_the_batch_and_of_features_add_up(rng):
    plain = ((1, 1), ((1, 1), (1, 1)), (1, 1), (1, 1))
    x = rng.standard_normal((8, 16, 20, 20)).astype(np.float32)
    ct = rng.standard_normal((8, 32, 20, 20)).astype(np.float32)
    w = np.zeros((32, 16, 3, 3), np.float32)
    mesh = weft.make_mesh((4, 2), ("a", "b"), axis_types=(weft.AxisType.Auto,) * 2)
    for spec in (weft.P("a"), weft.P("a", "b"), weft.P(None, None, "a")):
        placed = weft.device_put(x, weft.NamedSharding(mesh, spec))
        got, _ = gradient(placed, w, ct, plain)
        np.testing.assert_allclose(got, expected(x, ct, plain, (3, 3)), rtol=1e-3, atol=2e-3)


def test_kernels_of_filters_can_be_switched_off(rng):
    plain = ((1, 1), ((1, 1), (1, 1)), (1, 1), (1, 1))
    x = rng.standard_normal((2, 16, 30, 30)).astype(np.float32)
    w = np.zeros((16, 16, 3, 3), np.float32)
    with options["native_ops"](False):
        got, text = gradient(x, w, x, plain)
        assert "weft_native" not in text
    np.testing.assert_allclose(got, expected(x, x, plain, (3, 3)), rtol=1e-3, atol=1e-3)
