"""Activations: values by NumPy's formulas, derivatives by differences and at special points."""

import math

import ml_dtypes
import numpy as np
import pytest
from scipy.special import erf, expit

import weft
from weft import nn

X = np.array([-3.3, -1.2, -0.4, 0.3, 0.9, 1.6, 7.1])
ROOT = math.sqrt(2 / math.pi)


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(ROOT * (x + 0.044715 * x**3)))


def selu(x):
    return 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x))


# name → (function, NumPy's formula)
FORMULAS = {
    "relu": (nn.relu, lambda x: np.maximum(x, 0)),
    "relu6": (nn.relu6, lambda x: np.clip(x, 0, 6)),
    "leaky_relu": (nn.leaky_relu, lambda x: np.where(x >= 0, x, 0.01 * x)),
    "leaky_relu slope": (lambda x: nn.leaky_relu(x, 0.3), lambda x: np.where(x >= 0, x, 0.3 * x)),
    "elu": (nn.elu, lambda x: np.where(x > 0, x, np.expm1(x))),
    "elu alpha": (lambda x: nn.elu(x, 0.5), lambda x: np.where(x > 0, x, 0.5 * np.expm1(x))),
    "celu": (
        lambda x: nn.celu(x, 2.0),
        lambda x: np.maximum(x, 0) + np.minimum(0, 2 * np.expm1(x / 2)),
    ),
    "selu": (nn.selu, selu),
    "hard_tanh": (nn.hard_tanh, lambda x: np.clip(x, -1, 1)),
    "tanh": (nn.tanh, np.tanh),
    "sigmoid": (nn.sigmoid, expit),
    "log_sigmoid": (nn.log_sigmoid, lambda x: np.log(expit(x))),
    "hard_sigmoid": (nn.hard_sigmoid, lambda x: np.clip(x + 3, 0, 6) / 6),
    "sparse_sigmoid": (nn.sparse_sigmoid, lambda x: np.clip((x + 1) / 2, 0, 1)),
    "silu": (nn.silu, lambda x: x * expit(x)),
    "swish": (nn.swish, lambda x: x * expit(x)),
    "hard_silu": (nn.hard_silu, lambda x: x * np.clip(x + 3, 0, 6) / 6),
    "hard_swish": (nn.hard_swish, lambda x: x * np.clip(x + 3, 0, 6) / 6),
    "softplus": (nn.softplus, lambda x: np.log1p(np.exp(x))),
    "gelu": (nn.gelu, gelu_tanh),
    "gelu exact": (
        lambda x: nn.gelu(x, approximate=False),
        lambda x: x * (1 + erf(x / math.sqrt(2))) / 2,
    ),
    "sparse_plus": (
        nn.sparse_plus,
        lambda x: np.where(x < -1, 0, np.where(x > 1, x, (x + 1) ** 2 / 4)),
    ),
    "squareplus": (lambda x: nn.squareplus(x, 3), lambda x: (x + np.sqrt(x * x + 3)) / 2),
    "soft_sign": (nn.soft_sign, lambda x: x / (np.abs(x) + 1)),
    "mish": (nn.mish, lambda x: x * np.tanh(np.log1p(np.exp(x)))),
    "log1mexp": (lambda x: nn.log1mexp(x * x), lambda x: np.log(-np.expm1(-x * x))),
    "identity": (nn.identity, lambda x: x),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_values_and_two_derivatives_follow_the_formula(name):
    fun, formula = FORMULAS[name]
    h = 1e-4
    with weft.enable_x64(True):

        @weft.jit
        def run(x):
            ones = np.ones_like(X)
            first = lambda x: weft.jvp(fun, (x,), (ones,))[1]
            reverse = weft.vjp(fun, x)[1](ones)[0]
            return fun(x), first(x), reverse, weft.jvp(first, (x,), (ones,))[1]

        value, first, reverse, second = map(np.asarray, run(X))
    up, at, down = formula(X + h), formula(X), formula(X - h)
    np.testing.assert_allclose(value, at, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(first, (up - down) / (2 * h), atol=1e-6)
    np.testing.assert_allclose(second, (up - 2 * at + down) / h**2, atol=1e-5)
    np.testing.assert_allclose(reverse, first, rtol=1e-12)


# Where a formula bends or overflows: (function, point, value, derivative).
SPECIAL = [
    (nn.relu, 0.0, 0.0, 0.0),
    (nn.relu6, 0.0, 0.0, 0.0),
    (nn.relu6, 6.0, 6.0, 0.0),
    (nn.leaky_relu, 0.0, 0.0, 1.0),
    (nn.elu, 0.0, 0.0, 1.0),
    (nn.elu, 1e4, 1e4, 1.0),
    (nn.elu, -1e4, -1.0, 0.0),
    (nn.selu, 1e4, 1.0507009873554805e4, 1.0507009873554805),
    (nn.celu, -1e4, -1.0, 0.0),
    (nn.celu, 1e4, 1e4, 1.0),
    (nn.hard_tanh, 1.0, 1.0, 1.0),
    (nn.hard_tanh, -1.0, -1.0, 1.0),
    (nn.softplus, 0.0, math.log(2), 0.5),
    (nn.softplus, 1e4, 1e4, 1.0),
    (nn.softplus, -1e4, 0.0, 0.0),
    (nn.log_sigmoid, -1e4, -1e4, 1.0),
    (nn.log_sigmoid, 1e4, 0.0, 0.0),
    (nn.sigmoid, 1e4, 1.0, 0.0),
    (nn.silu, 1e4, 1e4, 1.0),
    (nn.silu, -1e4, 0.0, 0.0),
    (nn.mish, 1e4, 1e4, 1.0),
    (nn.mish, -1e4, 0.0, 0.0),
    (nn.gelu, 0.0, 0.0, 0.5),
    (nn.gelu, 1e4, 1e4, 1.0),
    (nn.gelu, -1e4, 0.0, 0.0),
    (nn.squareplus, 0.0, 1.0, 0.5),
    (nn.soft_sign, 0.0, 0.0, 1.0),
    (nn.log1mexp, 1e4, 0.0, 0.0),
    (nn.log1mexp, 1e-30, math.log(1e-30), 1e30),
]


@pytest.mark.parametrize(("fun", "x", "value", "slope"), SPECIAL)
def test_special_points(fun, x, value, slope):
    got = weft.value_and_grad(fun)(np.float32(x))
    np.testing.assert_allclose(got, (value, slope), rtol=1e-5, atol=1e-7)


def test_gelu_is_relatively_exact_at_negative_numbers():
    x = np.linspace(-4, -0.5, 2000, dtype=np.float32)
    wide = x.astype(np.float64)
    of_tanh = wide * expit(2 * ROOT * (wide + 0.044715 * wide**3))
    np.testing.assert_allclose(nn.gelu(x), of_tanh, rtol=5e-6)


def test_softplus_meets_infinities():
    x = np.array([np.inf, -np.inf], np.float32)
    np.testing.assert_array_equal(nn.softplus(x), [np.inf, 0])
    np.testing.assert_array_equal(weft.vmap(weft.grad(nn.softplus))(x), [1, 0])


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32])
@pytest.mark.parametrize("name", ["relu", "silu", "gelu", "softplus", "elu", "mish", "sigmoid"])
def test_activations_keep_the_float_dtype(name, dtype):
    assert FORMULAS[name][0](X.astype(dtype)).dtype == dtype


def test_integers_become_floats_but_relu_keeps_them():
    x = np.array([-2, 3], np.int32)
    assert nn.relu(x).dtype == np.int32
    np.testing.assert_array_equal(nn.relu(x), [0, 3])
    assert nn.silu(x).dtype == np.float32
    assert nn.gelu(x).dtype == np.float32


def test_a_whole_slope_keeps_integers():
    sloped = nn.leaky_relu(np.array([-2, 0, 3], np.int32), 4)
    assert sloped.dtype == np.int32
    np.testing.assert_array_equal(sloped, [-8, 0, 3])


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_glu_halves_an_axis(axis):
    x = np.linspace(-2, 2, 24, dtype=np.float32).reshape(4, 6)
    first, second = np.split(x, 2, axis)
    np.testing.assert_allclose(nn.glu(x, axis), first * expit(second), rtol=1e-6)


def test_glu_needs_an_even_size():
    with pytest.raises(ValueError, match="odd size"):
        nn.glu(np.zeros((2, 3), np.float32))


def test_activations_map_over_a_batch():
    x = np.linspace(-2, 2, 6, dtype=np.float32).reshape(2, 3)
    for fun in (nn.relu, nn.gelu, nn.softplus):
        np.testing.assert_allclose(weft.vmap(fun)(x), fun(x), rtol=1e-6)


COMPLEX = np.array([0.3 + 0.7j, -1.2 + 0.4j, 2.0 - 0.5j], np.complex64)
# Formulas that hold for complex numbers, ordered by their real parts.
OF_COMPLEX = {
    "relu": lambda z: np.where(z.real > 0, z, 0),
    "softplus": lambda z: np.log1p(np.exp(z)),
    "mish": lambda z: z * np.tanh(np.log1p(np.exp(z))),
    "gelu": gelu_tanh,
    "log_sigmoid": lambda z: -np.log1p(np.exp(-z)),
    "hard_sigmoid": lambda z: np.where(z.real > -3, z + 3, 0) / 6,
    "soft_sign": lambda z: z / (np.abs(z) + 1),
    "leaky_relu": lambda z: np.where(z.real >= 0, z, 0.01 * z),
}


@pytest.mark.parametrize("name", OF_COMPLEX)
def test_activations_take_complex_numbers(name):
    got = FORMULAS[name][0](COMPLEX)
    assert got.dtype == np.complex64
    np.testing.assert_allclose(got, OF_COMPLEX[name](COMPLEX.astype(complex)), rtol=1e-5)


@pytest.mark.parametrize(
    "name", ["elu", "celu", "selu", "relu6", "leaky_relu", "hard_silu", "sparse_sigmoid"]
)
def test_integers_beside_a_float_constant_give_weak_floats(name):
    got = FORMULAS[name][0](np.array([1, 2], np.int8))
    assert got.dtype == np.float32 and got.weak_type


def test_sparse_sigmoid_has_half_its_slope_at_the_bends():
    slopes = [weft.grad(nn.sparse_sigmoid)(x) for x in (-1.5, -1.0, 0.0, 1.0, 2.0)]
    np.testing.assert_array_equal(slopes, [0, 0.25, 0.5, 0.25, 0])


@pytest.mark.parametrize("name", ["relu", "softplus", "mish", "soft_sign", "sparse_sigmoid"])
def test_truth_values_give_weak_numbers(name):
    got = FORMULAS[name][0](np.array([True, False]))
    assert got.dtype == (np.int32 if name == "relu" else np.float32) and got.weak_type


def test_squareplus_of_negative_numbers_has_all_digits():
    x = np.array([-94864.75, -3.5, 2], "float32")
    exact = [1.0541323303849749e-05, 0.2655644370746374, 2.414213562373095]
    np.testing.assert_allclose(nn.squareplus(x), exact, rtol=1e-6)
