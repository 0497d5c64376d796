"""Elementwise ops: values against NumPy and SciPy, derivatives, batching; dtypes at the edges."""

import ml_dtypes
import numpy as np
import pytest
import scipy.special as sp

import weft
from tests.ops.numerics import Case, check
from weft import lax
from weft.core.primitive import PRIMITIVES
from weft.ops.bessel import bessel_i0_p, bessel_i1_p
from weft.ops.special_functions import betainc_grad_a_p

POSITIVE = np.array([[0.3, 1.7, 2.2], [0.9, 4.1, 0.6]])
UNIT = np.array([[0.3, -0.7, 0.2], [0.9, -0.1, 0.6]])
SIGNED = np.array([[0.3, -1.7, 2.2], [-0.9, 1.1, 0.6]])
OTHER = np.array([[1.4, -0.6, -1.3], [0.8, 2.9, -1.2]])
COMPLEX = SIGNED + 1j * OTHER
COMPLEX2 = OTHER - 0.5j * SIGNED
INTS = np.array([[3, -7, 12], [5, 0, 100]], np.int32)
INTS2 = np.array([[2, 3, -5], [1, 4, 7]], np.int32)
BITS = np.array([[3, 8, 12], [5, 0, 255]], np.uint32)
BOOLS = np.array([[True, False, True], [False, False, True]])
BOOLS2 = np.array([[True, True, False], [False, True, True]])


def unary(op, ref, x=SIGNED, diff=(0,), prim=None, **kwargs):
    return Case(prim or op, getattr(lax, op), ref, (x,), diff, **kwargs)


def binary(op, ref, x=SIGNED, y=OTHER, diff=(0, 1), prim=None, **kwargs):
    return Case(prim or op, getattr(lax, op), ref, (x, y), diff, **kwargs)


def complex_case(case):
    return Case(
        case.op,
        case.fun,
        case.ref,
        (COMPLEX, COMPLEX2)[: len(case.args)],
        case.diff,
        "complex",
        batch=False,
        order2=False,
    )


HOLOMORPHIC = [
    unary("exp", np.exp),
    unary("log", np.log, POSITIVE),
    unary("log1p", np.log1p, POSITIVE),
    unary("expm1", np.expm1),
    unary("tanh", np.tanh),
    unary("sin", np.sin),
    unary("cos", np.cos),
    unary("tan", np.tan, UNIT),
    unary("sinh", np.sinh),
    unary("cosh", np.cosh),
    unary("sqrt", np.sqrt, POSITIVE),
    unary("rsqrt", lambda x: 1 / np.sqrt(x), POSITIVE),
    unary("logistic", lambda x: 1 / (1 + np.exp(-x))),
    unary("neg", np.negative),
    unary("exp2", lambda x: np.exp(x * np.log(2))),
    unary("asin", np.arcsin, UNIT, rtol=1e-9),
    unary("acos", np.arccos, UNIT, rtol=1e-9),
    unary("atan", np.arctan),
    unary("asinh", np.arcsinh),
    unary("acosh", np.arccosh, POSITIVE + 1),
    unary("atanh", np.arctanh, UNIT),
    binary("add", np.add),
    binary("sub", np.subtract),
    binary("mul", np.multiply),
    binary("div", np.divide),
    Case("integer_pow", lambda x: lax.integer_pow(x, -3), lambda x: x**-3.0, (SIGNED,), (0,)),
]
REAL = [
    unary("square", np.square, prim="integer_pow", name="square"),
    unary("cbrt", np.cbrt, SIGNED),
    unary("erf", sp.erf),
    unary("erfc", sp.erfc),
    unary("erf_inv", sp.erfinv, UNIT),
    unary("lgamma", sp.gammaln, POSITIVE),
    unary("digamma", sp.digamma, POSITIVE),
    unary("abs", np.abs),
    unary("sign", np.sign),
    unary("floor", np.floor),
    unary("ceil", np.ceil),
    unary("round", lambda x: np.trunc(x + np.copysign(0.5, x)), OTHER),
    unary("is_finite", np.isfinite, diff=None),
    unary("bessel_i0e", sp.i0e, SIGNED * 4),
    unary("bessel_i1e", sp.i1e, SIGNED * 4),
    Case("bessel_i0", bessel_i0_p.bind, sp.i0, (SIGNED * 4,), (0,)),
    Case("bessel_i1", bessel_i1_p.bind, sp.i1, (SIGNED * 4,), (0,)),
    binary("rem", np.fmod),
    binary("max", np.maximum),
    binary("min", np.minimum),
    binary("pow", np.power, POSITIVE, OTHER),
    Case("pow", lambda x: lax.pow(x, -1.5), lambda x: x**-1.5, (POSITIVE,), (0,), "known"),
    Case("pow", lambda x: lax.pow(x, 0.0), np.ones_like, (SIGNED,), (0,), "zero"),
    binary("atan2", np.arctan2),
    binary("nextafter", np.nextafter, diff=None),
    binary("igamma", sp.gammainc, POSITIVE, POSITIVE[::-1], order2=False),
    binary("igammac", sp.gammaincc, POSITIVE, POSITIVE[::-1], order2=False),
    Case(
        "igamma_grad_a",
        lax.igamma_grad_a,
        lambda a, x: (sp.gammainc(a + 1e-6, x) - sp.gammainc(a - 1e-6, x)) / 2e-6,
        (POSITIVE, POSITIVE[::-1]),
        None,
        rtol=1e-8,
    ),
    Case(
        "random_gamma_grad",
        lax.random_gamma_grad,
        lambda a, x: (
            -(sp.gammainc(a + 1e-6, x) - sp.gammainc(a - 1e-6, x))
            / 2e-6
            / (x ** (a - 1) * np.exp(-x) / sp.gamma(a))
        ),
        (POSITIVE, POSITIVE[::-1]),
        None,
        rtol=1e-8,
    ),
    Case(
        "regularized_incomplete_beta",
        lax.betainc,
        sp.betainc,
        (POSITIVE, POSITIVE[::-1], np.abs(UNIT)),
        (0, 1, 2),
        order2=False,
    ),
    Case(
        "betainc_grad_a",
        betainc_grad_a_p.bind,
        lambda a, b, x: (sp.betainc(a + 1e-6, b, x) - sp.betainc(a - 1e-6, b, x)) / 2e-6,
        (POSITIVE, POSITIVE[::-1], np.abs(UNIT)),
        None,
        rtol=1e-8,
    ),
    Case(
        "zeta",
        lambda q: lax.zeta(2.5, q),
        lambda q: sp.zeta(2.5, q),
        (POSITIVE,),
        (0,),
    ),
    Case(
        "polygamma",
        lambda x: lax.polygamma(1.0, x),
        lambda x: sp.polygamma(1, x),
        (POSITIVE,),
        (0,),
    ),
    Case(
        "clamp",
        lax.clamp,
        lambda lo, x, hi: np.clip(x, lo, hi),
        (np.float64(-0.8), SIGNED, np.float64(1.3)),
        (0, 1, 2),
        batch=False,
    ),
    Case(
        "select_n",
        lax.select_n,
        lambda w, x, y: np.where(w, y, x),
        (BOOLS, SIGNED, OTHER),
        (1, 2),
    ),
    Case(
        "select_n",
        lambda w, *cases: lax.select_n(w, *cases),
        lambda w, *cases: np.choose(w, cases),
        (np.array([2, 0, 1], np.int32), SIGNED[0], OTHER[0], POSITIVE[0]),
        (1, 3),
        "of three",
    ),
    Case(
        "convert_element_type",
        lambda x: lax.convert_element_type(x, "float32"),
        lambda x: x.astype(np.float32),
        (SIGNED,),
        None,
    ),
    Case(
        "reduce_precision",
        lambda x: lax.reduce_precision(x, 8, 7),
        lambda x: x.astype(ml_dtypes.bfloat16).astype(np.float64),
        (SIGNED,),
        None,
    ),
    Case(
        "bitcast_convert_type",
        lambda x: lax.bitcast_convert_type(x, "uint32"),
        lambda x: x.view(np.uint32).reshape(2, 3, 2),
        (SIGNED,),
        None,
    ),
    unary("real", np.real, COMPLEX),
    unary("imag", np.imag, COMPLEX),
    unary("conj", np.conj, COMPLEX),
    unary("conj", lambda x: x + 0j, SIGNED, name="of reals"),
    unary("abs", np.abs, COMPLEX, name="complex"),
    unary("sign", lambda x: x / np.abs(x), COMPLEX, name="complex"),
    binary("complex", lambda x, y: x + 1j * y),
    binary("pow", np.power, COMPLEX, COMPLEX2, name="complex", order2=False),
]
INTEGER = [
    unary(
        "population_count",
        lambda x: np.vectorize(lambda v: bin(v).count("1"))(x).astype(x.dtype),
        BITS,
        None,
    ),
    unary(
        "clz",
        lambda x: np.vectorize(lambda v: 32 - int(v).bit_length())(x).astype(x.dtype),
        BITS,
        None,
    ),
    unary("bitwise_not", np.invert, INTS, None, "not"),
    binary("bitwise_and", np.bitwise_and, INTS, INTS2, None, "and"),
    binary("bitwise_or", np.bitwise_or, INTS, INTS2, None, "or"),
    binary("bitwise_xor", np.bitwise_xor, INTS, INTS2, None, "xor"),
    binary("shift_left", np.left_shift, INTS, np.abs(INTS2), None),
    binary("shift_right_arithmetic", np.right_shift, INTS, np.abs(INTS2), None),
    binary("shift_right_logical", np.right_shift, BITS, np.abs(INTS2).astype(np.uint32), None),
    binary(
        "mulhi",
        lambda x, y: ((x.astype(np.int64) * y) >> 32).astype(np.int32),
        INTS * 2**20,
        INTS2 * 2**20,
        None,
    ),
    binary("div", lambda x, y: (x / y).astype(np.int32), INTS, INTS2, None, name="integer"),
    *(
        binary(name, getattr(np, ref), x, y, None)
        for name, ref, x, y in (
            ("eq", "equal", INTS, INTS2),
            ("ne", "not_equal", SIGNED, OTHER),
            ("lt", "less", SIGNED, OTHER),
            ("le", "less_equal", INTS, INTS2),
            ("gt", "greater", SIGNED, OTHER),
            ("ge", "greater_equal", INTS, INTS2),
        )
    ),
    *(
        Case(
            name,
            getattr(lax, f"{name}_p").bind,
            ref,
            (SIGNED, OTHER),
            None,
        )
        for name, ref in (("eq_to", np.equal), ("lt_to", np.less), ("le_to", np.less_equal))
    ),
]
CASES = [*HOLOMORPHIC, *map(complex_case, HOLOMORPHIC), *REAL, *INTEGER]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_values_batches_and_derivatives(case, rng):
    check(case, rng)


# Functions of two arrays of one shape; those that iterate compile for long.
TOGETHER = [
    case
    for case in CASES
    if len(case.args) == 2 and hasattr(lax, case.fun.__name__) and case.rtol < 1e-8 and case.order2
]


def _with_shapes(case, cut):
    return [a[cut(i)] for i, a in enumerate(case.args)]


@pytest.mark.parametrize(
    "cut",
    [
        lambda i: np.s_[:1, :] if i % 2 else np.s_[:, :1],
        lambda i: np.s_[:, :1] if i % 2 else np.s_[:1, :],
        lambda i: () if i else (0, 0),
        lambda i: (0, 0) if i else (),
    ],
    ids=["(2,1) and (1,3)", "(1,3) and (2,1)", "rank 0 first", "rank 0 last"],
)
def test_dimensions_of_size_1_and_scalars_go_with_any_shape_and_have_derivatives(cut, rng):
    """Values as NumPy's; derivatives, where there are, as differences of NumPy's functions."""
    inputs = [[np.asarray(a) for a in _with_shapes(case, cut)] for case in TOGETHER]
    directions = [
        [rng.standard_normal(a.shape) if i in (case.diff or ()) else None for i, a in enumerate(xs)]
        for case, xs in zip(TOGETHER, inputs, strict=True)
    ]

    @weft.jit
    def run(inputs, directions):
        outs = []
        for case, xs, ts in zip(TOGETHER, inputs, directions, strict=True):
            moved = [i for i, t in enumerate(ts) if t is not None]

            def along(*given, case=case, xs=xs, moved=moved):
                xs = list(xs)
                for i, x in zip(moved, given, strict=True):
                    xs[i] = x
                return case.fun(*xs)

            if moved:
                tangents = [lax.convert_element_type(ts[i], xs[i].dtype) for i in moved]
                outs.append(weft.jvp(along, [xs[i] for i in moved], tangents))
            else:
                outs.append((along(),))
        return outs

    with weft.enable_x64(True):
        outs = run(inputs, directions)
    h = 1e-6
    for case, xs, ts, (out, *tangent) in zip(TOGETHER, inputs, directions, outs, strict=True):
        np.testing.assert_allclose(out, case.ref(*xs), max(case.rtol, 1e-9), err_msg=case.id)
        if tangent:
            up, down = (
                case.ref(*(x if t is None else x + s * t for x, t in zip(xs, ts, strict=True)))
                for s in (h, -h)
            )
            np.testing.assert_allclose(tangent[0], (up - down) / (2 * h), 1e-5, 1e-5, case.id)


def test_functions_that_iterate_stretch_too():
    a, b, x = POSITIVE[:, :1], POSITIVE[:1], np.abs(UNIT)
    with weft.enable_x64(True):
        np.testing.assert_allclose(lax.betainc(a, b, x), sp.betainc(a, b, x), 1e-9)
        np.testing.assert_allclose(lax.igamma(a, b), sp.gammainc(a, b), 1e-9)


def test_shapes_that_do_not_stretch_are_named():
    for x, y in (((2, 3), (4, 1)), ((3,), (2, 3))):
        with pytest.raises(TypeError, match="equal shapes"):
            lax.add(np.ones(x), np.ones(y))


@pytest.mark.parametrize("name", ["lt", "le", "gt", "ge"])
def test_complex_numbers_have_no_order(name):
    with pytest.raises(TypeError, match="complex numbers have no order"):
        getattr(lax, name)(COMPLEX, COMPLEX)
    assert weft.numpy.less(1j, 2j)
    with pytest.raises(TypeError, match="complex numbers have no order"):  # of constants, too
        weft.jit(lambda: PRIMITIVES[name].bind(COMPLEX, COMPLEX))()


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint32", "float16", "float32"])
def test_constants_are_compared_in_total_order(dtype):
    x, y = np.array([0, 1, 1]).astype(dtype), np.array([1, 0, 1]).astype(dtype)
    found = weft.jit(lambda: [p.bind(x, y) for p in (lax.eq_to_p, lax.lt_to_p, lax.le_to_p)])()
    np.testing.assert_array_equal(found, [x == y, x < y, x <= y])


@pytest.mark.parametrize("value", [2**32 + 5, -1, 300, 2**31, 2**63, -(2**40), np.int64(2**40 + 1)])
@pytest.mark.parametrize("dtype", ["int32", "uint8", "int4", "uint32"])
def test_conversion_of_a_number_wraps_around(value, dtype):
    info = ml_dtypes.iinfo(dtype)
    want = (int(value) - int(info.min)) % (int(info.max) - int(info.min) + 1) + int(info.min)
    wrap = weft.jit(lambda: lax.convert_element_type(value, dtype))
    for got in (
        lax.convert_element_type(value, dtype),
        wrap(),
        lax.full((), value, dtype),
        weft.numpy.full((), value, dtype),
    ):
        assert got.dtype == dtype
        assert int(got) == want


def test_conversion_gives_an_array_whatever_it_is_given():
    assert lax.convert_element_type(2**70, "float32") == np.float32(2.0**70)
    assert lax.convert_element_type(1e20, "int32") == 2**31 - 1
    for x in (1.0, np.float32(1), np.ones(2, np.float32), np.float64(1)):
        assert isinstance(lax.convert_element_type(x, "float32"), weft.Array)


@pytest.mark.parametrize(
    ("given", "want"),
    [
        (np.float32, "float32"), (np.dtype("int8"), "int8"), (float, "float32"), (int, "int32"),
        ("bfloat16", "bfloat16"), (complex, "complex64"), (bool, "bool"),
        (weft.numpy.int16, "int16"), (np.float64, "float32"), (1.0, "float32"),
        (np.ones(2, np.float16), "float16"),
    ],
)  # fmt: skip
def test_the_dtype_of_values_and_of_types(given, want):
    assert lax.dtype(given) == want


def test_none_has_no_dtype():
    with pytest.raises(ValueError, match="got None"):
        lax.dtype(None)


FLOATS = ["bfloat16", "float16", "float8_e4m3fn", "float8_e5m2"]


@pytest.mark.parametrize("dtype", FLOATS)
def test_small_floats_keep_their_dtype_and_round_once(dtype):
    x = np.array([0.5, 1.5, 2.0, 0.25]).astype(dtype)
    for fun, ref in ((lax.add, np.add), (lax.mul, np.multiply), (lax.max, np.maximum)):
        got = fun(x, x[::-1].copy())
        assert got.dtype == x.dtype
        want = ref(x.astype(np.float32), x[::-1].astype(np.float32)).astype(dtype)
        np.testing.assert_array_equal(np.asarray(got), want)


@pytest.mark.parametrize("dtype", ["int4", "uint4", "int8", "uint8", "int16", "uint16", "uint32"])
def test_narrow_integers_wrap_around(dtype):
    info = ml_dtypes.iinfo(dtype)
    top = np.array([info.max, 1]).astype(dtype)
    got = np.asarray(lax.add(top, np.array([1, 1]).astype(dtype)))
    assert got.dtype == top.dtype
    np.testing.assert_array_equal(got.astype(np.int64), [info.min, 2])


def test_python_scalars_take_the_arrays_dtype_and_stay_weak_alone():
    x = np.ones(2, np.float16)
    assert lax.add(x, 1).dtype == np.float16
    assert lax.mul(2, x).dtype == np.float16
    assert weft.typeof(lax.add(1, 2)).weak_type
    assert not weft.typeof(lax.add(np.float32(1), 2)).weak_type


@pytest.mark.parametrize("name", ["max", "min"])
def test_ties_share_the_derivative(name):
    fun = getattr(lax, name)
    _, out = weft.jvp(fun, (2.0, 2.0), (1.0, 0.0))
    assert out == 0.5


def test_nan_wins_in_max_and_min():
    x, y = np.float32([np.nan, 1]), np.float32([1, np.nan])
    assert np.isnan(lax.max(x, y)).all() and np.isnan(lax.min(x, y)).all()


@pytest.mark.parametrize(
    ("fun", "at", "slope"),
    [
        (lambda x: lax.pow(x, 2.0), 0.0, 0.0),
        (lambda x: lax.pow(x, 1.0), 0.0, 1.0),
        (lambda x: lax.pow(x, 0.0), 0.0, 0.0),
        (lambda x: lax.pow(2.0, x), 0.0, np.log(2)),
        (lax.abs, 0.0, 1.0),
        (lambda x: lax.clamp(0.0, x, 1.0), 2.0, 0.0),
        (lax.bessel_i1e, 0.0, 0.5),
    ],
)
def test_derivatives_at_special_points_are_finite(fun, at, slope):
    np.testing.assert_allclose(weft.grad(fun)(at), slope, rtol=1e-6)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda: lax.add(np.ones(2, np.float32), np.ones(3, np.float32)),
            TypeError,
            r"f32\[2\], f32\[3\]",
        ),
        (lambda: lax.add(np.ones(2, np.float32), np.ones(2, np.int32)), TypeError, "equal dtypes"),
        (lambda: lax.sin(np.ones(2, np.int32)), TypeError, "takes float or complex operands"),
        (lambda: lax.bitwise_and(1.0, 2.0), TypeError, "takes integer or boolean"),
        (lambda: lax.select(True, np.ones(2), np.ones(3)), TypeError, "case 1 is"),
        (lambda: lax.clamp(0, np.arange(3), 1.5), TypeError, "max 1.5 does not fit"),
        (lambda: lax.clamp(np.zeros(3, np.float32), 2.0, 1.0), TypeError, "min must be a scalar"),
        (lambda: lax.round(1.5, 2), ValueError, "rounding_method"),
        (lambda: lax.reduce_precision(1.5, 0, 3), ValueError, "exponent_bits"),
        (lambda: lax.convert_element_type(1.5, None), ValueError, "new_dtype"),
        (lambda: lax.reciprocal(np.arange(3)), TypeError, "no negative power"),
        (lambda: weft.grad(lambda s: lax.zeta(s, 2.0))(2.0), TypeError, "stop_gradient"),
        (lambda: weft.grad(lambda m: lax.polygamma(m, 2.0))(1.0), TypeError, "stop_gradient"),
    ],
)
def test_errors_say_what_is_wrong(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_bessel_functions_of_nan_are_nan():
    x = np.array([np.nan, np.inf], np.float32)
    np.testing.assert_array_equal(lax.bessel_i0e(x), [np.nan, 0])
    np.testing.assert_array_equal(lax.bessel_i1e(x), [np.nan, 0])


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize(("dtype", "units"), [(np.float32, 6), (np.float64, 20)])
def test_bessel_functions_are_accurate_at_both_sides_of_8(dtype, units, order):
    x = np.concatenate([np.linspace(-60, 60, 4001), np.linspace(7.9, 8.1, 401), [1e-9, 1e9]])
    x = x.astype(dtype)
    with weft.enable_x64(True):
        out = (lax.bessel_i0e, lax.bessel_i1e)[order](x)
    want = (sp.i0e, sp.i1e)[order](x.astype(np.float64))
    np.testing.assert_allclose(out, want, rtol=units * np.finfo(dtype).eps)


def test_parts_of_weak_complex_numbers_are_weak():
    assert lax.abs(3 + 4j).weak_type and lax.real(1j).weak_type and lax.imag(1j).weak_type


@pytest.mark.parametrize("x", [0.5, 2.0, 7.0])
def test_the_mixed_derivative_of_a_power_at_exponent_0_is_the_inverse(x):
    of_base = lambda y: weft.grad(lax.pow)(x, y)
    np.testing.assert_allclose(weft.grad(of_base)(0.0), 1 / x, rtol=1e-6)


def test_igamma_has_no_derivative_in_a_at_0():
    assert np.isnan(weft.grad(lax.igamma)(0.0, 1.0))


@pytest.mark.parametrize("dtype", [np.int32, np.uint8])
def test_known_integers_are_divided_by_zero(dtype):
    x, zero = np.array([7, 0], dtype), np.array([0, 3], dtype)
    minus_one = dtype(np.iinfo(dtype).max if dtype is np.uint8 else -1)
    np.testing.assert_array_equal(weft.jit(lambda: lax.div(x, zero))(), [minus_one, 0])
    np.testing.assert_array_equal(weft.jit(lambda: lax.rem(x, zero))(), [7, 0])
    in_steps = weft.jit(lambda: lax.div(lax.mul(x, x), lax.sub(x, x)))
    np.testing.assert_array_equal(in_steps(), [minus_one] * 2)
    np.testing.assert_array_equal(weft.jit(lambda y: lax.div(y, zero))(x), [minus_one, 0])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_exp2_keeps_the_bits_of_large_exponents(dtype):
    # exp(x log(2)) would round the exponent's bits off: up to 100 ulp in bfloat16.
    dtype = np.dtype(dtype) if dtype != "bfloat16" else np.dtype(ml_dtypes.bfloat16)
    top = ml_dtypes.finfo(dtype).maxexp
    whole = np.arange(2 - top, top).astype(dtype)
    with weft.enable_x64(True):
        powers = np.exp2(whole.astype(np.float64)).astype(dtype)
        assert (np.asarray(lax.exp2(whole)) == powers).all()
        x = np.random.default_rng(0).uniform(2 - top, top - 1, 4000).astype(dtype)
        got, want = np.asarray(lax.exp2(x)), np.exp2(x.astype(np.longdouble))
        error = np.abs(got.astype(np.longdouble) - want) / want
        assert error.max() < 2 * float(ml_dtypes.finfo(dtype).eps)
        ends = np.asarray(lax.exp2(np.array([np.inf, -np.inf, np.nan, top], dtype)))
    assert np.array_equal(ends.astype(float), [np.inf, 0, np.nan, np.inf], equal_nan=True)


def test_a_mapped_predicate_chooses_between_scalars():
    x = np.arange(6).reshape(3, 2)
    got = weft.vmap(lambda x: lax.select(x <= 2, 0, 1))(x)
    np.testing.assert_array_equal(got, np.where(x <= 2, 0, 1))
    with pytest.raises(TypeError, match="must be a scalar"):
        lax.select(x[0] <= 2, 0, 1)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint32", "int32"])
def test_integers_of_any_size_select_among_cases(dtype, rng):
    which = np.array([0, 2, 1, 2], dtype)
    cases = rng.standard_normal((3, 4)).astype(np.float32)
    expected = cases[which, np.arange(4)]
    np.testing.assert_array_equal(lax.select_n(which, *cases), expected)
    np.testing.assert_array_equal(weft.jit(lax.select_n)(which, *cases), expected)
    np.testing.assert_array_equal(weft.vmap(lax.select_n)(which, *cases), expected)
    with pytest.raises(TypeError, match="bool or integers"):
        lax.select_n(which.astype(np.float32), *cases)
