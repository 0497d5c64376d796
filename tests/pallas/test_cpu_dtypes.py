"""Complex numbers and floats of 8 bits in kernels compiled for the CPU, against NumPy and
ml_dtypes."""

import ml_dtypes
import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import lax
from weft import pallas as pl
from weft.pallas.cpu import scalar
from weft.pallas.ir import UnsupportedKernelError

FLOAT8 = ["e3m4", "e4m3", "e4m3b11fnuz", "e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz"]


def shape(*dims, dtype=np.float32):
    return weft.ShapeDtypeStruct(dims, dtype)


def run(kernel, outs, *args, **kwargs):
    results = pl.pallas_call(kernel, outs, **kwargs)(*args)
    return [np.asarray(r) for r in results] if isinstance(outs, list) else np.asarray(results)


def complex_numbers(rng, *dims, dtype=np.complex64):
    return (rng.standard_normal(dims) + 1j * rng.standard_normal(dims)).astype(dtype)


FUNCTIONS = {
    "neg": lambda xp, x, y: -x,
    "arithmetic": lambda xp, x, y: (x + y) * x - x / y,
    "conjugates": lambda xp, x, y: xp.conj(x) * y.real + 1j * y.imag,
    "absolute value": lambda xp, x, y: xp.abs(x) + 0j,
    "powers": lambda xp, x, y: x**3 + y ** (-2),
    "power": lambda xp, x, y: x**y,
    "exp": lambda xp, x, y: xp.exp(x),
    "log": lambda xp, x, y: xp.log(x),
    "sqrt": lambda xp, x, y: xp.sqrt(x) + xp.sqrt(-y),
    "sin": lambda xp, x, y: xp.sin(x) + xp.cos(y),
    "tan": lambda xp, x, y: xp.tan(x) + xp.tanh(y),
    "sinh": lambda xp, x, y: xp.sinh(x) + xp.cosh(y),
    "expm1": lambda xp, x, y: xp.expm1(x / 8) + xp.log1p(y / 8),
    "choices": lambda xp, x, y: xp.where(x == y, x, xp.where(xp.isfinite(y), y, x)),
    "broadcasts": lambda xp, x, y: x[:, :1] * y[:1] + x.T.reshape(x.shape),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_complex_functions_follow_numpy(rng, name, dtype):
    function = FUNCTIONS[name]
    x, y = complex_numbers(rng, 2, 8, 16, dtype=dtype)

    def kernel(x, y, out):
        out[...] = function(wnp, x[...], y[...]).astype(dtype)

    with weft.enable_x64(dtype == np.complex128):
        got = run(kernel, shape(8, 16, dtype=dtype), x, y)
    tolerance = 2e-5 if dtype == np.complex64 else 1e-12
    np.testing.assert_allclose(got, function(np, x, y), rtol=tolerance, atol=tolerance)


def test_complex_zeros_infinities_and_axes(rng):
    x = np.array([0, 1, -1, 1j, -1j, -4, 4, 3e-30 + 4e-30j, 3e30 - 4e30j, -2 + 0j], np.complex64)

    def kernel(x, size, root, log, sign):
        v = x[...]
        size[...], root[...], log[...], sign[...] = wnp.abs(v), wnp.sqrt(v), wnp.log(v), wnp.sign(v)

    c = shape(10, dtype=np.complex64)
    size, root, log, sign = run(kernel, [shape(10), c, c, c], x)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(size, np.abs(x), rtol=1e-6)
        np.testing.assert_allclose(root, np.sqrt(x), rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(log, np.log(x), rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(sign, np.sign(x), rtol=1e-6, atol=1e-7)


def test_complex_sums_products_and_matrix_products(rng):
    x, y = complex_numbers(rng, 2, 12, 20)

    def kernel(x, y, sums, products, running, matrix, row):
        sums[...] = x[...].sum(axis=1)
        products[...] = x[...].prod(axis=0)
        running[...] = wnp.cumsum(x[...], axis=1)
        matrix[...] = x[...] @ y[...].T
        row[...] = x[0] @ y[...].T

    def c(*dims):
        return shape(*dims, dtype=np.complex64)

    got = run(kernel, [c(12), c(20), c(12, 20), c(12, 12), c(12)], x, y)
    want = [x.sum(1), x.prod(0), np.cumsum(x, 1), x @ y.T, x[0] @ y.T]
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-4, atol=1e-4)


def test_complex_values_in_loops_branches_masks_and_blocks(rng):
    x = complex_numbers(rng, 10, 16)
    spec = pl.BlockSpec((4, 16), lambda i: (i, 0))

    def kernel(x, out, acc):
        acc[...] = x[...] * 1j

        def step(i, z):
            return z * z + acc[0, i]

        z = lax.fori_loop(0, 3, step, acc[0, 0] * 0)
        picked = lax.cond(pl.program_id(0) == 1, lambda: acc[...], lambda: acc[...] + z)
        pl.store(out, (slice(None),), picked, mask=acc[...].real > 0)

    got = run(
        kernel,
        shape(10, 16, dtype=np.complex64),
        x,
        grid=3,
        in_specs=[spec],
        out_specs=spec,
        scratch_shapes=[pl.LOCAL((4, 16), np.complex64)],
    )
    for start in (0, 4, 8):
        acc = x[start : start + 4] * np.complex64(1j)
        z = np.complex64(0)
        for i in range(3):
            z = z * z + acc[0, i]
        want = acc if start == 4 else acc + z
        mask = acc.real > 0
        np.testing.assert_allclose(got[start : start + 4][mask], want[mask], rtol=1e-4, atol=1e-4)


def test_complex_numbers_convert_to_and_from_real_ones(rng):
    x = complex_numbers(rng, 8, 8)
    v = rng.standard_normal((8, 8)).astype("f4")

    def kernel(x, v, real, lifted):
        real[...] = x[...].real.astype("float32") + wnp.angle(x[...])
        lifted[...] = v[...].astype("complex64") + lax.complex(v[...], -v[...])

    real, lifted = run(kernel, [shape(8, 8), shape(8, 8, dtype=np.complex64)], x, v)
    np.testing.assert_allclose(real, x.real + np.angle(x), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(lifted, v + (v - 1j * v), rtol=1e-6)


def test_maxima_of_complex_numbers_compare_real_then_imaginary_parts(rng):
    x = (rng.integers(-2, 3, (6, 9)) + 1j * rng.integers(-2, 3, (6, 9))).astype(np.complex64)

    def kernel(x, out):
        out[...] = x[...].max(axis=0)

    np.testing.assert_array_equal(run(kernel, shape(9, dtype=np.complex64), x), x.max(0))


@pytest.mark.parametrize("interpret", [True, False], ids=["interpreted", "native"])
def test_wide_operands_stay_wide_while_x64_is_off(interpret):
    def kernel(x, steps, zeros, rounded):
        with weft.enable_x64(True):
            wide = x[...].astype("float64")
            steps[...] = (lax.nextafter(wide, wide + 1) - wide).astype("float32")
            zeros[...] = lax.clz(wide.astype("int64")).astype("int32")
            rounded[...] = lax.reduce_precision(wide / 3, 11, 30).astype("float32")

    x = np.float32([1.5, 100.0, 1e10])
    outs = [shape(3), shape(3, dtype=np.int32), shape(3)]
    steps, zeros, rounded = pl.pallas_call(kernel, outs, interpret=interpret)(x)
    np.testing.assert_array_equal(steps, np.spacing(x.astype(np.float64)).astype(np.float32))
    np.testing.assert_array_equal(zeros, [63, 57, 30])
    np.testing.assert_allclose(rounded, x / 3, rtol=1e-7)


def test_sorting_complex_numbers_is_refused():
    def kernel(x, out):
        out[...] = wnp.sort(x[...], axis=0)

    with pytest.raises(UnsupportedKernelError, match=r"sort.*complex.*interpret"):
        run(kernel, shape(4, dtype=np.complex64), np.ones(4, np.complex64))


@pytest.mark.parametrize("name", FLOAT8)
def test_every_float8_code_widens_to_its_value(name):
    dtype = np.dtype(getattr(ml_dtypes, f"float8_{name}"))
    codes = np.arange(256, dtype=np.uint8).view(dtype).reshape(16, 16)

    def kernel(x, out):
        out[...] = x[...].astype("float32")

    np.testing.assert_array_equal(run(kernel, shape(16, 16), codes), codes.astype("f4"))


@pytest.mark.parametrize("name", FLOAT8)
def test_float32_rounds_to_the_nearest_float8(rng, name):
    dtype = np.dtype(getattr(ml_dtypes, f"float8_{name}"))
    info = ml_dtypes.finfo(dtype)
    values = np.arange(256, dtype=np.uint8).view(dtype).astype("f4")
    finite = np.unique(values[np.isfinite(values)])
    middles = (finite[1:] + finite[:-1]) / 2
    largest = np.float32(info.max)
    edges = [largest * f for f in (1.01, 1.02, 1.04, 1.1, 1.2, 2)] + [np.inf, np.nan, 1e-20]
    x = np.concatenate([values, middles, edges, rng.standard_normal(300) * 3]).astype("f4")
    x = np.concatenate([x, -x])

    def kernel(x, out):
        out[...] = x[...].astype(dtype)

    got = run(kernel, shape(x.size, dtype=dtype), x).astype("f4")
    want = x.astype(dtype).astype("f4")
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got)[want == want], np.signbit(want)[want == want])


@pytest.mark.parametrize("name", ["e4m3fn", "e5m2", "e4m3fnuz"])
def test_float8_arithmetic_is_that_of_float32_rounded(rng, name):
    dtype = np.dtype(getattr(ml_dtypes, f"float8_{name}"))
    x, y = rng.standard_normal((2, 8, 16)).astype(dtype)

    def kernel(x, y, out, total, top, place, matrix, scaled):
        a, b = x[...], y[...]
        out[...] = wnp.where(a < b, -a * b, wnp.abs(a) + wnp.exp(b))
        total[...] = a.sum(axis=1)
        top[...] = wnp.maximum(a, b).max(axis=0)
        place[...] = wnp.argmax(a, axis=1).astype("int32")
        matrix[...] = lax.dot_general(
            a, b, (((1,), (1,)), ((), ())), preferred_element_type=np.float32
        )
        scaled[...] = wnp.sort(a, axis=1)

    outs = [shape(8, 16, dtype=dtype), shape(8, dtype=dtype), shape(16, dtype=dtype)]
    outs += [shape(8, dtype=np.int32), shape(8, 8), shape(8, 16, dtype=dtype)]
    got, total, top, place, matrix, ordered = run(kernel, outs, x, y)
    a, b = x.astype("f4"), y.astype("f4")

    def rounded(v):
        return v.astype("f4").astype(dtype).astype("f4")

    want = np.where(a < b, rounded(-a * b), rounded(abs(a) + rounded(np.exp(b))))
    np.testing.assert_array_equal(got.astype("f4"), want)
    np.testing.assert_allclose(total.astype("f4"), rounded(a.sum(1)), rtol=0.13)
    np.testing.assert_array_equal(top.astype("f4"), np.maximum(a, b).max(0))
    np.testing.assert_array_equal(place, a.argmax(1))
    np.testing.assert_allclose(matrix, a @ b.T, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(ordered.astype("f4"), np.sort(a, 1))


def test_floats_that_are_powers_of_two_scale_blocks(rng):
    dtype = np.dtype(ml_dtypes.float8_e8m0fnu)
    codes = np.arange(256, dtype=np.uint8).view(dtype)
    values = rng.integers(0, 2**32, 2000, dtype=np.uint64).astype("u4").view("f4")
    edges = [0, -0.0, 1.5, 3, 6, -2, 2.0**-127, 2.0**-128, 1e-38, 3e38, np.inf, -np.inf, np.nan]
    with np.errstate(invalid="ignore"):
        values = np.concatenate([values, edges]).astype("f4")
    x = rng.standard_normal((8, 32)).astype("f4")

    def kernel(codes, values, x, wide, narrow, product, blocks, top):
        wide[...] = codes[...].astype("float32")
        narrow[...] = values[...].astype(dtype)
        product[...] = codes[100:150] * codes[110:160]
        scale = wnp.abs(x[...]).max(axis=1, keepdims=True).astype(dtype)
        blocks[...] = x[...] / scale.astype("float32")
        top[...] = wnp.maximum(codes[100:150], codes[110:160])

    outs = [shape(256), shape(values.size, dtype=dtype), shape(50, dtype=dtype), shape(8, 32)]
    got = run(kernel, [*outs, shape(50, dtype=dtype)], codes, values, x)
    with np.errstate(all="ignore"):
        want = values.astype(dtype)
    np.testing.assert_array_equal(got[0], codes.astype("f4"))
    np.testing.assert_array_equal(got[1].view("u1"), want.view("u1"))
    np.testing.assert_array_equal(got[2], codes[100:150] * codes[110:160])
    scale = np.abs(x).max(1, keepdims=True).astype(dtype).astype("f4")
    np.testing.assert_array_equal(got[3], x / scale)
    np.testing.assert_array_equal(got[4], codes[110:160])


@pytest.mark.parametrize("able", [True, False])
def test_bfloat16_is_rounded_to_nearest_on_processors_that_do_and_do_not(monkeypatch, rng, able):
    if not able:
        monkeypatch.setattr(scalar, "_has_bfloat16", lambda: False)
    bits = np.concatenate([
        rng.integers(0, 2**32, 4000, np.uint32),
        np.array([0, 1 << 31, 0x7F800000, 0xFF800000, 0x7F800001, 0xFFFFFFFF], np.uint32),
        np.arange(0x3F800000, 0x3F800000 + (1 << 18), 0x1000, np.uint32),  # ties
        np.array([0x7F7F7FFF, 0x7F7F8000, 0x7F7FFFFF], np.uint32),  # the last before infinity
    ])  # fmt: skip
    x = bits.view(np.float32)
    usual = (np.abs(x) >= np.finfo(np.float32).tiny) | (x == 0) | np.isnan(x)
    x = x[usual]

    def kernel(x, out):
        out[...] = x[...].astype(ml_dtypes.bfloat16)

    got = run(kernel, shape(len(x), dtype=ml_dtypes.bfloat16), x)
    with np.errstate(invalid="ignore"):  # of NaN, which stays one
        want = x.astype(ml_dtypes.bfloat16).astype(np.float32)
    np.testing.assert_array_equal(got.astype(np.float32), want)


# Complex numbers are pairs in native kernels: ops that move, join and combine them ---------------


def _written(x, at, values, op=None):
    """x with values put at places, or combined with what is there."""
    out = x.copy()
    if op is None:
        out[at] = values
    else:
        op.at(out, at, values)
    return out


def even_rows():
    return wnp.arange(3) * 2


MOVES = {
    "rows added": (
        lambda x, y: x.at[even_rows()].add(y[:3]),
        lambda x, y: _written(x, [0, 2, 4], y[:3], np.add),
    ),
    "rows written": (
        lambda x, y: x.at[even_rows()].set(y[:3]),
        lambda x, y: _written(x, [0, 2, 4], y[:3]),
    ),
    "rows": (lambda x, y: x[even_rows()], lambda x, y: x[[0, 2, 4]]),
    "a part": (
        lambda x, y: lax.dynamic_update_slice(x, y[:2, :3], (1, 2)),
        lambda x, y: _written(x, (slice(1, 3), slice(2, 5)), y[:2, :3]),
    ),
    "carried along a sort": (
        lambda x, y: lax.sort((x.real, x), num_keys=1)[1],
        lambda x, y: np.take_along_axis(x, x.real.argsort(1), 1),
    ),
    "a while loop": (
        lambda x, y: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * y), (0, x))[1],
        lambda x, y: x * y**3,
    ),
    "a scan": (
        lambda x, y: lax.scan(lambda c, row: (c + row, c), x[0], y)[1],
        lambda x, y: np.cumsum(np.concatenate([x[:1], y[:-1]]), 0),
    ),
    "running products": (lambda x, y: wnp.cumprod(x, 1), lambda x, y: np.cumprod(x, 1)),
    "numbers": (lambda x, y: x * lax.iota(x.dtype, 9), lambda x, y: x * np.arange(9)),
}


@pytest.mark.parametrize("name", MOVES)
def test_complex_numbers_move_with_both_parts(rng, name):
    ours, reference = MOVES[name]
    x, y = complex_numbers(rng, 6, 9), complex_numbers(rng, 6, 9)
    want = reference(x, y).astype(np.complex64)

    def kernel(x, y, out):
        out[...] = ours(x[...], y[...])

    np.testing.assert_allclose(run(kernel, shape(*want.shape, dtype="complex64"), x, y), want, 1e-4)
