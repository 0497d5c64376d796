"""One of the processes that `benchmarks.processes` starts: does a task, prints its figures."""

import importlib
import json
import statistics
import sys
import time
from typing import Any

import numpy as np


def first_step(xx: Any, begin: float) -> dict[str, float]:
    """Train for a step, data parallel.

    Returns seconds from the group's begin until it is complete and until the step is done, and the
    CPU time of this process until then.
    """
    count = xx.process_count()
    mesh = xx.make_mesh((count,), ("data",))
    split, whole = (xx.NamedSharding(mesh, spec) for spec in (xx.P("data"), xx.P()))
    start = {"start": time.time() - begin, "start_cpu": time.process_time()}

    def array(shape: tuple[int, ...], sharding: Any) -> Any:
        values = np.sin(np.arange(np.prod(shape), dtype=np.float32)).reshape(shape)
        return xx.make_array_from_callback(shape, sharding, lambda index: values[index])

    weights = [array((64, 64), whole) for _ in range(3)]
    x, y = array((32, 64), split), array((32, 64), split)

    def loss(weights: list, x: Any, y: Any) -> Any:
        for w in weights:
            x = xx.numpy.tanh(x @ w)
        return ((x - y) ** 2).mean()

    @xx.jit
    def step(weights: list, x: Any, y: Any) -> Any:
        value, slopes = xx.value_and_grad(loss)(weights, x, y)
        return value, xx.tree.map(lambda w, g: w - 0.1 * g, weights, slopes)

    float(step(weights, x, y)[0])
    return start | {"step": time.time() - begin, "step_cpu": time.process_time()}


def collective(xx: Any, name: str, megabytes: int) -> dict[str, float]:
    """Seconds of a call, the median."""
    count = xx.process_count()
    mesh = xx.make_mesh((count,), ("data",))
    shape = (count, megabytes * 2**18)
    x = xx.make_array_from_callback(
        shape, xx.NamedSharding(mesh, xx.P("data")), lambda _: np.ones((1, shape[1]), np.float32)
    )
    body = {
        "psum": lambda x: xx.lax.psum(x, "data"),
        "all_gather": lambda x: xx.lax.all_gather(x, "data", tiled=True),
    }[name]
    out = xx.P() if name == "psum" else xx.P("data")
    run = xx.jit(xx.shard_map(body, mesh=mesh, in_specs=xx.P("data"), out_specs=out))
    times = []
    for _ in range(60 if megabytes == 1 else 8):
        begin = time.perf_counter()
        run(x).block_until_ready()
        times.append(time.perf_counter() - begin)
    return {"seconds": statistics.median(times[len(times) // 4 :])}


def main() -> None:
    rank, library, address, count, begin, task, *args = sys.argv[1:]
    xx = importlib.import_module(library)
    xx.distributed.initialize(address, int(count), int(rank))
    xx.devices()
    if task == "step":
        found = first_step(xx, float(begin))
    else:
        found = collective(xx, args[0], int(args[1]))
    print(f"\n{json.dumps(found)}", flush=True)
    xx.distributed.shutdown()


if __name__ == "__main__":
    main()
