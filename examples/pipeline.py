"""Layers split over devices in stages, fed with microbatches: pipeline parallelism.

    python -m examples.pipeline

In each tick every stage computes, then hands its result to the next one; a batch of m microbatches
takes m + stages - 1 ticks (Huang et al., "GPipe", 2019). The schedule is a scan with a ppermute;
its derivative is the schedule backwards.
"""

from __future__ import annotations

from typing import Any

import weft
import weft.numpy as wnp
from weft import P, lax

LAYERS, WIDTH, MICROBATCHES, ROWS = 8, 32, 6, 16


def layer(x: Any, weights: tuple[Any, ...]) -> tuple[Any, ...]:
    matrix, bias = weights
    return x + weft.nn.gelu(x @ matrix + bias), None


def stage(weights: tuple[Any, ...], x: Any) -> Any:
    """Layers one after the other; weights `[layers, …]`."""
    return lax.scan(layer, x, weights)[0]


def pipeline(weights: tuple[Any, ...], batches: Any) -> Any:
    """The part of one stage, inside a shard_map: `[microbatches, rows, width]` to the same."""
    # Cast here, the weights' gradient is summed over `data` once, and not in every tick.
    weights = lax.pcast(weights, "data", to="varying")
    stages, here = lax.axis_size("stage"), lax.axis_index("stage")
    count = len(batches)

    def tick(carry: tuple[Any, Any], t: Any) -> tuple[tuple[Any, Any], None]:
        x, results = carry
        x = wnp.where(here == 0, batches[wnp.minimum(t, count - 1)], x)
        y = stage(weights, x)
        done = t - (stages - 1)  # the microbatch that the last stage has finished
        results = wnp.where(done >= 0, results.at[wnp.maximum(done, 0)].set(y), results)
        return (lax.ppermute(y, "stage", [(i, i + 1) for i in range(stages - 1)]), results), None

    start = lax.pcast((wnp.zeros_like(batches[0]), wnp.zeros_like(batches)), "stage", to="varying")
    (_, results), _ = lax.scan(tick, start, wnp.arange(count + stages - 1))
    return lax.psum(wnp.where(here == stages - 1, results, 0), "stage")


def over(mesh: Any) -> Any:
    """The function of whole weights and batches: layers split over `stage`, rows over `data`."""
    rows = P(None, "data")
    return weft.shard_map(pipeline, mesh=mesh, in_specs=(P("stage"), rows), out_specs=rows)


def init(key: Any) -> tuple[Any, ...]:
    matrices = weft.random.normal(key, (LAYERS, WIDTH, WIDTH)) * 0.5 * WIDTH**-0.5
    return matrices, wnp.zeros((LAYERS, WIDTH))


def main() -> None:
    weft.config.update("num_cpu_devices", 8)
    auto = (weft.AxisType.Auto,) * 2
    mesh = weft.make_mesh((4, 2), ("stage", "data"), axis_types=auto)
    key, data, wanted = weft.random.split(weft.random.key(0), 3)
    weights = weft.device_put(init(key), weft.NamedSharding(mesh, P("stage")))
    split = weft.NamedSharding(mesh, P(None, "data"))
    shape = (MICROBATCHES, ROWS, WIDTH)
    x, y = (weft.device_put(weft.random.normal(k, shape), split) for k in (data, wanted))
    forward = over(mesh)

    @weft.jit
    def step(weights: tuple[Any, ...], x: Any, y: Any) -> tuple[Any, ...]:
        value, grads = weft.value_and_grad(lambda w: ((forward(w, x) - y) ** 2).mean())(weights)
        return value, weft.tree.map(lambda w, g: w - 0.2 * g, weights, grads)

    print(weft.comm(step, weights, x, y))
    for i in range(20):
        value, weights = step(weights, x, y)
        if i % 5 == 4:
            print(f"step {i + 1:2d}  loss {float(value):.4f}")


if __name__ == "__main__":
    main()
