"""Products inside compiled kernels, against NumPy: shapes, layouts, dtypes, accumulation."""

import ml_dtypes
import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import lax
from weft import pallas as pl
from weft.pallas.cpu import dot, int8_dot


def product(f, out_shape, *args, dtype=np.float32):
    def kernel(*refs):
        *ins, out = refs
        out[...] = f(*(r[...] for r in ins))

    return np.asarray(pl.pallas_call(kernel, weft.ShapeDtypeStruct(out_shape, dtype))(*args))


@pytest.mark.parametrize(
    ("m", "k", "n"),
    [(8, 16, 32), (1, 7, 9), (5, 1, 3), (17, 33, 70), (128, 300, 33), (9, 520, 100), (300, 20, 16)],
)
def test_products_of_any_size(rng, m, k, n):
    a = rng.standard_normal((m, k)).astype("f4")
    b = rng.standard_normal((k, n)).astype("f4")
    got = product(lambda a, b: wnp.dot(a, b), (m, n), a, b)
    np.testing.assert_allclose(got, a @ b, rtol=1e-4, atol=1e-4)


def test_transposed_computed_and_batched_operands(rng):
    a = rng.standard_normal((24, 40)).astype("f4")
    b = rng.standard_normal((40, 24)).astype("f4")
    cases = [
        (lambda a, b: a.T @ a, (40, 40), a.T @ a),
        (lambda a, b: a @ a.T + 1, (24, 24), a @ a.T + 1),
        (lambda a, b: wnp.exp(a) @ (b * 2), (24, 24), np.exp(a) @ (b * 2)),
        (lambda a, b: (a @ b) @ a, (24, 40), (a @ b) @ a),
        (lambda a, b: a @ b[:, 0], (24,), a @ b[:, 0]),
        (lambda a, b: a[0] @ b, (24,), a[0] @ b),
        (
            lambda a, b: wnp.einsum("bij,bjk->bik", a.reshape(3, 8, 40), b.reshape(3, 40, 8)),
            (3, 8, 8),
            a.reshape(3, 8, 40) @ b.reshape(3, 40, 8),
        ),
        (
            lambda a, b: wnp.einsum("aij,kj->aik", a.reshape(2, 12, 40), b.T),
            (2, 12, 24),
            np.einsum("aij,kj->aik", a.reshape(2, 12, 40), b.T),
        ),
        (
            lambda a, b: lax.dot_general(a, b, (((0, 1), (1, 0)), ((), ()))),
            (),
            np.einsum("ij,ji->", a, b),
        ),
    ]
    for f, out_shape, want in cases:
        got = product(f, out_shape, a, b)
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-3)


def test_small_floats_accumulate_in_float32(rng):
    bf16 = np.dtype(ml_dtypes.bfloat16)
    a = rng.standard_normal((32, 400)).astype(bf16)
    b = rng.standard_normal((400, 32)).astype(bf16)
    exact = a.astype("f8") @ b.astype("f8")
    wide = product(lambda a, b: wnp.dot(a, b, preferred_element_type=np.float32), (32, 32), a, b)
    np.testing.assert_allclose(wide, exact, rtol=1e-3, atol=1e-3)
    narrow = product(lambda a, b: wnp.dot(a, b), (32, 32), a, b, dtype=bf16)
    np.testing.assert_allclose(narrow.astype("f8"), exact, rtol=1e-2, atol=1e-2)


def test_products_add_to_a_ref_in_place(rng):
    a = rng.standard_normal((40, 64)).astype("f4")
    b = rng.standard_normal((64, 48)).astype("f4")

    def kernel(a, b, out):
        out[...] = wnp.ones((40, 48), "float32")
        out[...] += wnp.dot(a[...], b[...])
        out[8:16, :] = out[8:16, :] * 2 + wnp.dot(a[8:16, :], b[...])

    got = np.asarray(pl.pallas_call(kernel, weft.ShapeDtypeStruct((40, 48), "float32"))(a, b))
    want = 1 + a @ b
    want[8:16] = want[8:16] * 2 + a[8:16] @ b
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_a_product_that_reads_the_ref_it_is_stored_in(rng):
    a = rng.standard_normal((32, 32)).astype("f4")

    def kernel(a, out):
        out[...] = a[...]
        out[...] = wnp.dot(out[...], out[...])
        out[...] = out[...] + wnp.dot(out[...], a[...])

    got = np.asarray(pl.pallas_call(kernel, weft.ShapeDtypeStruct((32, 32), "float32"))(a))
    square = a @ a
    np.testing.assert_allclose(got, square + square @ a, rtol=1e-3, atol=1e-3)


def test_products_carried_through_a_loop(rng):
    a = (rng.standard_normal((16, 16)) / 4).astype("f4")

    def kernel(a, out):
        def body(i, c):
            total, power = c
            power = wnp.dot(power, a[...])
            return total * 0.5 + power, power

        out[...] = lax.fori_loop(0, 4, body, (wnp.zeros((16, 16), "float32"), a[...]))[0]

    got = np.asarray(pl.pallas_call(kernel, weft.ShapeDtypeStruct((16, 16), "float32"))(a))
    total, power = np.zeros((16, 16)), a
    for _ in range(4):
        power = power @ a
        total = total * 0.5 + power
    np.testing.assert_allclose(got, total, rtol=1e-4, atol=1e-4)


def test_packed_operands_are_used_again_only_for_the_same_block(rng):
    # Rows of 2 KB: too regular for the caches, so both operands are packed.
    weights = rng.standard_normal((512, 64)).astype("f4")

    def kernel(x, weights, out):
        def step(i, carry):
            rows = x[pl.ds(i * 24, 24), :]
            out[pl.ds(i * 24, 24), :] = wnp.dot(rows, weights[...])
            return carry

        lax.fori_loop(0, 4, step, 0)

    call = pl.pallas_call(kernel, weft.ShapeDtypeStruct((96, 64), "float32"))
    for _ in range(3):
        x = rng.standard_normal((96, 512)).astype("f4")
        np.testing.assert_allclose(np.asarray(call(x, weights)), x @ weights, rtol=1e-3, atol=1e-3)


def test_blocks_at_the_edge_are_packed_anew_for_every_program(rng):
    a = rng.standard_normal((70, 512)).astype("f4")
    b = rng.standard_normal((512, 200)).astype("f4")

    def kernel(a, b, out):
        out[...] = wnp.dot(a[...], b[...])

    call = pl.pallas_call(
        kernel,
        weft.ShapeDtypeStruct((70, 200), "float32"),
        grid=(2, 3, 1),
        in_specs=[
            pl.BlockSpec((64, 512), lambda i, j, k: (1 - i, k)),
            pl.BlockSpec((512, 96), lambda i, j, k: (k, j)),
        ],
        out_specs=pl.BlockSpec((64, 96), lambda i, j, k: (1 - i, j)),
    )
    np.testing.assert_allclose(np.asarray(call(a, b)), a @ b, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("m", "k", "n"), [(40, 64, 96), (33, 50, 70), (24, 300, 47)])
def test_right_operands_whose_columns_are_adjacent(rng, m, k, n):
    a = rng.standard_normal((m, k)).astype("f4")
    b = rng.standard_normal((n, k)).astype("f4")
    got = product(lambda a, b: wnp.dot(a, b.T), (m, n), a, b)
    np.testing.assert_allclose(got, a @ b.T, rtol=1e-4, atol=1e-4)


# Words of several numbers ------------------------------------------------------------------------

WAYS = [
    ("int8", "int8", None),
    ("int8", "uint8", None),
    ("uint8", "int8", None),
    ("uint8", "uint8", None),
    ("int8", "uint8", int8_dot.Grouping(2, 16, "vpmaddwd")),
    ("uint8", "uint8", int8_dot.Grouping(2, 16, "vpmaddwd")),
    ("int8", "int8", int8_dot.Grouping(2, 16, "vpmaddwd")),
]


def bytes_of(rng, dtype, *shape):
    """Numbers of the whole range, its ends among them more often than by chance."""
    info = np.iinfo(dtype)
    x = rng.integers(info.min, info.max + 1, shape)
    ends = rng.integers(0, 4, shape)
    return np.where(ends == 0, info.min, np.where(ends == 1, info.max, x)).astype(dtype)


def integer_dot(a, b, numbers=(((1,), (0,)), ((), ()))):
    return lax.dot_general(a, b, numbers, preferred_element_type=np.int32)


@pytest.mark.parametrize(("left", "right", "how"), WAYS)
@pytest.mark.parametrize(("m", "k", "n"), [(9, 64, 32), (300, 17, 45), (24, 1283, 70)])
def test_integers_of_8_bits_multiply_exactly(rng, monkeypatch, left, right, how, m, k, n):
    if how is not None:
        monkeypatch.setattr(dot, "grouping", lambda *dtypes: how)
    a, b = bytes_of(rng, left, m, k), bytes_of(rng, right, k, n)
    got = product(integer_dot, (m, n), a, b, dtype=np.int32)
    np.testing.assert_array_equal(got, a.astype(np.int32) @ b.astype(np.int32))


@pytest.mark.parametrize(
    ("left", "right"), [("int8", "int8"), ("uint8", "int8"), ("int8", "uint8")]
)
def test_integers_of_8_bits_multiply_in_any_layout(rng, left, right):
    a, b = bytes_of(rng, left, 24, 40), bytes_of(rng, right, 40, 24)
    wide_a, wide_b = a.astype(np.int32), b.astype(np.int32)
    cases = [
        (lambda a, b: integer_dot(a.T, b.T), (40, 40), wide_a.T @ wide_b.T),
        (lambda a, b: integer_dot(a, b) + 1, (24, 24), wide_a @ wide_b + 1),
        (lambda a, b: integer_dot(a[::2, 3:], b[3:]), (12, 24), wide_a[::2, 3:] @ wide_b[3:]),
        (lambda a, b: integer_dot(a[:, ::2], b[::2]), (24, 24), wide_a[:, ::2] @ wide_b[::2]),
        (
            lambda a, b: integer_dot(
                a.reshape(2, 12, 40), b.T.reshape(2, 12, 40), (((2,), (2,)), ((0,), (0,)))
            ),
            (2, 12, 12),
            np.einsum("bik,bjk->bij", wide_a.reshape(2, 12, 40), wide_b.T.reshape(2, 12, 40)),
        ),
        (
            lambda a, b: integer_dot((a // 2).astype(a.dtype), b),
            (24, 24),
            (a // 2).astype(np.int32) @ wide_b,
        ),
    ]
    for f, shape, want in cases:
        np.testing.assert_array_equal(product(f, shape, a, b, dtype=np.int32), want)


def test_products_of_bytes_are_added_to_what_is_there(rng):
    """Blocks of k, one after the other, into one block of the output; sums wrap around."""
    m, k, n = 32, 256, 48
    a, b = bytes_of(rng, "int8", m, k), bytes_of(rng, "int8", k, n)
    start = rng.integers(2**31 - 2**20, 2**31 - 1, (m, n)).astype(np.int32)

    def kernel(a, b, start, out):
        @pl.when(pl.program_id(0) == 0)
        def _():
            out[...] = start[...]

        out[...] += integer_dot(a[...], b[...])

    call = pl.pallas_call(
        kernel,
        weft.ShapeDtypeStruct((m, n), "int32"),
        grid=4,
        in_specs=[
            pl.BlockSpec((m, k // 4), lambda i: (0, i)),
            pl.BlockSpec((k // 4, n), lambda i: (i, 0)),
            pl.BlockSpec((m, n), lambda i: (0, 0)),
        ],
        out_specs=pl.BlockSpec((m, n), lambda i: (0, 0)),
    )
    with np.errstate(over="ignore"):
        want = start + a.astype(np.int32) @ b.astype(np.int32)
    np.testing.assert_array_equal(call(a, b, start), want)


@pytest.mark.parametrize(("m", "k", "n"), [(9, 64, 32), (30, 129, 45), (24, 600, 70)])
@pytest.mark.parametrize("result", ["float32", "bfloat16"])
def test_bfloat16_is_summed_in_float32(rng, m, k, n, result):
    a = rng.standard_normal((m, k)).astype(ml_dtypes.bfloat16)
    b = rng.standard_normal((k, n)).astype(ml_dtypes.bfloat16)
    dtype = np.dtype(getattr(ml_dtypes, result, result))

    def f(a, b):
        return lax.dot_general(a, b, (((1,), (0,)), ((), ())), preferred_element_type=dtype)

    got = product(f, (m, n), a, b, dtype=dtype).astype(np.float64)
    want = a.astype(np.float64) @ b.astype(np.float64)
    scale = np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64))
    rounding = 2**-8 * np.abs(want) if result == "bfloat16" else 0
    assert (np.abs(got - want) <= k * 2**-24 * scale + rounding).all()


def test_bfloat16_products_keep_infinities_and_nan():
    a = np.ones((8, 32), ml_dtypes.bfloat16)
    a[1, 3], a[2, 5], a[3, 7] = np.inf, -np.inf, np.nan
    b = np.ones((32, 16), ml_dtypes.bfloat16)
    got = product(
        lambda a, b: lax.dot_general(
            a, b, (((1,), (0,)), ((), ())), preferred_element_type=np.float32
        ),
        (8, 16),
        a,
        b,
    )
    np.testing.assert_array_equal(got[:4, 0], [32, np.inf, -np.inf, np.nan])


def test_where_the_cpu_has_no_instruction_products_are_computed_number_by_number(monkeypatch):
    own = int8_dot.host()
    monkeypatch.setattr(own, "features", {})
    assert int8_dot.grouping(np.dtype("int8"), np.dtype("int8"), np.dtype("int32")) is None
    bf16 = np.dtype(ml_dtypes.bfloat16)
    assert int8_dot.grouping(bf16, bf16, np.dtype("float32")) is None


@pytest.mark.parametrize(
    ("features", "vector_bytes", "want"),
    [
        ({"avx512vnni", "avx512vl", "avx512bw", "avx512f"}, 64, "vpdpbusd"),
        ({"avx512bw", "avx512f", "avx512vl"}, 64, "vpmaddwd"),
        ({"avxvnni", "avx2"}, 32, "vpdpbusd"),
        ({"avx2"}, 32, "vpmaddwd"),
    ],
)
def test_the_instruction_is_the_best_the_cpu_has(monkeypatch, features, vector_bytes, want):
    own = int8_dot.host()
    monkeypatch.setattr(own, "features", dict.fromkeys(features, True))
    monkeypatch.setattr(own, "vector_bytes", vector_bytes)
    monkeypatch.setattr(own, "triple", "x86_64-unknown-linux-gnu")
    how = int8_dot.grouping(np.dtype("int8"), np.dtype("int8"), np.dtype("int32"))
    assert how.instruction == want
