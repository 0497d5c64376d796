"""A layer of experts, some on each device: tokens go to those that the router picks, and back.

    python -m examples.experts

The two best experts of a token share it by the router's weights. An expert takes `capacity` tokens
from each device; what is over passes by (Lepikhin et al., "GShard", 2020). Tokens and results each
move in one all_to_all; a balancing loss keeps the experts equally busy.
"""

from __future__ import annotations

from typing import Any

import weft
import weft.numpy as wnp
from weft import P, lax

SPECS = {"router": P(), "up": P("expert"), "down": P("expert")}


def places(choice: Any, experts: int, capacity: int) -> Any:
    """A token's place with each of its experts: 0 and 1 in `[tokens, choices, experts, capacity]`.

    choice: int[tokens, choices]. First choices are served before second ones.
    """
    tokens, choices = choice.shape
    chosen = weft.nn.one_hot(choice.T.ravel(), experts)  # choice by choice
    before = wnp.cumsum(chosen, 0) - chosen
    position = (before * chosen).sum(-1).astype(int)
    place = weft.nn.one_hot(position, capacity)  # zero beyond the capacity
    return wnp.moveaxis(
        (chosen[:, :, None] * place[:, None]).reshape(choices, tokens, experts, capacity), 0, 1
    )


def layer(params: dict[str, Any], x: Any, capacity: int) -> tuple[Any, Any]:
    """(result, balancing loss) of one device's tokens `[tokens, width]`, inside a shard_map."""
    probability = weft.nn.softmax(x @ params["router"])
    experts = probability.shape[-1]
    gate, choice = lax.top_k(probability, 2)
    gate = gate / gate.sum(-1, keepdims=True)
    there = places(choice, experts, capacity)
    sent = wnp.einsum("tkec,td->ecd", there, x)
    taken = lax.all_to_all(sent, "expert", 0, 1, tiled=True)  # own experts, tokens of all devices
    hidden = weft.nn.gelu(wnp.einsum("ecd,edf->ecf", taken, params["up"]))
    computed = wnp.einsum("ecf,efd->ecd", hidden, params["down"])
    returned = lax.all_to_all(computed, "expert", 1, 0, tiled=True)
    result = wnp.einsum("tkec,tk,ecd->td", there, gate, returned)
    load = weft.nn.one_hot(choice, experts).sum(1).mean(0)
    load, share = lax.pmean((load, probability.mean(0)), "expert")
    return result, experts * (load * share).sum()


def over(mesh: Any, capacity: int) -> Any:
    """The layer of whole arrays: tokens and experts split over the mesh axis `expert`."""

    def part(params: dict[str, Any], x: Any) -> tuple[Any, ...]:
        return layer(params, x, capacity)

    outs = (P("expert"), P())
    return weft.shard_map(part, mesh=mesh, in_specs=(SPECS, P("expert")), out_specs=outs)


def init(key: Any, experts: int, width: int, hidden: int) -> dict[str, weft.Array]:
    keys = weft.random.split(key, 3)
    return {
        "router": weft.random.normal(keys[0], (width, experts)) * width**-0.5,
        "up": weft.random.normal(keys[1], (experts, width, hidden)) * width**-0.5,
        "down": weft.random.normal(keys[2], (experts, hidden, width)) * hidden**-0.5,
    }


def descend(p: weft.Array, gradient: weft.Array) -> weft.Array:
    return p - 2.0 * gradient


def main() -> None:
    weft.config.update("num_cpu_devices", 8)
    mesh = weft.make_mesh((8,), ("expert",), axis_types=(weft.AxisType.Auto,))
    shardings = {name: weft.NamedSharding(mesh, spec) for name, spec in SPECS.items()}
    key, data = weft.random.split(weft.random.key(0))
    params = weft.device_put(init(key, 16, 32, 64), shardings)
    x = weft.random.normal(data, (512, 32))
    x = weft.device_put(x, weft.NamedSharding(mesh, P("expert")))
    forward = over(mesh, capacity=12)

    @weft.jit
    def step(params: dict[str, weft.Array], x: Any) -> tuple[Any, ...]:
        def loss(params: dict[str, weft.Array]) -> Any:
            result, balance = forward(params, x)
            return ((result - wnp.sin(3 * x)) ** 2).mean() + 0.01 * balance

        value, grads = weft.value_and_grad(loss)(params)
        return value, weft.tree.map(descend, params, grads)

    print(weft.comm(step, params, x))
    for i in range(50):
        value, params = step(params, x)
        if i % 10 == 9:
            print(f"step {i + 1:2d}  loss {float(value):.4f}")


if __name__ == "__main__":
    main()
