"""Partitions and positions, by kernels or by sorts and scatters, against NumPy's."""

from functools import partial

import ml_dtypes
import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft.core.config import options

DTYPES = ["float32", "float16", "bfloat16", "int8", "int16", "int32", "uint16", "uint32"]


def values(rng, shape, dtype, special=True):
    x = np.abs(rng.standard_normal(shape)) * 100 if dtype[0] == "u" else rng.standard_normal(shape)
    x = (x * 90).astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    if "float" in dtype and special:
        for k, value in enumerate((np.nan, -0.0, 0.0, np.inf, -np.inf)):
            x.flat[k::97] = value
    return x


def check(parts, x, kth):
    """Each row is the row of x, its kth smallest in its place, none greater before it."""
    kind = np.float64 if x.dtype.kind in "fV" else np.int64
    got, expected = np.asarray(parts).astype(kind), np.sort(x.astype(kind), -1)
    np.testing.assert_array_equal(np.sort(got, -1), expected)
    np.testing.assert_array_equal(got[..., kth], expected[..., kth])
    # NaNs are greater than all numbers.
    got = np.where(np.isnan(got), np.inf, got)
    pivot = got[..., kth, None]
    assert (got[..., :kth] <= pivot).all() and (got[..., kth:] >= pivot).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(700,), (30_001,), (5, 4000), (300, 7)], ids=str)
@pytest.mark.parametrize("special", [False, True])
def test_rows_are_partitioned(shape, dtype, special, rng):
    x = values(rng, shape, dtype, special)
    for kth in (0, shape[-1] // 3, -1):
        check(weft.jit(lambda x, kth=kth: wnp.partition(x, kth))(x), x, kth)
        order = np.asarray(weft.jit(lambda x, kth=kth: wnp.argpartition(x, kth))(x))
        check(np.take_along_axis(x, order, -1), x, kth)
        np.testing.assert_array_equal(
            np.sort(order, -1), np.broadcast_to(np.arange(shape[-1]), shape)
        )


@pytest.mark.parametrize("dtype", ["float64", "int64"])
def test_64_bit_rows_are_partitioned(dtype, rng):
    with options["enable_x64"](True):
        x = (rng.standard_normal(20_000) * 2.0**40).astype(dtype)
        check(wnp.partition(x, 77), x, 77)
        check(x[np.asarray(wnp.argpartition(x, 77))], x, 77)


def test_equal_and_ordered_rows_are_partitioned():
    for x in (
        np.full(9000, 2**31 - 1),
        np.arange(9000),
        np.arange(9000)[::-1],
        np.arange(9000) % 3,
    ):
        x = x.astype(np.int32)
        for kth in (0, 4500, 8999):
            check(wnp.partition(x, kth), x, kth)
            check(x[np.asarray(wnp.argpartition(x, kth))], x, kth)


def test_derivatives_and_batches_of_partitions_are_those_of_sorts(rng):
    x = rng.standard_normal((4, 900)).astype(np.float32)
    grad = weft.jit(weft.grad(lambda x: wnp.partition(x, 5)[:, 5].sum()))(x)
    np.testing.assert_array_equal(grad, x == np.sort(x)[:, 5:6])
    check(weft.vmap(lambda row: wnp.partition(row, 5))(x), x, 5)


@pytest.mark.parametrize("n", [600, 30_007, (1 << 20) + 3])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 1.0])
def test_positions_are_those_of_truths(n, share, rng):
    x = rng.random(n) < share
    (expected,) = np.nonzero(x)
    for size in (0, 1, 5, 100, n // 3, n, n + 9):
        (found,) = weft.jit(lambda x, size=size: wnp.nonzero(x, size=size, fill_value=-7))(x)
        full = np.full(size, -7)
        full[: min(size, expected.size)] = expected[:size]
        np.testing.assert_array_equal(found, full)


def test_positions_of_matrices_and_batches(rng):
    x = (rng.random((90, 70)) < 0.2).astype(np.float32)
    expected = np.nonzero(x)
    found = weft.jit(lambda x: wnp.nonzero(x, size=6300))(x)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a[: b.size], b)
        assert not np.any(a[b.size :])
    rows = weft.jit(weft.vmap(lambda row: wnp.nonzero(row, size=70, fill_value=70)[0]))(x)
    for got, row in zip(np.asarray(rows), x, strict=True):
        np.testing.assert_array_equal(got[got < 70], np.nonzero(row)[0])
    with options["enable_x64"](True):
        assert wnp.nonzero(wnp.asarray(x[:, :40]), size=9)[0].dtype == np.int64


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 37, 1000, 50_000])
def test_places_in_a_table_are_those_of_any_search(n, dtype, rng):
    table, v = values(rng, (n,), dtype), values(rng, (30, 70), dtype)
    wide = np.float64 if v.dtype.kind in "fV" else np.int64
    table = table[np.argsort(table.astype(wide), kind="stable")]
    for side in ("left", "right"):
        got = weft.jit(lambda a, v, side=side: wnp.searchsorted(a, v, side=side))(table, v)
        np.testing.assert_array_equal(
            got, np.searchsorted(table.astype(wide), v.astype(wide), side)
        )


def test_derivatives_and_batches_of_searches(rng):
    tables = np.sort(rng.standard_normal((4, 700)).astype(np.float32))
    v = rng.standard_normal(900).astype(np.float32)
    got = weft.jit(weft.vmap(lambda a: wnp.searchsorted(a, v)))(tables)
    np.testing.assert_array_equal(got, [np.searchsorted(a, v) for a in tables])
    x, y = np.linspace(-3, 3, 50).astype(np.float32), rng.standard_normal(50).astype(np.float32)
    slope = weft.jit(weft.grad(lambda v: wnp.interp(v, x, y).sum()))(np.clip(v, -2.9, 2.9))
    place = np.searchsorted(x, np.clip(v, -2.9, 2.9), side="right")
    np.testing.assert_allclose(slope, (np.diff(y) / np.diff(x))[place - 1], rtol=1e-4)


@pytest.mark.parametrize("bitorder", ["big", "little"])
@pytest.mark.parametrize("shape", [(5000,), (70_001,), (40, 333), (3, 50, 64)], ids=str)
def test_bits_are_packed_and_taken_apart(shape, bitorder, rng):
    truths = rng.random(shape) < 0.5
    numbers = np.where(truths, rng.integers(1, 1000, shape), 0).astype(np.int32)
    octets = rng.integers(0, 256, shape).astype(np.uint8)
    for axis in (None, *range(len(shape))):
        pack = partial(wnp.packbits, axis=axis, bitorder=bitorder)
        packed = np.packbits(truths, axis=axis, bitorder=bitorder)
        np.testing.assert_array_equal(pack(truths), packed)
        np.testing.assert_array_equal(pack(numbers), packed)
        unpack = partial(wnp.unpackbits, axis=axis, bitorder=bitorder)
        unpacked = np.unpackbits(octets, axis=axis, bitorder=bitorder)
        np.testing.assert_array_equal(unpack(octets), unpacked)
    both = np.stack([octets, octets[::-1]])
    rows = weft.vmap(partial(wnp.unpackbits, bitorder=bitorder))(both)
    expected = [np.unpackbits(o, bitorder=bitorder) for o in both]
    np.testing.assert_array_equal(rows, expected)
    assert "weft_native_packbits" in weft.jit(pack).lower(truths).compile().as_text()
