"""dot_general against einsum: all kinds of dimension numbers, precisions, dtypes."""

import numpy as np
import pytest

import weft
from tests.ops.numerics import Case, check
from weft import lax

R = np.random.default_rng(5)


def case(name, x, y, numbers, einsum, cplx=False):
    def make(shape):
        v = R.standard_normal(shape)
        return v + 1j * R.standard_normal(shape) if cplx else v

    return Case(
        "dot_general",
        lambda x, y: lax.dot_general(x, y, numbers),
        lambda x, y: np.einsum(einsum, x, y),
        (make(x), make(y)),
        (0, 1),
        name,
    )


CASES = [
    case("matrices", (3, 4), (4, 2), (((1,), (0,)), ((), ())), "ik,kj->ij"),
    case("complex", (3, 4), (4, 2), (((1,), (0,)), ((), ())), "ik,kj->ij", True),
    case("first with last", (4, 3), (2, 4), (((0,), (1,)), ((), ())), "ki,jk->ij"),
    case("batched", (2, 3, 4), (4, 2, 5), (((2,), (0,)), ((0,), (1,))), "bik,kbj->bij"),
    case("outer", (2, 3), (2,), (((), ()), ((), ())), "ij,k->ijk"),
    case("two sums", (2, 3, 4, 5), (5, 3, 6), (((1, 3), (1, 0)), ((), ())), "iajb,bak->ijk"),
    case(
        "everything",
        (2, 3, 4, 5),
        (3, 4, 2, 6),
        (((0, 2), (2, 1)), ((1,), (0,))),
        "abcd,bcae->bde",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_values_batches_and_derivatives(case, rng):
    check(case, rng)


def test_dot_and_batch_matmul_equal_numpys():
    x, y = R.standard_normal((2, 3, 4)), R.standard_normal((2, 4, 5))
    with weft.enable_x64(True):
        np.testing.assert_allclose(lax.batch_matmul(x, y), x @ y)
        np.testing.assert_allclose(lax.dot(x[0], y[0, :, 0]), x[0] @ y[0, :, 0])
        np.testing.assert_allclose(lax.dot(x[0, 0], x[0, 1]), x[0, 0] @ x[0, 1])


def test_a_matmuls_gradients_need_no_transposes():
    x, y = np.ones((2, 3), np.float32), np.ones((3, 4), np.float32)
    text = str(weft.make_jaxpr(lambda x, y, ct: weft.vjp(lax.dot, x, y)[1](ct))(x, y, x @ y))
    assert text.count("dot_general") == 3 and "transpose" not in text


@pytest.mark.parametrize(
    ("dtype", "preferred", "result"),
    [
        ("bfloat16", "float32", "float32"),
        ("int8", "int32", "int32"),
        ("float16", None, "float16"),
        ("float8_e4m3fn", "float32", "float32"),
        ("bool", None, "bool"),
    ],
)
def test_narrow_operands_sum_in_the_preferred_type(dtype, preferred, result):
    x = np.full((2, 64), 2).astype(dtype)
    out = lax.dot_general(x, x, (((1,), (1,)), ((), ())), preferred_element_type=preferred)
    assert out.dtype == result
    want = 1 if dtype == "bool" else 256
    np.testing.assert_array_equal(np.asarray(out).astype(np.float32), np.full((2, 2), want))


@pytest.mark.parametrize("preferred", ["int32", "int8", "bool"])
def test_floats_multiply_as_such_before_they_become_integers(preferred):
    x, y = np.float32([[1.5, 2.9]]), np.float32([[1.5], [1.5]])
    out = lax.dot(x, y, preferred_element_type=preferred)
    np.testing.assert_array_equal(out, (x @ y).astype(preferred), strict=True)


def test_a_real_preferred_type_takes_the_real_part_of_complex_products():
    x = np.complex64([[1 + 2j]])
    out, vjp = weft.vjp(lambda x: lax.dot(x, x, preferred_element_type="float32"), x)
    np.testing.assert_array_equal(out, np.float32([[-3]]), strict=True)
    np.testing.assert_array_equal(vjp(np.float32([[1]]))[0], 2 * x)


def test_operands_of_two_dtypes_multiply_in_the_wider():
    x, y = np.ones((2, 3), np.float16), np.ones((3, 2), np.float32)
    out = lax.dot(x, y)
    assert out.dtype == np.float32
    gx, gy = weft.grad(lambda x, y: lax.reduce_sum(lax.dot(x, y), (0, 1)), (0, 1))(x, y)
    assert (gx.dtype, gy.dtype) == (np.float16, np.float32)


@pytest.mark.parametrize("precision", [None, "highest", lax.Precision.HIGH, ("high", "highest")])
def test_precisions_reach_the_program(precision):
    x = np.ones((2, 2), np.float32)
    text = weft.jit(lambda x: lax.dot(x, x, precision=precision)).lower(x).as_text()
    assert ("HIGH" in text) == (precision is not None)


def test_algorithms_reach_the_program():
    x = np.ones((2, 2), np.float32)
    preset = lax.DotAlgorithmPreset.F32_F32_F32
    traced = weft.jit(lambda x: lax.dot(x, x, precision=preset)).trace(x)
    text = traced.lower(lowering_platforms=("cuda",)).as_text()
    assert "algorithm" in text and "lhs_precision_type = f32" in text
    np.testing.assert_array_equal(lax.dot(x, x, precision="F32_F32_F32"), x @ x)


@pytest.mark.parametrize("n", [1, 40])
def test_an_algorithm_may_be_the_default_of_all_products_of_floats(n):
    x = np.full((n, n), 1 + 2**-9, np.float32)  # which the 8 bits of a bfloat16 do not hold
    with weft.default_matmul_precision("BF16_BF16_F32"):
        np.testing.assert_array_equal(lax.dot(x, x), np.full((n, n), n))
        for y in (np.full((n, n), 257, np.int32), np.full((n, n), 1j, np.complex64)):
            np.testing.assert_array_equal(lax.dot(y, y), y @ y)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: lax.dot(x, x), TypeError, r"f32\[2,3\] and f32\[2,3\]"),
        (
            lambda x: lax.dot_general(x, x, (((1,), (0,)), ((), ()))),
            TypeError,
            "has size 3, but dimension 0",
        ),
        (lambda x: lax.dot_general(x, x, (((1,), (5,)), ((), ()))), ValueError, "rhs contracting"),
        (lambda x: lax.dot_general(x, x, (((1,), (1, 0)), ((), ()))), TypeError, "as many"),
        (lambda x: lax.dot_general(x, x, 3), TypeError, "dimension_numbers must be"),
        (lambda x: lax.dot(x, x.T, precision="best"), ValueError, "precision must be"),
        (
            lambda x: lax.dot(
                x.astype("int32"), x.T.astype("int32"), preferred_element_type="int8"
            ),
            TypeError,
            "cannot hold .* at least as wide",
        ),
    ],
)
def test_errors_name_dimensions_and_types(call, error, words):
    with pytest.raises(error, match=words):
        call(np.ones((2, 3), np.float32))


@pytest.mark.parametrize("other", ["float8_e5m2", "bfloat16", "float32"])
def test_floats_of_eight_bits_are_multiplied_with_other_floats(other, rng):
    a = weft.numpy.asarray(rng.normal(size=(3, 4)), "float8_e4m3fn")
    b = weft.numpy.asarray(rng.normal(size=(4, 2)), other)
    want = np.asarray(a).astype("f4") @ np.asarray(b).astype("f4")
    dims = (((1,), (0,)), ((), ()))
    assert weft.lax.dot_general(a, b, dims).dtype == other
    for out in (
        weft.lax.dot_general(a, b, dims, preferred_element_type="float32"),
        weft.numpy.dot(a, b, preferred_element_type="float32"),
        weft.numpy.matmul(a, b, preferred_element_type="float32"),
    ):
        assert out.dtype == "float32"
        np.testing.assert_allclose(out, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["int4", "uint4", "int2", "uint2"])
def test_integers_of_less_than_a_byte_have_products_of_any_width(dtype):
    m = np.array([[1, -2], [-1, 1]]) if dtype[0] == "i" else np.array([[1, 2], [1, 3]])
    x = weft.numpy.asarray(m, dtype)
    for wide in ("int8", "int32", "float32"):
        product = lax.dot(x, x, preferred_element_type=wide)
        window = lax.conv(x[None, None], x[None, None], (1, 1), "VALID", None, wide)
        assert product.dtype == window.dtype == wide
        np.testing.assert_array_equal(product, m @ m)
        np.testing.assert_array_equal(window, [[[[np.sum(m * m)]]]])
    bits = int(dtype[-1])
    np.testing.assert_array_equal(np.asarray(lax.dot(x, x)).astype(int) % 2**bits, m @ m % 2**bits)


@pytest.mark.parametrize("dtype", ["int4", "uint2"])
def test_known_matrices_of_less_than_a_byte_are_multiplied(dtype):
    x = np.array([[1, 0], [2, 1]]).astype(dtype)
    want = x.astype(np.float32) @ x.astype(np.float32)[:, :1]
    product = weft.jit(lambda: lax.dot(x, x[:, :1], preferred_element_type=np.float32))()
    np.testing.assert_array_equal(product, want)


def test_a_precision_has_words():
    assert lax.Precision("high") is lax.Precision("tensorfloat32") is lax.Precision.HIGH
    assert lax.Precision(None) is lax.Precision("fastest") is lax.Precision.DEFAULT
    with pytest.raises(ValueError, match="middling"):
        lax.Precision("middling")
