# Tests: tests/test_rnn.py
"""Small neural networks of (init, apply) pairs, as jax.example_libraries.stax has them.

A layer is a pair of functions: init(key, input_shape) gives (output_shape, params), and
apply(params, inputs, rng=None) the outputs. `serial` and `parallel` combine layers.

>>> import weft
>>> from weft.example_libraries import stax
>>> init, apply = stax.serial(stax.Dense(8), stax.Relu, stax.Dense(3), stax.LogSoftmax)
>>> shape, params = init(weft.random.key(0), (-1, 5))
>>> shape, apply(params, weft.numpy.ones((2, 5))).shape
((-1, 3), (2, 3))
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import weft
import weft.numpy as wnp
from weft import lax, nn, random
from weft.nn import initializers

Layer = tuple[Callable, Callable]

randn = initializers.normal
glorot = initializers.glorot_normal
logsoftmax = nn.log_softmax

_GLOROT, _NORMAL = initializers.glorot_normal(), initializers.normal()
_SMALL = initializers.normal(1e-6)


def Dense(
    out_dim: int,
    W_init: Callable = _GLOROT,
    b_init: Callable = _NORMAL,
) -> Layer:
    """Return a layer that multiplies the last axis by a matrix and adds a bias."""

    def init(rng: object, input_shape: tuple) -> tuple:
        k1, k2 = random.split(rng)
        weights = W_init(k1, (input_shape[-1], out_dim)), b_init(k2, (out_dim,))
        return (*input_shape[:-1], out_dim), weights

    def apply(params: Any, inputs: Any, **kwargs: object) -> Any:
        W, b = params
        return wnp.dot(inputs, W) + b

    return init, apply


def _convolution(transposed: bool, dimension_numbers: tuple, *args: Any, **kwargs: Any) -> Layer:
    def made(
        out_chan: int,
        filter_shape: Sequence[int],
        strides: Sequence[int] | None = None,
        padding: object = "VALID",
        W_init: Callable | None = None,
        b_init: Callable = _SMALL,
    ) -> Layer:
        lhs, rhs, out = dimension_numbers
        window = strides or (1,) * len(filter_shape)
        start = W_init or initializers.glorot_normal(rhs.index("I"), rhs.index("O"))
        fun: Callable = lax.conv_transpose if transposed else lax.conv_general_dilated
        conv = lambda x, w: fun(x, w, window, padding, dimension_numbers=dimension_numbers)

        def init(rng: object, input_shape: tuple) -> tuple:
            sizes = iter(filter_shape)
            channels = {"O": out_chan, "I": input_shape[lhs.index("C")]}
            kernel = tuple(channels[c] if c in channels else next(sizes) for c in rhs)
            shape_of_one = tuple(1 if s == -1 else s for s in input_shape)
            struct = lambda shape: weft.ShapeDtypeStruct(shape, wnp.float32)
            shape = list(weft.eval_shape(conv, struct(shape_of_one), struct(kernel)).shape)
            batch = lhs.index("N")
            shape[out.index("N")] = input_shape[batch]
            bias = tuple(out_chan if c == "C" else 1 for c in out)
            k1, k2 = random.split(rng)
            return tuple(shape), (start(k1, kernel), b_init(k2, bias))

        def apply(params: Any, inputs: object, **kwargs: object) -> Any:
            W, b = params
            return conv(inputs, W) + b

        return init, apply

    return made(*args, **kwargs)


def GeneralConv(dimension_numbers: tuple, *args: object, **kwargs: object) -> Layer:
    """Return a convolution: (out_chan, filter_shape, strides, padding, W_init, b_init)."""
    return _convolution(False, dimension_numbers, *args, **kwargs)


def GeneralConvTranspose(dimension_numbers: tuple, *args: object, **kwargs: object) -> Layer:
    """Return a transposed convolution, with the arguments of `GeneralConv`."""
    return _convolution(True, dimension_numbers, *args, **kwargs)


Conv = functools.partial(GeneralConv, ("NHWC", "HWIO", "NHWC"))
ConvTranspose = functools.partial(GeneralConvTranspose, ("NHWC", "HWIO", "NHWC"))
Conv1DTranspose = functools.partial(GeneralConvTranspose, ("NHC", "HIO", "NHC"))


def BatchNorm(
    axis: Any = (0, 1, 2),
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
    beta_init: Callable = initializers.zeros,
    gamma_init: Callable = initializers.ones,
) -> Layer:
    """Return a layer that normalizes over axes by the batch's mean and variance."""
    axes = (axis,) if isinstance(axis, int) else tuple(axis)

    def init(rng: object, input_shape: tuple) -> tuple:
        shape = tuple(d for i, d in enumerate(input_shape) if i not in axes)
        k1, k2 = random.split(rng)
        beta = beta_init(k1, shape) if center else ()
        return input_shape, (beta, gamma_init(k2, shape) if scale else ())

    def apply(params: Any, x: Any, **kwargs: object) -> Any:
        beta, gamma = params
        along_features = lambda v: v.reshape([1 if i in axes else s for i, s in enumerate(x.shape)])
        z = nn.standardize(x, axes, epsilon=epsilon)
        z = z * along_features(gamma) if scale else z
        return z + along_features(beta) if center else z

    return init, apply


def elementwise(fun: Callable, **fun_kwargs: object) -> Layer:
    """Return a layer that applies a function to each element."""
    init = lambda rng, input_shape: (input_shape, ())
    return init, lambda params, inputs, **kwargs: fun(inputs, **fun_kwargs)


Tanh = elementwise(wnp.tanh)
Relu = elementwise(nn.relu)
Exp = elementwise(wnp.exp)
LogSoftmax = elementwise(nn.log_softmax, axis=-1)
Softmax = elementwise(nn.softmax, axis=-1)
Softplus = elementwise(nn.softplus)
Sigmoid = elementwise(nn.sigmoid)
Elu = elementwise(nn.elu)
LeakyRelu = elementwise(nn.leaky_relu)
Selu = elementwise(nn.selu)
Gelu = elementwise(nn.gelu)


def _pooling(reducer: Callable, initial: float, average: bool = False) -> Callable[..., Layer]:
    def pool(
        window_shape: Sequence[int],
        strides: Sequence[int] | None = None,
        padding: Any = "VALID",
        spec: str = "NHWC",
    ) -> Layer:
        """Return a layer that combines windows of the spatial dimensions."""
        spread = lambda values: tuple(
            1 if c in "NC" else values[i - sum(s in "NC" for s in spec[:i])]
            for i, c in enumerate(spec)
        )
        window = spread(tuple(window_shape))
        steps = spread(tuple(strides or (1,) * len(window_shape)))
        combine = lambda x: lax.reduce_window(x, initial, reducer, window, steps, padding)

        def apply(params: object, inputs: Any, **kwargs: object) -> Any:
            out = combine(inputs)
            return out / combine(wnp.ones_like(inputs)) if average else out

        def init(rng: object, input_shape: tuple) -> tuple:
            shape_of_one = tuple(1 if s == -1 else s for s in input_shape)
            shape = weft.eval_shape(combine, weft.ShapeDtypeStruct(shape_of_one, wnp.float32)).shape
            kept = (g if g == -1 else s for g, s in zip(input_shape, shape, strict=True))
            return tuple(kept), ()

        return init, apply

    return pool


MaxPool = _pooling(lax.max, -math.inf)
SumPool = _pooling(lax.add, 0.0)
AvgPool = _pooling(lax.add, 0.0, average=True)


def _flatten_shape(rng: object, input_shape: tuple) -> tuple:
    return (input_shape[0], functools.reduce(operator.mul, input_shape[1:], 1)), ()


Flatten: Layer = (
    _flatten_shape,
    lambda params, inputs, **kwargs: inputs.reshape(inputs.shape[0], -1),
)
Identity: Layer = (lambda rng, shape: (shape, ()), lambda params, inputs, **kwargs: inputs)


def FanOut(num: int) -> Layer:
    """Return a layer that hands its input to `num` layers."""
    init = lambda rng, input_shape: ([input_shape] * num, ())
    return init, lambda params, inputs, **kwargs: [inputs] * num


FanInSum: Layer = (
    lambda rng, input_shape: (input_shape[0], ()),
    lambda params, inputs, **kwargs: sum(inputs),
)


def FanInConcat(axis: int = -1) -> Layer:
    """Return a layer that joins its inputs along an axis."""

    def init(rng: object, input_shape: Sequence[tuple]) -> tuple:
        at = axis % len(input_shape[0])
        size = sum(shape[at] for shape in input_shape)
        return (*input_shape[0][:at], size, *input_shape[0][at + 1 :]), ()

    return init, lambda params, inputs, **kwargs: wnp.concatenate(inputs, axis)


def Dropout(rate: float, mode: str = "train") -> Layer:
    """Return a layer that keeps each element with probability `rate`, while mode is 'train'.

    Its apply needs rng=; raises ValueError without.
    """

    def apply(params: object, inputs: Any, **kwargs: object) -> Any:
        rng = kwargs.get("rng")
        if rng is None:
            raise ValueError(
                "Dropout: apply needs rng=, a key: apply(params, inputs, rng=key); in mode "
                "'test' it keeps everything but needs one as well"
            )
        if mode != "train":
            return inputs
        keep = random.bernoulli(rng, rate, inputs.shape)
        return wnp.where(keep, inputs / rate, 0)

    return (lambda rng, input_shape: (input_shape, ())), apply


def serial(*layers: Layer) -> Layer:
    """Return a layer that applies layers one after the other."""
    inits, applies = zip(*layers, strict=True) if layers else ((), ())

    def init(rng: object, input_shape: object) -> tuple:
        params = []
        for one in inits:
            rng, key = random.split(rng)
            input_shape, param = one(key, input_shape)
            params.append(param)
        return input_shape, params

    def apply(params: Any, inputs: object, **kwargs: object) -> Any:
        rng = kwargs.pop("rng", None)
        keys = random.split(rng, len(layers)) if rng is not None else (None,) * len(layers)
        for fun, param, key in zip(applies, params, keys, strict=True):
            inputs = fun(param, inputs, rng=key, **kwargs)
        return inputs

    return init, apply


def parallel(*layers: Layer) -> Layer:
    """Return a layer that applies each layer to the input at its place."""
    inits, applies = zip(*layers, strict=True) if layers else ((), ())

    def init(rng: object, input_shape: Sequence[tuple]) -> tuple:
        keys = random.split(rng, len(layers))
        pairs = [one(k, s) for one, k, s in zip(inits, keys, input_shape, strict=True)]
        return [shape for shape, _ in pairs], [param for _, param in pairs]

    def apply(params: Any, inputs: Any, **kwargs: object) -> Any:
        rng = kwargs.pop("rng", None)
        keys = random.split(rng, len(layers)) if rng is not None else (None,) * len(layers)
        parts = zip(applies, params, inputs, keys, strict=True)
        return [fun(p, x, rng=key, **kwargs) for fun, p, x, key in parts]

    return init, apply


def shape_dependent(make_layer: Callable[[Any], Layer]) -> Layer:
    """Return the layer that make_layer gives for the shape of the input."""
    init = lambda rng, input_shape: make_layer(input_shape)[0](rng, input_shape)

    def apply(params: Any, inputs: Any, **kwargs: Any) -> Any:
        return make_layer(inputs.shape)[1](params, inputs, **kwargs)

    return init, apply
