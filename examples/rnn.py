"""A gated recurrent network that predicts characters: a scan over time, data parallel.

    python -m examples.rnn

The cell is the GRU of Cho et al., "Learning phrase representations using RNN encoder-decoder"
(2014). Its gradient runs back through the scan. Parameters are cast to varying before the scan, so
that devices add up their gradients after it: the report shows one all_reduce a training step, where
a cast left to the ops inside would give one for each character.
"""

from __future__ import annotations

from typing import Any

import weft
import weft.numpy as wnp
from examples.fit import fit, parse
from examples.text import Text
from weft import P

WIDTH, LENGTH = 96, 64


def init(key: Any, vocabulary: int, width: int = WIDTH) -> dict[str, Any]:
    keys = weft.random.split(key, 4)
    normal, orthogonal = weft.nn.initializers.lecun_normal(), weft.nn.initializers.orthogonal()
    return {
        "tokens": weft.random.normal(keys[0], (vocabulary, width)) * width**-0.5,
        "input": normal(keys[1], (width, 3 * width)),
        "gates": wnp.hstack([orthogonal(k, (width, width)) for k in weft.random.split(keys[2])]),
        "state": orthogonal(keys[3], (width, width)),
        "bias": wnp.zeros(3 * width),
    }


def cell(params: dict[str, Any], state: Any, x: Any) -> Any:
    """The next state `[batch, width]` after the inputs `[batch, 3 width]` of one time step."""
    width = state.shape[-1]
    from_state = state @ params["gates"]
    reset = weft.nn.sigmoid(x[:, :width] + from_state[:, :width])
    keep = weft.nn.sigmoid(x[:, width : 2 * width] + from_state[:, width:])
    new = wnp.tanh(x[:, 2 * width :] + (reset * state) @ params["state"])
    return keep * state + (1 - keep) * new


def logits(params: dict[str, Any], ids: Any) -> Any:
    """Scores of the next character at every position, `[batch, time, vocabulary]`."""
    inputs = params["tokens"][ids.T] @ params["input"] + params["bias"]

    def step(state: Any, x: Any) -> tuple[Any, Any]:
        state = cell(params, state, x)
        return state, state

    # Zeros that vary over devices as the inputs do.
    start = 0 * inputs[0, :, : params["tokens"].shape[1]]
    _, states = weft.lax.scan(step, start, inputs)
    return wnp.swapaxes(states @ params["tokens"].T, 0, 1)


def loss(params: dict[str, Any], crops: Any) -> Any:
    """The mean cross entropy of each next character, in nats."""
    scores = weft.nn.log_softmax(logits(params, crops[:, :-1]))
    targets = weft.nn.one_hot(crops[:, 1:], scores.shape[-1])
    return -wnp.mean(wnp.sum(scores * targets, axis=-1))


def split_loss(mesh: Any) -> Any:
    """`loss` with each device computing on its own crops."""

    def device_loss(params: dict[str, Any], crops: Any) -> Any:
        params = weft.lax.pcast(params, "data", to="varying")
        return weft.lax.pmean(loss(params, crops), "data")

    return weft.shard_map(device_loss, mesh=mesh, in_specs=(P(), P("data")), out_specs=P())


def train(steps: int, show: Any = print, size: int = 32) -> tuple[dict[str, Any], list[float]]:
    mesh = weft.make_mesh((8,), ("data",), axis_types=(weft.sharding.AxisType.Auto,))
    params = init(weft.random.key(0), len(Text().alphabet))
    rows = weft.NamedSharding(mesh, P("data"))
    return fit(split_loss(mesh), params, rows, steps=steps, size=size, length=LENGTH, show=show)


if __name__ == "__main__":
    weft.config.update("num_cpu_devices", 8)
    train(parse(__doc__, steps=200).steps)
