"""Elementwise functions as formulas of plain ops, against NumPy's in more precision."""

import re

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import lax
from weft.core.config import options

EVERY = 10.0 ** np.linspace(-300, 300, 20_000)


def signed(*parts):
    x = np.concatenate([np.asarray(p, np.float64).ravel() for p in parts])
    return np.concatenate([x, -x])


WHOLE_LINE = signed(np.linspace(0, 30, 20_001), EVERY)
UNIT = signed(np.linspace(0, 1, 20_001), EVERY[EVERY < 1], 1 - 10.0 ** np.linspace(-16, 0, 500))
CASES = {
    "arccos": UNIT,
    "arccosh": np.concatenate([1 + EVERY[EVERY < 1e300], np.linspace(1, 30, 20_000)]),
    "arcsin": UNIT,
    "arcsinh": WHOLE_LINE,
    "arctan": WHOLE_LINE,
    "arctanh": UNIT,
    "cbrt": WHOLE_LINE,
    "cosh": signed(np.linspace(0, 88, 20_001), EVERY[EVERY < 1]),
    "expm1": signed(np.linspace(0, 88, 20_001), EVERY[EVERY < 1]),
    "log": np.abs(WHOLE_LINE),
    "log1p": np.concatenate([np.abs(WHOLE_LINE), UNIT[UNIT > -1]]),
    "sinh": signed(np.linspace(0, 88, 20_001), EVERY[EVERY < 1]),
}
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 2.0, -2.0]


def compiled(function, *xs):
    return weft.jit(function).lower(*xs).compile()


def check(function, reference, *points, dtype):
    """Errors of at most 2 units in the last place where operands and result are normal."""
    tiny = np.finfo(dtype).tiny
    with np.errstate(all="ignore"):
        xs = [p.astype(dtype) for p in points]
        normal = np.all([(x == 0) | (np.abs(x) >= tiny) for x in xs], axis=0)
        xs = [x[normal] for x in xs]
        expected = reference(*(x.astype(np.longdouble) for x in xs))
        rounded = expected.astype(dtype)
    with options["enable_x64"](True):
        out = np.asarray(compiled(function, *xs)(*xs))
    assert out.dtype == dtype
    plain = np.isfinite(rounded) & (np.abs(rounded) >= tiny)
    ulp = np.spacing(np.abs(rounded[plain])).astype(np.longdouble)
    assert (np.abs(out[plain] - expected[plain]) <= 2 * ulp).all()
    exact = ~np.isfinite(rounded) | (rounded == 0)
    np.testing.assert_array_equal(out[exact], rounded[exact])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", CASES)
def test_errors_are_within_two_units_in_the_last_place(name, dtype):
    check(getattr(wnp, name), getattr(np, name), CASES[name], dtype=dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_angles_of_all_directions_are_within_two_units(dtype, rng):
    y, x = (rng.permutation(WHOLE_LINE) for _ in range(2))
    check(wnp.arctan2, np.arctan2, y, x, dtype=dtype)


def test_powers_of_doubles_are_within_one_unit_in_the_last_place(rng):
    x = 10.0 ** rng.uniform(-3, 3, 100_000)
    y = np.concatenate([rng.uniform(-12, 12, 50_000), rng.uniform(-90, 90, 50_000)])
    near = 1 + rng.uniform(-1, 1, 100_000) * 10.0 ** rng.uniform(-15, 0, 100_000)
    far = rng.uniform(-1, 1, 100_000) * 10.0 ** rng.uniform(0, 4, 100_000)
    with np.errstate(all="ignore"):
        check(wnp.power, np.power, np.append(x, near), np.append(y, far), dtype=np.float64)


def test_special_powers_of_doubles_are_numpys():
    values = np.array([*SPECIAL, 0.5, -0.5, 3.0, -3.0, 1e300, -1e300, 2.0**53 + 1, 1e-300])
    x, y = np.repeat(values, len(values)), np.tile(values, len(values))
    x, y = np.tile(x, 3), np.tile(y, 3)
    with np.errstate(all="ignore"), options["enable_x64"](True):
        expected, out = np.power(x, y), np.asarray(weft.jit(wnp.power)(x, y))
    np.testing.assert_allclose(out, expected, rtol=4e-16)
    zero = expected == 0
    np.testing.assert_array_equal(np.signbit(out[zero]), np.signbit(expected[zero]))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", [*CASES, "arctan2"])
def test_infinities_nan_and_signs_of_zeros_are_numpys(name, dtype):
    x = np.resize(np.array(SPECIAL, dtype), 810)
    xs = [x, np.repeat(x[:90], 9)] if name == "arctan2" else [x]
    with np.errstate(all="ignore"), options["enable_x64"](True):
        expected = getattr(np, name)(*xs)
        out = np.asarray(getattr(wnp, name)(*xs))
    np.testing.assert_allclose(out, expected, rtol=1e-6)
    zero = expected == 0
    np.testing.assert_array_equal(np.signbit(out[zero]), np.signbit(expected[zero]))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", sorted({*CASES} - {"log"}))
def test_narrow_floats_are_rounded_once(name, dtype):
    x = wnp.asarray(np.resize(CASES[name], 5000)).astype(dtype)
    wide = np.asarray(x.astype("float32"))
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(wide.astype(np.float64)).astype(np.float32)
    out = getattr(wnp, name)(x)
    assert out.dtype == x.dtype
    np.testing.assert_allclose(
        out.astype("float32"), wnp.asarray(expected).astype(dtype).astype("float32"), rtol=8e-3
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CASES)
def test_a_formula_is_one_loop_with_its_neighbours(name, dtype):
    with options["enable_x64"](True):
        x = np.full(200_000, 0.5, dtype)
        text = compiled(lambda x: 2 * getattr(wnp, name)(x + 1) - 1, x).as_text()
    entry = text[text.index("ENTRY") :]
    assert len(re.findall(r"= \S+ (fusion|call|custom-call)\(", entry)) == 1


def test_small_arrays_exports_and_other_settings_keep_the_operation():
    def texts(n):
        lowered = weft.jit(wnp.arctan).lower(np.ones(n, np.float32))
        return lowered.as_text(), lowered.compile().as_text()

    assert all("atan" in text for text in texts(100))
    before, after = texts(5000)
    assert "chlo.atan" in before and "multiply" in after
    with options["native_ops"](False):
        assert "multiply" not in texts(5001)[1]
    exported = weft.export.export(weft.jit(wnp.arctan))(weft.ShapeDtypeStruct((5000,), "float32"))
    assert "atan" in exported.mlir_module() and "multiply" not in exported.mlir_module()


def test_derivatives_batches_and_shards_of_formulas(rng):
    x = rng.standard_normal((8, 1000)).astype(np.float32)
    grad = weft.jit(weft.grad(lambda x: wnp.arctan(x).sum()))(x)
    np.testing.assert_allclose(grad, 1 / (1 + x.astype(np.float64) ** 2), rtol=1e-6)
    np.testing.assert_allclose(weft.vmap(wnp.arcsinh)(x), np.arcsinh(x), rtol=1e-6)
    mesh = weft.make_mesh((8,), ("x",))
    placed = weft.device_put(x, weft.NamedSharding(mesh, weft.P("x")))
    np.testing.assert_allclose(weft.jit(wnp.sinh)(placed), np.sinh(x), rtol=1e-6)
    assert "multiply" in weft.jit(wnp.sinh).lower(placed).compile().as_text()


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "uint8", "uint16", "uint32", "int64"])
def test_quotients_and_remainders_of_integers_are_exact(dtype, rng):
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    x = rng.integers(low, high, 20_000, dtype, endpoint=True)
    y = rng.integers(low, high, 20_000, dtype, endpoint=True)
    y[:10_000] = rng.integers(max(low, -50), 50, 10_000)
    x[:30], x[30:60], y[:60:3] = low, high, 1
    y[1:60:3], y[2:60:3] = low if low else 2, 7
    y[y == 0] = 3
    if low:
        y[62:64], x[64:66], y[64:66] = -1, low, -2
    with options["enable_x64"](True):
        for name in ("floor_divide", "remainder", "fmod"):
            out = weft.jit(getattr(wnp, name))(x, y)
            assert out.dtype == dtype
            np.testing.assert_array_equal(out, getattr(np, name)(x, y))


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "uint32"])
def test_integers_over_zero_and_the_least_one_over_minus_one_are_xlas(dtype):
    low = np.iinfo(dtype).min
    x = np.resize(np.array([5, low, 0], dtype), 999)
    ones = np.array(-1).astype(dtype)
    np.testing.assert_array_equal(weft.jit(lax.div)(x, np.zeros_like(x)), np.full(999, ones))
    np.testing.assert_array_equal(weft.jit(lax.rem)(x, np.zeros_like(x)), x)
    if low:
        y = np.full(999, -1, dtype)
        np.testing.assert_array_equal(weft.jit(lax.div)(x, y), (0 - x).astype(dtype))
        np.testing.assert_array_equal(weft.jit(lax.rem)(x, y), np.zeros_like(x))
