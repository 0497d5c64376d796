"""Every function of weft.numpy against NumPy on the host; dtypes against JAX's, as saved."""

import inspect
import json
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

import weft
import weft.numpy as wnp

from .table import CASES, HELPERS, OPERANDS

ORACLE = json.loads((Path(__file__).parents[1] / "oracle" / "numpy_types.json").read_text())
ARRAYS = {name: wnp.asarray(value) for name, value in OPERANDS.items()}


def leaves(x):
    if isinstance(x, list | tuple):
        return [leaf for part in x for leaf in leaves(part)]
    return [x]


def reference(text):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        scope = {"xp": np, "np": np, **HELPERS, **OPERANDS}
        return leaves(eval(text, scope))


def tolerance(dtype):
    return {"float16": 1e-2, "bfloat16": 4e-2}.get(str(dtype), 1e-4)


def wide(x):
    x = np.asarray(x)
    if x.dtype.kind == "c":
        return x.astype(np.complex128)
    return x.astype(np.float64)


@pytest.mark.parametrize(("text", "numpy_text"), CASES, ids=[c[0] for c in CASES])
def test_values_are_numpys_and_types_are_jaxs(text, numpy_text):
    got = leaves(eval(text, {"xp": wnp, **ARRAYS}))
    expected = reference(numpy_text)
    assert len(got) == len(expected)
    for g, e in zip(got, expected, strict=True):
        assert g.shape == np.shape(e)
        tol = tolerance(g.dtype)
        np.testing.assert_allclose(wide(g), wide(e), rtol=tol, atol=tol * 0.1)
    if text in ORACLE["cases"]:
        types = [[str(g.dtype), g.weak_type] for g in map(wnp.asarray, got)]
        # JAX calls some comparisons' booleans weak, which has no effect.
        assert types == [[d, weak and d != "bool"] for d, weak, _ in ORACLE["cases"][text]]


@pytest.mark.parametrize(
    ("call", "dtype"),
    [
        (lambda: wnp.sqrt(np.int32(2)), "float32"),
        (lambda: wnp.sqrt(np.int64(2)), "float64"),
        (lambda: wnp.sqrt(2), "float64"),
        (lambda: wnp.mean(np.ones(3, bool)), "float32"),
        (lambda: wnp.median(np.ones(3, np.int8)), "float32"),
        (lambda: wnp.ones(3, "int16") / 2, "float32"),
        (lambda: wnp.arange(3) / 2, "float64"),
        (lambda: wnp.rint(np.int8(2)), "float64"),
        (lambda: wnp.vander(np.ones(2, np.uint64)), "uint64"),
        (lambda: wnp.searchsorted(wnp.arange(3), 1), "int64"),
        (lambda: weft.random.binomial(weft.random.key(0), 3, 0.5), "float64"),
    ],
)
def test_only_64_bit_integers_ask_for_64_bit_floats(call, dtype):
    with weft.enable_x64(True):
        assert call().dtype == dtype


def table_names():
    text = "\n".join(c[0] for c in CASES)
    return set(re.findall(r"xp\.((?:linalg\.|fft\.)?\w+)", text))


# Tested in files of their own, or not functions of arrays.
ELSEWHERE = set(
    [
        "ComplexWarning",
        "__array_api_version__",
        "__array_namespace_info__",
        "array_repr",
        "minmax",
        "top_k",
        "array_str",
        "from_dlpack",
        "fromfile",
        "load",
        "save",
        "savez",
        "set_printoptions",
        "get_printoptions",
        "printoptions",
        "result_type",
        "promote_types",
        "can_cast",
        "isdtype",
        "issubdtype",
        "isscalar",
        "iscomplexobj",
        "isrealobj",
        "iterable",
        "ndim",
        "shape",
        "size",
        "broadcast_shapes",
        "einsum_path",
        "ndarray",
        "ufunc",
        "s_",
        "index_exp",
        "dtype",
        "finfo",
        "iinfo",
        "generic",
        "number",
        "inexact",
        "floating",
        "complexfloating",
        "integer",
        "signedinteger",
        "unsignedinteger",
        "character",
        "flexible",
        "object_",
        "e",
        "euler_gamma",
        "inf",
        "nan",
        "newaxis",
        "pi",
        "linalg",
        "fft",
    ]
)


def test_every_public_function_is_in_the_table():
    scalar_types = {n for n in wnp.__all__ if isinstance(getattr(wnp, n), type)}
    missing = set(wnp.__all__) - table_names() - ELSEWHERE - scalar_types
    assert not missing


# No counterpart among weft's dtypes: XLA computes in them neither on CPUs nor on GPUs.
UNSUPPORTED = {"int1", "uint1", "float6_e2m3fn", "float6_e3m2fn"}


def test_every_public_name_of_jax_numpy_exists():
    missing = [n for n in ORACLE["names"] if not hasattr(wnp, n)]
    assert set(missing) <= UNSUPPORTED


def signature_of(name):
    value = wnp
    for part in name.split("."):
        value = getattr(value, part, None)
    return None if value is None else inspect.signature(value)


@pytest.mark.parametrize("name", sorted(ORACLE["signatures"]))
def test_parameters_have_jaxs_names_and_order(name):
    try:
        signature = signature_of(name)
    except ValueError:
        pytest.fail(f"{name} has no signature")
    assert signature is not None, f"weft.numpy.{name} is missing"
    given = [(p.name, p.kind.name) for p in signature.parameters.values()]
    expected = [tuple(p) for p in ORACLE["signatures"][name]]
    for parameter, kind in expected:
        if kind == "POSITIONAL_ONLY" or kind.startswith("VAR"):
            continue
        assert parameter in [n for n, _ in given], f"no parameter {parameter}"
    positional = [n for n, k in expected if k.startswith("POSITIONAL")]
    ours = [n for n, k in given if k.startswith("POSITIONAL")]
    assert len(ours) >= len(positional)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: wnp.sum([1, 2]), TypeError, "asarray"),
        (lambda: wnp.add([1, 2], 1), TypeError, "weft.numpy.add"),
        (lambda: wnp.sum(ARRAYS["f"], out=ARRAYS["f"]), TypeError, "immutable"),
        (lambda: wnp.sum(ARRAYS["f"], axis=1), ValueError, "axis"),
        (lambda: wnp.sum(ARRAYS["f34"], axis=(0, 0)), ValueError, "twice"),
        (lambda: wnp.max(ARRAYS["e"]), ValueError, "initial"),
        (lambda: wnp.max(ARRAYS["f"], where=ARRAYS["b"]), ValueError, "initial"),
        (lambda: wnp.matmul(ARRAYS["f34"], ARRAYS["f34"]), ValueError, "summed dimensions"),
        (lambda: wnp.matmul(2.0, ARRAYS["f"]), ValueError, "dimension"),
        (lambda: wnp.concatenate([]), ValueError, "at least one"),
        (lambda: wnp.stack([ARRAYS["f"], ARRAYS["f34"]]), ValueError, "equal"),
        (lambda: wnp.power(ARRAYS["i"], -1), TypeError, "negative"),
        (lambda: wnp.einsum("ij,jk", ARRAYS["f34"], ARRAYS["f34"]), ValueError, "'j'"),
        (lambda: wnp.einsum("ij", ARRAYS["f"]), ValueError, "dimensions"),
        (lambda: wnp.reshape(ARRAYS["f"], (3, 2)), TypeError, "reshape"),
        (lambda: wnp.array([1, "a"]), TypeError, "number"),
        (lambda: wnp.array([2**40]), OverflowError, "range"),
        (lambda: wnp.arange(0, 1, 0), ValueError, "zero"),
        (lambda: wnp.linalg.inv(ARRAYS["f34"]), ValueError, "square"),
        (lambda: wnp.linalg.matrix_rank(ARRAYS["f34"], 0.1, tol=0.1), ValueError, "one of them"),
        (lambda: wnp.fft.fft(ARRAYS["f"], norm="x"), ValueError, "norm"),
        (lambda: wnp.put(ARRAYS["f"], 1, 2.0), ValueError, "inplace=False"),
        (lambda: wnp.split(ARRAYS["f"], 3), ValueError, "equal"),
        (lambda: wnp.broadcast_to(ARRAYS["f"], (3,)), ValueError, "broadcast"),
        (lambda: wnp.pad(ARRAYS["f"], 1, mode="none"), NotImplementedError, "mode"),
        (lambda: weft.jit(wnp.nonzero)(ARRAYS["f"]), TypeError, "size"),
        (lambda: weft.jit(wnp.unique)(ARRAYS["f"]), TypeError, "size"),
        (lambda: weft.jit(wnp.arange)(3), TypeError, "arange"),
    ],
)
def test_errors_name_the_argument_and_the_fix(call, error, words):
    with pytest.raises(error, match=re.escape(words)):
        call()


@pytest.mark.parametrize("shape", [(7, 3), (3, 7), (4, 4), (9, 2)])
def test_a_wrapped_diagonal_starts_anew_below_the_square(shape):
    want = np.zeros(shape, np.float32)
    np.fill_diagonal(want, 5.0, wrap=True)
    got = wnp.fill_diagonal(np.zeros(shape, np.float32), 5.0, wrap=True, inplace=False)
    np.testing.assert_array_equal(got, want)


def test_unequal_ranks_raise_or_warn_where_the_setting_asks():
    x, row = wnp.ones((2, 3)), wnp.ones(3)
    with weft.numpy_rank_promotion("raise"):
        np.testing.assert_array_equal(x + row[None] + 1.0, 3 * np.ones((2, 3)))
        for add in (wnp.add, weft.jit(lambda a, b: a + b)):
            words = (
                r"shapes \(2, 3\), \(3,\) could not be broadcast together: they have unequal ranks"
            )
            with pytest.raises(ValueError, match=words):
                add(x, row)
    with weft.numpy_rank_promotion("warn"), pytest.warns(UserWarning, match="unequal ranks"):
        wnp.add(x, row)


# Python numbers beside arrays ------------------------------------------------------------------

WRAPPED = {
    "uint32 + -1": (lambda: np.uint32(3), lambda x: x + -1, 2),
    "uint32 ^ -1": (lambda: np.uint32(5), lambda x: x ^ -1, 4294967290),
    "uint8 & 0x1ff": (lambda: np.uint8(3), lambda x: x & 0x1FF, 3),
    "maximum(int8, 300)": (lambda: np.int8(3), lambda x: wnp.maximum(x, 300), 44),
}


@pytest.mark.parametrize("name", WRAPPED)
def test_python_ints_wrap_around_to_the_dtype_of_the_array_beside_them(name):
    make, f, want = WRAPPED[name]
    x = wnp.asarray(make())
    for run in (f, weft.jit(f)):
        assert (run(x).dtype, int(run(x))) == (x.dtype, want)


def test_python_ints_that_no_default_int_holds_are_an_error():
    with pytest.raises(OverflowError):
        wnp.asarray(np.int32(3)) + 2**31


def test_integer_remainders_by_zero_are_zero():
    x = np.arange(-2, 3, dtype=np.int32)
    for y in (0, np.zeros(5, np.int32)):
        np.testing.assert_array_equal(wnp.remainder(x, y), np.zeros(5))
        np.testing.assert_array_equal(wnp.fmod(x, y), np.zeros(5))


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint8"])
def test_integers_divided_by_zero_are_those_of_the_type_s_last_values(dtype):
    x = np.array([1, 0, 5, -3], "int32").astype(dtype)
    want = [255] * 4 if dtype == "uint8" else [-2, -1, -2, -2]
    for y in (0, np.zeros(4, dtype)):
        np.testing.assert_array_equal(wnp.asarray(x) // y, want)
        quotient, rest = wnp.divmod(x, y)
        np.testing.assert_array_equal(quotient, want)
        np.testing.assert_array_equal(rest, np.zeros(4))


def test_floats_divided_by_zero_are_infinite():
    x = np.float32([1, -1, 0, 5.5])
    for y in (np.float32(0), np.float32(-0.0), np.float32(2)):
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(wnp.floor_divide(x, y), np.floor_divide(x, y))
            np.testing.assert_array_equal(wnp.divmod(x, y)[0], np.floor_divide(x, y))


def test_antiderivatives_divide_by_whole_numbers_exactly():
    p = np.random.default_rng(0).standard_normal(33).astype(np.float32)
    np.testing.assert_array_equal(
        wnp.polyint(wnp.array(p)), np.append(p / np.arange(33, 0, -1, dtype=np.float32), 0)
    )


@pytest.mark.parametrize(
    "p", [[0, 0, 1, 2, 1, 0], [1, -3, 2], [0, 1, -1, 0, 0], [0, 0], [0, 0, 2, 1]]
)
def test_roots_of_padded_polynomials_end_in_nan(p):
    out = weft.jit(lambda p: wnp.roots(p, strip_zeros=False))(np.float32(p))
    want = np.roots(p)
    missing = np.full(len(p) - 1 - len(want), np.nan)
    got = np.asarray(out)
    np.testing.assert_allclose(np.sort(got[: len(want)]), np.sort(want), atol=2e-3)
    np.testing.assert_array_equal(got[len(want) :].real, missing)


def test_lax_takes_no_python_numbers_of_different_kinds():
    with pytest.raises(TypeError, match="add"):
        weft.lax.add(1, 1.0)
    assert wnp.add(1, 1.0) == 2


@pytest.mark.parametrize("x", [1.0, 1, np.float32(1), np.int8(3)])
def test_ldexp_has_a_dtype_of_its_own(x):
    out = weft.eval_shape(wnp.ldexp, x, 2)
    assert out.dtype == np.float32 and not out.weak_type


@pytest.mark.parametrize("mode", ["largest", "smallest"])
def test_top_k_takes_the_first_of_equals_and_nan_as_the_largest(mode):
    x = np.float32([[1, np.nan, 3, 1, -0.5], [2, 2, -np.inf, np.inf, 2]])
    values, indices = wnp.top_k(x, 4, mode=mode)
    want = np.argsort(x, axis=1, kind="stable")
    if mode == "largest":
        keys = np.where(np.isnan(x), 3e38, np.clip(x, -2e38, 2e38))
        want = np.argsort(-keys, axis=1, kind="stable")
    np.testing.assert_array_equal(indices, want[:, :4])
    np.testing.assert_array_equal(values, np.take_along_axis(x, want[:, :4], 1))
    second = lambda v: wnp.top_k(v, 2, mode=mode)[0][1]
    grad = weft.grad(second)(np.float32([4, 9, 5]))
    np.testing.assert_array_equal(grad, [0, 0, 1])


def test_bins_may_rise_or_fall_and_hold_the_values_themselves():
    x = np.array([-1.0, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0], np.float32)
    for bins in ([0.0, 1.0, 1.0, 2.0, 3.0], [3.0, 2.0, 1.0, 1.0, 0.0], [1.0], [2.0, 2.0]):
        for right in (False, True):
            got = wnp.digitize(x, np.float32(bins), right=right)
            np.testing.assert_array_equal(got, np.digitize(x, bins, right=right))


def test_no_variance_is_left_without_degrees_of_freedom():
    for x in (np.arange(3), np.arange(3.0, dtype=np.float32), np.arange(3) + 1j):
        for ddof in (3, 4, 2.0**40):
            for f in (wnp.var, wnp.std):
                assert np.isnan(f(x, ddof=ddof)) and np.isnan(weft.jit(f)(x, ddof=ddof))
        np.testing.assert_allclose(wnp.var(x, ddof=2), np.var(x, ddof=2), rtol=1e-6)


MASKED = np.ma.array([1.0, 2.0], mask=[False, True])
TAKES = {
    "array": wnp.array,
    "asarray": wnp.asarray,
    "a list": lambda m: wnp.array([m, m]),
    "an operator": lambda m: wnp.ones(2) + m,
    "a reflected operator": lambda m: m + wnp.ones(2),
    "a function": wnp.sum,
    "lax": lambda m: weft.lax.add(m, m),
    "jit": weft.jit(lambda x: x),
    "a constant of jit": lambda m: weft.jit(lambda x: x + m)(np.ones(2)),
    "grad": lambda m: weft.grad(lambda x: x.sum())(m),
    "vmap": weft.vmap(lambda x: x),
    "device_put": weft.device_put,
    "an index": lambda m: wnp.ones(3)[np.ma.array([0, 1], mask=[False, True])],
    "at": lambda m: wnp.ones(2).at[:].set(m),
}


@pytest.mark.parametrize("name", TAKES)
def test_masked_arrays_do_not_lose_their_mask(name):
    with pytest.raises(ValueError, match=r"mask would be lost.*filled"):
        TAKES[name](MASKED)


@pytest.mark.parametrize("bins", [1, 7, 100])
@pytest.mark.parametrize("ends", [(-4.0, 4.0), (0.1, 0.7), (1000.0, 1000.01), None])
def test_elements_on_and_beside_edges_are_in_the_bins_that_these_bound(bins, ends, rng):
    inner = np.linspace(*(ends or (-2, 3)), bins + 1).astype(np.float32)
    beside = [np.nextafter(inner, np.float32(s)) for s in (-np.inf, np.inf)]
    x = np.concatenate([inner, *beside, rng.standard_normal(99).astype(np.float32)])
    x = x[(x == 0) | (abs(x) > 1e-30)]  # XLA takes denormal numbers for 0
    if ends is not None:
        x = np.append(x, np.float32([np.nan, np.inf, -np.inf]))
    counts, edges = (np.asarray(r) for r in wnp.histogram(x, bins, ends))
    inside = x[(x >= edges[0]) & (x <= edges[-1])]
    slots = np.minimum(np.searchsorted(edges, inside, side="right") - 1, bins - 1)
    np.testing.assert_array_equal(counts, np.bincount(slots, minlength=bins))


@pytest.mark.parametrize("ends", [(0.1, 0.9), (-1, 1), (-0.3, 0.3), (1, 1.001)])
@pytest.mark.parametrize("bins", [3, 7, 10])
def test_values_on_edges_are_in_the_same_bins_inside_of_a_program(ends, bins):
    x = np.linspace(*ends, 41).astype(np.float32)
    low, high = np.float64(x[0]), np.float64(x[-1])
    want = np.linspace(low, high, bins + 1).astype(np.float32)
    for run in (lambda f: f, weft.jit):
        counts, edges = run(lambda x: wnp.histogram(x, bins))(x)
        np.testing.assert_array_equal(edges, want)
        np.testing.assert_array_equal(counts, np.histogram(x, want)[0])
        pairs, _, _ = run(lambda x: wnp.histogram2d(x, x, bins))(x)
        np.testing.assert_array_equal(np.diag(pairs), counts)
        np.testing.assert_array_equal(run(lambda a, b: wnp.linspace(a, b, 41)[20])(-high, high), 0)


@pytest.mark.parametrize("name", ["linspace", "geomspace", "logspace"])
def test_ranges_between_numbers_are_numpys(name, rng):
    with weft.enable_x64(True), np.errstate(all="ignore"):
        for start, stop in [(1, 7), (3.5, 1.25), (2, 2), (5, 2.5), *rng.uniform(0.1, 9, (20, 2))]:
            args = *map(float, (start, stop)), int(rng.integers(1, 40)), bool(rng.integers(2))
            out = np.asarray(getattr(wnp, name)(*args))
            expected = getattr(np, name)(*args)
            np.testing.assert_allclose(out, expected, rtol=1e-14)
            if name != "logspace":
                np.testing.assert_array_equal(out[:1], expected[:1])
            if name != "logspace" and args[3]:
                np.testing.assert_array_equal(out[-1:], expected[-1:])


@pytest.mark.parametrize("endpoint", [False, True])
@pytest.mark.parametrize("num", [0, 1, 2, 5])
def test_traced_geomspace_begins_and_ends_with_its_arguments(num, endpoint):
    ends = np.float32([0.7, 3.0, 0.1]), np.float32([0.9, 1e6, -1.0])  # the last has no logarithm
    traced = weft.jit(lambda a, b: wnp.geomspace(a, b, num, endpoint, axis=-1))(*ends)
    with np.errstate(all="ignore"):
        expected = np.geomspace(*ends, num, endpoint, axis=-1)
    np.testing.assert_allclose(traced, expected, rtol=1e-5)
    if num:
        np.testing.assert_array_equal(traced[:, 0], ends[0])
    if num > 1 and endpoint:
        np.testing.assert_array_equal(traced[:, -1], ends[1])
