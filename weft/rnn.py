"""Long short-term memory: several layers, both directions, as jax.experimental.rnn has it.

Weights are one vector, laid out as JAX's (cuDNN's): for each layer and direction the matrices of
the input and of the state, then, likewise, both biases. The gates are in the order i, f, g, o.
"""

from __future__ import annotations

from typing import Any

import weft.numpy as wnp
from weft import lax, nn, random
from weft.core.errors import ArgumentError
from weft.core.namespace import seal

__all__ = [
    "get_num_params_in_lstm",
    "init_lstm_weight",
    "lstm",
    "lstm_ref",
    "swap_lstm_gates",
    "unpack_lstm_weights",
]


def _shapes(input_size: int, hidden_size: int, num_layers: int, bidirectional: bool) -> list:
    """Return the shapes of W_ih and W_hh of each layer and direction."""
    directions = 2 if bidirectional else 1
    shapes = []
    for layer in range(num_layers):
        width = input_size if layer == 0 else hidden_size * directions
        pair = (4 * hidden_size, width), (4 * hidden_size, hidden_size)
        shapes += [pair] * directions
    return shapes


def get_num_params_in_lstm(
    input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> int:
    """Return the size of the vector of weights.

    >>> from weft import rnn
    >>> rnn.get_num_params_in_lstm(3, 2, 1, False)
    56
    """
    shapes = _shapes(input_size, hidden_size, num_layers, bidirectional)
    return sum(a * b + a * c + 2 * a for (a, b), (_, c) in shapes)


def init_lstm_weight(
    rng: object, input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> Any:
    """Return random weights, uniform within 1 / sqrt(hidden_size) of zero.

    >>> import weft
    >>> weft.rnn.init_lstm_weight(weft.random.key(0), 3, 2, 1, False).shape
    (56,)
    """
    count = get_num_params_in_lstm(input_size, hidden_size, num_layers, bidirectional)
    k = (1 / hidden_size) ** 0.5
    return random.uniform(rng, (count,), wnp.float32, -k, k)


def unpack_lstm_weights(
    weights: Any, input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> tuple[dict, dict, dict, dict]:
    """Return (W_ih, W_hh, b_ih, b_hh), each a dict by layer and direction.

    Raises ArgumentError, a TypeError and a ValueError, for a vector of another size.

    >>> import weft.numpy as wnp
    >>> from weft import rnn
    >>> rnn.unpack_lstm_weights(wnp.ones(56), 3, 2, 1, False)[0][0].shape
    (8, 3)
    """
    weights = wnp.asarray(weights)
    count = get_num_params_in_lstm(input_size, hidden_size, num_layers, bidirectional)
    if weights.shape != (count,):
        raise ArgumentError(
            f"lstm: weights must have shape ({count},) for these sizes, got {weights.shape}"
        )
    at = 0
    out: tuple[dict, dict, dict, dict] = ({}, {}, {}, {})
    shapes = _shapes(input_size, hidden_size, num_layers, bidirectional)
    for i, pair in enumerate(shapes):
        for where, shape in zip(out[:2], pair, strict=True):
            where[i] = weights[at : at + shape[0] * shape[1]].reshape(shape)
            at += shape[0] * shape[1]
    for i in range(len(shapes)):
        for where in out[2:]:
            where[i] = weights[at : at + 4 * hidden_size]
            at += 4 * hidden_size
    return out


def swap_lstm_gates(
    weights: object, input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> Any:
    """Return the weights with the gates g and o in each other's place.

    >>> import weft.numpy as wnp
    >>> from weft import rnn
    >>> rnn.swap_lstm_gates(wnp.arange(56.0), 3, 2, 1, False)[12:14].tolist()
    [18.0, 19.0]
    """
    parts = unpack_lstm_weights(weights, input_size, hidden_size, num_layers, bidirectional)

    def swap(x: Any) -> Any:
        i, f, g, o = wnp.split(x, 4)
        return wnp.concatenate([i, f, o, g]).ravel()

    n = len(parts[0])
    flat = [swap(part[i]) for i in range(n) for part in parts[:2]]
    flat += [swap(part[i]) for i in range(n) for part in parts[2:]]
    return wnp.concatenate(flat)


def lstm(
    x: object,
    h_0: object,
    c_0: object,
    weights: object,
    seq_lengths: object,
    input_size: int,
    hidden_size: int,
    num_layers: int,
    dropout: float,
    bidirectional: bool,
    precision: object = None,
) -> tuple[Any, Any, Any]:
    """Return (y, h_n, c_n) of a batch of sequences.

    x: [batch, time, input_size]. h_0, c_0: [layers * directions, batch, hidden_size]. weights: as
    `init_lstm_weight` gives them. seq_lengths: how many steps of each sequence count; outputs
    behind them are zero. dropout: 0. y: [batch, time, hidden_size * directions].

    Raises ArgumentError, a TypeError and a ValueError, for shapes that do not fit,
    NotImplementedError for dropout.

    Source: Hochreiter and Schmidhuber, Long short-term memory, 1997.

    >>> import weft
    >>> import weft.numpy as wnp
    >>> w = weft.rnn.init_lstm_weight(weft.random.key(0), 3, 2, 1, False)
    >>> zeros = wnp.zeros((1, 4, 2))
    >>> y, h, c = weft.rnn.lstm(
    ...     wnp.ones((4, 5, 3)), zeros, zeros, w, wnp.full(4, 5), 3, 2, 1, 0.0, False
    ... )
    >>> y.shape, h.shape
    ((4, 5, 2), (1, 4, 2))
    """
    parts = unpack_lstm_weights(weights, input_size, hidden_size, num_layers, bidirectional)
    sizes = (seq_lengths, input_size, hidden_size, num_layers, dropout, bidirectional)
    return _layers(x, h_0, c_0, parts, *sizes, precision)


def lstm_ref(
    x: object,
    h_0: object,
    c_0: object,
    W_ih: dict,
    W_hh: dict,
    b_ih: dict,
    b_hh: dict,
    seq_lengths: object,
    input_size: int,
    hidden_size: int,
    num_layers: int,
    dropout: float,
    bidirectional: bool,
) -> tuple[Any, Any, Any]:
    """Compute `lstm` step by step, from weights as `unpack_lstm_weights` gives them."""
    sizes = (seq_lengths, input_size, hidden_size, num_layers, dropout, bidirectional)
    return _layers(x, h_0, c_0, (W_ih, W_hh, b_ih, b_hh), *sizes, None)


def _layers(
    x: Any,
    h_0: Any,
    c_0: Any,
    parts: tuple,
    seq_lengths: Any,
    input_size: int,
    hidden_size: int,
    num_layers: int,
    dropout: float,
    bidirectional: bool,
    precision: object,
) -> tuple[Any, Any, Any]:
    x, h_0, c_0, seq_lengths = map(wnp.asarray, (x, h_0, c_0, seq_lengths))
    directions = 2 if bidirectional else 1
    state = (num_layers * directions, x.shape[0] if x.ndim == 3 else -1, hidden_size)
    if x.ndim != 3 or x.shape[2] != input_size or h_0.shape != state or c_0.shape != state:
        raise ArgumentError(
            f"lstm: x must be [batch, time, {input_size}], h_0 and c_0 {state}, got {x.shape}, "
            f"{h_0.shape} and {c_0.shape}"
        )
    if dropout:
        raise NotImplementedError("lstm: dropout must be 0; drop elements of its outputs instead")
    steps = x.shape[1]
    valid = wnp.arange(steps)[:, None] < seq_lengths[None]  # [time, batch]
    at = wnp.arange(steps)[:, None]
    turned = wnp.where(valid, seq_lengths[None] - 1 - at, at)  # each sequence backwards
    sequence = x.transpose(1, 0, 2)
    backwards = lambda s: wnp.take_along_axis(s, turned[..., None], 0)
    ends = []
    for layer in range(num_layers):
        outputs = []
        for direction in range(directions):
            i = layer * directions + direction
            inputs = backwards(sequence) if direction else sequence
            weights = tuple(part[i] for part in parts)
            y, end = _run(inputs, h_0[i], c_0[i], weights, valid, precision)
            outputs.append(backwards(y) if direction else y)
            ends.append(end)
        sequence = wnp.concatenate(outputs, -1)
    h_n, c_n = (wnp.stack(list(e)) for e in zip(*ends, strict=True))
    return sequence.transpose(1, 0, 2), h_n, c_n


def _run(x: Any, h: object, c: object, weights: tuple, valid: object, precision: object) -> tuple:
    W_ih, W_hh, b_ih, b_hh = weights
    inputs = wnp.matmul(x, W_ih.T, precision=precision) + b_ih + b_hh

    def step(carry: tuple, now: tuple) -> tuple:
        h, c = carry
        inputs, in_length = now
        gates = inputs + wnp.matmul(h, W_hh.T, precision=precision)
        i, f, g, o = wnp.split(gates, 4, -1)
        new_c = nn.sigmoid(f) * c + nn.sigmoid(i) * wnp.tanh(g)
        new_h = nn.sigmoid(o) * wnp.tanh(new_c)
        keep = lambda new, old: wnp.where(in_length[:, None], new, old)
        return (keep(new_h, h), keep(new_c, c)), keep(new_h, 0 * new_h)

    result: Any = lax.scan(step, (h, c), (inputs, valid))
    return result[1], result[0]


seal(globals())
