"""solvers of differential equations, adjoints, what is saved, noise, events."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import optimistix

from benchmarks.library_programs import case, raises

VECTOR = jnp.array([1.0, 2, 3])


ADAPTIVE = diffrax.PIDController(rtol=1e-5, atol=1e-6)


def decay(solver=None, rate=1.0, **options):
    term = diffrax.ODETerm(lambda t, y, rate: -rate * y)
    y0 = jnp.array([1.0, 2.0])
    return diffrax.diffeqsolve(term, solver or diffrax.Tsit5(), 0, 1, 0.1, y0, args=rate, **options)


EXPLICIT = "Euler Heun Midpoint Ralston Bosh3 Tsit5 Dopri5 Dopri8 LeapfrogMidpoint ReversibleHeun"
for kind in EXPLICIT.split():
    case(f"{kind}")(lambda kind=kind: decay(getattr(diffrax, kind)()).ys)
for kind in ("ImplicitEuler", "Kvaerno3", "Kvaerno5", "KenCarp4"):
    case(f"{kind}")(
        lambda kind=kind: decay(getattr(diffrax, kind)(), stepsize_controller=ADAPTIVE).ys
    )

ADJOINTS = {
    "RecursiveCheckpointAdjoint": diffrax.RecursiveCheckpointAdjoint,
    "DirectAdjoint": diffrax.DirectAdjoint,
    "BacksolveAdjoint": diffrax.BacksolveAdjoint,
    "ImplicitAdjoint": diffrax.ImplicitAdjoint,
}
for kind, adjoint in ADJOINTS.items():
    case(f"{kind}")(
        lambda adjoint=adjoint: jax.jit(
            jax.grad(lambda rate: decay(rate=rate, adjoint=adjoint()).ys.sum())
        )(1.0)
    )
case("ForwardMode")(
    lambda: jax.jvp(
        lambda rate: decay(rate=rate, adjoint=diffrax.ForwardMode()).ys.sum(), (1.0,), (1.0,)
    )
)
case("vmap")(lambda: jax.vmap(lambda rate: decay(rate=rate).ys)(VECTOR))
case("at given times")(
    lambda: decay(stepsize_controller=ADAPTIVE, saveat=diffrax.SaveAt(ts=jnp.linspace(0, 1, 5))).ys
)
case("every step")(lambda: decay(saveat=diffrax.SaveAt(steps=True), max_steps=16).ys)
case("dense output")(lambda: decay(saveat=diffrax.SaveAt(dense=True)).evaluate(0.33))
case("too many steps")(lambda: raises(lambda: decay(max_steps=3), "maximum number"))


@case("event")
def event():
    crossing = diffrax.Event(lambda t, y, args, **_: y[0] - 0.5, optimistix.Newton(1e-5, 1e-5))
    return decay(event=crossing).ts


@case("stochastic")
def stochastic():
    noise = diffrax.VirtualBrownianTree(0.0, 1.0, 1e-3, (2,), key=jax.random.PRNGKey(0))
    drift = diffrax.ODETerm(lambda t, y, args: -y)
    diffusion = diffrax.ControlTerm(lambda t, y, args: 0.1 * jnp.eye(2), noise)
    terms = diffrax.MultiTerm(drift, diffusion)
    return diffrax.diffeqsolve(terms, diffrax.Euler(), 0, 1, 0.05, jnp.ones(2)).ys


@case("interpolation")
def interpolation():
    ts = jnp.linspace(0, 1, 5)
    ys = jnp.sin(ts)[:, None]
    cubic = diffrax.CubicInterpolation(ts, diffrax.backward_hermite_coefficients(ts, ys))
    return cubic.evaluate(0.3), diffrax.LinearInterpolation(ts, ys).evaluate(0.3)


@case("a neural differential equation")
def neural():
    model = eqx.nn.MLP(2, 2, 8, 2, key=jax.random.PRNGKey(0), activation=jnp.tanh)
    starts = jax.random.normal(jax.random.PRNGKey(1), (4, 2))

    @eqx.filter_jit
    @eqx.filter_value_and_grad
    def loss(model):
        term = diffrax.ODETerm(lambda t, y, model: model(y))

        def end(y0):
            return diffrax.diffeqsolve(term, diffrax.Tsit5(), 0, 1, 0.1, y0, args=model).ys

        return jnp.mean(jax.vmap(end)(starts) ** 2)

    value, gradient = loss(model)
    return value, gradient.layers[0].weight
