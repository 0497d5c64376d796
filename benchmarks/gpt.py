"""The GPT that the benchmarks trace, compile and train, in plain `xx.numpy` style.

Pre-norm blocks as in GPT-2 (Radford et al. 2019), with adam (Kingma & Ba 2014), both as a Python
loop over layers and as a scan over stacked ones.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class Sizes:
    layers: int = 24
    width: int = 64
    heads: int = 4
    length: int = 32
    batch: int = 8
    vocabulary: int = 128


def parameters(sizes: Sizes, stacked: bool) -> dict[str, Any]:
    """NumPy parameters; a block's are a list of dicts, or one dict of stacked arrays for scan."""
    rng = np.random.default_rng(0)
    d, hidden = sizes.width, 4 * sizes.width

    def normal(*shape: int) -> np.ndarray:
        return (0.02 * rng.standard_normal(shape)).astype(np.float32)

    def block() -> dict[str, np.ndarray]:
        zeros = lambda n: np.zeros(n, np.float32)
        ones = lambda n: np.ones(n, np.float32)
        return {
            "norm1": {"scale": ones(d), "shift": zeros(d)},
            "query": normal(d, d),
            "key": normal(d, d),
            "value": normal(d, d),
            "out": normal(d, d),
            "norm2": {"scale": ones(d), "shift": zeros(d)},
            "up": {"weight": normal(d, hidden), "bias": zeros(hidden)},
            "down": {"weight": normal(hidden, d), "bias": zeros(d)},
        }

    blocks: Any = [block() for _ in range(sizes.layers)]
    if stacked:
        blocks = stack(blocks)
    return {
        "tokens": normal(sizes.vocabulary, d),
        "positions": normal(sizes.length, d),
        "blocks": blocks,
        "norm": {"scale": np.ones(d, np.float32), "shift": np.zeros(d, np.float32)},
    }


def stack(trees: list[Any]) -> Any:
    """The same tree of dicts with each leaf stacked along a new first axis."""
    first = trees[0]
    if isinstance(first, dict):
        return {name: stack([tree[name] for tree in trees]) for name in first}
    return np.stack(trees)


def batch(sizes: Sizes) -> tuple[np.ndarray, np.ndarray]:
    """Token ids and the ids that follow them, each int32[batch, length]."""
    rng = np.random.default_rng(1)
    ids = rng.integers(0, sizes.vocabulary, (sizes.batch, sizes.length + 1)).astype(np.int32)
    return ids[:, :-1], ids[:, 1:]


def make_model(xx: Any, sizes: Sizes, scan: bool):
    """`(forward, loss)`: `forward(params, ids)` gives logits, `loss(params, ids, targets)` their
    mean cross entropy."""
    jnp = xx.numpy
    head = sizes.width // sizes.heads

    def norm(p, x):
        mean = jnp.mean(x, axis=-1, keepdims=True)
        variance = jnp.var(x, axis=-1, keepdims=True)
        return (x - mean) / jnp.sqrt(variance + 1e-5) * p["scale"] + p["shift"]

    def attention(p, x):
        length = x.shape[-2]

        def split(weight):
            return (x @ weight).reshape(*x.shape[:-1], sizes.heads, head)

        query, key, value = split(p["query"]), split(p["key"]), split(p["value"])
        scores = jnp.einsum("...qhd,...khd->...hqk", query, key) / np.sqrt(head).astype(np.float32)
        causal = jnp.tril(jnp.ones((length, length), bool))
        weights = xx.nn.softmax(jnp.where(causal, scores, -1e9), axis=-1)
        mixed = jnp.einsum("...hqk,...khd->...qhd", weights, value)
        return mixed.reshape(x.shape) @ p["out"]

    def block(p, x):
        x = x + attention(p, norm(p["norm1"], x))
        hidden = xx.nn.gelu(norm(p["norm2"], x) @ p["up"]["weight"] + p["up"]["bias"])
        return x + hidden @ p["down"]["weight"] + p["down"]["bias"]

    def forward(params, ids):
        x = params["tokens"][ids] + params["positions"][: ids.shape[-1]]
        if scan:
            x, _ = xx.lax.scan(lambda x, p: (block(p, x), None), x, params["blocks"])
        else:
            for p in params["blocks"]:
                x = block(p, x)
        return norm(params["norm"], x) @ params["tokens"].T

    def loss(params, ids, targets):
        logits = xx.nn.log_softmax(forward(params, ids), axis=-1)
        picked = jnp.take_along_axis(logits, targets[..., None], axis=-1)
        return -jnp.mean(picked)

    return forward, loss


def make_step(xx: Any, loss, rate: float = 1e-3):
    """`(start, step)`: `start(params)` is adam's state, `step(state, ids, targets)` the next
    state and the loss."""
    jnp = xx.numpy
    tree_map = xx.tree.map

    def start(params):
        zeros = tree_map(lambda p: np.zeros(p.shape, p.dtype), params)
        return {"params": params, "first": zeros, "second": zeros, "count": np.float32(0)}

    def step(state, ids, targets):
        value, grads = xx.value_and_grad(loss)(state["params"], ids, targets)
        count = state["count"] + 1
        first = tree_map(lambda m, g: 0.9 * m + 0.1 * g, state["first"], grads)
        second = tree_map(lambda v, g: 0.999 * v + 0.001 * g * g, state["second"], grads)
        scale = rate * jnp.sqrt(1 - 0.999**count) / (1 - 0.9**count)
        params = tree_map(
            lambda p, m, v: p - scale * m / (jnp.sqrt(v) + 1e-8), state["params"], first, second
        )
        return {"params": params, "first": first, "second": second, "count": count}, value

    return start, step
