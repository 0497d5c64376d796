"""solvers, operators, their derivatives and errors."""

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax

from benchmarks.library_programs import case, raises

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
    case(f"{name}")(linear_solver(*given))


@case("derivative in the matrix")
def derivative_in_matrix():
    def f(a):
        return lineax.linear_solve(lineax.MatrixLinearOperator(a), VECTOR).value.sum()

    return jax.jit(jax.grad(f))(MATRIX)


@case("operators")
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


@case("matrices of a kind")
def structured():
    band = lineax.TridiagonalLinearOperator(VECTOR, VECTOR[:2], VECTOR[:2])
    lower = lineax.MatrixLinearOperator(jnp.tril(MATRIX), lineax.lower_triangular_tag)
    diagonal = lineax.DiagonalLinearOperator(VECTOR)
    return [lineax.linear_solve(m, VECTOR).value for m in (band, lower, diagonal)]


SINGULAR = lineax.MatrixLinearOperator(jnp.zeros((3, 3)))
case("singular")(
    lambda: raises(lambda: lineax.linear_solve(SINGULAR, VECTOR, lineax.LU()), "singular")
)
case("singular, not raised")(
    lambda: (
        lineax.linear_solve(SINGULAR, VECTOR, lineax.LU(), throw=False).result
        == lineax.RESULTS.singular
    )
)
