"""Arguments that only NumPy's functions take are refused with what to write instead."""

import numpy as np
import pytest

import weft
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
    with pytest.raises(TypeError, match=words) as info:
        call()
    assert isinstance(info.value, NotImplementedError)  # what those that have out= raise in JAX


def test_arguments_nobody_takes_are_named_beside_those_that_exist():
    with pytest.raises(TypeError, match=r"sin\(\) got an unexpected keyword .*'y'; it takes x$"):
        wnp.sin(X, y=X)
    with pytest.raises(TypeError, match=r"unexpected keyword .*'axes'; it takes a, axis, dtype"):
        wnp.sum(X, axes=0)
    with pytest.raises(TypeError, match="got 4 positional arguments; it takes x1, x2"):
        wnp.add(X, X, X, X)


KEY = weft.random.key(0)
WRONG = {
    "where that is no mask": (lambda: wnp.sum(X, where=2.0), "where must be booleans"),
    "an initial that is an array": (lambda: wnp.max(X, initial=X), "initial must be a scalar"),
    "half an edge more": (lambda: wnp.linspace(0, 1, 2.5), "num must be an integer, got 2.5"),
    "a diagonal between two": (lambda: wnp.eye(2, k=1.5), "k must be an integer"),
    "a size of two numbers": (lambda: wnp.eye((2, 3)), "N must be an integer"),
    "a place between two": (lambda: wnp.argpartition(X, 0.5), "kth=0.5"),
    "cuts between elements": (lambda: wnp.split(X, [0.5]), "indices must be an integer"),
    "a shape of floats": (lambda: wnp.broadcast_shapes((2.0,), (1,)), "must consist of integers"),
    "half a bin": (lambda: wnp.histogram(X, 1.5), "bins must be an integer"),
    "no bins": (lambda: wnp.histogram(X, 0), "bins must be positive, got 0"),
    "three limits": (lambda: wnp.histogram(X, range=(0, 1, 2)), r"\(lowest, highest\)"),
    "limits as a matrix": (lambda: wnp.histogram(X, range=np.eye(2)), r"\(lowest, highest\)"),
    "complex bins": (lambda: wnp.histogram(X, wnp.array([0j, 1j])), "must be real"),
    "one weight for two": (
        lambda: wnp.histogramdd(np.ones((2, 2)), 2, weights=3.0),
        r"weights must have the shape \(2,\)",
    ),
    "the floor of a key": (lambda: wnp.floor(KEY), r"takes numbers, got key"),
    "bits of a key": (lambda: weft.lax.bitcast_convert_type(KEY, "int32"), "random keys are no"),
    "half a complex number": (
        lambda: weft.lax.bitcast_convert_type(X + 1j, "int32"),
        "complex numbers and booleans only become themselves",
    ),
    "a token that is none": (lambda: weft.lax.after_all(X), "operand 0 must be a token"),
    "text joined": (lambda: weft.lax.concatenate(["a"], 0), "not an array or a number"),
    "vectors along no axis": (lambda: wnp.linalg.cross(1.0, X), "axis -1 is out of bounds"),
    "an axis that one lacks": (lambda: wnp.vecdot(np.eye(2), X, axis=0 - 2), "axis -2 is out of"),
    "a polynomial without coefficients": (lambda: wnp.polyval(2.0, X), "p must be a vector"),
    "half a bit": (lambda: weft.lax.reduce_precision(X, 4.5, 3), "exponent_bits=4.5"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments_are_refused_by_name(name):
    call, words = WRONG[name]
    with pytest.raises((TypeError, ValueError), match=words):
        call()


@pytest.mark.parametrize("f", [wnp.asarray, wnp.abs, lambda n: wnp.maximum(n, 7)])
def test_python_integers_out_of_range_are_refused_in_traced_programs_too(f):
    for run in (f, weft.jit(lambda: f(2**40)), weft.jit(lambda: f(-(2**31) - 1))):
        with pytest.raises(OverflowError, match="out of bounds for int32"):
            run(2**40) if run is f else run()


def test_results_of_special_sizes_keep_the_dtypes_of_the_others():
    quotient, rest = wnp.polydiv(X[:1], X)
    assert (quotient.dtype, rest.dtype) == (np.float32, np.float32)
    assert [i.dtype for i in wnp.ix_([], [1])] == [np.int32, np.int32]
    assert wnp.bincount(wnp.array([1]), length=0).shape == (0,)
    assert wnp.histogram(X, np.array([0.0, 2.0]))[1].dtype == np.float32
    counts, _ = wnp.histogramdd(np.ones((2, 2)), 2, weights=np.array([1, 2]))
    assert counts.dtype == np.float32 and counts[-1, -1] == 3


@pytest.mark.parametrize("f", [weft.nn.softmax, weft.nn.log_softmax, weft.nn.logsumexp])
def test_masks_of_softmax_are_booleans(f):
    with pytest.raises(TypeError, match=r"where must be booleans, got f32\[2\]"):
        f(X, where=X)


def test_parameters_of_random_numbers_are_real():
    with pytest.raises(TypeError, match=r"weft\.random\.beta: parameters must be real numbers"):
        weft.random.beta(KEY, 1 + 2j, 1.0)


def test_functions_of_no_elements_are_those_of_numpy():
    assert wnp.unwrap(X[:0]).shape == (0,)
    assert wnp.unwrap(np.ones((0, 3), np.float32), axis=0).shape == (0, 3)
    assert np.isnan(wnp.cov(X[:0]))


@pytest.mark.parametrize("name", ["flat", "fill", "resize", "strides", "flags"])
def test_attributes_that_only_numpys_arrays_have_say_what_to_use(name):
    def read(x):
        with pytest.raises(AttributeError, match=f"no attribute '{name}': "):
            getattr(x, name)
        return x

    x = weft.jit(read)(wnp.arange(3.0))
    read(x)
    assert not hasattr(x, name)
    with pytest.raises(AttributeError, match=f"no attribute '{name}': "):
        setattr(x, name, 3)


def test_at_cannot_be_set():
    with pytest.raises(AttributeError, match=r"x = x\.at\[index\]\.set"):
        wnp.arange(3.0).at = 3
