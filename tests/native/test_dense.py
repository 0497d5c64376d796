"""Convolutions of all features by a native kernel, against sums of NumPy over the windows."""

import numpy as np
import pytest

import weft
from tests.native.test_convolution import GEOMETRIES, windows
from tests.native.test_filters import LAYOUTS, arranged
from weft import lax
from weft.core.config import options

FIRST = LAYOUTS["features first"]
PLAIN = GEOMETRIES["plain"]
MORE = {
    "spread and strided": ((2, 3), ((1, 2), (3, 0)), (1, 1), (3, 2)),
    "spread wider than the window": ((1, 1), ((0, 1), (1, 1)), (1, 1), (7, 4)),
    "of gaps alone": ((2, 2), ((1, 0), (1, 0)), (2, 2), (2, 2)),
}


def convolve(geometry, numbers=FIRST):
    strides, padding, dilation, spread = geometry
    return lambda x, w: lax.conv_general_dilated(x, w, strides, padding, spread, dilation, numbers)


def compiled(x, w, geometry, numbers=FIRST):
    """The result of a compiled convolution, which has to be the kernel's."""
    program = weft.jit(convolve(geometry, numbers)).lower(x, w).compile()
    assert "weft_native_dense" in program.as_text()
    return np.asarray(program(x, w))


def reference(x, w, geometry):
    return sum(
        np.einsum("biyx,oi->boyx", part, w[:, :, i, j], dtype=np.float64)
        for i, j, part in windows(x, geometry, w.shape[2:])
    )


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("geometry", [*GEOMETRIES, *MORE])
def test_values_and_gradients_are_sums_over_the_window(geometry, layout, rng):
    numbers, geometry = LAYOUTS[layout], (GEOMETRIES | MORE)[geometry]
    x = rng.standard_normal((3, 19, 21, 23)).astype(np.float32)
    w = rng.standard_normal((40, 19, 3, 5)).astype(np.float32)
    want = reference(x, w, geometry)
    own_x, own_w = (arranged(v, *n) for v, *n in zip((x, w), FIRST, numbers, strict=False))
    got = compiled(own_x, own_w, geometry, numbers)
    np.testing.assert_allclose(got, arranged(want, "NCHW", numbers[2]), rtol=1e-4, atol=1e-3)
    # <ct, conv(v, w)> is <gradient, v> for any v
    ct = rng.standard_normal(want.shape).astype(np.float32)
    own_ct = arranged(ct, "NCHW", numbers[2])
    loss = lambda x, w: (convolve(geometry, numbers)(x, w) * own_ct).sum()  # noqa: E731
    gradient = np.asarray(weft.jit(weft.grad(loss))(own_x, own_w))
    v = rng.standard_normal(x.shape).astype(np.float32)
    np.testing.assert_allclose(
        (gradient * arranged(v, "NCHW", numbers[0])).sum(dtype=np.float64),
        (ct * reference(v, w, geometry)).sum(),
        rtol=1e-3,
        atol=0.1,
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("inputs", [2, 3, 64, 150])
@pytest.mark.parametrize("outputs", [16, 31, 33, 48, 130])
def test_any_number_of_features(inputs, outputs, dtype, rng):
    tolerance = 1e-3 if dtype == np.float32 else 1e-11
    with options["enable_x64"](True):
        for shape, window in (((2, 9, 70), (3, 3)), ((1, 6, 5), (1, 2)), ((5, 2, 3), (2, 1))):
            x = rng.standard_normal((shape[0], inputs, *shape[1:])).astype(dtype)
            w = rng.standard_normal((outputs, inputs, *window)).astype(dtype)
            for layout in ("features first", "features last"):
                numbers = LAYOUTS[layout]
                own = (arranged(v, *n) for v, *n in zip((x, w), FIRST, numbers, strict=False))
                program = weft.jit(convolve(PLAIN, numbers))
                want = arranged(reference(x, w, PLAIN), "NCHW", numbers[2])
                np.testing.assert_allclose(program(*own), want, rtol=tolerance, atol=tolerance)


def test_long_lines_many_images_wide_windows_and_one_dimension(rng):
    for shape, window in (
        ((700, 8, 3, 2), (3, 3)),
        ((2, 8, 3, 1500), (1, 5)),
        ((2, 3, 40, 30), (15, 16)),
        ((1, 300, 20, 20), (3, 3)),
    ):
        x = rng.standard_normal(shape).astype(np.float32)
        w = rng.standard_normal((24, shape[1], *window)).astype(np.float32)
        want = reference(x, w, PLAIN)
        np.testing.assert_allclose(compiled(x, w, PLAIN), want, rtol=1e-3, atol=2e-3)
    x = rng.standard_normal((2, 8, 1, 3000)).astype(np.float32)
    w = rng.standard_normal((24, 8, 1, 5)).astype(np.float32)
    plain = ((1, 1), ((0, 0), (2, 2)), (1, 1), (1, 1))
    line = ((2,), ((2, 2),), (1,), (1,))
    got = compiled(x[:, :, 0], w[:, :, 0], line, ("NCH", "OIH", "NCH"))
    want = reference(x, w, plain)[:, :, 0, ::2]
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_windows_of_one_element_with_strides(layout, rng):
    numbers, geometry = LAYOUTS[layout], ((2, 3), ((0, 0), (1, 0)), (1, 1), (1, 1))
    x = rng.standard_normal((3, 20, 17, 16)).astype(np.float32)
    w = rng.standard_normal((32, 20, 1, 1)).astype(np.float32)
    own = (arranged(v, *n) for v, *n in zip((x, w), FIRST, numbers, strict=False))
    want = arranged(reference(x, w, geometry), "NCHW", numbers[2])
    np.testing.assert_allclose(compiled(*own, geometry, numbers), want, rtol=1e-4, atol=1e-3)


def test_reversed_filters_are_read_backwards(rng):
    x = rng.standard_normal((2, 16, 11, 12)).astype(np.float32)
    w = rng.standard_normal((16, 16, 3, 3)).astype(np.float32)
    for dims in ((2,), (2, 3), (1, 2)):
        program = weft.jit(lambda x, w, dims=dims: convolve(PLAIN)(x, lax.rev(w, dims)))
        want = reference(x, np.flip(w, dims), PLAIN)
        np.testing.assert_allclose(program(x, w), want, rtol=1e-4, atol=1e-3)


def test_a_value_that_is_not_finite_is_where_windows_read_it(rng):
    x = rng.standard_normal((2, 13, 30, 30)).astype(np.float32)
    w = rng.standard_normal((21, 13, 3, 3)).astype(np.float32)
    x[1, 5, 10, 10], x[0, 2, 29, 0], w[3, 4, 1, 1] = np.inf, np.nan, np.nan
    geometry = ((1, 1), ((1, 1), (1, 1)), (1, 1), (1, 1))
    odd = np.zeros((2, 21, 30, 30), bool)
    odd[1, :, 9:12, 9:12] = odd[0, :, 28:, :2] = odd[:, 3] = True
    got = compiled(x, w, geometry)
    np.testing.assert_array_equal(np.isfinite(got), ~odd)


def test_batches_shards_and_the_number_of_devices(rng):
    x = rng.standard_normal((8, 16, 20, 20)).astype(np.float32)
    w = rng.standard_normal((32, 16, 3, 3)).astype(np.float32)
    f = convolve(PLAIN)
    want = reference(x, w, PLAIN)
    both = weft.vmap(f, (0, None))(np.stack([x, 2 * x]), w)
    np.testing.assert_allclose(both[1], 2 * want, rtol=1e-3, atol=1e-3)
    mesh = weft.make_mesh((4, 2), ("a", "b"), axis_types=(weft.AxisType.Auto,) * 2)
    for spec in (weft.P("a"), weft.P("a", "b"), weft.P(None, None, "a")):
        placed = weft.device_put(x, weft.NamedSharding(mesh, spec))
        np.testing.assert_allclose(weft.jit(f)(placed, w), want, rtol=1e-3, atol=1e-3)


def test_other_dtypes_groups_and_programs_without_kernels_are_left(rng):
    x = rng.standard_normal((2, 16, 20, 20)).astype(np.float32)
    w = rng.standard_normal((16, 16, 3, 3)).astype(np.float32)
    half = weft.jit(convolve(PLAIN)).lower(x.astype(np.float16), w.astype(np.float16))
    assert "weft_native_dense" not in half.compile().as_text()
    with options["native_ops"](False):
        program = weft.jit(lambda x, w: convolve(PLAIN)(x, w)).lower(x, w).compile()
        assert "weft_native" not in program.as_text()
    np.testing.assert_allclose(program(x, w), reference(x, w, PLAIN), rtol=1e-3, atol=1e-3)
