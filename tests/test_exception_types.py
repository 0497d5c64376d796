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
