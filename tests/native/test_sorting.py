"""Sorts by native kernels, or by XLA where these are off, against stable sorts of NumPy."""

import re

import ml_dtypes
import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft.core.config import options
from weft.native import calls

SHAPES = [(20000,), (3, 17000), (700, 3), (9, 1000), (70, 65), (40, 2500)]
DTYPES = ["float32", "float16", "bfloat16", "int8", "int16", "int32", "uint8", "uint16", "uint32"]


def values(rng, shape, dtype):
    """Few distinct values and many; of floats also NaNs, infinities and zeros of both signs."""
    x = rng.standard_normal(shape) * 100
    if dtype.startswith("u"):
        x = np.abs(x)
    x = x.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    if "float" in dtype:
        for k, special in enumerate((np.nan, -0.0, 0.0, np.inf, -np.inf)):
            x.flat[k::17] = special
    return x


def stable_order(x):
    """Indices that sort the last dimension, NaNs last."""
    wide = x.astype(np.float64) if x.dtype.kind in "fV" else x.astype(np.int64)
    return np.argsort(wide, axis=-1, kind="stable")


def bits(x):
    return np.asarray(x).view(f"u{x.dtype.itemsize}")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_values_and_order_are_those_of_a_stable_sort(shape, dtype, rng):
    x = values(rng, shape, dtype)
    order = stable_order(x)
    expected = np.take_along_axis(x, order, -1)
    np.testing.assert_array_equal(bits(wnp.sort(x)), bits(expected))
    np.testing.assert_array_equal(wnp.argsort(x), order)


@pytest.mark.parametrize("dtype", ["int64", "uint64", "float64"])
def test_64_bit_values_are_sorted(dtype, rng):
    with options["enable_x64"](True):
        x = (rng.standard_normal(20000) * 2.0**40).astype("int64").astype(dtype)
        np.testing.assert_array_equal(wnp.sort(x), np.sort(x))
        np.testing.assert_array_equal(wnp.argsort(x), np.argsort(x, kind="stable"))
        rows = x.reshape(100, 200)
        for axis in (0, 1):
            np.testing.assert_array_equal(wnp.sort(rows, axis=axis), np.sort(rows, axis=axis))


@pytest.mark.parametrize("dtype", DTYPES)
def test_columns_are_sorted_with_their_zeros_and_nans(dtype, rng):
    x = values(rng, (5, 90, 37), dtype)
    last = np.moveaxis(x, 1, -1)
    expected = np.moveaxis(np.take_along_axis(last, stable_order(last), -1), -1, 1)
    np.testing.assert_array_equal(bits(wnp.sort(x, axis=1)), bits(expected))


@pytest.mark.parametrize("n", [2, 15, 16, 65, 199, 200])
def test_short_rows_and_columns_are_sorted_and_have_medians(n, rng):
    for dtype in ("float32", "int32"):
        x = (rng.standard_normal((400, n)) * 50).astype(dtype)
        np.testing.assert_array_equal(wnp.sort(x, axis=1), np.sort(x, axis=1))
        np.testing.assert_array_equal(wnp.sort(x.T, axis=0), np.sort(x.T, axis=0))
        np.testing.assert_allclose(wnp.median(x, 1), np.median(x, 1), rtol=1e-6, atol=1e-5)


def test_other_dimensions_are_sorted(rng):
    x = rng.standard_normal((30, 20, 10)).astype(np.float32)
    for axis in range(3):
        np.testing.assert_array_equal(wnp.sort(x, axis=axis), np.sort(x, axis=axis))
        np.testing.assert_array_equal(wnp.argsort(x, axis=axis), np.argsort(x, axis=axis))


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint32"])
@pytest.mark.parametrize("spread", [3, 2000, 2**31 - 1])
@pytest.mark.parametrize("shape", [(100_000,), (2, 17000), (17000, 2)], ids=str)
def test_values_go_along_with_keys_of_long_rows(shape, spread, dtype, rng):
    keys = rng.integers(0, spread, shape).astype(dtype)
    along = rng.standard_normal(shape).astype(np.float32)
    axis = int(np.argmax(shape))
    order = np.argsort(keys, axis=axis, kind="stable")
    carried = weft.jit(lambda k, v: weft.lax.sort_key_val(k, v, axis)[1])(keys, along)
    np.testing.assert_array_equal(carried, np.take_along_axis(along, order, axis))
    both = weft.jit(lambda k, v: weft.lax.sort_key_val(k, v, axis))(keys, along)
    np.testing.assert_array_equal(both[0], np.take_along_axis(keys, order, axis))
    np.testing.assert_array_equal(both[1], carried)
    np.testing.assert_array_equal(wnp.argsort(keys, axis=axis), order)


@pytest.mark.parametrize("shape", [(3000,), (20000,), (5, 400)], ids=str)
def test_several_keys_matter_in_their_order(shape, rng):
    last = rng.integers(0, 5, shape).astype(np.int32)
    first = rng.integers(0, 3, shape).astype(np.float32)
    payload = rng.standard_normal(shape).astype(np.float32) + 1j
    outs = weft.lax.sort((first, last, payload.astype(np.complex64)), num_keys=2)
    order = np.lexsort((last, first), axis=-1)
    for out, x in zip(outs, (first, last, payload), strict=True):
        np.testing.assert_allclose(out, np.take_along_axis(x, order, -1), rtol=1e-6)


@pytest.mark.parametrize("x", [np.zeros(2000, np.float32), np.arange(20000)[::-1].astype(np.int32)])
def test_equal_and_reversed_values_are_sorted(x):
    np.testing.assert_array_equal(wnp.sort(x), np.sort(x))
    np.testing.assert_array_equal(wnp.argsort(x), np.argsort(x, kind="stable"))


PATTERNS = {
    "organ pipe": lambda n: np.minimum(np.arange(n), np.arange(n)[::-1]),
    "sawtooth": lambda n: np.arange(n) % 100,
    "mostly equal": lambda n: np.where(np.arange(n) % 1000 == 0, np.arange(n), 7),
    "greatest": lambda n: np.full(n, 2**31 - 1),
    "powers of two": lambda n: 2 ** (np.arange(n) * 40503 % 63),
}


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("guesses", [None, 0, 2], ids=str)
@pytest.mark.parametrize("dtype", ["int32", "float64"])
def test_pivots_that_split_badly_do_not_matter(dtype, pattern, guesses, monkeypatch):
    def target(file, entry, bindings):
        more = {} if guesses is None else {"GUESSES": guesses}
        return calls.target(file, entry, {**bindings, **more})

    monkeypatch.setattr("weft.native.sorting.target", target)
    weft.clear_caches()
    with options["enable_x64"](True):
        for n in (3000, 50_001):
            x = PATTERNS[pattern](n).astype(dtype)
            np.testing.assert_array_equal(weft.jit(wnp.sort)(x), np.sort(x))
    weft.clear_caches()


def test_derivatives_batches_and_shards_are_those_of_any_sort(rng):
    x = rng.standard_normal((16, 400)).astype(np.float32)
    weights = np.arange(400, dtype=np.float32)
    grad = weft.jit(weft.grad(lambda x: (wnp.sort(x) * weights).sum()))(x)
    np.testing.assert_array_equal(grad, np.argsort(np.argsort(x)))
    np.testing.assert_array_equal(weft.vmap(wnp.sort)(x), np.sort(x))
    mesh = weft.make_mesh((8,), ("x",), axis_types=(weft.AxisType.Auto,))
    for spec in (weft.P("x"), weft.P(None, "x")):
        placed = weft.device_put(x, weft.NamedSharding(mesh, spec))
        np.testing.assert_array_equal(weft.jit(lambda x: wnp.sort(x, axis=1))(placed), np.sort(x))


# Elements by rank ------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [d for d in DTYPES if not d.endswith("int8")])
@pytest.mark.parametrize("shape", [(20000,), (3, 17000), (30, 700), (2, 2048)], ids=str)
def test_single_elements_of_a_sorted_row_are_those_of_the_whole(shape, dtype, rng):
    x = values(rng, shape, dtype)
    n = shape[-1]
    places = sorted({0, 1, n // 3, n // 2, n - 1})

    @weft.jit
    def some(x):
        ordered = weft.lax.sort(x)
        return [weft.lax.slice_in_dim(ordered, p, p + 1, axis=x.ndim - 1) for p in places]

    assert "weft_native_ranks" in some.lower(x).compile().as_text()
    expected = np.take_along_axis(x, stable_order(x), -1)
    for place, found in zip(places, some(x), strict=True):
        np.testing.assert_array_equal(
            np.asarray(found, np.float64), expected[..., place : place + 1].astype(np.float64)
        )


@pytest.mark.parametrize(
    "x", [np.zeros(30000, np.float32), np.arange(30000) % 7, np.arange(40000)[::-1]], ids=len
)
def test_medians_of_equal_and_ordered_elements(x):
    x = x.astype(np.float32)
    assert wnp.median(x) == np.median(x)
    np.testing.assert_allclose(wnp.quantile(x, 0.3), np.quantile(x, 0.3), rtol=1e-6)
    np.testing.assert_array_equal(wnp.median(np.where(x == x[0], np.nan, x)), np.nan)


def test_medians_of_rows_have_derivatives_batches_and_shards(rng):
    x = rng.standard_normal((16, 1001)).astype(np.float32)
    expected = np.median(x, 1)
    np.testing.assert_array_equal(weft.vmap(wnp.median)(x), expected)
    grad = weft.jit(weft.grad(lambda x: wnp.median(x, 1).sum()))(x)
    np.testing.assert_array_equal(grad, x == expected[:, None])
    mesh = weft.make_mesh((8,), ("x",), axis_types=(weft.AxisType.Auto,))
    for rows, spec in ((x, weft.P("x")), (x[:, :1000], weft.P(None, "x"))):
        placed = weft.device_put(rows, weft.NamedSharding(mesh, spec))
        found = weft.jit(lambda x: wnp.median(x, 1))(placed)
        np.testing.assert_allclose(found, np.median(rows, 1), rtol=1e-6)


def total_order(x):
    """Unsigned numbers in the order of all bits of floats, of other numbers by value."""
    if "float" not in x.dtype.name:
        return x.astype(np.int64)
    raw = bits(x).astype(np.int64)
    top = 1 << (8 * x.dtype.itemsize - 1)
    return np.where(raw & top, top - 1 - raw, raw)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(20000,), (3, 17000), (30, 65)], ids=str)
@pytest.mark.parametrize("count", [1, 10, 64])
def test_the_greatest_are_in_order_with_their_indices(shape, dtype, count, rng):
    x = values(rng, shape, dtype)
    top_k = weft.jit(lambda x: weft.lax.top_k(x, count))
    assert "weft_native_topk" in top_k.lower(x).compile().as_text()
    found, indices = top_k(x)
    order = np.argsort(-total_order(x), axis=-1, kind="stable")[..., :count]
    np.testing.assert_array_equal(indices, order)
    np.testing.assert_array_equal(bits(found), bits(np.take_along_axis(x, order, -1)))


def test_the_greatest_of_ascending_rows_and_of_shards(rng):
    x = np.arange(16 * 1000, dtype=np.float32).reshape(16, 1000)
    np.testing.assert_array_equal(weft.lax.top_k(x, 3)[1], np.tile([999, 998, 997], (16, 1)))
    mesh = weft.make_mesh((8,), ("x",), axis_types=(weft.AxisType.Auto,))
    for spec in (weft.P("x"), weft.P(None, "x")):
        placed = weft.device_put(x, weft.NamedSharding(mesh, spec))
        found = weft.jit(lambda x: weft.lax.top_k(x, 3)[0])(placed)
        np.testing.assert_array_equal(found, x[:, :-4:-1])


def hlo(x):
    return weft.jit(wnp.sort).lower(x).compile().as_text()


def test_kernels_are_called_where_they_pay_and_can_be_switched_off():
    large, small = np.zeros(5000, np.float32), np.zeros(50, np.float32)
    assert re.search("weft_native_(quick)?sort", hlo(large))
    assert "weft_native" not in hlo(small)
    with options["native_ops"](False):
        assert "weft_native" not in hlo(large)


def test_without_a_compiler_of_kernels_xla_sorts(monkeypatch):
    monkeypatch.setattr(calls, "has_compiler", lambda: False)
    monkeypatch.setattr("weft.native.sorting.has_compiler", lambda: False)
    assert "weft_native" not in hlo(np.zeros(6000, np.float32))


def test_the_program_that_is_shown_has_no_calls_of_kernels():
    assert "custom_call" not in weft.jit(wnp.sort).lower(np.zeros(5000, np.float32)).as_text()
