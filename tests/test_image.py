"""weft.image: filters against their formulas on the host."""

import numpy as np
import pytest

import weft
from weft import image

X = np.random.default_rng(1).standard_normal((6, 5)).astype(np.float32)


def keys(x, a):
    near = (a + 2) * x**3 - (a + 3) * x**2 + 1
    return np.where(x < 1, near, np.where(x < 2, a * (x**3 - 5 * x**2 + 8 * x - 4), 0))


KERNELS = {
    "linear": lambda x: np.maximum(0, 1 - x),
    "cubic": lambda x: keys(x, -0.5),
    "lanczos3": lambda x: np.where(x < 3, np.sinc(x) * np.sinc(x / 3), 0),
    "lanczos5": lambda x: np.where(x < 5, np.sinc(x) * np.sinc(x / 5), 0),
}


def resampled(x, size, scale, shift, method, antialias):
    """The first dimension resampled, one output pixel after the other."""
    width = max(1 / scale, 1) if antialias else 1
    rows = []
    for k in range(size):
        centre = (k + 0.5 - shift) / scale - 0.5
        w = KERNELS[method](np.abs(centre - np.arange(len(x))) / width)
        inside = -0.5 <= centre <= len(x) - 0.5
        rows.append((w / w.sum()) @ x if inside else 0 * x[0])
    return np.array(rows)


@pytest.mark.parametrize("method", KERNELS)
@pytest.mark.parametrize("antialias", [True, False])
def test_resampled_images_are_weighted_sums(method, antialias):
    for size in (3, 9):
        got = image.resize(X, (size, 5), method, antialias)
        want = resampled(X, size, size / 6, 0, method, antialias)
        np.testing.assert_allclose(got, want, atol=1e-5)
    scale, shift = np.float32([0.7]), np.float32([1.2])
    moved = image.scale_and_translate(X, (7, 5), (0,), scale, shift, method, antialias)
    want = resampled(X, 7, 0.7, 1.2, method, antialias)
    np.testing.assert_allclose(moved, want, atol=1e-5)


def test_the_nearest_pixel_is_taken():
    got = image.resize(X, (3, 10), "nearest")
    np.testing.assert_array_equal(got, np.repeat(X[1::2], 2, axis=1))
    got = image.resize(np.arange(6), (4,), image.ResizeMethod.NEAREST)
    assert np.asarray(got).tolist() == [0, 2, 3, 5]


def test_borders_of_pytorchs_cubic_go_on_outside():
    x = np.pad(X, ((4, 4), (0, 0)), mode="edge")
    got = image.resize(X, (9, 5), "cubic-pytorch", antialias=False)
    centres = (np.arange(9) + 0.5) * 6 / 9 - 0.5
    weights = keys(np.abs(centres[:, None] - np.arange(-4, 10)), -0.75)
    np.testing.assert_allclose(got, weights @ x, atol=1e-5)


def test_images_of_one_value_keep_it_and_integers_become_floats():
    for method in ("linear", "cubic", "lanczos3", "cubic-pytorch"):
        np.testing.assert_allclose(image.resize(np.full((4, 4), 3), (7, 2), method), 3.0, rtol=1e-5)


def test_derivatives_are_those_of_a_linear_function_and_of_its_position():
    y, pull = weft.vjp(lambda v: image.resize(v, (9, 3), "cubic"), X)
    ct = np.ones_like(y)
    assert np.sum(pull(ct)[0] * X) == pytest.approx(float(np.sum(y)), rel=1e-4)
    move = lambda t: image.scale_and_translate(
        np.arange(9, dtype=np.float32), (9,), (0,), np.ones(1, np.float32), t, "linear"
    )[4]
    np.testing.assert_allclose(weft.grad(move)(np.float32([0.25])), [-1.0], rtol=1e-5)


def test_batches_of_images_stay_sharded():
    mesh = weft.make_mesh((8,), ("x",))
    rows = weft.NamedSharding(mesh, weft.P("x"))
    x = weft.ShapeDtypeStruct((16, 8, 8, 3), "float32", sharding=rows)
    assert weft.comm(lambda v: image.resize(v, (16, 4, 4, 3), "bilinear"), x).counts() == {}


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: image.resize(X, (3, 3), "best"), ValueError, "resize method"),
        (lambda: image.resize(X, (3,), "linear"), ValueError, "shape"),
        (lambda: image.scale_and_translate(X, (3, 5), (0,), [1.0, 2.0], [0.0], "linear"),
         (ValueError, TypeError), "scale|list"),
        (lambda: image.scale_and_translate(X, (3, 4), (0,), np.ones(1), np.ones(1), "linear"),
         ValueError, "dimension 1"),
        (lambda: image.scale_and_translate(X, (3, 5), (0,), np.ones(1), np.ones(1), "nearest"),
         ValueError, "nearest"),
    ],
)  # fmt: skip
def test_what_cannot_be_says_why(call, error, words):
    with pytest.raises(error, match=words):
        call()
