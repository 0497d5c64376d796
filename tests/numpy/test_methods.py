"""Operators and methods of arrays and tracers against NumPy's."""

import operator

import numpy as np
import pytest

import weft
import weft.numpy as wnp

X = np.array([[1.5, -2.0, 3.0], [0.5, 4.0, -1.0]], np.float32)
Y = np.array([[2.0, 2.0, -3.0], [1.0, 0.5, 8.0]], np.float32)
N = np.array([[5, -7, 3], [2, 9, -4]], np.int32)

BINARY = [
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "eq", "ne", "lt", "le", "gt", "ge"),
]
BITS = ["and_", "or_", "xor", "lshift", "rshift"]


@pytest.mark.parametrize("name", BINARY)
def test_arithmetic_and_comparison_equal_numpys(name):
    op = getattr(operator, name)
    x, n = wnp.asarray(X), wnp.asarray(N)
    for a, b, ra, rb in [
        (x, wnp.asarray(Y), X, Y),
        (x, 2, X, np.float32(2)),
        (2.5, x, np.float32(2.5), X),
        (x, Y[0], X, Y[0]),
        (Y, x, Y, X),
        (n, 3, N, np.int32(3)),
        (n, n.T.reshape(2, 3), N, N.T.reshape(2, 3)),
    ]:
        expected = op(ra, rb)
        np.testing.assert_allclose(op(a, b), expected, rtol=1e-6)
    traced = weft.jit(lambda a, b: op(a, b))(x, wnp.asarray(Y))
    np.testing.assert_allclose(traced, op(X, Y), rtol=1e-6)


@pytest.mark.parametrize("name", BITS)
def test_bit_operators_equal_numpys(name):
    op = getattr(operator, name)
    np.testing.assert_array_equal(op(wnp.asarray(N), 2), op(N, 2))
    np.testing.assert_array_equal(op(wnp.asarray(N), wnp.asarray(abs(N))), op(N, abs(N)))
    if name in ("and_", "or_", "xor"):
        np.testing.assert_array_equal(op(wnp.asarray(X > 0), True), op(X > 0, True))


def test_powers_and_unary_operators():
    x = wnp.asarray(X)
    np.testing.assert_allclose(x**2, X**2)
    np.testing.assert_allclose(x**-2, X**-2.0, rtol=1e-6)
    np.testing.assert_allclose(abs(x) ** 0.5, abs(X) ** 0.5, rtol=1e-6)
    np.testing.assert_allclose(2.0**x, 2.0**X, rtol=1e-6)
    np.testing.assert_array_equal(wnp.asarray(N) ** 2, N**2)
    np.testing.assert_array_equal(-x, -X)
    np.testing.assert_array_equal(+x, X)
    np.testing.assert_array_equal(~wnp.asarray(N), ~N)
    np.testing.assert_array_equal(x @ wnp.asarray(Y).T, X @ Y.T)
    np.testing.assert_allclose(round(x + 0.26, 1), np.round(X + np.float32(0.26), 1))
    quotient, rest = divmod(x, 2)
    np.testing.assert_array_equal(quotient, X // 2)
    np.testing.assert_array_equal(rest, X % 2)


def test_python_numbers_adapt_to_the_array():
    for dtype in ("float32", "bfloat16", "int8", "uint32", "complex64"):
        x = wnp.ones(3, dtype)
        assert (x + 1).dtype == (2 * x).dtype == x.dtype
    assert (wnp.ones(3, "bfloat16") * 1.5).dtype == "bfloat16"
    assert (wnp.arange(3) * 1.5).dtype == "float32"
    assert (wnp.arange(3) + True).dtype == "int32"


def test_numbers_beside_64_bit_arrays_keep_their_precision():
    with weft.enable_x64(True):
        x = wnp.asarray(np.float64(0.1))
        assert x.dtype == "float64" and float(x + 0.2) == 0.1 + 0.2


def test_unknown_operands_are_left_to_python():
    x = wnp.asarray(X)
    for other in ([1.0, 2.0, 3.0], "a", None, object()):
        with pytest.raises(TypeError, match="unsupported operand"):
            x + other
    assert (x == None) is False  # noqa: E711

    class Other:
        def __radd__(self, _):
            return "theirs"

    assert x + Other() == "theirs"


def test_methods_equal_numpys():
    x = wnp.asarray(X)
    for name in (
        "sum",
        "mean",
        "max",
        "min",
        "prod",
        "std",
        "var",
        "argmax",
        "argmin",
        "any",
        "all",
    ):
        along = getattr(x, name)(axis=1)
        np.testing.assert_allclose(along, getattr(X, name)(axis=1), rtol=1e-5)
        traced = weft.jit(lambda v, name=name: getattr(v, name)())(x)
        np.testing.assert_allclose(traced, getattr(X, name)(), rtol=1e-5)
    np.testing.assert_array_equal(x.cumsum(axis=1), X.cumsum(axis=1))
    np.testing.assert_array_equal(x.reshape(3, 2), X.reshape(3, 2))
    np.testing.assert_array_equal(x.reshape((-1,)), X.reshape(-1))
    np.testing.assert_array_equal(x.T, X.T)
    np.testing.assert_array_equal(x.mT, X.T)
    np.testing.assert_array_equal(x.transpose(1, 0), X.T)
    np.testing.assert_array_equal(x.transpose((1, 0)), X.T)
    np.testing.assert_array_equal(x.ravel(), X.ravel())
    np.testing.assert_array_equal(x.flatten(), X.ravel())
    np.testing.assert_array_equal(x.swapaxes(0, 1), X.T)
    np.testing.assert_array_equal(x.astype(int), X.astype(int))
    np.testing.assert_array_equal(x.clip(0, 2), X.clip(0, 2))
    np.testing.assert_array_equal(x.dot(Y.T), X @ Y.T)
    np.testing.assert_array_equal(x.repeat(2, axis=0), X.repeat(2, 0))
    np.testing.assert_array_equal(x.squeeze(), X)
    np.testing.assert_array_equal(x.take(np.array([0, 5])), X.take([0, 5]))
    np.testing.assert_array_equal(x.sort(), np.sort(X))
    np.testing.assert_array_equal(x.argsort(), X.argsort())
    np.testing.assert_array_equal(x.round(), X.round())
    np.testing.assert_array_equal(x.conj(), X)
    np.testing.assert_array_equal(x.real, X)
    np.testing.assert_array_equal(x.imag, 0 * X)


def test_views_reinterpret_bits():
    x = wnp.asarray(X)
    np.testing.assert_array_equal(x.view("int32"), X.view("int32"))
    np.testing.assert_array_equal(x.view("uint8"), X.view("uint8"))
    np.testing.assert_array_equal(x.view("int16").view("float32"), X)
    pairs = wnp.asarray(Y[:, :2])
    np.testing.assert_array_equal(
        pairs.view("complex64"), np.ascontiguousarray(Y[:, :2]).view("complex64")
    )
    np.testing.assert_array_equal(pairs.view("complex64").view("float32"), Y[:, :2])
    with pytest.raises(ValueError, match="multiple of 2"):
        wnp.zeros((2, 3), "int16").view("float32")


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int32", "float32", "complex64"])
def test_byteswap_turns_the_bytes_of_each_number(dtype):
    x = np.arange(6).reshape(2, 3).astype(dtype)
    got = weft.jit(lambda a: a.byteswap())(x)
    assert got.dtype == x.dtype and np.asarray(got).tobytes() == x.byteswap().tobytes()


def test_arrays_iterate_and_contain():
    x = wnp.asarray(X)
    for row, expected in zip(x, X, strict=True):
        np.testing.assert_array_equal(row, expected)
    assert weft.jit(lambda v: sum(r.sum() for r in v))(x) == X.sum()
    assert 4.0 in x and 7.0 not in x
    with pytest.raises(TypeError, match="iteration over an array without dimensions"):
        iter(wnp.asarray(1.0))


@pytest.mark.parametrize("n", [0, 7, 8, 9, 21])
def test_rows_of_any_number_are_iterated_in_order(n):
    x = np.arange(3 * n, dtype=np.float32).reshape(n, 3)
    rows = list(wnp.asarray(x))
    assert len(rows) == n
    np.testing.assert_array_equal(np.reshape(rows, (n, 3)), x)
    assert [float(v) for v in wnp.asarray(x.ravel())] == x.ravel().tolist()


def test_operators_stage_one_equation():
    jaxpr = weft.make_jaxpr(lambda a, b: a + b * 2.0)(X, Y)
    assert [e.primitive.name for e in jaxpr.jaxpr.eqns] == ["mul", "add"]


def test_methods_take_their_arguments_by_name():
    x = wnp.arange(6).reshape(2, 3)
    want = np.arange(6).reshape(2, 3)
    keep = np.array([True, False, True])
    np.testing.assert_array_equal(x.compress(condition=keep, axis=1), want.compress(keep, axis=1))
    np.testing.assert_array_equal(x.compress(keep), want.compress(keep))
    cast = weft.jit(lambda v: v.astype(dtype="int8", copy=True))(x)
    assert cast.dtype == np.int8 and x.astype("float32", False).dtype == np.float32
    np.testing.assert_array_equal(wnp.trunc(x=np.array([-1.5, 1.5])), [-1, 1])


def test_sizes_given_keep_results_on_the_operands_devices():
    mesh = weft.make_mesh((8,), ("d",), (weft.sharding.AxisType.Auto,))
    n = np.arange(16, dtype=np.float32) - 9
    split = weft.device_put(n, weft.NamedSharding(mesh, weft.P("d")))
    (found,) = wnp.nonzero(split > 0, size=8, fill_value=-1)
    np.testing.assert_array_equal(found, [10, 11, 12, 13, 14, 15, -1, -1])
    counts, edges = wnp.histogram(split, 4)
    np.testing.assert_array_equal(counts, [4, 4, 4, 4])
    np.testing.assert_allclose(edges, [-9, -5.25, -1.5, 2.25, 6])
    for x in (found, counts, edges, wnp.linspace(split[0], 0, 4)):
        assert x.committed and len(x.devices()) == 8


def test_shapes_and_axes_may_be_arrays_of_numbers():
    x = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    for sizes in (np.array([3, 2]), weft.numpy.array([3, 2])):
        assert weft.numpy.reshape(x, sizes).shape == weft.numpy.zeros(sizes).shape == (3, 2)
        assert weft.numpy.asarray(x).reshape(sizes).shape == (3, 2)
        assert weft.numpy.broadcast_to(x[:1, :1], sizes).shape == (3, 2)
    for axes in (np.array([1, 0]), weft.numpy.array([1, 0])):
        assert np.array_equal(weft.numpy.asarray(x).transpose(axes), x.T)
