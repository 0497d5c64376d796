"""Bad calls raise what an `except` clause written for JAX and NumPy catches."""

import numpy as np
import pytest

import weft
import weft.numpy as wnp

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def host(x):
    return weft.pure_callback(lambda v: v, weft.ShapeDtypeStruct((), "float32"), x)


CASES = {
    "axis beyond the rank": (lambda: wnp.mean(X, axis=2), (ValueError, IndexError), "out of bound"),
    "axis of argmax": (lambda: wnp.argmax(X, axis=-9), (ValueError, IndexError), "out of bounds"),
    "axes of swapaxes": (lambda: wnp.swapaxes(X, 0, 7), (ValueError, IndexError), "out of bounds"),
    "axis of a scalar": (lambda: wnp.split(1.0, 2), (ValueError, IndexError), "out of bounds"),
    "axes of transpose": (lambda: wnp.transpose(X, (0,)), (TypeError,), "every dimension"),
    "mode of pad": (lambda: wnp.pad(X, 1, mode="no"), (NotImplementedError,), "mode must be"),
    "accuracy of sin": (
        lambda: weft.lax.sin(X, accuracy="high"),
        (NotImplementedError, TypeError),
        "accuracy must be None",
    ),
    "derivative of the order of zeta": (
        lambda: weft.grad(lambda x: weft.lax.zeta(x, 2.0))(3.0),
        (NotImplementedError, TypeError),
        "no derivative with respect to x",
    ),
    "derivative of full singular vectors": (
        lambda: weft.grad(lambda x: wnp.linalg.svd(x)[2].sum())(X),
        (NotImplementedError, ValueError, TypeError),
        "full_matrices=False",
    ),
    "transpose of what is not linear": (
        lambda: weft.linear_transpose(wnp.sin, 1.0)(1.0),
        (NotImplementedError, TypeError),
        "not linear",
    ),
    "vmap of a callback": (lambda: weft.vmap(host)(X[0]), (NotImplementedError,), "vmap_method"),
}


@pytest.mark.parametrize("name", CASES)
def test_every_error_is_caught_as_each_of_its_types(name):
    call, types, words = CASES[name]
    for caught in types:
        with pytest.raises(caught, match=words):
            call()


M, V = np.ones((2, 3, 3), np.float32), np.ones(3, np.float32)
LINALG = {
    "a vector": lambda la: la.ormqr(V, V, V),
    "batches of taus": lambda la: la.ormqr(M[0], M[:, 0], M[0]),
    "batches of c": lambda la: la.ormqr(M, M[:, 0, :2], np.ones((3, 3, 3), np.float32)),
    "rows of c": lambda la: la.ormqr(M[0], V, np.ones((4, 4), np.float32)),
    "number of taus": lambda la: la.ormqr(M[0], np.ones(5, np.float32), M[0]),
    "taus of a product": lambda la: la.householder_product(M[0], np.ones(5, np.float32)),
    **{
        function: lambda la, function=function: getattr(la, function)(V)
        for function in (
            [
                "qr",
                "svd",
                "eigh",
                "eig",
                "lu",
                "cholesky",
                "schur",
                "hessenberg",
                "tridiagonal",
                "qdwh",
            ]
        )
    },
}


@pytest.mark.parametrize("caught", [TypeError, ValueError])
@pytest.mark.parametrize("name", LINALG)
def test_operands_that_do_not_fit_are_both_errors(name, caught):
    with pytest.raises(caught, match="matri|must"):
        LINALG[name](weft.lax.linalg)


AXES = {
    "a name to numpy": lambda: wnp.prod(X, axis="rows"),
    "a float to lax": lambda: weft.lax.reduce_and(X.astype(bool), (1.5,)),
    "a key's missing axis": lambda: weft.lax.reduce_or(weft.random.key(0), (0,)),
}


@pytest.mark.parametrize("name", AXES)
def test_an_axis_that_is_none_is_every_error_of_jax(name):
    for caught in (TypeError, ValueError, IndexError):
        with pytest.raises(caught, match="ax"):
            AXES[name]()
    with pytest.raises(NotImplementedError):
        wnp.any(X, axis="rows")


@pytest.mark.parametrize(
    "call",
    [
        lambda: wnp.zeros(2, dtype=weft.random.key(0)),
        lambda: wnp.asarray(X).astype(weft.random.key(0)),
        lambda: wnp.asarray(X).repeat(None),
    ],
)
def test_methods_and_dtypes_name_what_they_need(call):
    with pytest.raises(TypeError, match=r"a dtype is needed|repeats must be integers"):
        call()


def test_sizes_may_be_one_integer():
    assert weft.lax.reshape(1, 1).shape == (1,)
    assert weft.lax.dynamic_slice(X[0], (1,), 2).tolist() == [1.0, 2.0]
    assert weft.lax.broadcast_shapes(1) == 1


def test_rows_of_matrices_add_as_coefficients():
    a, b = np.arange(6.0, dtype=np.float32).reshape(3, 2), np.ones((2, 2), np.float32)
    padded = np.concatenate([np.zeros((1, 2), np.float32), b])
    np.testing.assert_array_equal(wnp.polyadd(a, b), a + padded)
    np.testing.assert_array_equal(wnp.polysub(b, a), padded - a)


SQUARE = np.array([[4.0, 1.0, 0.0], [1.0, 3.0, 1.0], [0.0, 1.0, 2.0]], np.float32)
KEY = weft.random.key(0)
REFUSED = {
    "a diagonal between two": (lambda: wnp.tril(SQUARE, 1.5), TypeError),
    "a triangle's half size": (lambda: wnp.tril_indices(1.5), TypeError),
    "half a diagonal": (lambda: wnp.diag_indices(1.5), TypeError),
    "a negative number of powers": (lambda: wnp.vander(V, -7), ValueError),
    "no smallest length": (lambda: wnp.bincount([1], minlength=None, length=3), TypeError),
    "bins of other dimensions": (lambda: wnp.histogramdd(SQUARE, np.ones(7, int)), ValueError),
    "a condition beyond the axis": (lambda: wnp.compress(np.ones(7), SQUARE, 0), ValueError),
    "a size beyond the axis": (lambda: wnp.compress(V > 0, V, size=9), ValueError),
    "nothing to fill with": (lambda: wnp.extract(V > 0, V, size=2, fill_value=None), TypeError),
    "a mask of floats": (lambda: wnp.nanvar(SQUARE, where=1.5), ValueError),
    "constants of another number": (lambda: wnp.polyint(V, 1, np.ones(7)), ValueError),
    "decimals of bools": (lambda: wnp.round(V > 0, 1), ValueError),
    "a key as numbers": (lambda: weft.nn.one_hot(KEY, 3), TypeError),
    "a list as an array": (lambda: weft.nn.softmax([1.0, 2.0]), TypeError),
    "complex numbers in order": (lambda: weft.nn.sparse_sigmoid(V + 1j), ValueError),
    "no dtype": (lambda: weft.lax.iota(None, 3), ValueError),
    "no dtype of bits": (lambda: weft.lax.bitcast_convert_type(V, None), ValueError),
    "bools as positions": (
        lambda: wnp.put_along_axis(V, V > 0, V, 0, inplace=False),
        IndexError,
    ),
    "bools as segments": (lambda: weft.ops.segment_sum(V, V > 0), IndexError),
    "a key as an order": (lambda: wnp.asarray(V, order=KEY), NotImplementedError),
    "a key among numbers": (lambda: wnp.union1d(V, V, size=2, fill_value=KEY), NotImplementedError),
    "an integer as a matrix's shape": (
        lambda: weft.nn.initializers.lecun_normal()(KEY, 9),
        ValueError,
    ),
    "an array as an axis": (lambda: weft.random.categorical(KEY, V, axis=V), IndexError),
    "counts between two": (
        lambda: weft.scipy.stats.multinomial.pmf(V, 1.5, np.ones(3) / 3),
        ValueError,
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_jax_refuses_on_purpose_is_refused(name):
    call, kind = REFUSED[name]
    with pytest.raises(kind):
        call()


@pytest.mark.parametrize("dx", [2.0, (5,), np.array([1, 2, 3]), np.array([[1.0], [2.0]])])
def test_widths_of_trapezoids_broadcast_as_numpys(dx):
    actual = wnp.trapezoid(SQUARE, dx=np.asarray(dx), axis=0)
    np.testing.assert_allclose(actual, np.trapezoid(SQUARE, dx=np.asarray(dx), axis=0))


def test_columns_are_polynomials_with_derivatives():
    p = np.arange(8.0, dtype=np.float32).reshape(4, 2)
    columns = [np.polyder(p[:, i]) for i in range(2)]
    np.testing.assert_array_equal(wnp.polyder(p), np.stack(columns, 1))


def test_products_without_dimension_numbers_are_matrix_products():
    np.testing.assert_array_equal(weft.lax.dot_general(SQUARE, SQUARE, None), SQUARE @ SQUARE)
    batch = np.ones((2, 3, 3), np.float32)
    assert weft.lax.dot_general(batch, SQUARE, None).shape == (2, 3, 3)


def test_what_is_no_array_has_the_shape_of_a_scalar():
    for value in (None, "text", object()):
        assert wnp.shape(value) == np.shape(value) == ()


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.cumsum(axis=[]),
        lambda x: x.trace(offset=1.5),
        lambda x: x.repeat((0, 0), axis=0),
        lambda x: x.sum(dtype={"a": 1}),
        lambda x: x.reshape("a"),
        lambda x: x.astype("bad"),
        lambda x: x.transpose(V > 0),
    ],
)
def test_methods_name_themselves(call):
    with pytest.raises((TypeError, ValueError), match=r"^Array\.[a-z]+: "):
        call(wnp.asarray(SQUARE))
