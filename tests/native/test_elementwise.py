"""Sines, cosines and tangents by native kernels, against NumPy's in twice the precision."""

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft.core.config import options


def arguments(rng):
    """Ordinary ones, multiples of π/2, and all magnitudes up to the greatest."""
    parts = [
        rng.standard_normal(20000) * 5,
        rng.standard_normal(5000) * 1e5,
        10 ** rng.uniform(-30, 38, 5000) * rng.choice([-1, 1], 5000),
        np.arange(-2000, 2000) * np.pi / 2,
    ]
    return np.concatenate(parts).astype(np.float32)


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_waves_are_within_one_unit_in_the_last_place(name, rng):
    x = arguments(rng)
    compiled = weft.jit(getattr(wnp, name)).lower(x).compile()
    assert "weft_native_waves" in compiled.as_text()
    out = np.asarray(compiled(x)).astype(np.float64)
    expected = getattr(np, name)(x.astype(np.float64))
    unit = np.spacing(np.abs(expected).astype(np.float32)).astype(np.float64)
    assert (np.abs(out - expected) <= unit).all()


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_waves_of_doubles_are_within_one_unit_in_the_last_place(name, rng):
    x = np.concatenate(
        [
            arguments(rng).astype(np.float64),
            rng.standard_normal(100000) * 3,
            rng.uniform(-1.1e6, 1.1e6, 100000),
            10 ** rng.uniform(-300, 300, 5000),
            rng.integers(-660000, 660000, 20000) * (np.pi / 2),
        ]
    )
    with options["enable_x64"](True):
        compiled = weft.jit(getattr(wnp, name)).lower(x).compile()
        out = np.asarray(compiled(x))
    assert "weft_native_waves" in compiled.as_text()
    expected = getattr(np, name)(x.astype(np.longdouble))
    unit = np.spacing(np.abs(expected).astype(np.float64))
    assert (np.abs(out - expected) <= unit).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_waves_of_zeros_infinities_and_nan(name, dtype):
    x = np.full(5000, 1.0, dtype)
    x[:5] = [0.0, -0.0, np.inf, -np.inf, np.nan]
    with options["enable_x64"](dtype == "float64"):
        out = np.asarray(getattr(wnp, name)(x))
    assert np.isnan(out[2:5]).all() and not np.isnan(out[5:]).any()
    np.testing.assert_array_equal(out[:2], [1.0, 1.0] if name == "cos" else [0.0, 0.0])
    assert np.signbit(out[:2]).tolist() == ([False, False] if name == "cos" else [False, True])


def test_derivatives_batches_and_shards_of_waves(rng):
    x = rng.standard_normal((8, 1000)).astype(np.float32)
    grad = weft.jit(weft.grad(lambda x: (wnp.sin(x) * wnp.cos(x)).sum()))(x)
    np.testing.assert_allclose(grad, np.cos(2 * x), rtol=1e-4, atol=1e-5)
    slope = weft.jit(weft.grad(lambda x: wnp.tan(x).sum()))(x)
    np.testing.assert_allclose(slope, 1 / np.cos(x.astype(np.float64)) ** 2, rtol=1e-5)
    np.testing.assert_allclose(weft.vmap(wnp.sin)(x), np.sin(x), rtol=1e-6)
    mesh = weft.make_mesh((8,), ("x",))
    wide = np.tile(x, (1, 10))
    placed = weft.device_put(wide, weft.NamedSharding(mesh, weft.P("x")))
    np.testing.assert_allclose(weft.jit(wnp.sin)(placed), np.sin(wide), rtol=1e-6)
    assert "weft_native_waves" in weft.jit(wnp.sin).lower(placed).compile().as_text()


def test_small_arrays_are_left_to_xla():
    def hlo(x):
        return weft.jit(wnp.sin).lower(x).compile().as_text()

    assert "weft_native" not in hlo(np.zeros(1000, np.float32))
    assert "weft_native" in hlo(np.zeros(10000, np.float32))
    with options["native_ops"](False):
        assert "weft_native" not in hlo(np.zeros(10000, np.float32))


SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 1e-45,
           1e38, 3.5]  # fmt: skip


def ulps(out, exact):
    """The distance from exact results in units of the last place of float32."""
    info = np.finfo(np.float32)
    unit = np.spacing(np.clip(np.abs(exact), info.tiny, 0.75 * float(info.max)).astype(np.float32))
    return np.abs(np.asarray(out).astype(np.longdouble) - exact) / unit


@pytest.mark.parametrize("exponent", [1.7, -0.3, 20.5, 0.5, 1e-6, "each"])
def test_powers_are_exact_to_half_a_unit(exponent, rng):
    x = np.exp(rng.uniform(-80, 80, 20000)).astype(np.float32)
    y = rng.uniform(-3, 3, 20000).astype(np.float32) if exponent == "each" else exponent
    out = np.asarray(weft.jit(lambda x, y: x**y)(x, np.float32(y)))
    exact = x.astype(np.longdouble) ** np.asarray(y, np.float32).astype(np.longdouble)
    normal = (exact > np.finfo(np.float32).tiny) & (exact < np.finfo(np.float32).max)
    assert normal.any() and ulps(out, exact)[normal].max() < 0.51
    assert (out[exact > 1e39] == np.inf).all() and (out[exact < 1e-46] == 0).all()


def test_powers_of_special_numbers_are_those_of_c():
    x, y = (v.ravel().astype(np.float32) for v in np.meshgrid(SPECIAL, SPECIAL))
    x, y = (np.tile(v, 40) for v in (x, y))
    with np.errstate(all="ignore"):
        expected = (x.astype(np.float64) ** y.astype(np.float64)).astype(np.float32)
    out = np.asarray(weft.jit(lambda x, y: weft.lax.pow(x, y))(x, y))
    smallest = np.finfo(np.float32).tiny  # XLA's threads flush smaller results to zero
    np.testing.assert_allclose(out, expected, rtol=1e-6, atol=smallest)


def test_powers_have_derivatives_and_batches(rng):
    x = rng.uniform(0.5, 2, (8, 1000)).astype(np.float32)
    grad = weft.jit(weft.grad(lambda x: (x**1.7).sum()))(x)
    np.testing.assert_allclose(grad, 1.7 * x.astype(np.float64) ** 0.7, rtol=1e-6)
    y = np.arange(1000, dtype=np.float32) / 500
    out = weft.jit(weft.vmap(lambda x: x**y))(x)
    np.testing.assert_allclose(out, x.astype(np.float64) ** y, rtol=1e-6)


def dividends_and_divisors(rng, dtype):
    """Ordinary quotients, exact ones, those of all magnitudes, and special values."""
    n, top = 20_000, 30 if dtype == "float32" else 250
    signs = rng.choice([-1, 1], (2, n))
    x, y = signs * 10 ** rng.uniform(-top, top, (2, n))
    special = np.array([0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 2.5, -7])
    x = [rng.standard_normal(n) * 100, rng.integers(-1000, 1000, n) * 0.1, x, np.tile(special, 9)]
    y = [rng.standard_normal(n) + 0.1, rng.choice([0.1, 0.3, -0.7], n), y, np.repeat(special, 9)]
    return np.concatenate(x).astype(dtype), np.concatenate(y).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["fmod", "remainder"])
def test_remainders_are_exact(name, dtype, rng):
    x, y = dividends_and_divisors(rng, dtype)
    with np.errstate(all="ignore"), options["enable_x64"](True):
        for divisor in (y, y[3], np.dtype(dtype).type(1)):
            expected = getattr(np, name)(x, divisor)
            out = np.asarray(weft.jit(getattr(wnp, name))(x, divisor))
            np.testing.assert_array_equal(out, expected)
            np.testing.assert_array_equal(
                np.signbit(out[expected == 0]), np.signbit(expected[expected == 0])
            )
        text = weft.jit(getattr(wnp, name)).lower(x, y).compile().as_text()
    assert "weft_native_remainders" in text


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_remainders_by_constants_are_exact(dtype, rng):
    x, _ = dividends_and_divisors(rng, dtype)
    with np.errstate(all="ignore"), options["enable_x64"](True):
        for divisor in (0.25, 1.0, 0.1, -3.0):
            number = np.dtype(dtype).type(divisor)
            out = weft.jit(lambda x, number=number: wnp.fmod(x, number))(x)
            np.testing.assert_array_equal(out, np.fmod(x, number))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_floats_go_through_float32(dtype, rng):
    x = wnp.asarray(rng.standard_normal(20_000) * 50).astype(dtype)
    y = wnp.asarray(rng.standard_normal(20_000) + 0.1).astype(dtype)
    wide = [np.asarray(v.astype("float32")).astype(np.float64) for v in (x, y)]
    unit = 2.0**-10 if dtype == "float16" else 2.0**-7
    for name in ("sin", "cos", "tan"):
        compiled = weft.jit(getattr(wnp, name)).lower(x).compile()
        assert "weft_native_waves" in compiled.as_text()
        out = np.asarray(compiled(x).astype("float32"))
        np.testing.assert_allclose(out, getattr(np, name)(wide[0]), rtol=unit)
    rest = weft.jit(wnp.fmod)(x, y)
    assert rest.dtype == dtype
    np.testing.assert_array_equal(np.asarray(rest.astype("float32")), np.fmod(*wide))
    power = np.asarray(weft.jit(wnp.power)(wnp.abs(x), y).astype("float32"))
    expected = wnp.asarray(np.abs(wide[0]) ** wide[1]).astype(dtype).astype("float32")
    np.testing.assert_allclose(power, expected, rtol=unit)
