"""Functions of neural networks, under the names and with the semantics of jax.nn."""

import weft.driver.execute  # noqa: F401  (the functions run eagerly too)
from weft.core.namespace import seal
from weft.nn import initializers
from weft.nn.activations import (
    celu,
    elu,
    gelu,
    glu,
    hard_sigmoid,
    hard_silu,
    hard_swish,
    hard_tanh,
    identity,
    leaky_relu,
    log1mexp,
    log_sigmoid,
    mish,
    relu,
    relu6,
    selu,
    sigmoid,
    silu,
    soft_sign,
    softplus,
    sparse_plus,
    sparse_sigmoid,
    squareplus,
    swish,
)
from weft.nn.attention import dot_product_attention
from weft.nn.block_scaling import get_scaled_dot_general_config, scaled_dot_general
from weft.nn.exponential_sums import log_softmax, logmeanexp, logsumexp, softmax
from weft.nn.functions import one_hot, scaled_matmul, standardize
from weft.numpy import tanh
from weft.numpy.eager import eager_programs

__all__ = [
    "celu",
    "dot_product_attention",
    "elu",
    "gelu",
    "get_scaled_dot_general_config",
    "glu",
    "hard_sigmoid",
    "hard_silu",
    "hard_swish",
    "hard_tanh",
    "identity",
    "initializers",
    "leaky_relu",
    "log1mexp",
    "log_sigmoid",
    "log_softmax",
    "logmeanexp",
    "logsumexp",
    "mish",
    "one_hot",
    "relu",
    "relu6",
    "scaled_dot_general",
    "scaled_matmul",
    "selu",
    "sigmoid",
    "silu",
    "soft_sign",
    "softmax",
    "softplus",
    "sparse_plus",
    "sparse_sigmoid",
    "squareplus",
    "standardize",
    "swish",
    "tanh",
]
_PROGRAMS = """
    celu elu gelu glu hard_sigmoid hard_silu hard_swish hard_tanh leaky_relu log1mexp log_sigmoid
    log_softmax logmeanexp logsumexp mish one_hot relu relu6 selu sigmoid silu soft_sign softmax
    softplus sparse_plus sparse_sigmoid squareplus standardize swish
"""
seal(globals(), programs=eager_programs(_PROGRAMS))
