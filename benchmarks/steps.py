"""Whole steps of eight programs, training or inference, on one device.

`python -m benchmarks.whole_steps` compares them with PyTorch too, and the memory they take.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from benchmarks import gpt
from benchmarks.case import case

Step = tuple[Callable, Any, tuple]
"""A function (state, *data) -> (state, value), the first state, and the data."""


class Weights:
    """Random arrays whose scale keeps signals at theirs."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)

    def __call__(self, *shape: int, fan: int | None = None) -> np.ndarray:
        scale = (fan or shape[-2] if len(shape) > 1 else 1) ** -0.5
        return (self.rng.standard_normal(shape) * scale).astype(np.float32)

    def conv(self, size: int, inputs: int, outputs: int, groups: int = 1) -> np.ndarray:
        return self(size, size, inputs // groups, outputs, fan=size * size * inputs // groups)


def trained(xx: ModuleType, loss: Callable, rate: float = 0.01) -> Callable:
    """A step of gradient descent with momentum."""

    def step(state: tuple, *data: Any) -> tuple:
        params, momentum = state
        value, gradient = xx.value_and_grad(loss)(params, *data)
        momentum = xx.tree.map(lambda m, g: 0.9 * m + g, momentum, gradient)
        return (xx.tree.map(lambda p, m: p - rate * m, params, momentum), momentum), value

    return step


def state_of(xx: ModuleType, params: Any) -> tuple:
    return params, xx.tree.map(np.zeros_like, params)


def conv(xx: ModuleType, x: Any, kernel: Any, stride: int = 1, groups: int = 1) -> Any:
    return xx.lax.conv_general_dilated(
        x, kernel, (stride, stride), "SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=groups,
    )  # fmt: skip


def normalized(xx: ModuleType, x: Any, scale: Any, bias: Any, axes: tuple[int, ...]) -> Any:
    mean = x.mean(axes, keepdims=True)
    variance = ((x - mean) ** 2).mean(axes, keepdims=True)
    return (x - mean) * xx.lax.rsqrt(variance + 1e-5) * scale + bias


def cross_entropy(xx: ModuleType, logits: Any, labels: Any) -> Any:
    chosen = xx.numpy.take_along_axis(xx.nn.log_softmax(logits), labels[..., None], -1)
    return -chosen.mean()


def gpt_training(xx: ModuleType) -> Step:
    sizes = gpt.Sizes(layers=4, width=128, heads=4, length=64, batch=8, vocabulary=256)
    start, step = gpt.make_step(xx, gpt.make_model(xx, sizes, scan=False)[1])
    return step, start(gpt.parameters(sizes, stacked=False)), gpt.batch(sizes)


def resnet18_training(xx: ModuleType) -> Step:
    """He et al. 2016, on images of 64×64, with batch normalization."""
    w = Weights()
    blocks = []
    inputs = 64
    for width, stride in (
        (64, 1),
        (64, 1),
        (128, 2),
        (128, 1),
        (256, 2),
        (256, 1),
        (512, 2),
        (512, 1),
    ):
        block = {"a": w.conv(3, inputs, width), "b": w.conv(3, width, width)}
        block |= {"norm": np.ones((2, width), np.float32), "bias": np.zeros((2, width), np.float32)}
        if stride > 1:
            block["short"] = w.conv(1, inputs, width)
        blocks.append(block)
        inputs = width
    params = {"stem": w.conv(3, 3, 64), "blocks": blocks, "head": w(512, 10)}

    def loss(params: Any, images: Any, labels: Any) -> Any:
        x = xx.nn.relu(conv(xx, images, params["stem"]))
        for block in params["blocks"]:
            stride = 2 if "short" in block else 1
            y = conv(xx, x, block["a"], stride)
            y = xx.nn.relu(normalized(xx, y, block["norm"][0], block["bias"][0], (0, 1, 2)))
            y = conv(xx, y, block["b"])
            y = normalized(xx, y, block["norm"][1], block["bias"][1], (0, 1, 2))
            x = xx.nn.relu(y + (conv(xx, x, block["short"], 2) if stride > 1 else x))
        return cross_entropy(xx, x.mean((1, 2)) @ params["head"], labels)

    images = w.rng.standard_normal((4, 64, 64, 3)).astype(np.float32)
    return trained(xx, loss), state_of(xx, params), (images, np.arange(4, dtype=np.int32))


def unet_training(xx: ModuleType) -> Step:
    """Ronneberger et al. 2015, three levels on images of 64×64."""
    w = Weights()
    widths = (16, 32, 64)
    down = [[w.conv(3, i, o), w.conv(3, o, o)] for i, o in zip((3, *widths), widths, strict=False)]
    up = [[w.conv(3, i + o, o), w.conv(3, o, o)] for i, o in ((64, 32), (32, 16))]
    params = {"down": down, "up": up, "head": w.conv(1, 16, 1)}

    def double(x: Any, pair: Any) -> Any:
        for kernel in pair:
            x = xx.nn.gelu(conv(xx, x, kernel))
        return x

    def loss(params: Any, images: Any, masks: Any) -> Any:
        x, kept = images, []
        for pair in params["down"]:
            if kept:
                x = xx.lax.reduce_window(
                    x, -np.inf, xx.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"
                )
            x = double(x, pair)
            kept.append(x)
        for pair, skip in zip(params["up"], kept[-2::-1], strict=True):
            x = xx.numpy.repeat(xx.numpy.repeat(x, 2, 1), 2, 2)
            x = double(xx.numpy.concatenate([x, skip], -1), pair)
        logits = conv(xx, x, params["head"])[..., 0]
        return (xx.nn.softplus(logits) - logits * masks).mean()

    images = w.rng.standard_normal((4, 64, 64, 3)).astype(np.float32)
    return (
        trained(xx, loss),
        state_of(xx, params),
        (images, (images[..., 0] > 0).astype(np.float32)),
    )


def lstm_training(xx: ModuleType) -> Step:
    """Hochreiter and Schmidhuber 1997, two layers of 128 over 64 steps."""
    w = Weights()
    layers = [{"w": w(256, 512), "b": np.zeros(512, np.float32)} for _ in range(2)]
    params = {"table": w(256, 128), "layers": layers, "head": w(128, 256)}

    def loss(params: Any, tokens: Any) -> Any:
        x = params["table"][tokens[:, :-1]].swapaxes(0, 1)
        for layer in params["layers"]:

            def cell(carry: tuple, x: Any, layer: Any = layer) -> tuple:
                h, c = carry
                gates = xx.numpy.concatenate([x, h], -1) @ layer["w"] + layer["b"]
                i, f, g, o = xx.numpy.split(gates, 4, -1)
                c = xx.nn.sigmoid(f) * c + xx.nn.sigmoid(i) * xx.numpy.tanh(g)
                h = xx.nn.sigmoid(o) * xx.numpy.tanh(c)
                return (h, c), h

            zero = xx.numpy.zeros((tokens.shape[0], 128))
            _, x = xx.lax.scan(cell, (zero, zero), x)
        return cross_entropy(xx, x.swapaxes(0, 1) @ params["head"], tokens[:, 1:])

    tokens = w.rng.integers(0, 256, (32, 65)).astype(np.int32)
    return trained(xx, loss), state_of(xx, params), (tokens,)


def graph_training(xx: ModuleType) -> Step:
    """Message passing of Battaglia et al. 2018 on 2,000 nodes and 16,000 edges."""
    w = Weights()
    layers = [{"edge": w(128, 64), "node": w(128, 64)} for _ in range(3)]
    params = {"layers": layers, "head": w(64, 8)}

    def loss(params: Any, nodes: Any, senders: Any, receivers: Any, labels: Any) -> Any:
        x = nodes
        for layer in params["layers"]:
            pairs = xx.numpy.concatenate([x[senders], x[receivers]], -1)
            messages = xx.nn.relu(pairs @ layer["edge"])
            sums = xx.ops.segment_sum(messages, receivers, nodes.shape[0])
            x = x + xx.nn.relu(xx.numpy.concatenate([x, sums], -1) @ layer["node"])
        return cross_entropy(xx, x @ params["head"], labels)

    nodes = w.rng.standard_normal((2000, 64)).astype(np.float32)
    senders, receivers = w.rng.integers(0, 2000, (2, 16000)).astype(np.int32)
    labels = w.rng.integers(0, 8, 2000).astype(np.int32)
    return trained(xx, loss), state_of(xx, params), (nodes, senders, receivers, labels)


def mixer_training(xx: ModuleType) -> Step:
    """MLP-Mixer (Tolstikhin et al. 2021) whose tokens also mix by depthwise convolutions."""
    w = Weights()
    layers = [
        {"token": [w(64, 128), w(128, 64)], "channel": [w(128, 256), w(256, 128)],
         "depth": w.conv(3, 128, 128, 128), "scale": np.ones((2, 128), np.float32)}
        for _ in range(4)
    ]  # fmt: skip
    params = {"patch": w.conv(8, 3, 128), "layers": layers, "head": w(128, 10)}

    def loss(params: Any, images: Any, labels: Any) -> Any:
        x = xx.lax.conv_general_dilated(
            images, params["patch"], (8, 8), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        x = x.reshape(x.shape[0], 64, 128)
        for layer in params["layers"]:
            y = normalized(xx, x, layer["scale"][0], 0.0, (-1,))
            a, b = layer["token"]
            x = x + (xx.nn.gelu(y.swapaxes(1, 2) @ a) @ b).swapaxes(1, 2)
            x = x + conv(xx, x.reshape(-1, 8, 8, 128), layer["depth"], groups=128).reshape(x.shape)
            y = normalized(xx, x, layer["scale"][1], 0.0, (-1,))
            a, b = layer["channel"]
            x = x + xx.nn.gelu(y @ a) @ b
        return cross_entropy(xx, x.mean(1) @ params["head"], labels)

    images = w.rng.standard_normal((16, 64, 64, 3)).astype(np.float32)
    return trained(xx, loss), state_of(xx, params), (images, np.arange(16, dtype=np.int32) % 10)


def neighbours(xx: ModuleType) -> Step:
    """Classes of 1,000 points by their 10 nearest of 5,000, ranked by how sure they are."""
    w = Weights()
    points, queries = (w.rng.standard_normal((n, 32)).astype(np.float32) for n in (5000, 1000))
    labels = w.rng.integers(0, 10, 5000).astype(np.int32)

    def step(state: Any, points: Any, queries: Any, labels: Any) -> tuple:
        jnp = xx.numpy
        squares = (queries**2).sum(1)[:, None] - 2 * queries @ points.T + (points**2).sum(1)
        distances, at = xx.lax.top_k(-squares, 10)
        weights = xx.nn.softmax(distances)
        votes = (xx.nn.one_hot(labels[at], 10) * weights[..., None]).sum(1)
        order = jnp.argsort(-votes.max(1))
        return state + 1, jnp.sort(votes, -1)[order].sum()

    return step, np.int32(0), (points, queries, labels)


def particle_filter(xx: ModuleType) -> Step:
    """A bootstrap filter (Gordon et al. 1993) of 20,000 particles over 20 observations."""
    observed = np.sin(np.arange(20, dtype=np.float32))

    def step(key: Any, observed: Any) -> tuple:
        jnp = xx.numpy
        key, first = xx.random.split(key)

        def advance(particles: Any, inputs: tuple) -> tuple:
            seen, key = inputs
            a, b = xx.random.split(key)
            moved = 0.9 * particles + 0.3 * xx.random.normal(a, particles.shape)
            weights = xx.nn.softmax(-(((seen - moved) / 0.5) ** 2) / 2)
            steps = (jnp.arange(20_000) + xx.random.uniform(b)) / 20_000
            at = jnp.searchsorted(jnp.cumsum(weights), steps)
            return moved[jnp.minimum(at, 19_999)], (weights * moved).sum()

        start = xx.random.normal(first, (20_000,))
        _, means = xx.lax.scan(advance, start, (observed, xx.random.split(first, 20)))
        return key, means.sum()

    return step, xx.random.key(0), (observed,)


STEPS: dict[str, Callable[[ModuleType], Step]] = {
    "GPT-4, training": gpt_training,
    "ResNet-18 on 64×64, training": resnet18_training,
    "U-Net on 64×64, training": unet_training,
    "LSTM, training": lstm_training,
    "graph network, training": graph_training,
    "MLP-Mixer with depthwise convolutions, training": mixer_training,
    "nearest neighbours and sort": neighbours,
    "particle filter": particle_filter,
}


def declare(name: str, make: Callable[[ModuleType], Step]) -> None:
    @case(name, budget=1.0, clock="wall")
    def run(xx: ModuleType) -> Callable:
        step, state, data = make(xx)
        step, data = xx.jit(step), xx.device_put(data, xx.devices()[0])

        def once() -> Any:
            nonlocal state
            state, value = step(state, *data)
            return value.block_until_ready()

        return once


for _name, _make in STEPS.items():
    declare(_name, _make)
