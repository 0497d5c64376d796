"""What a bad argument causes inside of weft is said with the function and the argument."""

import numpy as np
import pytest

import weft
import weft.numpy as wnp

X = np.ones(3, np.float32)
IMAGE, KERNEL = np.ones((1, 1, 3), np.float32), np.ones((1, 1, 2), np.float32)


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: wnp.fft.fft(X, n="abc"), r"weft\.numpy\.fft\.fft: argument n='abc': an integer"),
        (lambda: weft.lax.conv(IMAGE, KERNEL, 3, "VALID"), r"lax\.conv: argument window_strides=3"),
        (lambda: wnp.unique(X, size=1.5), r"weft\.numpy\.unique: argument size=1\.5"),
        (
            lambda: wnp.zeros(3, X),
            r"weft\.numpy\.zeros: a dtype is needed, got an array of float32",
        ),
        (lambda: weft.tree.map(3, [1]), r"weft\.tree\.map: argument f=3: a function is needed"),
        (lambda: wnp.add(X, object()), r"weft\.numpy\.add: argument x2=<object"),
        (
            lambda: weft.tree_util.keystr((), separator=3),
            r"tree_util\.keystr: argument separator=3",
        ),
        (lambda: wnp.sum(X, axis=1.5), r"weft\.numpy\.sum: axis must be an integer, got 1\.5"),
    ],
)
def test_messages_name_the_function_and_the_argument(call, words):
    with pytest.raises(TypeError, match=words):
        call()


def test_exceptions_that_tell_of_the_inside_become_type_errors():
    with pytest.raises(TypeError, match=r"weft\.lax\.scatter: .*dimension_numbers=3") as e:
        weft.lax.scatter(X, np.array([[0]]), X[:1], 3)
    assert e.value.__suppress_context__


def test_a_traced_truth_value_keeps_its_class_and_gets_the_argument():
    with pytest.raises(weft.errors.TracerBoolConversionError, match=r"numpy\.sum: .*keepdims=bool"):
        weft.jit(lambda k: wnp.sum(X, keepdims=k))(True)


def test_exceptions_of_the_users_own_functions_stay_as_they_are():
    with pytest.raises(AttributeError, match="^'int' object has no attribute 'foo'$"):
        weft.tree.map(lambda a: a.foo, [1])
    with pytest.raises(KeyError, match="^'nothing'$"):
        weft.lax.scan(lambda c, x: ({}["nothing"], x), 0.0, X)


def test_an_outer_function_of_weft_is_the_one_named():
    with pytest.raises(ValueError, match=r"^weft\.numpy\.linalg\.norm: axis 5") as e:
        wnp.linalg.norm(X, axis=5)
    assert str(e.value).count("weft.numpy.") == 1


def test_values_without_a_repr_are_shown_by_type():
    class Silent:
        def __repr__(self):
            raise RuntimeError

    with pytest.raises(TypeError, match="argument f=Silent"):
        weft.tree.map(Silent(), [1])
