"""root finding, minimisation, least squares and fixed points."""

import jax
import jax.numpy as jnp
import optax
import optimistix

from benchmarks.library_programs import case, raises

VECTOR = jnp.array([1.0, 2, 3])


def equation(y, a):
    return y - 0.5 * jnp.cos(y) - a


def root_finder(solver):
    def root(a):
        return optimistix.root_find(equation, solver, jnp.array(0.1), args=a).value

    return lambda: (root(0.1), jax.jit(jax.grad(root))(0.1), jax.vmap(root)(VECTOR / 10))


for kind in ("Newton", "Chord", "Dogleg", "LevenbergMarquardt"):
    case(f"{kind}")(root_finder(getattr(optimistix, kind)(1e-6, 1e-6)))


@case("Bisection")
def bisection():
    bounds = {"lower": -2, "upper": 2}
    solver = optimistix.Bisection(1e-6, 1e-6)
    return optimistix.root_find(equation, solver, jnp.array(0.1), args=0.1, options=bounds).value


def banana(y, _):
    return (1 - y[0]) ** 2 + 10 * (y[1] - y[0] ** 2) ** 2


def minimizer(solver):
    def run():
        found = optimistix.minimise(banana, solver, jnp.zeros(2), max_steps=4000, throw=False)
        return [round(float(v), 2) for v in found.value]

    return run


for kind in ("BFGS", "NonlinearCG", "NelderMead", "LBFGS"):
    case(f"{kind}")(minimizer(getattr(optimistix, kind)(1e-5, 1e-5)))
case("GradientDescent")(minimizer(optimistix.GradientDescent(1e-2, 1e-4, 1e-4)))
case("OptaxMinimiser")(minimizer(optimistix.OptaxMinimiser(optax.adam(0.05), 1e-6, 1e-6)))


@case("least_squares")
def least_squares():
    def residuals(y, _):
        return jnp.array([10 * (y[1] - y[0] ** 2), 1 - y[0]])

    solver = optimistix.GaussNewton(1e-6, 1e-6)
    return optimistix.least_squares(residuals, solver, jnp.zeros(2)).value


@case("fixed_point")
def fixed_point():
    solver = optimistix.FixedPointIteration(1e-6, 1e-6)
    return optimistix.fixed_point(lambda y, _: 0.5 * jnp.cos(y), solver, jnp.array(0.0)).value


@case("too many steps")
def too_many_steps():
    solver = optimistix.Newton(1e-6, 1e-6)
    return raises(
        lambda: optimistix.root_find(lambda y, _: y**2 + 1, solver, jnp.array(0.3), max_steps=5),
        "maximum",
    )
