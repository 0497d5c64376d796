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
