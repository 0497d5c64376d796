"""The same GPT on eight devices: its batch is split four ways, and its layers in two.

Where there are fewer devices, JAX_NUM_CPU_DEVICES=8 makes virtual ones.
"""

import jax
import numpy as np
from flax import nnx
from jax.sharding import NamedSharding, PartitionSpec

from examples.jax.nnx_gpt import made, train


def placed(state, mesh):
    """Matrices split by columns or rows over `model`, the rest on all devices."""

    def place(path, x):
        names = [getattr(k, "key", getattr(k, "name", "")) for k in path]
        spec = PartitionSpec()
        if x.ndim == 2 and "up" in names:
            spec = PartitionSpec(None, "model")
        elif x.ndim == 2 and "down" in names:
            spec = PartitionSpec("model", None)
        return jax.device_put(x, NamedSharding(mesh, spec))

    return jax.tree_util.tree_map_with_path(place, state)


def main(steps=10):
    """The losses before each step."""
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:8]).reshape(4, 2), ("data", "model"))
    model, optimizer, ids = made()
    for part in (model, optimizer):
        nnx.update(part, placed(nnx.state(part), mesh))
    rows = NamedSharding(mesh, PartitionSpec("data"))
    losses = train(model, optimizer, ids, steps, lambda batch: jax.device_put(batch, rows))
    up = model.blocks[0].up.kernel[...].sharding.spec
    print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f}; blocks[0].up: {up}")
    return losses, [str(a) for a in up]


if __name__ == "__main__":
    main()
