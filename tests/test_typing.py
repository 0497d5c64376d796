"""weft.typing in annotations that are checked at run time, by jaxtyping and beartype."""

from typing import Any

import numpy as np
import pytest
from beartype import beartype
from beartype.roar import BeartypeCallHintParamViolation
from jaxtyping import Float, Int, TypeCheckError, jaxtyped

import weft
import weft.numpy as wnp
from weft.typing import ArrayLike, DTypeLike


@jaxtyped(typechecker=beartype)
def product(
    x: Float[weft.Array, "rows inner"],
    y: Float[weft.Array, " inner"],
) -> Float[weft.Array, " rows"]:
    return x @ y


@beartype
def converted(x: ArrayLike, dtype: DTypeLike) -> weft.Array:
    return wnp.asarray(x, dtype)


X, Y = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones(3, np.float32)


@pytest.mark.parametrize("transform", [lambda f: f, weft.jit], ids=["eager", "jit"])
def test_shapes_and_dtypes_of_annotations_hold(transform):
    np.testing.assert_array_equal(transform(product)(wnp.asarray(X), wnp.asarray(Y)), X @ Y)


def test_annotated_functions_are_transformed():
    x, y = wnp.asarray(X), wnp.asarray(Y)
    gradient = weft.grad(lambda y: product(x, y).sum())(y)
    np.testing.assert_array_equal(gradient, X.sum(0))
    mapped = weft.vmap(product, (0, None))(x[:, None], y)
    np.testing.assert_array_equal(mapped, (X @ Y)[:, None])


@pytest.mark.parametrize("transform", [lambda f: f, weft.jit], ids=["eager", "jit"])
@pytest.mark.parametrize(
    "y", [np.ones(4, np.float32), np.ones(3, np.int32)], ids=["shape", "dtype"]
)
def test_what_an_annotation_forbids_is_an_error(transform, y):
    with pytest.raises(TypeCheckError, match="parameter 'y'"):
        transform(product)(wnp.asarray(X), wnp.asarray(y))


@pytest.mark.parametrize("dtype", ["int32", np.int32, np.dtype("int32"), wnp.int32])
@pytest.mark.parametrize("x", [1, 1.0, True, np.float32(1), np.ones(()), wnp.ones(())])
def test_the_unions_take_what_functions_take(x: Any, dtype: Any):
    assert converted(x, dtype).dtype == np.int32


@pytest.mark.parametrize(("x", "dtype"), [("one", "int32"), ([1], "int32"), (1, 32)])
def test_the_unions_refuse_the_rest(x: Any, dtype: Any):
    with pytest.raises(BeartypeCallHintParamViolation):
        converted(x, dtype)


def test_integers_are_integers():
    @jaxtyped(typechecker=beartype)
    def index(i: Int[weft.Array, ""]) -> weft.Array:
        return i

    assert index(wnp.asarray(3)) == 3
