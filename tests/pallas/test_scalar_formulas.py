"""Functions that backends have by formulas, and elements picked by index arrays."""

import math

import ml_dtypes
import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import lax

rng = np.random.default_rng(5)


def computed(call, function, *args):
    """The function of whole arrays inside a kernel."""
    out = weft.eval_shape(function, *args)

    def kernel(*refs):
        refs[-1][...] = function(*(r[...] for r in refs[:-1]))

    return np.asarray(call(kernel, weft.ShapeDtypeStruct(out.shape, out.dtype))(*args))


def test_digamma_is_the_derivative_of_the_logarithm_of_gamma(call):
    x = np.array([1, 2, 0.5, 0.01, 1.4616, 40, -0.5, 0, -3, np.inf, -np.inf, np.nan], "f4")
    gamma, log2 = np.euler_gamma, math.log(2)
    want = [-gamma, 1 - gamma, -gamma - 2 * log2, -100.5608855, -3.11587e-5]
    want += [math.log(40) - 1 / 80 - 1 / 19200 + 1 / (120 * 40**4), 2 - gamma - 2 * log2]
    want += [np.nan, np.nan, np.inf, np.nan, np.nan]
    np.testing.assert_allclose(computed(call, lax.digamma, x), want, rtol=2e-6, atol=1e-6)


def test_zeta_and_polygamma_at_known_places(call):
    pi = math.pi
    x = np.array([2, 4, 3, 2, 1, 0.5, 2, 3, 2.5], "f4")
    q = np.array([1, 1, 0.5, 3, 2, 1, 0, -3, -3], "f4")
    apery = 1.2020569031595942
    want = [pi**2 / 6, pi**4 / 90, 7 * apery, pi**2 / 6 - 1.25, np.inf, np.nan, np.inf]
    got = computed(call, lax.zeta, x, q)
    np.testing.assert_allclose(got, [*want, np.nan, np.nan], rtol=1e-6)
    m = np.array([0, 1, 2, 3, 1, -1, 1.5], "f4")
    x = np.array([1, 0.5, 1, 1, -0.5, 2, 2], "f4")
    want = [-np.euler_gamma, pi**2 / 2, -2 * apery, pi**4 / 15, pi**2 / 2 + 4, np.nan, np.nan]
    np.testing.assert_allclose(computed(call, lax.polygamma, m, x), want, rtol=2e-6)


@pytest.mark.parametrize("order", [0, 1])
def test_bessel_functions_are_means_of_their_integrand(call, order):
    x = np.concatenate([np.linspace(-30, 30, 61), [1e-8, 100, 499, 501, 1e4]]).astype("f4")
    angles = np.arange(4096) * (2 * math.pi / 4096)
    wide = x.astype("f8")[:, None]
    terms = np.exp(wide * np.cos(angles) - abs(wide)) * np.cos(order * angles)
    got = computed(call, [lax.bessel_i0e, lax.bessel_i1e][order], x)
    np.testing.assert_allclose(got, terms.mean(axis=1), rtol=2e-6, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_nextafter_changes_the_last_bit(call, dtype):
    dtype = np.dtype(getattr(ml_dtypes, dtype, dtype))
    x = np.array([0, -0.0, 1, -1, 1.5, np.inf, -np.inf, np.nan, 2, -3], dtype)
    y = np.array([1, -1, 2, -2, 1.5, 0, 0, 1, np.nan, np.inf], dtype)
    got = computed(call, lax.nextafter, x, y)
    known = ~np.isnan(got)
    np.testing.assert_array_equal(known, [*[True] * 7, False, False, True])
    bits = f"u{dtype.itemsize}"
    np.testing.assert_array_equal(got.view(bits)[known], np.nextafter(x, y).view(bits)[known])


@pytest.mark.parametrize(("exponent", "mantissa"), [(5, 10), (4, 3), (8, 7), (8, 30)])
def test_reduce_precision_rounds_to_even_and_to_the_ends(call, exponent, mantissa):
    x = np.concatenate([rng.standard_normal(32) * 10.0 ** rng.integers(-8, 8, 32)])
    x = np.concatenate([x, [0, -0.0, np.inf, -np.inf, np.nan, 1 + 2**-11, 1 + 3 * 2**-11]])
    x = x.astype("f4")
    wide, bias = x.astype("f8"), 2 ** (exponent - 1) - 1
    fraction, power = np.frexp(wide)
    want = np.ldexp(np.rint(fraction * 2.0 ** (mantissa + 1)), power - mantissa - 1)
    want = np.where(abs(want) >= 2.0 ** (bias + 1), np.copysign(np.inf, x), want)
    want = np.where(abs(want) < 2.0 ** (1 - bias), np.copysign(0, x), want)
    got = computed(call, lambda x: lax.reduce_precision(x, exponent, mantissa), x)
    np.testing.assert_array_equal(got, want.astype("f4"))
    np.testing.assert_array_equal(np.signbit(got)[:-3], np.signbit(x)[:-3])


@pytest.mark.parametrize("reverse", [False, True])
def test_cumlogsumexp_of_infinities_and_large_numbers(call, reverse):
    x = rng.standard_normal((3, 11)) * 300
    x[1, 3], x[1, 4], x[2, :2], x[0, 5] = np.inf, -np.inf, -np.inf, np.nan
    x = x.astype("f4")
    wide = x[:, ::-1] if reverse else x
    with np.errstate(invalid="ignore"):
        want = np.logaddexp.accumulate(wide.astype("f8"), axis=1)
    got = computed(call, lambda x: lax.cumlogsumexp(x, axis=1, reverse=reverse), x)
    np.testing.assert_allclose(got, want[:, ::-1] if reverse else want, rtol=1e-6)


X = rng.standard_normal((6, 5)).astype("f4")
ROWS, COLUMNS = np.array([4, -1, 0, 2, 5], "i4"), np.array([[3], [0], [1]], "i4")
PICKED = {
    "rows": (lambda x, i, j: x[i], lambda x, i, j: x[i]),
    "columns": (lambda x, i, j: wnp.take(x, j, axis=1), lambda x, i, j: np.take(x, j, axis=1)),
    "points": (lambda x, i, j: x[i, j], lambda x, i, j: x[i, j]),
    "one row": (lambda x, i, j: x[i[2]], lambda x, i, j: x[i[2]]),
    "one element": (lambda x, i, j: x[i[0], j[0, 0]], lambda x, i, j: x[i[0], j[0, 0]]),
    "of booleans": (lambda x, i, j: (x > 0)[i], lambda x, i, j: (x > 0)[i]),
    "by bytes": (lambda x, i, j: x[i.astype("int8")], lambda x, i, j: x[i]),
    "filled": (
        lambda x, i, j: x.at[i + 3].get(mode="fill", fill_value=7),
        lambda x, i, j: np.where((i + 3 < 6)[:, None], x[(i + 3) % 6], 7),
    ),
    "clipped": (
        lambda x, i, j: wnp.take(x, i + 3, axis=0, mode="clip"),
        lambda x, i, j: x[np.clip(i + 3, 0, 5)],
    ),
    "each row's": (
        lambda x, i, j: wnp.take_along_axis(x, wnp.argsort(x, axis=1)[:, :3], axis=1),
        lambda x, i, j: np.sort(x, axis=1)[:, :3],
    ),
    "windows": (
        lambda x, i, j: weft.vmap(lambda k: lax.dynamic_slice(x, (k, 1), (2, 3)))(i),
        lambda x, i, j: np.stack([x[k : k + 2, 1:4] for k in np.clip(i, 0, 4)]),
    ),
}


@pytest.mark.parametrize("name", PICKED)
def test_elements_are_picked_by_index_arrays(call, name):
    function, reference = PICKED[name]
    if name == "windows":
        args = X, np.array([4, 0, 2, 3, 1], "i4"), COLUMNS
    else:
        args = X, ROWS, COLUMNS
    np.testing.assert_array_equal(computed(call, function, *args), reference(*args))


def test_kernels_make_the_random_numbers_that_their_keys_make_elsewhere(call):
    def numbers(seed, i):
        left, right = weft.random.split(weft.random.fold_in(weft.random.key(seed), i))
        return weft.random.normal(left, (24,)), weft.random.bits(right, (24,))

    def kernel(seed, real, whole):
        real[...], whole[...] = numbers(seed[0], weft.pallas.program_id(0))

    block = weft.pallas.BlockSpec((None, 24), lambda i: (i, 0))
    outs = [weft.ShapeDtypeStruct((3, 24), d) for d in ("float32", "uint32")]
    one = weft.pallas.BlockSpec()
    real, whole = call(kernel, outs, grid=3, in_specs=[one], out_specs=[block] * 2)(np.array([7]))
    for i in range(3):
        normal, bits = numbers(7, i)
        np.testing.assert_allclose(real[i], normal, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(whole[i], bits)


IMAGE = rng.standard_normal((2, 9, 7)).astype("f4")
WEIGHTS = rng.standard_normal((3, 2, 3, 2)).astype("f4")


def windows_of(x, rows, columns):
    return np.lib.stride_tricks.sliding_window_view(x, (rows, columns), axis=(1, 2))


WINDOWS = {
    "convolution": (
        lambda x, w: lax.conv_general_dilated(x[None], w, (2, 1), "VALID")[0],
        lambda x, w: np.einsum("fyxij,ofij->oyx", windows_of(x, 3, 2)[:, ::2], w),
    ),
    "maxima": (
        lambda x, w: lax.reduce_window(x, -np.inf, lax.max, (1, 3, 2), (1, 2, 1), "VALID"),
        lambda x, w: windows_of(x, 3, 2)[:, ::2].max((3, 4)),
    ),
    "sums of many": (
        lambda x, w: lax.reduce_window(x, 0.0, lax.add, (1, 5, 4), (1, 1, 1), "VALID"),
        lambda x, w: windows_of(x, 5, 4).sum((3, 4)),
    ),
    "another shape": (lambda x, w: x.reshape(6, 21), lambda x, w: x.reshape(6, 21)),
    "a shape split": (lambda x, w: w.reshape(2, 9, 1, 2), lambda x, w: w.reshape(2, 9, 1, 2)),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_windows_and_shapes_are_made_of_other_ops(call, name):
    function, reference = WINDOWS[name]
    got = computed(call, function, IMAGE, WEIGHTS)
    np.testing.assert_allclose(got, reference(IMAGE, WEIGHTS), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["eq_to", "lt_to", "le_to"])
def test_the_total_order_tells_zeros_and_nan_of_both_signs_apart(call, name):
    from weft.ops import arithmetic

    ordered = np.array([-np.nan, -np.inf, -2, -0.0, 0, 1e-30, 3, np.inf, np.nan], "f4")
    ordered[0] = np.copysign(np.float32(np.nan), -1)
    place = np.arange(9)
    x, y = (np.ascontiguousarray(v) for v in np.broadcast_arrays(ordered[:, None], ordered))
    compare = {"eq_to": np.equal, "lt_to": np.less, "le_to": np.less_equal}[name]
    got = computed(call, getattr(arithmetic, f"{name}_p").bind, x, y)
    np.testing.assert_array_equal(got, compare(place[:, None], place))
