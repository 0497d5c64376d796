"""A convolutional network learns to read digits: flax linen and optax, with dropout."""

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn
from flax.training.train_state import TrainState

from examples.jax.digits import digits


class CNN(nn.Module):
    """Two convolutions with pooling, and two layers."""

    @nn.compact
    def __call__(self, x, train):
        for features in (16, 32):
            x = nn.relu(nn.Conv(features, (3, 3))(x))
            x = nn.avg_pool(x, (2, 2), strides=(2, 2))
        x = nn.relu(nn.Dense(64)(x.reshape(x.shape[0], -1)))
        return nn.Dense(10)(nn.Dropout(0.2, deterministic=not train)(x))


@jax.jit
def step(state, x, y, key):
    def loss(params):
        logits = state.apply_fn({"params": params}, x, train=True, rngs={"dropout": key})
        return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()

    value, gradient = jax.value_and_grad(loss)(state.params)
    return state.apply_gradients(grads=gradient), value


def main(steps=60):
    """The losses before each step, and how many of 200 new pictures are read right."""
    x, y = digits(512)
    x = jnp.asarray(x).reshape(-1, 8, 8, 1)
    model = CNN()
    params = model.init(jax.random.key(0), x[:1], train=False)["params"]
    state = TrainState.create(apply_fn=model.apply, params=params, tx=optax.sgd(0.1, 0.9))
    losses = []
    for i in range(steps):
        at = slice(i * 64 % 512, i * 64 % 512 + 64)
        state, value = step(state, x[at], y[at], jax.random.fold_in(jax.random.key(1), i))
        losses.append(float(value))
    new, labels = digits(200, seed=1)
    logits = model.apply({"params": state.params}, new.reshape(-1, 8, 8, 1), train=False)
    right = int((logits.argmax(1) == labels).sum())
    print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f}, {right} of 200 right")
    return losses, right


if __name__ == "__main__":
    main()
