"""A small ResNet learns to read digits: haiku, with the running averages of BatchNorm as state."""

import haiku as hk
import jax
import jax.numpy as jnp
import optax

from examples.jax.digits import digits


def network(x, train):
    resnet = hk.nets.ResNet(
        blocks_per_group=(1, 1, 1, 1),
        num_classes=10,
        resnet_v2=True,
        bottleneck=False,
        channels_per_group=(8, 16, 16, 32),
        use_projection=(True, True, True, True),
        strides=(1, 1, 2, 2),
        initial_conv_config={"kernel_shape": 3, "stride": 1, "output_channels": 8},
    )
    return resnet(x, is_training=train)


def main(steps=20):
    """The losses before each step, and how many of 200 new pictures are read right."""
    x, y = digits(256)
    x = jnp.asarray(x).reshape(-1, 8, 8, 1)
    model = hk.without_apply_rng(hk.transform_with_state(network))
    params, state = model.init(jax.random.key(0), x[:1], True)
    optimizer = optax.adam(3e-3)
    moments = optimizer.init(params)

    @jax.jit
    def step(params, state, moments, x, y):
        def loss(params):
            logits, new = model.apply(params, state, x, True)
            return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean(), new

        (value, state_), gradient = jax.value_and_grad(loss, has_aux=True)(params)
        updates, moments = optimizer.update(gradient, moments)
        return optax.apply_updates(params, updates), state_, moments, value

    losses = []
    for i in range(steps):
        at = slice(i * 64 % 256, i * 64 % 256 + 64)
        params, state, moments, value = step(params, state, moments, x[at], y[at])
        losses.append(float(value))
    print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f}")
    return losses


if __name__ == "__main__":
    main()
