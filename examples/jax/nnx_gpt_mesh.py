"""The same GPT on eight devices: its batch is split four ways, and its layers in two.

Where there are fewer devices, JAX_NUM_CPU_DEVICES=8 makes virtual ones.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax.sharding import NamedSharding, PartitionSpec

from examples.jax.nnx_gpt import GPT, LENGTH, TEXT


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
    alphabet = sorted(set(TEXT))
    ids = np.array([alphabet.index(c) for c in TEXT])
    model = GPT(len(alphabet), 32, 2, nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adamw(3e-3), wrt=nnx.Param)
    for part in (model, optimizer):
        nnx.update(part, placed(nnx.state(part), mesh))

    @nnx.jit
    def step(model, optimizer, batch):
        def loss(model):
            logits = model(batch[:, :-1])
            return optax.softmax_cross_entropy_with_integer_labels(logits, batch[:, 1:]).mean()

        value, gradient = nnx.value_and_grad(loss)(model)
        optimizer.update(model, gradient)
        return value

    rng = np.random.default_rng(0)
    rows = NamedSharding(mesh, PartitionSpec("data"))
    losses = []
    for _ in range(steps):
        starts = rng.integers(0, len(ids) - LENGTH - 1, 8)
        batch = np.stack([ids[s : s + LENGTH + 1] for s in starts])
        losses.append(float(step(model, optimizer, jax.device_put(jnp.asarray(batch), rows))))
    up = model.blocks[0].up.kernel[...].sharding.spec
    print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f}; blocks[0].up: {up}")
    return losses, [str(a) for a in up]


if __name__ == "__main__":
    main()
