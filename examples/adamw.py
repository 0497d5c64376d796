"""AdamW (Loshchilov & Hutter 2019) with warm-up and cosine decay, over any pytree of arrays."""

from typing import Any, NamedTuple

import weft
import weft.numpy as wnp


class State(NamedTuple):
    """What training carries from step to step."""

    params: Any
    mean: Any  # running mean of gradients
    square: Any  # running mean of their squares
    step: Any


def start(params: object) -> State:
    zeros = weft.tree.map(wnp.zeros_like, params)
    return State(params, zeros, weft.tree.map(wnp.copy, zeros), wnp.zeros((), "int32"))


def rate(step: Any, peak: float, warmup: int, steps: int) -> Any:
    """The learning rate of a step: linear up to the peak, then half a cosine down to a tenth."""
    rising = (step + 1) / warmup
    done = wnp.clip((step - warmup) / max(1, steps - warmup), 0.0, 1.0)
    falling = 0.55 + 0.45 * wnp.cos(wnp.pi * done)
    return peak * wnp.minimum(rising, falling)


def update(
    state: State,
    grads: object,
    learning_rate: Any,
    *,
    beta1: float = 0.9,
    beta2: float = 0.98,
    decay: float = 0.05,
    clip: float = 1.0,
) -> State:
    """The next state. Gradients are scaled down to norm `clip`; vectors do not decay."""
    squares = weft.tree.map(lambda g: wnp.sum(g * g), grads)
    norm = wnp.sqrt(weft.tree.reduce(lambda a, b: a + b, squares))
    scale = wnp.minimum(1.0, clip / (norm + 1e-6))
    step = state.step + 1
    unbias1 = 1 - beta1 ** step.astype("float32")
    unbias2 = 1 - beta2 ** step.astype("float32")

    def one(p: Any, m: Any, s: Any, g: Any) -> tuple[Any, ...]:
        g = g * scale
        m = beta1 * m + (1 - beta1) * g
        s = beta2 * s + (1 - beta2) * g * g
        change = (m / unbias1) / (wnp.sqrt(s / unbias2) + 1e-8)
        if p.ndim > 1:
            change = change + decay * p
        return p - learning_rate * change, m, s

    before: object = state.params
    moved = weft.tree.map(one, before, state.mean, state.square, grads)
    outer = weft.tree.structure(state.params)
    params, mean, square = weft.tree.transpose(outer, weft.tree.structure((0, 0, 0)), moved)
    return State(params, mean, square, step)
