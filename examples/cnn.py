"""A causal convolutional network that predicts characters, its time axis split over devices.

    python -m examples.cnn

Gated convolutions whose reach doubles from layer to layer (van den Oord et al., "WaveNet", 2016).
With time split over a mesh axis, a convolution needs the last characters of the device before:
the report shows them as a collective_permute of a few columns for each layer.
"""

from __future__ import annotations

from typing import Any

import weft
import weft.numpy as wnp
from examples.fit import fit, parse
from examples.text import Text
from weft import P

WIDTH, TAPS, DILATIONS, LENGTH = 48, 3, (1, 2, 4, 8), 64


def init(key: Any, vocabulary: int, width: int = WIDTH) -> dict[str, Any]:
    keys = weft.random.split(key, 1 + len(DILATIONS))
    kernel = weft.nn.initializers.lecun_normal()
    return {
        "tokens": weft.random.normal(keys[0], (vocabulary, width)) * width**-0.5,
        "layers": [kernel(k, (TAPS, width, 2 * width)) for k in keys[1:]],
        "norm": wnp.ones(width),
    }


def convolve(x: Any, kernel: Any, dilation: int) -> Any:
    """Output t sees inputs t, t - dilation, …: `[batch, time, channels]`."""
    return weft.lax.conv_general_dilated(
        x,
        kernel,
        window_strides=(1,),
        padding=[((kernel.shape[0] - 1) * dilation, 0)],
        rhs_dilation=(dilation,),
        dimension_numbers=("NTC", "TIO", "NTC"),
    )


def logits(params: dict[str, Any], ids: Any) -> Any:
    """Scores of the next character at every position, `[batch, time, vocabulary]`."""
    x = params["tokens"][ids]
    for kernel, dilation in zip(params["layers"], DILATIONS, strict=True):
        x = x + weft.nn.glu(convolve(x, kernel, dilation))
    return weft.nn.standardize(x) * params["norm"] @ params["tokens"].T


def loss(params: dict[str, Any], crops: Any, sharding: Any = None) -> Any:
    """The mean cross entropy of each next character; sharding: how `[batch, time]` is split."""
    ids, targets = crops[:, :-1], crops[:, 1:]
    if sharding is not None:
        ids, targets = (weft.lax.with_sharding_constraint(x, sharding) for x in (ids, targets))
    scores = weft.nn.log_softmax(logits(params, ids))
    return -wnp.mean(wnp.sum(scores * weft.nn.one_hot(targets, scores.shape[-1]), axis=-1))


def train(steps: int, show: Any = print, size: int = 32) -> tuple[dict[str, Any], list[float]]:
    auto = (weft.sharding.AxisType.Auto,) * 2
    mesh = weft.make_mesh((4, 2), ("data", "time"), axis_types=auto)
    split = weft.NamedSharding(mesh, P("data", "time"))
    params = init(weft.random.key(0), len(Text().alphabet))
    rows = weft.NamedSharding(mesh, P("data"))

    def run(params: dict[str, Any], crops: Any) -> Any:
        return loss(params, crops, split)

    return fit(run, params, rows, steps=steps, size=size, length=LENGTH, show=show)


if __name__ == "__main__":
    weft.config.update("num_cpu_devices", 8)
    train(parse(__doc__, steps=200).steps)
