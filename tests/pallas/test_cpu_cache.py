"""Kernels that pass over their blocks several times: tiles of rows, stores past the caches, and
quotients of rows, against NumPy."""

import importlib

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import pallas as pl

stream = importlib.import_module("weft.pallas.cpu.nontemporal")
tile = importlib.import_module("weft.pallas.cpu.tile")


def shape(*dims, dtype=np.float32):
    return weft.ShapeDtypeStruct(dims, dtype)


@pytest.fixture(params=[False, True], ids=["cached", "streamed"])
def streamed(request, monkeypatch):
    """Whether all outputs count as larger than the caches."""
    if request.param:
        monkeypatch.setattr(stream, "last_cache_bytes", lambda: 0)
    return request.param


@pytest.fixture
def tiles(monkeypatch):
    """The tiles that kernels are run in, as they are found."""
    found, original = [], tile.tile_of

    def spy(call):
        found.append(original(call))
        return found[-1]

    monkeypatch.setattr(importlib.import_module("weft.pallas.cpu.grid"), "tile_of", spy)
    return found


def rowwise(body, rows, columns, block, *others):
    spec = pl.BlockSpec((block, columns), lambda i: (i, 0))
    plain = [pl.BlockSpec(o.shape, lambda i, rank=o.ndim: (0,) * rank) for o in others]

    def kernel(x, *rest):
        *inputs, out = rest
        out[...] = body(x[...], *(r[...] for r in inputs))

    return pl.pallas_call(
        kernel,
        shape(rows, columns),
        grid=(pl.cdiv(rows, block),),
        in_specs=[spec, *plain],
        out_specs=spec,
    )


def softmax(xp, x):
    e = xp.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize(("rows", "block"), [(32, 8), (29, 8), (6, 6)])
def test_rows_that_do_not_depend_on_each_other_run_a_few_at_a_time(
    rng, tiles, streamed, rows, block
):
    x = rng.standard_normal((rows, 768)).astype("f4")
    scale = rng.standard_normal(768).astype("f4")
    got = rowwise(lambda x, s: softmax(wnp, x) * s, rows, 768, block, scale)(x, scale)
    np.testing.assert_allclose(got, softmax(np, x) * scale, rtol=1e-5, atol=1e-7)
    assert tiles[0].rows * tiles[0].count == block
    assert 1 <= tiles[0].rows < block


def test_several_outputs_masks_and_positions_in_a_row_are_cut_into_tiles(rng, tiles):
    def kernel(x, top, place, total):
        v = x[...]
        column = wnp.arange(1024)[None, :]
        v = wnp.where(column < 1000, v, -wnp.inf)
        top[...] = v.max(axis=1)
        place[...] = wnp.argmax(v, axis=1, keepdims=True).astype("int32")
        total[...] = wnp.cumsum(wnp.where(column < 1000, v, 0), axis=1)

    x = rng.standard_normal((16, 1024)).astype("f4")
    top, place, total = pl.pallas_call(
        kernel, [shape(16), shape(16, 1, dtype=np.int32), shape(16, 1024)]
    )(x)
    assert tiles[0] is not None
    np.testing.assert_array_equal(top, x[:, :1000].max(1))
    np.testing.assert_array_equal(place[:, 0], x[:, :1000].argmax(1))
    np.testing.assert_allclose(total[:, :1000], np.cumsum(x[:, :1000], 1), rtol=1e-4, atol=1e-4)


DEPENDENT = {
    "mean of columns": lambda xp, x: x - x.mean(axis=0),
    "sum of all": lambda xp, x: x / x.sum(),
    "sums along columns": lambda xp, x: xp.cumsum(x, axis=0) + x.sum(axis=1, keepdims=True),
    "turned over": lambda xp, x: x[::-1] - x.max(axis=1, keepdims=True),
    "outer product": lambda xp, x: x.sum(axis=1, keepdims=True) * x.sum(axis=1),
}


@pytest.mark.parametrize("name", DEPENDENT)
def test_rows_that_depend_on_each_other_stay_together(rng, tiles, name):
    x = rng.random((16, 16)).astype("f4") + 1
    got = rowwise(lambda x: DEPENDENT[name](wnp, x), 16, 16, 16)(x)
    assert tiles == [None]
    np.testing.assert_allclose(got, DEPENDENT[name](np, x), rtol=1e-4, atol=1e-4)


def test_a_row_added_to_what_an_aliased_output_holds(rng):
    x, start = rng.standard_normal((2, 32, 512)).astype("f4")
    spec = pl.BlockSpec((16, 512), lambda i: (i, 0))

    def kernel(x, start, out):
        out[...] += x[...] - x[...].mean(axis=1, keepdims=True)

    got = pl.pallas_call(
        kernel,
        shape(32, 512),
        grid=2,
        in_specs=[spec, spec],
        out_specs=spec,
        input_output_aliases={1: 0},
    )(x, start)
    np.testing.assert_allclose(got, start + x - x.mean(1, keepdims=True), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("columns", [16, 48, 100, 1024])
def test_outputs_beyond_the_caches_are_stored_in_lines(rng, monkeypatch, columns):
    monkeypatch.setattr(stream, "last_cache_bytes", lambda: 0)
    x = rng.standard_normal((24, columns)).astype("f4")
    got = rowwise(lambda x: wnp.sqrt(wnp.abs(x)) + 1, 24, columns, 8)(x)
    np.testing.assert_allclose(got, np.sqrt(abs(x)) + 1, rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_quotients_by_one_divisor_a_row_are_rounded_as_division_rounds(rng, dtype):
    info = np.finfo(dtype)
    special = np.array([0, -0.0, np.nan, np.inf, -np.inf, 1, -3, info.tiny, info.max, -info.max])
    powers = dtype(10.0) ** rng.integers(-15, 15, 118)
    x = np.concatenate([special, rng.standard_normal(118) * powers]).astype(dtype)
    y = np.concatenate([special, rng.standard_normal(22)]).astype(dtype)[:, None]

    def kernel(x, y, out):
        out[...] = x[...][None, :] / y[...]

    with weft.enable_x64(dtype == np.float64), np.errstate(all="ignore"):
        got = np.asarray(pl.pallas_call(kernel, shape(32, 128, dtype=dtype))(x, y))
        want = x[None, :] / y
    tiny = (abs(want) > 0) & (abs(want) < info.tiny * 2**30)  # XLA's threads flush subnormals
    exact = ~tiny & ~(abs(x) == info.tiny)[None, :]
    np.testing.assert_array_equal(got[exact], want[exact])
    signs = exact & ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[signs]), np.signbit(want[signs]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_extrema_of_rows_order_zeros_and_keep_nan(rng, dtype):
    pool = np.array([0.0, -0.0, np.inf, -np.inf, 1, -1, 3e38, -3e38], dtype)
    x = pool[rng.integers(0, 8, (32, 40))]
    x[0], x[1], x[2] = -0.0, -np.inf, -5 - np.arange(40)
    x[3, 7], x[4, 9] = np.nan, np.copysign(np.nan, -1)
    x[5], x[5, 3] = -0.0, 0.0

    def kernel(x, high, low):
        high[...] = x[...].max(axis=1)
        low[...] = x[...].min(axis=1)

    with weft.enable_x64(dtype == np.float64):
        outs = [shape(32, dtype=dtype), shape(32, dtype=dtype)]
        high, low = map(np.asarray, pl.pallas_call(kernel, outs)(x))
    np.testing.assert_array_equal(high, x.max(1))
    np.testing.assert_array_equal(low, x.min(1))
    assert np.signbit(high[0])
    assert not np.signbit(high[5])
    assert np.signbit(low[5])
