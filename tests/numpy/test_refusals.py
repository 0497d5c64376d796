"""Arguments that only NumPy's functions take are refused with what to write instead."""

import numpy as np
import pytest

import weft.numpy as wnp

X = np.array([1.0, 2.0], np.float32)
UFUNCS = [
    name
    for name in wnp.__all__
    if isinstance(getattr(np, name, None), np.ufunc) and name not in ("matmul", "vecdot")
]
# Keyword → a value that NumPy takes, and what the user is told.
ARGUMENTS = {
    "out": (np.empty(2, np.float32), "immutable.* use the function's result"),
    "where": (np.array([True, False]), r"weft\.numpy\.where\(condition, weft\.numpy\."),
    "casting": ("same_kind", r"result_type.*astype\(dtype\)"),
    "order": ("F", "XLA chooses it"),
    "subok": (False, "leave it out"),
    "dtype": (np.float32, r"convert operands with x\.astype\(dtype\)"),
    "signature": ("ff->f", "the dtypes of the operands choose"),
}


@pytest.mark.parametrize("name", UFUNCS)
def test_ufuncs_refuse_what_only_numpys_take(name):
    operands = [X] * getattr(np, name).nin
    for argument, (value, words) in ARGUMENTS.items():
        with pytest.raises(TypeError, match=words) as e:
            getattr(wnp, name)(*operands, **{argument: value})
        assert "unexpected keyword" not in str(e.value)


@pytest.mark.parametrize("name", ["add", "sin", "logaddexp", "fmax", "arctan2", "isnan"])
def test_an_array_to_write_to_in_last_place_is_refused_as_out(name):
    operands = [X] * getattr(np, name).nin
    with pytest.raises(TypeError, match=rf"weft\.numpy\.{name}: arrays are immutable"):
        getattr(wnp, name)(*operands, X)


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: wnp.zeros(3, order="F"), r"weft\.numpy\.zeros: order= is the layout"),
        (lambda: wnp.concatenate([X, X], casting="no"), "casting= is not needed"),
        (lambda: wnp.concatenate([X, X], out=X), "immutable"),
        (lambda: wnp.ones_like(X, subok=False), "no subclasses"),
        (lambda: wnp.array(X, subok=True), "no subclasses"),
        (lambda: wnp.arange(3, like=X), "results are weft arrays"),
        (lambda: wnp.linalg.multi_dot([X, X], out=X), r"weft\.numpy\.linalg\.multi_dot: arrays"),
        (lambda: wnp.fft.fft(X, out=X), r"weft\.numpy\.fft\.fft: arrays are immutable"),
        (lambda: wnp.sum(X, out=X), r"weft\.numpy\.sum: arrays are immutable"),
        (lambda: wnp.add.reduce(X, out=X), r"weft\.numpy\.add\.reduce: arrays are immutable"),
    ],
)
def test_other_functions_refuse_them_too(call, words):
    with pytest.raises(TypeError, match=words):
        call()


def test_arguments_nobody_takes_are_named_beside_those_that_exist():
    with pytest.raises(TypeError, match=r"sin\(\) got an unexpected keyword .*'y'; it takes x$"):
        wnp.sin(X, y=X)
    with pytest.raises(TypeError, match=r"unexpected keyword .*'axes'; it takes a, axis, dtype"):
        wnp.sum(X, axes=0)
    with pytest.raises(TypeError, match="got 4 positional arguments; it takes x1, x2"):
        wnp.add(X, X, X, X)
