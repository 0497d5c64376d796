"""weft.scipy.special against SciPy: values, batches, derivatives, ends of domains, sharding."""

import numpy as np
import pytest
import scipy.special as sp

import weft
import weft.numpy as wnp
from tests.scipy.table import Case, check, check_narrow
from weft.scipy import special

_rng = np.random.default_rng(3)


def draw(low, high):
    return _rng.uniform(low, high, (3, 4))


WIDE, SMALL, POSITIVE, OTHER, UNIT = (
    *(draw(-30, 30), draw(-3, 3)),
    *(draw(0.1, 20), draw(0.1, 20), draw(0.02, 0.98)),
)
WHOLE = _rng.integers(0, 6, (3, 4))


def log_odds(z):
    return np.log(z) - np.log(1 - z)


def case(fun, *args, diff=None, ref=None, name="", **options):
    floats = tuple(i for i, a in enumerate(args) if a.dtype.kind in "fc")
    label = f"{fun}-{name}" if name else fun
    chosen = floats if diff is None else diff
    # One rule batches all elementwise ops.
    options.setdefault("batch", fun in ("erfcx", "expn", "wofz", "owens_t"))
    ours, theirs = getattr(special, fun), ref or getattr(sp, fun)
    return Case(label, ours, theirs, args, chosen, **options)


CASES = [
    case("gammaln", WIDE),
    case("loggamma", POSITIVE),
    case("loggamma", WIDE + 1j * SMALL[::-1], diff=(), name="complex"),
    case("gamma", SMALL + 1j * SMALL[::-1], diff=(), name="complex"),
    case("logit", WIDE + 1j * SMALL[::-1], diff=(), ref=log_odds, name="complex"),
    case("gammasgn", WIDE, diff=()),
    case("gamma", SMALL),
    case("beta", POSITIVE, UNIT),
    case("betaln", POSITIVE, OTHER),
    case("betainc", POSITIVE, OTHER, UNIT, diff=()),
    case("gammainc", POSITIVE, OTHER, diff=()),
    case("gammaincc", POSITIVE, OTHER, diff=()),
    case("factorial", POSITIVE),
    case("comb", 1 + POSITIVE, UNIT),
    case("comb", 3 + POSITIVE, UNIT, ref=sp.binom, name="binom"),
    case("poch", POSITIVE, SMALL),
    case("digamma", WIDE / 4, ref=lambda x: sp.digamma(x)),
    case("polygamma", WHOLE, POSITIVE),
    case("zeta", 1 + POSITIVE, OTHER, diff=(1,)),
    case("expit", SMALL),
    case("logit", UNIT),
    case("xlogy", SMALL, POSITIVE),
    case("xlogy", SMALL + 1j * UNIT, POSITIVE, diff=(), name="complex"),
    case("xlog1py", SMALL, POSITIVE),
    case("xlog1py", SMALL, SMALL + 1j * UNIT, diff=(), name="complex"),
    case("entr", POSITIVE),
    case("rel_entr", UNIT, POSITIVE),
    case("kl_div", UNIT, POSITIVE),
    case("boxcox", POSITIVE, SMALL, slope_rtol=1e-5),
    case("boxcox1p", POSITIVE, SMALL, slope_rtol=1e-5),
    case("erf", SMALL),
    case("erfc", SMALL),
    case("erfinv", 2 * UNIT - 1),
    case("erfcx", SMALL),
    case("erfcx", 50 * POSITIVE, name="large"),
    case("erfcx", SMALL + 1j * SMALL[::-1], diff=(), name="complex"),
    case("dawsn", SMALL),
    case("dawsn", 10 * WIDE, name="large"),
    case("wofz", SMALL + 1j * WIDE[::-1] / 10, diff=()),
    case("ndtr", SMALL),
    case("log_ndtr", WIDE),
    case("ndtri", UNIT),
    case("ndtri", UNIT**40, diff=(), name="tail"),
    case("owens_t", SMALL, SMALL[::-1]),
    case("exp1", POSITIVE),
    case("expi", WIDE),
    case("expi", SMALL, name="near"),
    case("expn", WHOLE, POSITIVE, slope_rtol=1e-5),
    case("expn", WHOLE, UNIT, name="series", slope_rtol=1e-4),
    case("spence", POSITIVE),
    case("spence", UNIT, name="unit"),
    case("i0", SMALL),
    case("i0e", WIDE),
    case("i1", SMALL),
    case("i1e", WIDE),
    case("hyp1f1", POSITIVE / 4, OTHER / 4, SMALL, diff=(2,), slope_rtol=1e-5),
    case("hyp1f1", POSITIVE / 9, OTHER / 9, 10 * WIDE, diff=(), name="large", rtol=1e-9),
    case("hyp2f1", SMALL, OTHER, POSITIVE, UNIT - 0.5, diff=(3,), slope_rtol=1e-5),
    case("hyp2f1", SMALL, OTHER / 9, POSITIVE, -POSITIVE, diff=(), name="below", rtol=1e-9),
    case("hyp2f1", SMALL, OTHER / 9, POSITIVE, 1 - UNIT / 5, diff=(), name="near 1", rtol=1e-9),
    Case("sici", special.sici, sp.sici, (POSITIVE,), (0,), ),
    Case("fresnel", special.fresnel, sp.fresnel, (SMALL * 3,), (0,), ),
    Case(
        "multigammaln", lambda a: special.multigammaln(a, 3), lambda a: sp.multigammaln(a, 3),
        (2 + POSITIVE,), (0,),
    ),
    Case(
        "bessel_jn", lambda z: special.bessel_jn(z, v=4),
        lambda z: np.stack([sp.jv(k, z) for k in range(5)]), (WIDE / 2,), (0,),
    ),
    Case(
        "sph_harm_y", lambda t, p: special.sph_harm_y(WHOLE, WHOLE[::-1] - 2, t, p),
        lambda t, p: np.where(np.abs(WHOLE[::-1] - 2) <= WHOLE,
                              sp.sph_harm_y(WHOLE, WHOLE[::-1] - 2, t, p), 0),
        (UNIT * 3, SMALL), (0, 1),
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_values_batches_and_derivatives(case, rng):
    check(case, rng)


def test_every_function_has_a_case():
    elsewhere = {"bernoulli", "logsumexp", "softmax", "log_softmax"}
    assert set(special.__all__) - {c.id.split("-")[0] for c in CASES} == elsewhere


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_float32_has_its_own_accuracy(case):
    check_narrow(case)


@pytest.mark.parametrize("name", ["logsumexp", "softmax", "log_softmax"])
def test_exponentials_over_axes_are_scipys(name):
    for axis in (None, 0):
        got = getattr(special, name)(SMALL, axis=axis)
        np.testing.assert_allclose(got, getattr(sp, name)(SMALL, axis=axis), rtol=1e-5)


ENDS = {
    "gammasgn": [0.0, -0.0, 1.0, -0.5, -1.5, np.nan, np.inf],
    "entr": [0.0, -1.0, 1.0, np.inf, np.nan],
    "expit": [np.inf, -np.inf, np.nan],
    "logit": [0.0, 1.0],
    "erfcx": [0.0, np.inf, -np.inf, 1e5, 1e30],
    "dawsn": [0.0, np.inf, 1e10, 1e-20],
    "ndtr": [np.inf, -np.inf, 0.0, -30.0],
    "log_ndtr": [np.inf, -1e5, 0.0, 40.0],
    "ndtri": [0.0, 1.0, -0.1, 1.1, np.nan, 1e-300],
    "expi": [0.0, np.inf, -np.inf, np.nan],
    "spence": [0.0, 1.0, 2.0, -1.0, np.inf, np.nan],
    "sici": [0.0, np.inf, 1e-10],
    "fresnel": [0.0, np.inf, -np.inf, 1e-10, 1234.5],
    "i0e": [0.0, np.inf],
}


@pytest.mark.parametrize("name", ENDS)
def test_the_ends_of_domains_are_scipys(name):
    with weft.enable_x64(True), np.errstate(all="ignore"):
        x = np.array(ENDS[name])
        np.testing.assert_allclose(getattr(special, name)(x), getattr(sp, name)(x), rtol=1e-10)


def test_products_with_logarithms_are_zero_where_a_factor_is():
    zero = np.zeros(3)
    y = np.array([0.0, 2.0, np.inf])
    assert np.asarray(special.xlogy(zero, y)).tolist() == [0.0] * 3
    assert np.asarray(special.xlog1py(zero, y)).tolist() == [0.0] * 3
    p, q = (a.ravel() for a in np.meshgrid([0.0, 1.0, -1.0, np.nan], [0.0, 1.0, -1.0]))
    np.testing.assert_allclose(special.rel_entr(p, q), sp.rel_entr(p, q))
    assert float(weft.grad(special.xlogy)(0.0, 2.0)) == pytest.approx(np.log(2))


def test_counts_of_combinations_are_whole():
    n, k = (a.ravel() for a in np.meshgrid(np.arange(-1, 30), np.arange(-1, 12)))
    np.testing.assert_array_equal(
        special.comb(n, k)[n < 16], sp.comb(n, k)[n < 16]
    )  # fmt: skip
    inside = (n >= 0) & (k >= 0)
    n, k = n[inside], k[inside]
    got = special.comb(n, k, repetition=True)
    np.testing.assert_allclose(got, sp.comb(n, k, repetition=True), rtol=1e-4)


@pytest.mark.parametrize(("name", "x"), [("hyp1f1", -2.5), ("hyp2f1", 0.3)])
def test_hypergeometric_functions_have_derivatives_in_their_parameters(name, x):
    parameters = [0.7, 1.6, 2.3][: 2 if name == "hyp1f1" else 3]
    with weft.enable_x64(True):
        for i, h in enumerate(1e-5 * np.eye(len(parameters))):
            slope = weft.grad(getattr(special, name), argnums=i)(*parameters, x)
            up, down = (getattr(sp, name)(*(parameters + s * h), x) for s in (1, -1))
            assert float(slope) == pytest.approx((up - down) / 2e-5, rel=1e-7)


def test_bernoulli_numbers_are_those_of_scipy():
    np.testing.assert_allclose(special.bernoulli(30), sp.bernoulli(30), rtol=1e-6)


def test_the_box_cox_transform_is_smooth_in_its_power():
    with weft.enable_x64(True):
        slope = weft.grad(special.boxcox, argnums=1)(3.0, 0.0)
        step = (sp.boxcox(3.0, 1e-5) - sp.boxcox(3.0, -1e-5)) / 2e-5
    assert float(slope) == pytest.approx(step, rel=1e-8)


@pytest.mark.parametrize("power", [-1.0, 0.0, 2.0])
def test_the_box_cox_transform_of_the_ends_is_scipys(power):
    with np.errstate(divide="ignore"):
        np.testing.assert_array_equal(special.boxcox(0.0, power), sp.boxcox(0.0, power))
        np.testing.assert_array_equal(special.boxcox1p(-1.0, power), sp.boxcox1p(-1.0, power))


@pytest.mark.parametrize("name", ["entr", "erfcx", "ndtri", "gammainc", "hyp1f1", "sici", "zeta"])
def test_sharded_operands_need_no_communication(name):
    mesh = weft.make_mesh((8,), ("x",))
    count = {"gammainc": 2, "hyp1f1": 3, "zeta": 2}.get(name, 1)
    rows = weft.NamedSharding(mesh, weft.P("x"))
    args = [weft.ShapeDtypeStruct((16, 4), "float32", sharding=rows)] * count
    report = weft.comm(getattr(special, name), *args)
    # An iteration ends when all of its elements have converged.
    assert all(c.bytes <= 64 for c in report.collectives)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: special.factorial(3, exact=True), NotImplementedError, "math.factorial"),
        (lambda: special.log_ndtr(1.0, series_order=40), ValueError, "from 0 to 30"),
        (lambda: special.bernoulli(-1), ValueError, "0 or more"),
        (lambda: special.bessel_jn(1.0, v=60), ValueError, "n_iter"),
        (lambda: special.sph_harm_y(1, 0, 0.1, 0.2, diff_n=1), NotImplementedError, "jvp"),
        (lambda: weft.jit(special.sph_harm_y)(1, 0, 0.1, 0.2), ValueError, "n_max"),
        (lambda: special.entr(wnp.ones(2) * 1j), TypeError, "entr"),
        (lambda: weft.grad(special.zeta)(2.0, 1.0), TypeError, "zeta has no derivative"),
        (lambda: special.gammaln([1.0]), TypeError, "array"),
    ],
)
def test_what_cannot_be_says_why(call, error, words):
    with pytest.raises(error, match=words):
        call()


BELOW = np.array([-40.3, -12.2, -10.01, -3.75, -0.25, 0.5, 7.0, -3.0, -12.0], np.float32)


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_polygamma_and_zeta_of_negative_numbers(n):
    exact = BELOW.astype(np.float64)
    np.testing.assert_allclose(special.polygamma(n, BELOW), sp.polygamma(n, exact), rtol=2e-4)
    np.testing.assert_allclose(special.zeta(n + 1.0, BELOW), sp.zeta(n + 1.0, exact), rtol=2e-4)
    slope = weft.vmap(weft.grad(lambda x: special.polygamma(n, x)))(BELOW[:7])
    np.testing.assert_allclose(slope, sp.polygamma(n + 1, exact[:7]), rtol=2e-4)


def test_zeta_has_a_pole_at_1():
    start = np.array([-3.5, -2.0, 0.5, 4.0], np.float32)
    np.testing.assert_array_equal(special.zeta(1.0, start), sp.zeta(1.0, start))


def test_zeta_of_no_whole_power_is_nan_below_zero():
    x = special.zeta(1.5, np.array([-12.5, -3.0, 2.0], np.float32))
    np.testing.assert_allclose(x, sp.zeta(1.5, [-12.5, -3.0, 2.0]), rtol=1e-5)


def test_polygamma_refuses_orders_that_are_no_integers():
    for kind in (ValueError, TypeError):
        with pytest.raises(kind, match="integer dtype, got float32"):
            special.polygamma(1.5, 2.0)


@pytest.mark.parametrize("name, args", [("ndtr", ([0, 0.5],)), ("log_ndtr", ([0, -30.0],))])
def test_sequences_that_jax_takes_too(name, args):
    np.testing.assert_allclose(getattr(special, name)(*args), getattr(sp, name)(*args), rtol=1e-5)


def test_a_list_is_refused_by_the_name_of_the_function():
    with pytest.raises(
        TypeError, match=r"weft\.scipy\.special\.gammaln: argument x=.*takes arrays and numbers"
    ):
        special.gammaln([1.0, 2.0])


STRONG = ("dawsn", "erfcx", "expi", "expn", "exp1", "hyp2f1", "ndtr", "ndtri", "spence")


@pytest.mark.parametrize("name", STRONG)
def test_approximations_of_python_numbers_are_not_weakly_typed(name):
    args = {"expn": (2.0, 0.5), "hyp2f1": (0.5, 0.25, 0.75, 0.5)}.get(name, (0.5,))
    small = wnp.float16(1)
    assert (small * getattr(special, name)(*args)).dtype == "float32"
    assert (small * special.xlogy(2.0, 0.5)).dtype == "float16"


def test_nested_lists_are_arrays():
    for name, args in [("ndtr", ([0.5, -1],)), ("spence", ([0.5, 2],)), ("expn", ([1, 2], [3, 4]))]:
        np.testing.assert_allclose(getattr(special, name)(*args), getattr(sp, name)(*args), 1e-5)


EXACT = {
    "gamma": (
        (0.30000001192092896, 2.9915688627795913),
        (2.75, 1.6083594219855457),
        (5.5, 52.34277778455352),
        (7.25, 1155.3810139199898),
        (33.5, 1.505856975626702e36),
        (-0.75, -4.834146544295877),
        (-7.53125, 0.00021076344176616945),
        (9.999999747378752e-06, 99999.42532043811),
        (-25.75, 2.496606265403812e-26),
    ),
    "factorial": (
        (0.5, 0.886226925452758),
        (3.25, 8.28508514183522),
        (15.4375, 4364740023217.5317),
        (30.75, 3.474333688749838e33),
    ),
    "spence": (
        (1.000100016593933, -0.00010001409321450016),
        (1.0000001192092896, -1.1920928599806776e-07),
        (1.75, -0.6427612688399789),
        (3.9375, -1.910355123191339),
        (0.75, 0.2676526390827326),
    ),
    "rel_entr": (
        (0.999961793422699, 0.9996281862258911, 0.0003336628581950772),
        (1.0000001192092896, 1.0, 1.1920929665620832e-07),
        (3.0, 7.0, -2.541893581161611),
        (1.000000013351432e-10, 10000000000.0, -4.605170246138565e-09),
    ),
    "exp1": (
        (0.9750000238418579, 0.22881572373834552),
        (0.9999989867210388, 0.21938430716039597),
        (1.5, 0.10001958240663265),
        (4.012700080871582, 0.003721658945350222),
        (0.009999999776482582, 4.037929598667453),
    ),
    "expi": (
        (-0.9900000095367432, -0.22309982221075156),
        (5.9375, 81.89486700198877),
        (2.5, 7.0737658945786),
        (30.25, 469710923235.46484),
    ),
    "erfcx": (
        (12650.5, 4.4598204164661565e-05),
        (3000000.0, 1.880631945159083e-07),
        (0.5, 0.6156903441929259),
    ),
    "dawsn": (
        (50.0625, 0.009989509317923403),
        (75.5, 0.006623097606246405),
        (0.25, 0.23983916356289822),
    ),
    "i0": (
        (8.125, 480.61851256566035),
        (26.59375, 27549928073.101242),
        (3.5, 7.3782034322254795),
    ),
    "i1": (
        (-5.953125, -58.727522661716804),
        (14.71875, 249908.61575458656),
    ),
    "i0e": (
        (244.8125, 0.025510294643420733),
        (9.5, 0.13125126081426788),
    ),
    "i1e": (
        (-244.8125, -0.025458139519418426),
        (12.25, 0.11039797177996276),
    ),
}
"""Function -> operands, which are float32 numbers, and values by mpmath."""


@pytest.mark.parametrize(("dtype", "units"), [("float32", 8), ("float64", 16)])
@pytest.mark.parametrize("name", EXACT)
def test_values_are_within_some_units_of_mpmaths(name, dtype, units):
    *xs, exact = np.array(EXACT[name]).T
    with weft.enable_x64(True):
        out = getattr(special, name)(*(x.astype(dtype) for x in xs))
    assert out.dtype == dtype
    tiny, size = np.finfo(dtype).tiny, np.abs(exact).astype(dtype)
    units = units * np.spacing(np.maximum(size, tiny)).astype(float)
    assert (np.abs(np.asarray(out, float) - exact) <= units).all(), (out, exact)


def test_sums_of_logarithms_of_gamma_are_rounded_once_in_float32(rng):
    x, y = rng.uniform(0.1, 15, (2, 2000)).astype("float32")
    n, k = np.array([38, 32, 40, 29.5]), np.array([8, 18, 13, 2.25])
    for name, a, b in [("betaln", x, y), ("beta", x, y), ("poch", x, y), ("comb", n, k)]:
        a, b = np.float32(a), np.float32(b)
        out, expected = getattr(special, name)(a, b), getattr(sp, name)(a.astype(float), b)
        assert out.dtype == "float32"
        np.testing.assert_allclose(out, expected, rtol=2e-7, err_msg=name)
    far = special.betaln(np.float32(3651087), 1.0)
    np.testing.assert_allclose(far, -15.110535489441787, rtol=2e-7)


def test_gamma_has_its_poles_limits_and_signs():
    x = np.array([0, -0.0, -1, -2, np.inf, -np.inf, np.nan, 36, -60.5], "float32")
    inf, nan = np.inf, np.nan
    out = np.asarray(special.gamma(x))
    np.testing.assert_array_equal(out, [inf, -inf, nan, nan, inf, nan, nan, inf, 0])
    with weft.enable_x64(True):
        out = np.asarray(special.gamma(np.array([171.5, 172, -190.5, 1e300])))
    np.testing.assert_allclose(out, [9.483367566824795e307, inf, 0, inf], rtol=1e-13)


def test_the_digamma_of_many_doubles_near_its_root_has_all_digits():
    x = np.resize([1.46163214496836, 1.5, 1.4375], 9000)
    with weft.enable_x64(True):
        out = np.asarray(special.digamma(x))[:3]
    exact = [-2.2410766695906462e-15, 0.03648997397857652, -0.023613544005297898]
    np.testing.assert_allclose(out, exact, rtol=4e-15)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_polygamma_has_the_digits_of_zeta(dtype):
    x, orders = np.array([16.5625, 2.625, 0.5], dtype), np.array([0, 1, 2, 3])
    with weft.enable_x64(True):
        out = special.polygamma(orders[:, None], x)
        one = special.polygamma(1, x)
    assert out.dtype == dtype
    rtol = 8 * np.finfo(dtype).eps
    np.testing.assert_allclose(out, sp.polygamma(orders[:, None], x.astype(float)), rtol)
    np.testing.assert_allclose(one, sp.polygamma(1, x.astype(float)), rtol)
    assert np.isnan(special.polygamma(-1, np.float32(2)))


def test_polygamma_has_the_pole_of_small_negative_numbers():
    with weft.enable_x64(True):
        np.testing.assert_allclose(special.polygamma(3, -1e-10), 6e40, rtol=1e-12)


def test_modified_bessel_functions_are_smooth_at_zero():
    slopes = [weft.grad(special.i0), weft.grad(special.i1), weft.grad(weft.grad(special.i0))]
    assert [float(slope(0.0)) for slope in slopes] == [0, 0.5, 0.5]
