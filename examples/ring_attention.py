"""Causal attention over a sequence that is split over devices: keys and values go round a ring.

    python -m examples.ring_attention

Each device keeps its queries and sees one block of keys and values after the other, joined by a
running softmax (Liu et al., "Ring Attention with Blockwise Transformers", 2023). No device ever
holds the whole sequence; the backward pass goes round the other way.
"""

from __future__ import annotations

import math
from typing import Any

import weft
import weft.numpy as wnp
from weft import P, lax

SEQUENCE = P(None, "ring")  # [batch, time, heads, width]


def attend(q: Any, k: Any, v: Any, hidden: Any, running: tuple[Any, ...]) -> tuple[Any, ...]:
    """One more block in a softmax that goes on: (maximum, sum of weights, weighted values)."""
    high, total, out = running
    scores = wnp.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(q.shape[-1])
    scores = wnp.where(hidden, -1e30, scores)
    new = wnp.maximum(high, scores.max(-1))
    weights = wnp.exp(scores - new[..., None])
    scale = wnp.exp(high - new)
    total = total * scale + weights.sum(-1)
    out = out * scale[..., None] + wnp.einsum("bhqk,bkhd->bhqd", weights, v)
    return new, total, out


def ring_attention(q: Any, k: Any, v: Any) -> Any:
    """The part of one device: `[batch, time / devices, heads, width]`, inside a shard_map."""
    devices, here = lax.axis_size("ring"), lax.axis_index("ring")
    time = wnp.arange(q.shape[1])
    onward = [(i, (i + 1) % devices) for i in range(devices)]

    def turn(carry: tuple[Any, ...], step: Any) -> tuple[Any, ...]:
        k, v, running = carry
        block = (here - step) % devices  # whose keys have come here
        hidden = (block * len(time) + time) > (here * len(time) + time)[:, None]
        running = attend(q, k, v, hidden, running)
        k, v = lax.ppermute((k, v), "ring", onward)
        return (k, v, running), None

    empty = wnp.zeros_like(wnp.moveaxis(q, 1, 2))  # varies over devices, as all of the carry does
    start = empty[..., 0] - 1e30, empty[..., 0], empty
    (_, _, (_, total, out)), _ = lax.scan(turn, (k, v, start), wnp.arange(devices))
    return wnp.moveaxis(out / total[..., None], 1, 2)


def over(mesh: Any) -> Any:
    """The attention of whole arrays, split over the mesh axis `ring`."""
    inputs = (SEQUENCE,) * 3
    return weft.shard_map(ring_attention, mesh=mesh, in_specs=inputs, out_specs=SEQUENCE)


def main() -> None:
    weft.config.update("num_cpu_devices", 8)
    mesh = weft.make_mesh((8,), ("ring",), axis_types=(weft.AxisType.Auto,))
    keys = weft.random.split(weft.random.key(0), 3)
    split = weft.NamedSharding(mesh, SEQUENCE)
    q, k, v = (weft.device_put(weft.random.normal(key, (2, 512, 4, 16)), split) for key in keys)
    attention = over(mesh)

    def loss(q: Any, k: Any, v: Any) -> Any:
        return (attention(q, k, v) ** 2).mean()

    step = weft.jit(weft.value_and_grad(loss, argnums=(0, 1, 2)))
    value, gradients = step(q, k, v)
    print(f"loss {float(value):.5f}, gradients split as {gradients[0].sharding.spec}")
    print(weft.comm(step, q, k, v))


if __name__ == "__main__":
    main()
