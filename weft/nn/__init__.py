"""Functions of neural networks, under the names and with the semantics of jax.nn."""

from weft.core.namespace import EagerPrograms, load_on_use
from weft.numpy import tanh as tanh

__all__ = ["tanh"]
_PROGRAMS = """
    celu elu gelu glu hard_sigmoid hard_silu hard_swish hard_tanh leaky_relu log1mexp log_sigmoid
    log_softmax logmeanexp logsumexp mish one_hot relu relu6 selu sigmoid silu soft_sign softmax
    softplus sparse_plus sparse_sigmoid squareplus standardize swish
"""


def _programs() -> EagerPrograms:
    from weft.numpy.eager import eager_programs  # where a function is used, not to import weft.nn

    return eager_programs(_PROGRAMS)


__getattr__, _NAMES = load_on_use(
    globals(),
    {
        "activations": """celu elu gelu glu hard_sigmoid hard_silu hard_swish hard_tanh identity
            leaky_relu log1mexp log_sigmoid mish relu relu6 selu sigmoid silu soft_sign softplus
            sparse_plus sparse_sigmoid squareplus swish""",
        "attention": "dot_product_attention",
        "block_scaling": "get_scaled_dot_general_config scaled_dot_general",
        "exponential_sums": "log_softmax logmeanexp logsumexp softmax",
        "functions": "one_hot scaled_matmul standardize",
    },
    _programs,
    modules=("initializers",),
)
