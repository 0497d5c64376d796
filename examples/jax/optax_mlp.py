"""The same network, trained by optax: AdamW with a schedule and clipped gradients."""

import jax
import optax

from examples.jax.digits import digits
from examples.jax.mlp import init, logits


def loss(params, x, y):
    return optax.softmax_cross_entropy_with_integer_labels(logits(params, x), y).mean()


def main(steps=100):
    """The losses before each step."""
    x, y = digits(512)
    params = init(jax.random.key(0))
    schedule = optax.warmup_cosine_decay_schedule(0.0, 0.02, 10, steps)
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(schedule))
    state = optimizer.init(params)

    @jax.jit
    def step(params, state):
        value, gradient = jax.value_and_grad(loss)(params, x, y)
        updates, state = optimizer.update(gradient, state, params)
        return optax.apply_updates(params, updates), state, value

    losses = []
    for _ in range(steps):
        params, state, value = step(params, state)
        losses.append(float(value))
    print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f}")
    return losses


if __name__ == "__main__":
    main()
