"""A network of two layers learns to read digits: JAX alone."""

import jax
import jax.numpy as jnp

from examples.jax.digits import digits


def init(key, sizes=(64, 32, 10)):
    keys = jax.random.split(key, len(sizes) - 1)
    shapes = zip(keys, sizes[:-1], sizes[1:], strict=True)
    return [(jax.random.normal(k, (m, n)) / jnp.sqrt(m), jnp.zeros(n)) for k, m, n in shapes]


def logits(params, x):
    for w, b in params[:-1]:
        x = jax.nn.relu(x @ w + b)
    w, b = params[-1]
    return x @ w + b


def loss(params, x, y):
    return -jnp.take_along_axis(jax.nn.log_softmax(logits(params, x)), y[:, None], 1).mean()


@jax.jit
def step(params, x, y):
    value, gradient = jax.value_and_grad(loss)(params, x, y)
    return jax.tree.map(lambda p, g: p - 0.5 * g, params, gradient), value


def main(steps=100):
    """The losses before each step, and how many of 200 new pictures are read right."""
    x, y = digits(512)
    params = init(jax.random.key(0))
    losses = []
    for _ in range(steps):
        params, value = step(params, x, y)
        losses.append(float(value))
    new, labels = digits(200, seed=1)
    right = int((logits(params, new).argmax(1) == labels).sum())
    print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f}, {right} of 200 right")
    return losses, right


if __name__ == "__main__":
    main()
