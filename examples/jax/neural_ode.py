"""A neural differential equation learns a spiral: equinox, diffrax and optax."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import optax


class Field(eqx.Module):
    """The right-hand side: a small network of the state."""

    network: eqx.nn.MLP

    def __init__(self, key):
        self.network = eqx.nn.MLP(2, 2, 16, 1, activation=jnp.tanh, key=key)

    def __call__(self, t, y, args):
        return self.network(y)


def solve(field, y0, ts):
    controller = diffrax.PIDController(rtol=1e-3, atol=1e-6)
    return diffrax.diffeqsolve(
        diffrax.ODETerm(field),
        diffrax.Tsit5(),
        ts[0],
        ts[-1],
        0.1,
        y0,
        saveat=diffrax.SaveAt(ts=ts),
        stepsize_controller=controller,
    ).ys


def main(steps=60):
    """The losses before each step."""
    ts = jnp.linspace(0.0, 3.0, 16)
    spiral = jnp.array([[-0.2, 1.5], [-1.5, -0.2]])
    starts = jax.random.normal(jax.random.key(0), (8, 2))
    wanted = jax.vmap(lambda y0: jax.vmap(lambda t: jax.scipy.linalg.expm(t * spiral) @ y0)(ts))
    targets = wanted(starts)
    field = Field(jax.random.key(1))
    optimizer = optax.adam(1e-2)
    state = optimizer.init(eqx.filter(field, eqx.is_inexact_array))

    @eqx.filter_jit
    def step(field, state):
        def loss(field):
            return jnp.mean((jax.vmap(lambda y0: solve(field, y0, ts))(starts) - targets) ** 2)

        value, gradient = eqx.filter_value_and_grad(loss)(field)
        updates, state = optimizer.update(gradient, state)
        return eqx.apply_updates(field, updates), state, value

    losses = []
    for _ in range(steps):
        field, state, value = step(field, state)
        losses.append(float(value))
    print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f}")
    return losses


if __name__ == "__main__":
    main()
