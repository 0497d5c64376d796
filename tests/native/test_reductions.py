"""Indices of extrema and cumulative operations by native kernels, against NumPy."""

from functools import partial

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft.core.config import options

SHAPES = [(600,), (9, 70), (4096,), (140000,), (3, 70000), (64, 100), (5, 40, 30)]
CUMULATIVE = {
    "cumsum": np.cumsum,
    "cumprod": np.cumprod,
    "cummax": np.maximum.accumulate,
    "cummin": np.minimum.accumulate,
}


def integers(rng, shape, dtype):
    return rng.integers(0, 100, shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8", "float16"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_extrema_are_the_first_or_the_first_nan(shape, dtype, rng):
    x = integers(rng, shape, dtype)
    cases = [x]
    if "float" in dtype:
        zeros = np.where(rng.random(shape) < 0.5, 0.0, -0.0).astype(dtype)
        nans = np.where(rng.random(shape) < 0.02, np.nan, x).astype(dtype)
        cases += [zeros, nans, np.full(shape, -np.inf, dtype)]
    for case in cases:
        for axis in range(x.ndim):
            for name in ("argmax", "argmin"):
                expected = getattr(np, name)(case, axis=axis)
                np.testing.assert_array_equal(getattr(wnp, name)(case, axis=axis), expected)


@pytest.mark.parametrize("dtype", ["float32", "int8", "float16"])
@pytest.mark.parametrize("shape", [(3000, 31), (3000, 32), (31, 3001), (12, 4, 1000)], ids=str)
def test_extrema_along_few_elements(shape, dtype, rng):
    x = integers(rng, shape, dtype)
    for axis in range(x.ndim):
        np.testing.assert_array_equal(wnp.argmax(x, axis=axis), np.argmax(x, axis=axis))


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_cumulative_operations_run_along_every_dimension_both_ways(shape, dtype, rng):
    x = integers(rng, shape, dtype)
    kept = {"dtype": dtype} if dtype != "float32" else {}
    for name, reference in CUMULATIVE.items():
        own = (1 + x * 1e-7).astype(dtype) if (name, dtype) == ("cumprod", "float32") else x
        given = kept if name in ("cumsum", "cumprod") else {}
        wide = own.astype(np.float64) if dtype == "float32" else own
        for axis in range(x.ndim):
            # A product of n factors is known up to n roundings, whatever their order.
            rounded = max(2e-4, x.shape[axis] * 2.0**-24 / 4)
            out = getattr(weft.lax, name)(own, axis=axis)
            np.testing.assert_allclose(out, reference(wide, axis=axis, **given), rtol=rounded)
            out = getattr(weft.lax, name)(own, axis=axis, reverse=True)
            expected = np.flip(reference(np.flip(wide, axis), axis=axis, **given), axis)
            np.testing.assert_allclose(out, expected, rtol=rounded)


def test_extrema_so_far_are_nan_from_the_first_nan_on(rng):
    x = rng.standard_normal((40, 40000)).astype(np.float32)
    x[:, 7000] = np.nan
    for name in ("cummax", "cummin"):
        out = np.asarray(getattr(weft.lax, name)(x, axis=1))
        np.testing.assert_array_equal(out, CUMULATIVE[name](x, axis=1))
        np.testing.assert_array_equal(
            getattr(weft.lax, name)(x, axis=0), CUMULATIVE[name](x, axis=0)
        )


def test_derivatives_batches_and_shards_of_them(rng):
    x = rng.standard_normal((16, 400)).astype(np.float32)
    weights = rng.standard_normal(400).astype(np.float32)
    grad = weft.jit(weft.grad(lambda x: (wnp.cumsum(x, 1) * weights).sum()))(x)
    expected = np.broadcast_to(np.cumsum(weights[::-1])[::-1], x.shape)
    np.testing.assert_allclose(grad, expected, rtol=1e-3, atol=1e-4)
    np.testing.assert_array_equal(weft.vmap(wnp.argmax)(x), x.argmax(1))
    mesh = weft.make_mesh((8,), ("x",), axis_types=(weft.AxisType.Auto,))
    for spec in (weft.P("x"), weft.P(None, "x")):
        placed = weft.device_put(x, weft.NamedSharding(mesh, spec))
        np.testing.assert_array_equal(wnp.argmax(placed, 1), x.argmax(1))
        out = weft.jit(lambda x: wnp.cumsum(x, 1))(placed)
        np.testing.assert_allclose(out, np.cumsum(x, 1), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("function", [wnp.argmax, wnp.cumsum])
def test_kernels_of_them_can_be_switched_off(function):
    def hlo():
        x = np.zeros(5000, np.float32)
        return weft.jit(lambda x: function(x)).lower(x).compile().as_text()

    assert "weft_native" in hlo()
    with options["native_ops"](False):
        assert "weft_native" not in hlo()


def logsumexps(x, axis=0, reverse=False):
    x = np.flip(x, axis) if reverse else x
    with np.errstate(invalid="ignore"):
        out = np.logaddexp.accumulate(x.astype(np.float64), axis)
    return np.flip(out, axis) if reverse else out


@pytest.mark.parametrize("spread", [0.01, 1, 100, 3000])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_cumulative_logsumexps_are_stable(shape, spread, rng):
    x = (spread * rng.standard_normal(shape)).astype(np.float32)
    for axis in range(x.ndim):
        for reverse in (False, True):
            out = weft.lax.cumlogsumexp(x, axis=axis, reverse=reverse)
            np.testing.assert_allclose(out, logsumexps(x, axis, reverse), rtol=3e-7, atol=1e-7)


def test_cumulative_logsumexps_of_infinities_and_nans(rng):
    x = rng.standard_normal((6, 5000)).astype(np.float32)
    x[0, :700] = -np.inf
    x[1, 900] = np.inf
    x[2, 900] = np.nan
    x[3, ::2] = -np.inf
    x[4] = -np.inf
    x[5, :300] = -2000
    np.testing.assert_allclose(
        weft.lax.cumlogsumexp(x, axis=1), logsumexps(x, 1), rtol=3e-7, atol=1e-7
    )


def test_derivatives_of_cumulative_logsumexps(rng):
    x = rng.standard_normal(3000).astype(np.float32)
    grad = weft.jit(weft.grad(lambda x: weft.lax.cumlogsumexp(x).sum()))(x)
    out = logsumexps(x)
    weights = np.exp(x - out[:, None]) * (np.arange(3000)[:, None] >= np.arange(3000))
    np.testing.assert_allclose(grad, weights.sum(0), rtol=1e-3)


def test_cumulative_extrema_of_zeros_keep_the_sign_of_the_last(rng):
    x = np.where(rng.random(100_000) < 0.5, -0.0, 0.0).astype(np.float32)
    for reverse in (False, True):
        for function in (weft.lax.cummax, weft.lax.cummin):
            np.testing.assert_array_equal(
                np.signbit(function(x, 0, reverse=reverse)), np.signbit(x)
            )


@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((900, 40), 0), ((70, 3000), 0), ((9000, 3), 0), ((3, 500, 17), 1), ((9, 1025), 0),
        ((40, 9, 8, 65), (0, 1, 2)), ((40, 9, 8, 65), (1, 2)), ((300000, 2), 0),
        ((2, 5000, 1030), 1), ((2, 100_001), 0), ((7, 3, 2000), 1),
    ],
    ids=str,
)  # fmt: skip
def test_sums_over_columns_round_no_worse_than_trees(shape, axes, dtype, rng):
    x = (
        rng.standard_normal(shape).astype(dtype)
        if dtype == "float32"
        else integers(rng, shape, dtype)
    )
    compiled = weft.jit(lambda x: wnp.sum(x, axes)).lower(x).compile()
    assert "weft_native_columns" in compiled.as_text()
    wide = x.astype(np.float64 if dtype == "float32" else np.int64)
    error = np.abs(np.asarray(compiled(x)) - wide.sum(axes))
    assert (error <= 4 * 2.0**-24 * np.abs(wide).sum(axes)).all()


@pytest.mark.parametrize(
    "dtype", ["bfloat16", "float16", "float32", "float64", "int8", "uint16", "int32", "int64"]
)
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((70_001,), 0), ((300, 65), 1), ((3, 70_001), 1), ((500, 33), 0), ((9, 33, 51), (1, 2))],
)
def test_sums_products_and_means_of_what_is_in_memory(shape, axis, dtype, rng):
    whole = "int" in dtype
    with weft.enable_x64(True):
        dtype = wnp.dtype(dtype)
        x = rng.integers(0 if dtype.kind == "u" else -100, 100, shape) if whole else None
        x = (rng.standard_normal(shape) if x is None else x).astype(dtype)
        near_one = x if whole else (1 + x * dtype.type(2**-6)).astype(dtype)
        for name, v in (("sum", x), ("prod", near_one), ("mean", x)):
            compiled = weft.jit(partial(getattr(wnp, name), axis=axis)).lower(v).compile()
            got = np.asarray(compiled(v))
            wide = v.astype(np.int64 if whole else np.float64)
            with np.errstate(over="ignore"):
                want = getattr(wide, name)(axis)
            if got.dtype.kind in "iu":
                np.testing.assert_array_equal(got, want.astype(got.dtype))
                continue
            limit = float(wnp.finfo(got.dtype).max)
            size = abs(want) if name == "prod" else getattr(abs(wide), name)(axis)
            bound = size * float(wnp.finfo(got.dtype).eps) * (4 if name != "prod" else 20_000)
            fits = abs(want) < limit / 2
            assert (abs(got.astype(np.float64) - want) <= bound + 1e-7)[fits].all(), name
            if not whole:
                assert "weft_native_columns" in compiled.as_text() or name != "prod"


def test_sums_and_products_of_infinities_and_nans(rng):
    x = np.ones((5, 5000))
    x[1, 7], x[2, 4999], x[3, 0], x[3, 900], x[4, 3000] = np.inf, np.nan, np.inf, -np.inf, 0
    with weft.enable_x64(True):
        with np.errstate(invalid="ignore"):
            sums, products = x.sum(1), x.prod(1)
        np.testing.assert_array_equal(weft.jit(lambda x: x.sum(1))(x), sums)
        np.testing.assert_array_equal(weft.jit(lambda x: x.prod(1))(x), products)
        assert weft.jit(wnp.sum)(np.zeros((0, 9000))) == 0


@pytest.mark.parametrize("shape", [(2, 9000), (8, 1500), (5, 3, 2048), (3, 7, 33, 100)])
@pytest.mark.parametrize("name", ["sum", "max", "min"])
def test_few_rows_are_combined_where_they_are_made(name, shape, rng):
    x = rng.standard_normal(shape).astype(np.float32)
    square = x * x
    chosen = 1 if name == "sum" else square == getattr(np, name)(square, 0, keepdims=True)
    gradient = weft.jit(weft.grad(lambda x: (getattr(wnp, name)(x * x, 0) * 2).sum()))(x)
    np.testing.assert_allclose(gradient, 4 * x * chosen, rtol=1e-5)
    x[0, ..., :3] = [np.nan, np.inf, -np.inf]
    for axis in range(2 if len(shape) > 2 else 1):
        got = weft.jit(lambda x, axis=axis: getattr(wnp, name)(3 * x - 1, axis))(x)
        want = getattr(np, name)(3 * x.astype(np.float64) - 1, axis)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_sums_over_columns_of_infinities_and_nans(rng):
    x = rng.standard_normal((600, 40)).astype(np.float32)
    x[3, 0], x[599, 1], x[77, 2], x[78, 2] = np.inf, np.nan, np.inf, -np.inf
    out = wnp.sum(x, 0)
    np.testing.assert_array_equal(out[:3], [np.inf, np.nan, np.nan])
    np.testing.assert_allclose(out[3:], x[:, 3:].sum(0, dtype=np.float64), rtol=1e-5, atol=1e-5)


def test_sums_over_columns_stay_fused_with_what_makes_their_operand(rng):
    x = rng.standard_normal((600, 40)).astype(np.float32)
    inner = weft.jit(lambda x: wnp.sum(x, 0))
    for function in (lambda x: wnp.sum(wnp.exp(x), 0), lambda x: inner(wnp.exp(x))):
        compiled = weft.jit(function).lower(x).compile()
        assert "weft_native" not in compiled.as_text()
        np.testing.assert_allclose(compiled(x), np.exp(x).sum(0), rtol=1e-5)


def test_means_that_are_subtracted_are_left_to_one_pass_over_their_rows(rng):
    x = rng.standard_normal((512, 1024)).astype(np.float32)
    for centred in (lambda x, m: x - m, lambda x, m: ((x - m) ** 2).mean(1)):
        compiled = weft.jit(lambda x, f=centred: f(x, x.mean(1, keepdims=True))).lower(x).compile()
        assert "weft_native_columns" not in compiled.as_text()
        wide = x.astype(np.float64)
        np.testing.assert_allclose(
            compiled(x), centred(wide, wide.mean(1, keepdims=True)), rtol=1e-5, atol=1e-6
        )
    kept = weft.jit(lambda x: 1 - x.mean(1)).lower(x).compile()
    assert "weft_native_columns" in kept.as_text()


def test_sums_over_columns_of_shards(rng):
    x = rng.standard_normal((800, 400)).astype(np.float32)
    mesh = weft.make_mesh((8,), ("x",), axis_types=(weft.AxisType.Auto,))
    for spec in (weft.P("x"), weft.P(None, "x")):
        placed = weft.device_put(x, weft.NamedSharding(mesh, spec))
        out = weft.jit(lambda x: wnp.mean(x, 0))(placed)
        np.testing.assert_allclose(out, x.mean(0), rtol=1e-4, atol=1e-6)
        out = weft.jit(weft.vmap(lambda x: wnp.sum(x, 0)))(placed.reshape(8, 100, 400))
        np.testing.assert_allclose(out, x.reshape(8, 100, 400).sum(1), rtol=1e-4, atol=1e-4)


COUNTED = {
    "max": (wnp.max, np.max),
    "min": (wnp.min, np.min),
    "any": (wnp.any, np.any),
    "all": (wnp.all, np.all),
    "positive": (lambda x, axis: (x > 0).sum(axis), lambda x, axis: (x > 0).sum(axis)),
    "nonzero": (wnp.count_nonzero, np.count_nonzero),
}


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "bool"])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((20_001,), None), ((77, 1300), 1), ((1300, 77), 0), ((33, 40, 41), (1, 2)), ((9, 30, 40), 1)],
)
def test_extrema_of_integers_and_counts_of_truths(dtype, shape, axis, rng):
    x = rng.integers(-9 if dtype != "uint16" else 0, 9, shape).astype(dtype)
    for name, (ours, reference) in COUNTED.items():
        if (dtype, name) == ("bool", "positive"):
            continue
        want = reference(x, axis=axis)
        np.testing.assert_array_equal(weft.jit(lambda x, f=ours: f(x, axis=axis))(x), want, name)
        batch = weft.vmap(lambda x, f=ours: f(x, axis=axis))(np.stack([x, x]))
        np.testing.assert_array_equal(batch, np.stack([want, want]), name)


def test_few_truths_among_many_and_none(rng):
    x = np.zeros(100_003, bool)
    assert not weft.jit(wnp.any)(x) and weft.jit(wnp.count_nonzero)(x) == 0
    x[-1] = True
    assert weft.jit(wnp.any)(x) and weft.jit(wnp.count_nonzero)(x) == 1
    assert weft.jit(wnp.count_nonzero)(~x) == 100_002 and not weft.jit(wnp.all)(~x)
    assert weft.jit(wnp.all)(x | True) and weft.jit(wnp.count_nonzero)(x | True) == 100_003
    assert "weft_native" in weft.jit(wnp.any).lower(x).compile().as_text()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(9000,), (300_001,), (3, 70_000), (300, 130)], ids=str)
def test_products_are_added_up_along_vectors_and_rows(shape, dtype, rng):
    x, y = (rng.standard_normal(shape).astype(dtype) for _ in range(2))
    holes = np.where(rng.random(shape) < 1e-3, np.nan, x)
    rtol = 1e-4 if dtype == "float32" else 1e-11
    close = partial(np.testing.assert_allclose, rtol=rtol, atol=rtol * np.sqrt(x.size))
    with options["enable_x64"](dtype == "float64"):
        text = weft.jit(wnp.vdot).lower(x, y).compile().as_text()
        assert "weft_native_columns" in text
        close(wnp.vdot(x, y), np.vdot(x, y))
        close(wnp.linalg.norm(x, axis=-1), np.linalg.norm(x, axis=-1))
        close(weft.jit(lambda x, y: (x * y).sum(-1))(holes, y), (holes * y).sum(-1))
        for got, expected in zip(weft.grad(wnp.vdot, (0, 1))(x, y), (y, x), strict=True):
            np.testing.assert_array_equal(got, expected)
        rows = np.stack([x.ravel(), y.ravel()])
        close(weft.vmap(wnp.dot, (0, None))(rows, rows[0]), rows @ rows[0])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(300, 251), (70, 1000), (2, 40_000)])
def test_rows_of_a_matrix_times_a_vector(shape, dtype, rng):
    a, v = (rng.standard_normal(n).astype(dtype) for n in (shape, shape[1]))
    v[7], a[1] = np.inf, 0
    rtol = 1e-4 if dtype == "float32" else 1e-11
    with options["enable_x64"](dtype == "float64"), np.errstate(invalid="ignore"):
        for f in (lambda a, v: a @ v, lambda a, v: wnp.einsum("j,ij->i", v, a)):
            compiled = weft.jit(f).lower(a, v).compile()
            assert "weft_native_columns" in compiled.as_text()
            np.testing.assert_allclose(compiled(a, v), a @ v, rtol=rtol)
        assert "weft_native" not in weft.jit(wnp.matmul).lower(a[:, :8], v[:8]).compile().as_text()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(1031, 65), (700, 129), (90, 1500), (67, 3100)])
def test_a_vector_times_a_matrix_and_a_matrix_times_a_column(shape, dtype, rng):
    a, v, w = (rng.standard_normal(n).astype(dtype) for n in (shape, shape[0], shape[1]))
    wide, rtol = a.astype(np.float64), 1e-5 if dtype == "float32" else 1e-13
    close = partial(np.testing.assert_allclose, rtol=rtol, atol=rtol * np.sqrt(shape[0]) * 10)
    with options["enable_x64"](dtype == "float64"):
        for f, y, want in (
            (lambda a, v: v @ a, v, v.astype(np.float64) @ wide),
            (lambda a, v: v[None] @ a, v, v.astype(np.float64)[None] @ wide),
            (lambda a, v: a.T @ v, v, wide.T @ v.astype(np.float64)),
            (lambda a, v: a @ v[:, None], w, wide @ w.astype(np.float64)[:, None]),
        ):
            compiled = weft.jit(f).lower(a, y).compile()
            assert "weft_native_columns" in compiled.as_text()
            close(compiled(a, y), want)
            gradient = weft.jit(weft.grad(lambda a, y, f=f: f(a, y).sum(), 1))(a, y)
            close(gradient, wide.sum(0 if len(y) == shape[1] else 1))


def test_a_vector_times_a_matrix_keeps_infinities_and_nans(rng):
    a, v = rng.standard_normal((600, 130)).astype("float32"), np.ones(600, "float32")
    a[5, 3], a[70, 4], v[200], a[200, 6] = np.nan, np.inf, np.inf, 0
    a[200, 7:] = abs(a[200, 7:])
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(weft.jit(wnp.matmul)(v, a), v @ a, rtol=1e-4)


@pytest.mark.parametrize("shape", [(7, 3, 80, 200), (40, 7, 3, 300)])
def test_a_block_of_leading_or_middle_dimensions_times_as_many_numbers(shape, rng):
    a = rng.standard_normal(shape).astype("float32")
    v = rng.standard_normal(shape[1:3]).astype("float32")
    got = weft.jit(lambda a, v: wnp.tensordot(a, v, ((1, 2), (0, 1))))(a, v)
    want = np.tensordot(a.astype(np.float64), v, ((1, 2), (0, 1)))
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [40, 333, 4099, 9001])
def test_extrema_of_rows_have_the_first_zero_and_every_nan(n, dtype, rng):
    with options["enable_x64"](dtype == "float64"):
        x = rng.standard_normal((37, n)).astype(dtype)
        x[3, 5], x[4, -1], x[5, 1], x[6] = np.nan, np.nan, np.inf, -np.inf
        x[7], x[8] = 0, -0.0
        for name in ("max", "min"):
            got, want = getattr(wnp, name)(x, 1), getattr(np, name)(x, 1)
            np.testing.assert_array_equal(got, want)
            np.testing.assert_array_equal(np.signbit(got)[7:9], [False, True])


def test_sums_over_whole_numbers_of_elements_and_other_divisors(rng):
    x = rng.standard_normal((1500, 70)).astype("float32")
    sums = x.sum(1, dtype=np.float64)
    for by in (70, 3, 0.5, 0.1, -4, np.inf):
        got = weft.jit(lambda x, by=by: x.sum(1) / by)(x)
        np.testing.assert_allclose(got, sums / by, rtol=1e-4, atol=1e-4 / abs(by))
    kept, mean = weft.jit(lambda x: (x.sum(1), x.sum(1) / 7))(x)
    np.testing.assert_allclose(kept, sums, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(mean, sums / 7, rtol=1e-4, atol=1e-4)
    text = weft.jit(lambda x: wnp.mean(x, 1)).lower(x).compile().as_text()
    assert "weft_native_columns" in text and "divide(" not in text
