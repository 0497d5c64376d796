"""lineax, optimistix and diffrax: solvers of linear, nonlinear and differential equations."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import lineax
import optax
import optimistix

from benchmarks.library_programs import case, main, raises

MATRIX = jnp.array([[4.0, 1, 0], [1, 3, 1], [0, 1, 5]])
VECTOR = jnp.array([1.0, 2, 3])
POSITIVE = lineax.positive_semidefinite_tag

LINEAR = {
    "LU": (lineax.LU(), ()),
    "QR": (lineax.QR(), ()),
    "SVD": (lineax.SVD(), ()),
    "Cholesky": (lineax.Cholesky(), POSITIVE),
    "CG": (lineax.CG(1e-6, 1e-6), POSITIVE),
    "GMRES": (lineax.GMRES(1e-6, 1e-6), ()),
    "BiCGStab": (lineax.BiCGStab(1e-6, 1e-6), ()),
    "Normal": (lineax.Normal(lineax.CG(1e-6, 1e-6)), ()),
    "AutoLinearSolver": (lineax.AutoLinearSolver(well_posed=None), ()),
}


def linear_solver(solver, tags):
    def solve(matrix, vector):
        operator = lineax.MatrixLinearOperator(matrix, tags)
        return lineax.linear_solve(operator, vector, solver=solver).value

    return lambda: (
        solve(MATRIX, VECTOR),
        eqx.filter_jit(solve)(MATRIX, VECTOR),
        jax.vmap(solve, (None, 0))(MATRIX, jnp.stack([VECTOR, 2 * VECTOR])),
        jax.grad(lambda b: solve(MATRIX, b).sum())(VECTOR),
        jax.jvp(solve, (MATRIX, VECTOR), (MATRIX, VECTOR)),
    )


for name, given in LINEAR.items():
    case(f"lineax: {name}")(linear_solver(*given))


@case("lineax: derivative in the matrix")
def derivative_in_matrix():
    def f(a):
        return lineax.linear_solve(lineax.MatrixLinearOperator(a), VECTOR).value.sum()

    return jax.jit(jax.grad(f))(MATRIX)


@case("lineax: operators")
def operators():
    f = lineax.FunctionLinearOperator(lambda x: MATRIX @ x, jax.eval_shape(lambda: VECTOR))
    j = lineax.JacobianLinearOperator(lambda x, _: jnp.sin(x) * x[0], VECTOR)
    product = lineax.DiagonalLinearOperator(VECTOR) @ lineax.MatrixLinearOperator(MATRIX)
    return (
        f.as_matrix(),
        f.T.mv(VECTOR),
        j.as_matrix(),
        j.T.mv(VECTOR),
        lineax.linear_solve(f, VECTOR).value,
        product.as_matrix(),
        lineax.linearise(j).as_matrix(),
        lineax.materialise(j).mv(VECTOR),
    )


@case("lineax: matrices of a kind")
def structured():
    band = lineax.TridiagonalLinearOperator(VECTOR, VECTOR[:2], VECTOR[:2])
    lower = lineax.MatrixLinearOperator(jnp.tril(MATRIX), lineax.lower_triangular_tag)
    diagonal = lineax.DiagonalLinearOperator(VECTOR)
    return [lineax.linear_solve(m, VECTOR).value for m in (band, lower, diagonal)]


SINGULAR = lineax.MatrixLinearOperator(jnp.zeros((3, 3)))
case("lineax: singular")(
    lambda: raises(lambda: lineax.linear_solve(SINGULAR, VECTOR, lineax.LU()), "singular")
)
case("lineax: singular, not raised")(
    lambda: (
        lineax.linear_solve(SINGULAR, VECTOR, lineax.LU(), throw=False).result
        == lineax.RESULTS.singular
    )
)


def equation(y, a):
    return y - 0.5 * jnp.cos(y) - a


def root_finder(solver):
    def root(a):
        return optimistix.root_find(equation, solver, jnp.array(0.1), args=a).value

    return lambda: (root(0.1), jax.jit(jax.grad(root))(0.1), jax.vmap(root)(VECTOR / 10))


for kind in ("Newton", "Chord", "Dogleg", "LevenbergMarquardt"):
    case(f"optimistix: {kind}")(root_finder(getattr(optimistix, kind)(1e-6, 1e-6)))


@case("optimistix: Bisection")
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
    case(f"optimistix: {kind}")(minimizer(getattr(optimistix, kind)(1e-5, 1e-5)))
case("optimistix: GradientDescent")(minimizer(optimistix.GradientDescent(1e-2, 1e-4, 1e-4)))
case("optimistix: OptaxMinimiser")(
    minimizer(optimistix.OptaxMinimiser(optax.adam(0.05), 1e-6, 1e-6))
)


@case("optimistix: least_squares")
def least_squares():
    def residuals(y, _):
        return jnp.array([10 * (y[1] - y[0] ** 2), 1 - y[0]])

    solver = optimistix.GaussNewton(1e-6, 1e-6)
    return optimistix.least_squares(residuals, solver, jnp.zeros(2)).value


@case("optimistix: fixed_point")
def fixed_point():
    solver = optimistix.FixedPointIteration(1e-6, 1e-6)
    return optimistix.fixed_point(lambda y, _: 0.5 * jnp.cos(y), solver, jnp.array(0.0)).value


@case("optimistix: too many steps")
def too_many_steps():
    solver = optimistix.Newton(1e-6, 1e-6)
    return raises(
        lambda: optimistix.root_find(lambda y, _: y**2 + 1, solver, jnp.array(0.3), max_steps=5),
        "maximum",
    )


ADAPTIVE = diffrax.PIDController(rtol=1e-5, atol=1e-6)


def decay(solver=None, rate=1.0, **options):
    term = diffrax.ODETerm(lambda t, y, rate: -rate * y)
    y0 = jnp.array([1.0, 2.0])
    return diffrax.diffeqsolve(term, solver or diffrax.Tsit5(), 0, 1, 0.1, y0, args=rate, **options)


EXPLICIT = "Euler Heun Midpoint Ralston Bosh3 Tsit5 Dopri5 Dopri8 LeapfrogMidpoint ReversibleHeun"
for kind in EXPLICIT.split():
    case(f"diffrax: {kind}")(lambda kind=kind: decay(getattr(diffrax, kind)()).ys)
for kind in ("ImplicitEuler", "Kvaerno3", "Kvaerno5", "KenCarp4"):
    case(f"diffrax: {kind}")(
        lambda kind=kind: decay(getattr(diffrax, kind)(), stepsize_controller=ADAPTIVE).ys
    )

ADJOINTS = {
    "RecursiveCheckpointAdjoint": diffrax.RecursiveCheckpointAdjoint,
    "DirectAdjoint": diffrax.DirectAdjoint,
    "BacksolveAdjoint": diffrax.BacksolveAdjoint,
    "ImplicitAdjoint": diffrax.ImplicitAdjoint,
}
for kind, adjoint in ADJOINTS.items():
    case(f"diffrax: {kind}")(
        lambda adjoint=adjoint: jax.jit(
            jax.grad(lambda rate: decay(rate=rate, adjoint=adjoint()).ys.sum())
        )(1.0)
    )
case("diffrax: ForwardMode")(
    lambda: jax.jvp(
        lambda rate: decay(rate=rate, adjoint=diffrax.ForwardMode()).ys.sum(), (1.0,), (1.0,)
    )
)
case("diffrax: vmap")(lambda: jax.vmap(lambda rate: decay(rate=rate).ys)(VECTOR))
case("diffrax: at given times")(
    lambda: decay(stepsize_controller=ADAPTIVE, saveat=diffrax.SaveAt(ts=jnp.linspace(0, 1, 5))).ys
)
case("diffrax: every step")(lambda: decay(saveat=diffrax.SaveAt(steps=True), max_steps=16).ys)
case("diffrax: dense output")(lambda: decay(saveat=diffrax.SaveAt(dense=True)).evaluate(0.33))
case("diffrax: too many steps")(lambda: raises(lambda: decay(max_steps=3), "maximum number"))


@case("diffrax: event")
def event():
    crossing = diffrax.Event(lambda t, y, args, **_: y[0] - 0.5, optimistix.Newton(1e-5, 1e-5))
    return decay(event=crossing).ts


@case("diffrax: stochastic")
def stochastic():
    noise = diffrax.VirtualBrownianTree(0.0, 1.0, 1e-3, (2,), key=jax.random.PRNGKey(0))
    drift = diffrax.ODETerm(lambda t, y, args: -y)
    diffusion = diffrax.ControlTerm(lambda t, y, args: 0.1 * jnp.eye(2), noise)
    terms = diffrax.MultiTerm(drift, diffusion)
    return diffrax.diffeqsolve(terms, diffrax.Euler(), 0, 1, 0.05, jnp.ones(2)).ys


@case("diffrax: interpolation")
def interpolation():
    ts = jnp.linspace(0, 1, 5)
    ys = jnp.sin(ts)[:, None]
    cubic = diffrax.CubicInterpolation(ts, diffrax.backward_hermite_coefficients(ts, ys))
    return cubic.evaluate(0.3), diffrax.LinearInterpolation(ts, ys).evaluate(0.3)


@case("diffrax: a neural differential equation")
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


if __name__ == "__main__":
    main()
