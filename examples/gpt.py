"""A GPT (Radford et al. 2019) as plain functions of a pytree of parameters.

One forward pass serves every layout. Seen globally, shardings of the parameters split heads and
hidden units over the mesh axis "model" (Shoeybi et al., "Megatron-LM", 2019). Seen from one device
inside shard_map, the same code works on local heads and hidden units, and `add_up` adds the
partial sums.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import weft
import weft.numpy as wnp
from weft import P


@dataclass(frozen=True)
class Sizes:
    layers: int = 4
    width: int = 96
    heads: int = 4
    length: int = 64
    vocabulary: int = 92
    scan: bool = True  # one block's program in a loop, rather than a copy for each layer

    @property
    def head(self) -> int:
        return self.width // self.heads


def init(key: Any, sizes: Sizes) -> dict[str, Any]:
    """Random parameters; those of the blocks are stacked along a first dimension."""
    d, h, k, layers = sizes.width, sizes.heads, sizes.head, sizes.layers
    keys = iter(weft.random.split(key, 8))

    def normal(*shape: int, fan: int) -> Any:
        return weft.random.normal(next(keys), shape) * fan**-0.5

    blocks = {
        "norm1": wnp.ones((layers, d)),
        "query": normal(layers, d, h, k, fan=d),
        "key": normal(layers, d, h, k, fan=d),
        "value": normal(layers, d, h, k, fan=d),
        "out": normal(layers, h, k, d, fan=2 * layers * d),
        "norm2": wnp.ones((layers, d)),
        "up": normal(layers, d, 4 * d, fan=d),
        "up_bias": wnp.zeros((layers, 4 * d)),
        "down": normal(layers, 4 * d, d, fan=8 * layers * d),
    }
    return {
        "tokens": normal(sizes.vocabulary, d, fan=d),
        "positions": normal(sizes.length, d, fan=10 * d),
        "blocks": blocks,
        "norm": wnp.ones((d,)),
    }


def specs() -> dict[str, Any]:
    """How each parameter is split: heads and hidden units over "model", the rest copied."""
    heads = P(None, None, "model")
    return {
        "tokens": P(),
        "positions": P(),
        "blocks": {
            "norm1": P(),
            "query": heads,
            "key": heads,
            "value": heads,
            "out": P(None, "model"),
            "norm2": P(),
            "up": P(None, None, "model"),
            "up_bias": P(None, "model"),
            "down": P(None, "model"),
        },
        "norm": P(),
    }


def norm(scale: Any, x: Any) -> Any:
    return weft.nn.standardize(x) * scale


def block(p: dict[str, Any], x: Any, add_up: Callable[..., Any]) -> Any:
    """One layer: attention and a perceptron, each added to its input `[batch, length, width]`."""
    y = norm(p["norm1"], x)
    q, k, v = (wnp.einsum("btd,dhk->bthk", y, p[name]) for name in ("query", "key", "value"))
    y = weft.nn.dot_product_attention(q, k, v, is_causal=True)
    x = x + add_up(wnp.einsum("bthk,hkd->btd", y, p["out"]))
    y = weft.nn.gelu(norm(p["norm2"], x) @ p["up"] + p["up_bias"])
    return x + add_up(y @ p["down"])


def logits(
    sizes: Sizes, params: dict[str, Any], ids: Any, add_up: Callable[..., Any] = lambda x: x
) -> Any:
    """Scores of the next character at every position, `[batch, length, vocabulary]`."""
    x = params["tokens"][ids] + params["positions"]
    if sizes.scan:
        x, _ = weft.lax.scan(lambda x, p: (block(p, x, add_up), None), x, params["blocks"])
    else:
        for i in range(sizes.layers):
            layer = weft.tree.map(lambda p: p[i], params["blocks"])  # noqa: B023
            x = block(layer, x, add_up)
    return norm(params["norm"], x) @ params["tokens"].T


def loss(
    sizes: Sizes, params: dict[str, Any], crops: Any, add_up: Callable[..., Any] = lambda x: x
) -> Any:
    """The mean cross entropy of each next character, in nats."""
    scores = weft.nn.log_softmax(logits(sizes, params, crops[:, :-1], add_up))
    targets = weft.nn.one_hot(crops[:, 1:], sizes.vocabulary)
    return -wnp.mean(wnp.sum(scores * targets, axis=-1))


def local_loss(sizes: Sizes, mesh: Any) -> Callable[..., Any]:
    """`loss` as a program of each device, with its collectives written out."""

    def device_loss(params: dict[str, Any], crops: Any) -> Any:
        mine = loss(sizes, params, crops, lambda x: weft.lax.psum(x, "model"))
        return weft.lax.pmean(mine, "data")

    return weft.shard_map(device_loss, mesh=mesh, in_specs=(specs(), P("data")), out_specs=P())


def generate(sizes: Sizes, params: dict[str, Any], prompt: Any, count: int, key: Any) -> Any:
    """`count` characters after a prompt of `length` ids, sampled one by one."""

    def step(window: Any, key: Any) -> tuple[Any, ...]:
        scores = logits(sizes, params, window[None])[0, -1]
        new = weft.random.categorical(key, scores / 0.7)
        return wnp.append(window[1:], new), new

    return weft.lax.scan(step, prompt, weft.random.split(key, count))[1]
