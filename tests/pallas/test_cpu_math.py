"""Elementary functions of compiled kernels: errors in units in the last place, special values."""

import numpy as np
import pytest

import weft
from weft import lax
from weft import pallas as pl

WIDE = np.longdouble

CASES = {
    "exp": (np.exp, -87.0, 88.7),
    "exp2": (np.exp2, -125.0, 127.9),
    "expm1": (np.expm1, -20.0, 88.0),
    "log": (np.log, 0.0, 1e6),
    "log1p": (np.log1p, -0.9999, 1e3),
    "tanh": (np.tanh, -12.0, 12.0),
    "logistic": (lambda x: 1 / (1 + np.exp(-x)), -80.0, 40.0),
    "sin": (np.sin, -1e4, 1e4),
    "cos": (np.cos, -1e4, 1e4),
    "tan": (np.tan, -1e3, 1e3),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 0.0, 1e4),
    "atan": (np.arctan, -30.0, 30.0),
    "asin": (np.arcsin, -1.0, 1.0),
    "acos": (np.arccos, -1.0, 1.0),
    "sinh": (np.sinh, -20.0, 20.0),
    "cosh": (np.cosh, -20.0, 20.0),
    "asinh": (np.arcsinh, -1e3, 1e3),
    "acosh": (np.arccosh, 1.0, 1e3),
    "atanh": (np.arctanh, -0.99999, 0.99999),
    "cbrt": (np.cbrt, -1e4, 1e4),
}


def native(name, x, *more):
    op = getattr(lax, name)

    def kernel(*refs):
        *ins, out = refs
        out[...] = op(*(r[...] for r in ins))

    call = pl.pallas_call(kernel, weft.ShapeDtypeStruct(x.shape, x.dtype))
    return np.asarray(call(x, *more))


def worst(got, want):
    """The largest error in units in the last place of the wanted values, rounded."""
    rounded = want.astype(got.dtype)
    error = np.abs(got.astype(WIDE) - want) / np.spacing(np.abs(rounded)).astype(WIDE)
    normal = np.abs(rounded) >= np.finfo(got.dtype).tiny
    return float(error[normal].max())


def points(rng, low, high, dtype):
    spread = rng.uniform(low, high, 20_000)
    near = rng.uniform(-1, 1, 20_000) * 10.0 ** rng.uniform(-20, 0, 20_000)
    near = near[(near > low) & (near < high)]
    return np.concatenate([spread, near]).astype(dtype)


@pytest.mark.parametrize("name", CASES)
def test_errors_in_float32_stay_within_two_ulp(rng, name):
    reference, low, high = CASES[name]
    x = points(rng, low, high, np.float32)
    assert worst(native(name, x), reference(x.astype(WIDE))) <= 2


@pytest.mark.parametrize("name", CASES)
def test_errors_in_float64_stay_within_two_ulp(rng, name):
    reference, low, high = CASES[name]
    with weft.enable_x64(True):
        x = points(rng, low, high, np.float64)
        assert worst(native(name, x), reference(x.astype(WIDE))) <= 2


def test_special_values_are_those_of_ieee754():
    inf, nan = np.inf, np.nan
    x = np.array([0.0, -0.0, inf, -inf, nan, 1.0, -1.0], "f4")
    with np.errstate(all="ignore"):
        for name in ("exp", "expm1", "log", "log1p", "tanh", "sin", "cos", "atan", "cbrt", "rsqrt"):
            if name in ("sin", "cos"):
                want = CASES[name][0](np.where(np.isinf(x), nan, x))
            else:
                want = CASES[name][0](x)
            got = native(name, x)
            np.testing.assert_allclose(got, want, rtol=1e-6, err_msg=name)
            np.testing.assert_array_equal(np.signbit(got[:2]), np.signbit(want[:2]), err_msg=name)


def test_powers_follow_numpy(rng):
    x = np.concatenate([rng.uniform(0, 50, 5000), [0, 0, 1, 2, 0, np.inf, -8, -2, -2]]).astype("f4")
    y = np.concatenate([rng.uniform(-8, 8, 5000), [0, 2, np.nan, 0, -1, 2, 3, -2, 0.5]]).astype(
        "f4"
    )
    with np.errstate(all="ignore"):
        want = np.power(x.astype(WIDE), y.astype(WIDE))
        got = native("pow", x, y)
        finite = np.isfinite(want.astype("f4"))
        assert worst(got[finite], want[finite]) <= 2
        np.testing.assert_array_equal(got[-9:], np.power(x[-9:], y[-9:]))


def test_atan2_covers_all_quadrants(rng):
    y, x = rng.standard_normal((2, 4000)).astype("f4")
    y[:4], x[:4] = [0.0, -0.0, 0.0, 1.0], [-1.0, -1.0, 1.0, 0.0]
    want = np.arctan2(y.astype(WIDE), x.astype(WIDE))
    assert worst(native("atan2", y, x), want) <= 2
    assert native("atan2", np.float32([0, -0.0]), np.float32([-1, -1])).tolist() == [
        np.float32(np.pi),
        -np.float32(np.pi),
    ]


def test_erf_and_erfc_against_the_c_library(rng):
    import math

    x = points(rng, -4.0, 4.0, np.float32)
    for name, function, error in (("erf", math.erf, 2), ("erfc", math.erfc, 4)):
        want = np.array([function(float(v)) for v in x], WIDE)
        assert worst(native(name, x), want) <= error


@pytest.mark.parametrize(("dtype", "error"), [("f4", 1e-6), ("f8", 1e-14)])
def test_erf_inv_undoes_erf(rng, dtype, error):
    import math

    with weft.enable_x64(True):
        y = rng.uniform(-3, 3, 2000)
        x = np.array([math.erf(v) for v in y]).astype(dtype)
        back = np.array([math.erf(float(v)) for v in native("erf_inv", x).astype("f8")])
        # Of 1 - |x| for large ones: there erf hardly moves.
        scale = np.minimum(np.abs(x), 1 - np.abs(x.astype("f8"))) + 1e-12
        assert np.abs((back - x) / scale).max() < (3e-2 if dtype == "f4" else 1e-9)
        middle = np.abs(x) < 0.9
        assert np.abs((back - x)[middle]).max() < error
        ends = native("erf_inv", np.array([-1, 0, 1, 2], dtype))
        np.testing.assert_array_equal(ends, [-np.inf, 0, np.inf, np.nan])


def test_gamma_functions_against_the_c_library_and_recurrences(rng):
    import math

    x = np.concatenate([rng.uniform(0.01, 60, 2000), rng.uniform(-6, 0, 500)]).astype("f4")
    want = np.array([math.lgamma(float(v)) for v in x])
    np.testing.assert_allclose(native("lgamma", x), want, rtol=1e-6, atol=1e-6)
    y = rng.uniform(0.1, 20, 1000).astype("f4")
    step = native("digamma", y + np.float32(1)).astype("f8") - native("digamma", y)
    np.testing.assert_allclose(step, 1 / y.astype("f8"), rtol=1e-4, atol=1e-5)
    assert abs(native("digamma", np.float32([1]))[0] + np.euler_gamma) < 1e-6
    ends = native("lgamma", np.array([0, -1, np.inf, -np.inf, np.nan, 1, 2], "f4"))
    np.testing.assert_allclose(ends, [np.inf, np.inf, np.inf, np.inf, np.nan, 0, 0], atol=1e-7)


def test_nextafter_walks_the_floats(rng):
    x = np.concatenate([rng.standard_normal(100), [1.0, -1.0, np.inf, np.nan, 3.0]]).astype("f4")
    y = np.concatenate([rng.standard_normal(100), [2.0, -1.0, 0.0, 1.0, np.nan]]).astype("f4")
    np.testing.assert_array_equal(native("nextafter", x, y), np.nextafter(x, y))
