"""The steps of `benchmarks.steps` in PyTorch, as its users would write them.

Parameters, data and updates are those of the other libraries: the first loss is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch.utils._pytree import tree_leaves, tree_map

from benchmarks.steps import STEPS

Loss = Callable[..., torch.Tensor]


def tensor(value: Any) -> Any:
    """An array as a tensor; indices as PyTorch wants them, kernels and images in its order."""
    array = np.asarray(value)
    if array.dtype == np.int32:
        array = array.astype(np.int64)
    result = torch.from_numpy(array.copy())
    return result.permute(3, 2, 0, 1).clone(memory_format=torch.channels_last) if (
        array.ndim == 4 and array.shape[0] == array.shape[1]
    ) else result  # fmt: skip


def images_of(batch: torch.Tensor) -> torch.Tensor:
    return batch.permute(0, 3, 1, 2)  # NHWC in memory, which PyTorch calls channels_last


def gpt(params: Any, ids: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    def norm(p: Any, x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, x.shape[-1:], p["scale"], p["shift"])

    x = params["tokens"][ids] + params["positions"][: ids.shape[-1]]
    for p in params["blocks"]:
        y = norm(p["norm1"], x)
        q, k, v = (
            (y @ p[n]).unflatten(-1, (4, -1)).transpose(1, 2) for n in ("query", "key", "value")
        )
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + mixed.transpose(1, 2).flatten(2) @ p["out"]
        hidden = norm(p["norm2"], x) @ p["up"]["weight"] + p["up"]["bias"]
        x = x + F.gelu(hidden, approximate="tanh") @ p["down"]["weight"] + p["down"]["bias"]
    logits = norm(params["norm"], x) @ params["tokens"].T
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def resnet18(params: Any, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    def conv(x: torch.Tensor, kernel: torch.Tensor, stride: int = 1) -> torch.Tensor:
        # "SAME" of the others: where a stride of 2 halves an even size, padding is at the end.
        size = kernel.shape[-1]
        if stride == 2 and size == 3:
            return F.conv2d(F.pad(x, (0, 1, 0, 1)), kernel, stride=2)
        return F.conv2d(x, kernel, stride=stride, padding=size // 2)

    def norm(x: torch.Tensor, block: Any, i: int) -> torch.Tensor:
        return F.batch_norm(x, None, None, block["norm"][i], block["bias"][i], training=True)

    x = F.relu(conv(images_of(images), params["stem"]))
    for block in params["blocks"]:
        stride = 2 if "short" in block else 1
        y = F.relu(norm(conv(x, block["a"], stride), block, 0))
        y = norm(conv(y, block["b"]), block, 1)
        x = F.relu(y + (conv(x, block["short"], 2) if stride > 1 else x))
    return F.cross_entropy(x.mean((2, 3)) @ params["head"], labels)


def unet(params: Any, images: torch.Tensor, masks: torch.Tensor) -> torch.Tensor:
    def double(x: torch.Tensor, pair: Any) -> torch.Tensor:
        for kernel in pair:
            x = F.gelu(F.conv2d(x, kernel, padding=1), approximate="tanh")
        return x

    x, kept = images_of(images), []
    for pair in params["down"]:
        x = double(F.max_pool2d(x, 2) if kept else x, pair)
        kept.append(x)
    for pair, skip in zip(params["up"], kept[-2::-1], strict=True):
        x = double(torch.cat([F.interpolate(x, scale_factor=2, mode="nearest"), skip], 1), pair)
    logits = F.conv2d(x, params["head"])[:, 0]
    return F.binary_cross_entropy_with_logits(logits, masks)


def lstm(params: Any, tokens: torch.Tensor) -> torch.Tensor:
    x = params["table"][tokens[:, :-1]]
    zero = x.new_zeros((2, len(x), 128))
    weights = []
    for layer in params["layers"]:
        w = layer["w"]
        weights += [w[:128].T.contiguous(), w[128:].T.contiguous(), layer["b"], torch.zeros(512)]
    x = torch._VF.lstm(x, (zero, zero), weights, True, 2, 0.0, True, False, True)[0]
    return F.cross_entropy((x @ params["head"]).flatten(0, 1), tokens[:, 1:].flatten())


def graph(
    params: Any,
    nodes: torch.Tensor,
    senders: torch.Tensor,
    receivers: torch.Tensor,
    labels: torch.Tensor,
) -> torch.Tensor:
    x = nodes
    for layer in params["layers"]:
        pairs = torch.cat([x.index_select(0, senders), x.index_select(0, receivers)], -1)
        messages = F.relu(pairs @ layer["edge"])
        sums = torch.zeros_like(x).index_add(0, receivers, messages)
        x = x + F.relu(torch.cat([x, sums], -1) @ layer["node"])
    return F.cross_entropy(x @ params["head"], labels)


def mixer(params: Any, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    x = F.conv2d(images_of(images), params["patch"], stride=8).flatten(2).transpose(1, 2)
    for layer in params["layers"]:
        a, b = layer["token"]
        y = F.layer_norm(x, (128,), layer["scale"][0])
        x = x + (F.gelu(y.transpose(1, 2) @ a, approximate="tanh") @ b).transpose(1, 2)
        planes = x.transpose(1, 2).unflatten(2, (8, 8))
        x = x + F.conv2d(planes, layer["depth"], padding=1, groups=128).flatten(2).transpose(1, 2)
        a, b = layer["channel"]
        y = F.layer_norm(x, (128,), layer["scale"][1])
        x = x + F.gelu(y @ a, approximate="tanh") @ b
    return F.cross_entropy(x.mean(1) @ params["head"], labels)


@torch.no_grad()
def neighbours(state: Any, points: torch.Tensor, queries: torch.Tensor, labels: torch.Tensor):
    squares = (queries**2).sum(1)[:, None] - 2 * queries @ points.T + (points**2).sum(1)
    distances, at = torch.topk(-squares, 10)
    weights = torch.softmax(distances, -1)
    votes = (F.one_hot(labels[at], 10) * weights[..., None]).sum(1)
    order = torch.argsort(-votes.amax(1))
    return torch.sort(votes, -1).values[order].sum()


@torch.no_grad()
def particle_filter(state: Any, observed: torch.Tensor) -> torch.Tensor:
    particles, total = torch.randn(20_000), torch.zeros(())
    for seen in observed:
        moved = 0.9 * particles + 0.3 * torch.randn(20_000)
        weights = torch.softmax(-(((seen - moved) / 0.5) ** 2) / 2, 0)
        steps = (torch.arange(20_000) + torch.rand(())) / 20_000
        at = torch.searchsorted(torch.cumsum(weights, 0), steps)
        particles = moved[at.clamp(max=19_999)]
        total += (weights * moved).sum()
    return total


LOSSES: dict[str, Loss] = dict(
    zip(STEPS, (gpt, resnet18, unet, lstm, graph, mixer, neighbours, particle_filter), strict=True)
)
"""Of training, the loss of the parameters and the data; the last two are the whole step."""


def prepared(name: str, compiled: bool) -> Callable[[], float]:
    """A call of the step, which gives its value."""
    namespace = SimpleNamespace(
        tree=SimpleNamespace(map=tree_map), numpy=None,
        random=SimpleNamespace(key=lambda seed: np.int32(seed)),
    )  # fmt: skip
    _, state, data = STEPS[name](namespace)
    data = tuple(map(tensor, data))
    loss = LOSSES[name]
    function = torch.compile(loss) if compiled else loss
    if loss in (neighbours, particle_filter):
        return lambda: function(state, *data).item()
    params = tree_map(tensor, state["params"] if loss is gpt else state[0])
    leaves = [leaf.requires_grad_() for leaf in tree_leaves(params)]
    optimizer: Any = (
        torch.optim.Adam(leaves, 1e-3, fused=True)
        if loss is gpt
        else torch.optim.SGD(leaves, 0.01, momentum=0.9, fused=True)
    )

    def step() -> float:
        value = function(params, *data)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        return value.item()

    return step
