"""Functions and methods of several ops, which outside of jit run as one program."""

import numpy as np
import pytest
import scipy.linalg as scipy_linalg
import scipy.special as scipy_special
import scipy.stats as scipy_stats

import weft
import weft.numpy as wnp
from weft import scipy

X = wnp.arange(8.0).reshape(2, 4)


@pytest.mark.parametrize("call", [lambda axis: weft.nn.glu(X, axis=axis), lambda axis: X.sum(axis)])
def test_equal_numbers_of_another_kind_are_other_options(call):
    call(1)
    with pytest.raises(TypeError):
        call(1.0)


def test_options_that_do_not_hash_run_op_by_op():
    spacing = np.array([0.0, 1.0, 3.0, 6.0], np.float32)
    want = np.gradient(np.arange(8.0).reshape(2, 4), spacing, axis=1)
    np.testing.assert_allclose(wnp.gradient(X, spacing, axis=1), want, rtol=1e-6)
    np.testing.assert_allclose(wnp.gradient(X, axis=[1]), np.ones((2, 4)))


class Doubled:
    """A pytree whose leaf is not the array that it stands for."""

    def __init__(self, half):
        self.half = half

    def __jax_array__(self):
        return self.half * 2


weft.tree_util.register_pytree_node(Doubled, lambda x: ((x.half,), None), lambda _, c: Doubled(*c))
SINE = weft.make_jaxpr(weft.jit(wnp.sin))(wnp.arange(3.0))


@pytest.mark.parametrize(
    ("function", "reference"),
    [
        (weft.lax.exp, np.exp),
        (lambda x: wnp.add(x, np.float32(1)), lambda x: x + 1),
        (lambda x: wnp.allclose(x, np.array([2, 4, 6], np.float32)), np.all),
        (weft.lax.sort, np.sort),
        (wnp.median, np.median),
        (lambda x: wnp.percentile(x, 30), lambda x: np.percentile(x, 30)),
        (wnp.nonzero, np.nonzero),
        (lambda x: wnp.compress(x, x), lambda x: x),
        (lambda x: wnp.linspace(x, x, 1), lambda x: x[None]),
        (wnp.shape, np.shape),
        (lambda x: weft.core.jaxpr.eval_closed(SINE, x)[0], np.sin),
    ],
)
def test_a_pytree_that_stands_for_an_array_is_that_array_in_each_call(function, reference):
    half = np.array([1, 2, 3], np.float32)
    for _ in range(3):
        got = function(Doubled(wnp.asarray(half)))
        np.testing.assert_allclose(got, reference(2 * half), rtol=1e-6)


def program_of(function):
    cells = dict(zip(function.__code__.co_freevars, function.__closure__, strict=True))
    return cells["_program_"].cell_contents


@pytest.mark.parametrize(
    ("function", "operands", "reference"),
    [
        (wnp.triu, (X,), np.triu),
        (wnp.nanmedian, (X,), np.nanmedian),
        (wnp.searchsorted, (X[0], X[0]), np.searchsorted),
        (wnp.atleast_3d, (X,), np.atleast_3d),
        (wnp.stack, ([X, X],), np.stack),
        (wnp.nan_to_num, (X,), np.nan_to_num),
        (wnp.interp, (X[0], X[0], X[1]), np.interp),
        (wnp.pad, (X, ((1, 2), (0, 3))), np.pad),
        (wnp.tile, (X, (2, 1)), np.tile),
        (wnp.linalg.pinv, (X,), np.linalg.pinv),
        (wnp.linalg.norm, (X, 1), np.linalg.norm),
        (wnp.fft.fftshift, (X,), np.fft.fftshift),
        (scipy.linalg.expm, (X[:, :2] / 8,), scipy_linalg.expm),
        (scipy.special.gamma, (X + 0.5,), scipy_special.gamma),
        (scipy.special.polygamma, (wnp.array(2), X + 0.5), scipy_special.polygamma),
        (scipy.stats.norm.logpdf, (X, 1.5, 2), scipy_stats.norm.logpdf),
        (scipy.stats.binom.pmf, (X, 9, 0.25), scipy_stats.binom.pmf),
        (scipy.stats.rankdata, (X[0],), scipy_stats.rankdata),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_functions_of_several_ops_are_traced_once(function, operands, reference):
    on_host = weft.tree.map(np.asarray, operands)
    for _ in range(2):
        got, want = function(*operands), reference(*on_host)
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-6)
    assert program_of(function)._cache_size() >= 1


def test_arguments_that_no_program_takes_run_op_by_op():
    np.testing.assert_array_equal(
        wnp.nan_to_num(X / 0, nan=X, posinf=-1.0), np.full((2, 4), -1.0) * (np.asarray(X) > 0)
    )
    np.testing.assert_array_equal(wnp.flip(X, axis=np.int64(1)), np.flip(np.asarray(X), 1))
    with pytest.raises(TypeError, match="triu"):
        wnp.triu([1.0, 2.0])
    with pytest.raises(ValueError, match="axis"):
        wnp.sum(X, axis=5)


def test_programs_leave_traces_and_switches_to_the_function():
    np.testing.assert_array_equal(
        weft.grad(lambda x: wnp.triu(x).sum())(X), np.triu(np.ones((2, 4)))
    )
    assert "triu" not in str(weft.make_jaxpr(wnp.triu)(X))
    with weft.disable_jit():
        np.testing.assert_array_equal(wnp.triu(X), np.triu(np.asarray(X)))


@pytest.mark.parametrize("bounds", [(1, 2), (1.5, None), (None, 10**4), (wnp.float32(1), X)])
def test_bounds_beside_floats_and_integers(bounds):
    for x in (X, X.astype("float16"), X.astype(int)):
        np.testing.assert_allclose(wnp.clip(x, *bounds), np.clip(np.asarray(x), *bounds))


def test_rounding_divides_by_the_power_itself():
    x = np.linspace(-900, 900, 7001, dtype=np.float32)
    scale = np.float32(1000)
    np.testing.assert_array_equal(wnp.round(wnp.array(x), 3), np.rint(x * scale) / scale)


def test_percentages_are_divided_before_the_program():
    x = np.arange(101, dtype=np.float32)
    for q in (7, 29.0, 57.5):
        assert wnp.percentile(wnp.array(x), q) == pytest.approx(q, rel=1e-6)
        assert wnp.nanpercentile(wnp.array(x), q) == pytest.approx(q, rel=1e-6)
    with pytest.raises(ValueError, match="weft.numpy.nanpercentile: method must be one of"):
        wnp.nanpercentile(wnp.array(x), 7, method="none")


def test_a_range_of_powers_is_exact_to_its_dtype():
    np.testing.assert_array_equal(wnp.logspace(0, 9, 10, dtype=int), 10 ** np.arange(10))
    assert wnp.logspace(0, 40, 3).dtype == np.float32  # beyond the greatest float, infinity


@pytest.mark.parametrize("make", [weft.random.key, weft.random.PRNGKey])
def test_samplers_look_at_keys_where_settings_ask(make):
    key = make(7)
    first = weft.random.uniform(key, (3,))
    np.testing.assert_array_equal(first, weft.random.uniform(key, [3]))  # no program takes lists
    with weft.legacy_prng_key("error"):
        if make is weft.random.PRNGKey:
            with pytest.raises(ValueError, match="raw"):
                weft.random.uniform(key, (3,))
        else:
            np.testing.assert_array_equal(first, weft.random.uniform(key, (3,)))
    with weft.debug_key_reuse(True):
        if make is weft.random.key:
            weft.random.uniform(key, (3,))
            with pytest.raises(weft.errors.KeyReuseError):
                weft.random.uniform(key, (3,))


UNLIKE = {
    "integers": (X, np.arange(4, dtype=np.int32)),
    "booleans": (X, np.array([[True], [False]])),
    "a NumPy array": (X, np.float32([[2.0], [3.0]])),
    "a float beside integers": (X.astype(wnp.int32), 2.5),
    "a complex number": (X, 1 + 2j),
    "half precision": (X, np.arange(4, dtype=np.float16)),
}


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "true_divide", "not_equal"])
@pytest.mark.parametrize("case", UNLIKE)
def test_operands_that_are_converted_or_broadcast_are_one_program(name, case):
    x, y = UNLIKE[case]
    operator = {"true_divide": "truediv", "not_equal": "ne"}.get(name, name[:3])
    host = np.asarray(x)
    given = y if case == "a NumPy array" or not isinstance(y, np.ndarray) else wnp.asarray(y)
    with np.errstate(divide="ignore", invalid="ignore"):
        want, back = getattr(np, name)(host, y), getattr(np, name)(y, host)
    function, method = getattr(wnp, name), getattr(x, f"__{operator}__")
    for got in (function(x, given), method(given)):
        np.testing.assert_allclose(got, want, rtol=1e-6)
        assert isinstance(got, weft.Array)
    np.testing.assert_allclose(function(given, x), back, rtol=1e-6)
    with weft.no_tracing(True):  # nothing but the programs of before runs
        function(x, given), method(given), function(given, x)


def test_infinity_times_false_is_zero_as_in_a_compiled_function():
    # XLA makes a select of a product with a converted boolean.
    infinite, mask = wnp.array([np.inf, -np.inf, 2.0]), wnp.array([False, True, True])
    want = [0.0, -np.inf, 2.0]
    for multiply in (lambda x, y: x * y, wnp.multiply):
        for product in (multiply, weft.jit(multiply)):
            np.testing.assert_array_equal(product(infinite, mask), want)
            np.testing.assert_array_equal(product(mask, infinite), want)


def test_a_number_that_no_array_holds_is_refused_in_the_functions_own_words():
    with pytest.raises(OverflowError, match="out of bounds for int32"):
        wnp.arange(3) + 2**40
    with pytest.raises(ValueError, match="Incompatible shapes"):
        wnp.ones(3) * wnp.ones(4, int)
    np.testing.assert_array_equal(wnp.ones(3) * 2**40, np.full(3, 2.0**40, np.float32))
