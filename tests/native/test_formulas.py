"""Elementwise functions as formulas of plain ops, against NumPy's in more precision."""

import math
import re

import numpy as np
import pytest
import scipy.special

import weft
import weft.numpy as wnp
from weft import lax
from weft.core.config import options
from weft.native.rewrite import FEW_ELEMENTS, rewrite

LARGE = 70_000  # elements, from which all formulas serve
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
    "exp": signed(np.linspace(0, 88, 20_001), EVERY[EVERY < 1]),
    "log10": np.abs(WHOLE_LINE),
    "log2": np.abs(WHOLE_LINE),
    "cosh": signed(np.linspace(0, 88, 20_001), EVERY[EVERY < 1]),
    "expm1": signed(np.linspace(0, 88, 20_001), EVERY[EVERY < 1]),
    "log": np.abs(WHOLE_LINE),
    "log1p": np.concatenate([np.abs(WHOLE_LINE), UNIT[UNIT > -1]]),
    "sinh": signed(np.linspace(0, 88, 20_001), EVERY[EVERY < 1]),
    "tanh": signed(np.linspace(0, 24, 40_001), np.linspace(0.1, 0.6, 20_000), EVERY[EVERY < 1]),
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
        xs = [np.resize(x[normal], max(normal.sum(), LARGE)) for x in xs]
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
@pytest.mark.parametrize("sign", [1, -1])
def test_erfc_of_numbers_over_root_2_is_exact_in_the_tail(sign, dtype):
    far = 12.5 if dtype == np.float32 else 36.0
    x = np.linspace(-1, far, 5000).astype(dtype)
    with options["enable_x64"](True), options["native_ops"](True):
        out = weft.jit(lambda x: lax.erfc(x * dtype(sign * math.sqrt(0.5))))(sign * x)
    exact = x.astype(np.longdouble)
    expected = scipy.special.erfcx(x * math.sqrt(0.5)) * np.exp(-exact * exact / 2)
    np.testing.assert_allclose(out, expected.astype(np.float64), rtol=10 * np.finfo(dtype).eps)


def test_a_factor_near_root_half_is_taken_as_it_is():
    x, factor = np.linspace(5, 30, 5000), float(np.float32(math.sqrt(0.5)))
    with options["enable_x64"](True), options["native_ops"](True):
        out = weft.jit(lambda x: lax.erfc(x * factor))(x)
    np.testing.assert_allclose(out, scipy.special.erfc(x * factor), rtol=1e-11)


@pytest.mark.parametrize("name", ["cbrt", "cosh", "expm1", "log1p", "tanh"])
def test_a_hundred_floats_are_within_one_unit_in_the_last_place(name):
    points, size = CASES[name], np.abs(CASES[name])
    inside = (size > 1e-36) & (size < 80) & ((points > -0.9999) | (name != "log1p"))
    x = np.resize(points[inside][::40].astype("float32"), 4000)
    expected = getattr(np, name)(x.astype(np.float64))
    function = weft.jit(getattr(wnp, name))
    out = np.concatenate([np.asarray(function(part)) for part in np.split(x, 40)])
    normal = np.abs(expected) >= np.finfo("float32").tiny
    ulp = np.spacing(np.abs(expected).astype("float32"))
    assert (np.abs(out - expected) <= ulp)[normal].all()


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
    x, y = np.tile(x, 30), np.tile(y, 30)
    with np.errstate(all="ignore"), options["enable_x64"](True):
        expected, out = np.power(x, y), np.asarray(weft.jit(wnp.power)(x, y))
    np.testing.assert_allclose(out, expected, rtol=4e-16)
    zero = expected == 0
    np.testing.assert_array_equal(np.signbit(out[zero]), np.signbit(expected[zero]))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", [*CASES, "arctan2"])
def test_infinities_nan_and_signs_of_zeros_are_numpys(name, dtype):
    x = np.resize(np.array(SPECIAL, dtype), 81 * 900)
    xs = [x, np.resize(np.repeat(x[:9], 9), x.size)] if name == "arctan2" else [x]
    with np.errstate(all="ignore"), options["enable_x64"](True):
        expected = getattr(np, name)(*xs)
        out = np.asarray(getattr(wnp, name)(*xs))
    np.testing.assert_allclose(out, expected, rtol=1e-6)
    zero = expected == 0
    np.testing.assert_array_equal(np.signbit(out[zero]), np.signbit(expected[zero]))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", sorted({*CASES} - {"log", "log2", "log10"}))
def test_narrow_floats_are_rounded_once(name, dtype):
    points = CASES[name][(np.abs(CASES[name]) > 1e-3) & (np.abs(CASES[name]) < 60)]
    x = wnp.asarray(np.resize(points, LARGE)).astype(dtype)
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

    assert all("atan" in text for text in texts(1000))
    before, after = texts(5000)
    assert "chlo.atan" in before and "multiply" in after
    with options["native_ops"](False):
        assert "multiply" not in texts(5001)[1]
    exported = weft.export.export(weft.jit(wnp.arctan))(weft.ShapeDtypeStruct((5000,), "float32"))
    assert "atan" in exported.mlir_module() and "multiply" not in exported.mlir_module()


def test_all_functions_of_a_program_on_few_elements_stay_operations():
    def turns(x):
        for _ in range(300):
            x = wnp.tanh(x) * 2
        return x

    module = weft.jit(turns).lower(weft.ShapeDtypeStruct((), "float32")).compiler_ir()
    rewritten = str(rewrite(module))
    assert len(re.findall(r"stablehlo.tanh .*tensor<f64>", rewritten)) == 300
    assert FEW_ELEMENTS not in rewritten


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
    x = np.resize(np.array([5, low, 0], dtype), 6000)
    ones = np.array(-1).astype(dtype)
    np.testing.assert_array_equal(weft.jit(lax.div)(x, np.zeros_like(x)), np.full(6000, ones))
    np.testing.assert_array_equal(weft.jit(lax.rem)(x, np.zeros_like(x)), x)
    if low:
        y = np.full(6000, -1, dtype)
        np.testing.assert_array_equal(weft.jit(lax.div)(x, y), (0 - x).astype(dtype))
        np.testing.assert_array_equal(weft.jit(lax.rem)(x, y), np.zeros_like(x))


TABLES = {
    "erf": (
        (1e-300, 1.1283791670955126e-300),
        (1e-09, 1.12837916709551264e-9),
        (0.1, 0.112462916018284898),
        (0.5, 0.520499877813046538),
        (0.84, 0.765142711454994517),
        (0.85, 0.77066805760835252),
        (1.2, 0.910313978229635368),
        (1.3, 0.934007944940652446),
        (2.0, 0.995322265018952734),
        (2.9, 0.999958902121900541),
        (4.5, 0.999999999803383956),
        (7.0, 1.0),
    ),
    "erf_inv": (
        (1e-300, 8.86226925452758036e-301),
        (1e-09, 8.86226925452758069e-10),
        (0.1, 0.088855990494257692),
        (0.5, 0.476936276204469873),
        (0.8, 0.90619380243682331),
        (0.93, 1.28121432374906281),
        (0.95, 1.38590382434967768),
        (0.999, 2.32675376551352449),
        (0.9999999, 3.76656258163847089),
        (0.99999995, 3.85465857688013674),
        (0.999999999999, 5.04203189857269613),
        (0.9999999850988388, 4.00413188511447529),
        (0.9999999990686774, 4.32802827580094646),
        (0.999999999996362, 4.91479938592404944),
        (0.9999999999999716, 5.37776778154127928),
        (0.9999999999999999, 5.86358474875516793),
    ),
    "erfc": (
        (-5.0, 1.99999999999846254),
        (-0.75, 1.71115563365351513),
        (-0.25, 1.27632639016823693),
        (1e-20, 1.0),
        (0.3, 0.671373240540872584),
        (0.49, 0.488331738811476909),
        (0.5, 0.479500122186953462),
        (0.8125, 0.250535974413637932),
        (1.25, 0.0770998717435417699),
        (2.0, 0.00467773498104726584),
        (3.9, 3.47922485972317671e-8),
        (6.5, 3.84214832712064747e-20),
        (9.75, 2.98570083280057832e-43),
        (13.2, 9.0811984959797984e-78),
        (20.0, 5.39586561160790093e-176),
        (26.5, 2.21090766426373428e-307),
    ),
    "lgamma": (
        (1e-200, 460.517018598809137),
        (1e-09, 20.7232658363691954),
        (0.25, 1.28802252469807746),
        (0.5, 0.572364942924700087),
        (0.75, 0.203280951431295371),
        (0.999999, 5.77216487385565238e-7),
        (1.0001, -0.000057713342220471268),
        (1.4616321, -0.12148629053584863),
        (1.75, -0.084401121020485556),
        (1.999999, -4.2278401259658537e-7),
        (2.00001, 4.2278755976483596e-6),
        (2.5, 0.28468287047291916),
        (3.5, 1.20097360234707422),
        (7.9, 8.32426586800880963),
        (8.1, 8.7273882634320398),
        (25.0, 54.7847293981123192),
        (1234.5, 7550.5509010778949),
        (10000000000.0, 220258509288.810581),
        (1e300, 6.89775527898213741e302),
        (-1e-09, 20.7232658375236268),
        (-0.5, 1.2655121234846454),
        (-1.5, 0.860047015376481015),
        (-7.3, -7.77910162982685167),
    ),
    "digamma": (
        (1e-09, -1000000000.5772156),
        (0.1, -10.4237549404110762),
        (0.5, -1.96351002602142348),
        (0.75, -1.08586087978647217),
        (1.0, -0.577215664901532861),
        (2.0, 0.422784335098467139),
        (3.5, 1.10315664064524319),
        (10.0, 2.25175258906672111),
        (100000.0, 11.5129204649618951),
        (1000000000000.0, 27.6310211159280482),
        (-0.5, 0.0364899739785765206),
        (-1.25, 3.71413912021352783),
        (-7.3, 4.33730730551005014),
    ),
}
"""Operation → points and its values there by mpmath."""


@pytest.mark.parametrize("name", TABLES)
def test_special_functions_of_doubles_agree_with_tables(name):
    points, values = np.array(TABLES[name]).T
    with options["enable_x64"](True):
        x = np.resize(points, 9000)
        out = np.asarray(weft.jit(getattr(lax, name))(x))
        if name in ("erf", "erf_inv"):
            np.testing.assert_array_equal(weft.jit(getattr(lax, name))(-x), -out)
    lost = 1e-15 if name == "digamma" else 0  # beside the logarithms of 10 and more it is made of
    np.testing.assert_allclose(out[: len(points)], values, rtol=8e-16, atol=lost)


NEAR_ROOTS = {
    "lgamma": (
        (0.5, 0.572364942924700087),
        (0.875, 0.08585870722533433),
        (1.000000000001, -5.772669797094564e-13),
        (1.75, -0.084401121020485556),
        (1.999999, -4.2278401259658537e-7),
        (2.5, 0.28468287047291916),
    ),
    "digamma": (
        (0.75, -1.08586087978647217),
        (1.4375, -0.023613544005297898),
        (1.46163214496836, -2.2410766695906462e-15),
        (1.5, 0.03648997397857652),
        (2.0, 0.422784335098467139),
    ),
}
"""Operation → points near its roots and its values there by mpmath."""


@pytest.mark.parametrize("size", [1, 60, 9000])
@pytest.mark.parametrize("name", NEAR_ROOTS)
def test_doubles_near_roots_have_all_digits_in_arrays_of_all_sizes(name, size):
    points, values = np.array(NEAR_ROOTS[name]).T
    with options["enable_x64"](True):
        out = np.asarray(weft.jit(getattr(lax, name))(np.repeat(points, size)))
    np.testing.assert_allclose(out, np.repeat(values, size), rtol=2e-15)


@pytest.mark.parametrize("name", ["erfc", "lgamma"])
def test_special_functions_of_floats_agree_with_the_c_library(name, rng):
    x = np.concatenate([rng.uniform(-5, 9, 9000), rng.uniform(0.9, 2.1, 3000)]).astype("float32")
    expected = np.array([getattr(math, name)(v) for v in x.astype(float)])
    out = np.asarray(weft.jit(getattr(lax, name))(x), float)
    assert (np.abs(out - expected) <= 4 * np.spacing(np.abs(expected.astype("float32")))).all()


def test_the_inverse_error_function_of_floats_near_one_agrees_with_a_table():
    points, values = np.array(ERF_INV_NEAR_1).T
    out = weft.jit(lax.erf_inv)(np.resize(points.astype("float32"), 9000))
    np.testing.assert_allclose(out[: len(points)], values, rtol=2.5e-7)


ERF_INV_NEAR_1 = (
    (0.75, 0.813419847597618542),
    (0.9375, 1.31715033498613075),
    (0.984375, 1.70947237429951148),
    (0.998046875, 2.19009996835376764),
    (0.999755859375, 2.59390051313448766),
    (0.999969482421875, 2.94833074316755714),
    (0.9999961853027344, 3.26770377858961803),
    (0.9999995231628418, 3.56056970703516434),
    (0.9999999403953552, 3.83250685690071091),
)
"""Floats and their values by mpmath."""


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_special_functions_have_their_poles_and_limits(dtype):
    def at(name, *xs):
        with options["enable_x64"](True):
            out = weft.jit(getattr(lax, name))(np.resize(np.array(xs, dtype), 9000))
        assert out.dtype == dtype
        return np.asarray(out)[: len(xs)]

    inf, nan = np.inf, np.nan
    np.testing.assert_array_equal(at("erf", 0.0, -0.0, inf, -inf, nan), [0, 0, 1, -1, nan])
    np.testing.assert_array_equal(at("erf_inv", 0, 1, -1, 2, nan), [0, inf, -inf, nan, nan])
    np.testing.assert_array_equal(at("erfc", 0, inf, -inf, nan, 60), [1, 0, 2, nan, 0])
    ends = at("lgamma", 0.0, -0.0, -1, -2, inf, -inf, nan, 1, 2, -1e30)
    np.testing.assert_array_equal(ends, [inf, inf, inf, inf, inf, inf, nan, 0, 0, inf])
    np.testing.assert_array_equal(at("digamma", -1, -2, inf, -inf, nan), [nan, nan, inf, nan, nan])
