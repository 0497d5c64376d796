"""The loop of training that the smaller examples share, with what a step communicates."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import weft
from examples import adamw
from examples.text import Text, batch


def fit(
    loss: Callable[..., Any],
    params: Any,
    crops_sharding: Any,
    *,
    steps: int,
    size: int,
    length: int,
    rate: float = 1e-2,
    show: Callable[[str], Any] = print,
) -> tuple[Any, list[float]]:
    """Minimizes `loss(params, crops)`; returns the parameters and the loss of every step.

    Parameters are copied to all devices of crops_sharding, crops `int32[size, length + 1]` split
    as it says.
    """
    text = Text()
    everywhere = weft.NamedSharding(crops_sharding.mesh, weft.P())
    state = adamw.start(weft.device_put(params, everywhere))

    def step(state: adamw.State, crops: Any) -> tuple[Any, ...]:
        value, grads = weft.value_and_grad(loss)(state.params, crops)
        learning_rate = adamw.rate(state.step, rate, max(1, steps // 10), steps)
        return adamw.update(state, grads, learning_rate), value

    step = weft.jit(step, donate_argnums=0, out_shardings=(everywhere, None))
    losses: list[float] = []
    for i in range(steps):
        crops = weft.device_put(batch(text.train, size, length, (0, i)), crops_sharding)
        if i == 0:
            show(str(weft.comm(step, state, crops)))
        state, value = step(state, crops)
        losses.append(float(value))
        if (i + 1) % max(1, steps // 10) == 0:
            show(f"step {i + 1:4d}/{steps}  loss {losses[-1]:.4f}")
    held_out = batch(text.held_out, 4 * size, length, (1, 0))
    value = weft.jit(loss)(state.params, weft.device_put(held_out, crops_sharding))
    show(f"held-out loss {float(value):.4f} nats a character")
    return state.params, losses


def parse(doc: str | None, steps: int) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("--steps", type=int, default=steps)
    return parser.parse_args()
