"""custom_linear_solve and custom_root: derivatives by the implicit function theorem."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from tests.api.helpers import close
from weft import lax

A = np.array([[3.0, 1.0], [0.5, 2.0]])
B = np.array([1.0, -2.0])


@pytest.fixture(autouse=True)
def _x64():
    with weft.enable_x64(True):
        yield


def solve(a, b, **options):
    """Gauss-Jordan by NumPy-like steps on a 2×2 matrix that only matvec tells."""

    def solver(matvec, b):
        m = jnp.stack([matvec(e) for e in np.eye(2)], 1)
        det = m[0, 0] * m[1, 1] - m[0, 1] * m[1, 0]
        return jnp.stack([m[1, 1] * b[0] - m[0, 1] * b[1], m[0, 0] * b[1] - m[1, 0] * b[0]]) / det

    matvec = lambda x: a @ x
    return lax.custom_linear_solve(matvec, b, solver, solver, **options)


def test_the_solution_and_its_derivatives_in_matrix_and_right_hand_side():
    x = np.linalg.solve(A, B)
    ct = np.array([0.3, 0.7])
    db = np.linalg.solve(A.T, ct)
    for wrap in (lambda f: f, weft.jit):
        close(wrap(solve)(A, B), x, 1e-12)
        got = wrap(weft.grad(lambda a, b: solve(a, b) @ ct, argnums=(0, 1)))(A, B)
        close(got, (-np.outer(db, x), db), 1e-10)
        da = np.array([[0.1, 0.2], [-0.3, 0.4]])
        tangent = wrap(lambda a, b, da: weft.jvp(solve, (a, b), (da, ct))[1])(A, B, da)
        close(tangent, np.linalg.solve(A, ct - da @ x), 1e-10)


def test_second_derivatives_and_batches():
    f = lambda b: jnp.sum(solve(A, jnp.sin(b)) ** 2)
    inverse = np.linalg.inv(A)
    s, c = np.sin(B), np.cos(B)
    jac = inverse * c
    want = 2 * jac.T @ jac + np.diag(-2 * (inverse.T @ (inverse @ s)) * s)
    close(weft.jit(weft.hessian(f))(B), want, 1e-9)
    stack, rhs = np.stack([A, 2 * A]), np.stack([B, 3 * B])
    want = np.stack([np.linalg.solve(a, b) for a, b in zip(stack, rhs, strict=True)])
    close(weft.vmap(solve)(stack, rhs), want, 1e-10)
    close(weft.vmap(solve, in_axes=(None, 0))(A, rhs), np.linalg.solve(A, rhs.T).T, 1e-10)


def test_a_symmetric_matrix_needs_one_solver():
    s = A + A.T

    def f(b):
        return lax.custom_linear_solve(
            lambda x: s @ x, b, lambda mv, b: jnp.linalg.solve(s, b), symmetric=True
        )

    close(weft.grad(lambda b: jnp.sum(f(b)))(B), np.linalg.solve(s, np.ones(2)), 1e-10)


def test_auxiliary_results_of_the_solver_have_no_derivative():
    def f(b):
        solver = lambda mv, b: (b / 2.0, {"steps": 3})
        return lax.custom_linear_solve(lambda x: 2.0 * x, b, solver, solver, has_aux=True)

    x, aux = f(B)
    close((x, aux), (B / 2, {"steps": 3}))
    close(weft.grad(lambda b: jnp.sum(f(b)[0] ** 2))(B), B / 2)


def test_errors_of_linear_solves_name_the_function_that_is_wrong():
    with pytest.raises(TypeError, match="matvec must return what has the type of b, f64\\[2\\]"):
        lax.custom_linear_solve(lambda x: x[:1], B, lambda mv, b: b)
    with pytest.raises(TypeError, match="solve must return the structure of b"):
        lax.custom_linear_solve(lambda x: x, B, lambda mv, b: (b, b))
    f = lambda b: jnp.sum(lax.custom_linear_solve(lambda x: 2.0 * x, b, lambda mv, b: b / 2.0))
    with pytest.raises(TypeError, match="transpose_solve"):
        weft.grad(f)(B)


def bisection(f, guess):
    lo, hi = guess
    return lax.fori_loop(
        0,
        60,
        lambda _, s: lax.cond(
            f((s[0] + s[1]) / 2) < 0,
            lambda a, b: ((a + b) / 2, b),
            lambda a, b: (a, (a + b) / 2),
            *s,
        ),
        (lo, hi),
    )[0]


def cube_root(y):
    solve = lambda f, guess: bisection(f, (guess, guess + 10.0))
    return lax.custom_root(lambda x: x**3 - y, 0.0 * y, solve, lambda g, rhs: rhs / g(1.0))


def test_the_derivative_of_a_root_is_the_implicit_function_s():
    for wrap in (lambda f: f, weft.jit):
        close(wrap(cube_root)(8.0), 2.0, 1e-10)
        close(wrap(weft.grad(cube_root))(8.0), 1 / 12, 1e-10)
        close(wrap(weft.grad(weft.grad(cube_root)))(8.0), -2 / 9 * 8.0 ** (-5 / 3), 1e-9)
    ys = np.array([1.0, 8.0, 27.0])
    close(weft.vmap(cube_root)(ys), [1.0, 2.0, 3.0], 1e-10)
    close(weft.jit(weft.vmap(weft.grad(cube_root)))(ys), 1 / (3 * ys ** (2 / 3)), 1e-10)


def test_roots_of_systems_with_auxiliary_results():
    def f(p):
        residual = lambda x: {"a": x["a"] * 2 - p, "b": x["b"] - x["a"] ** 2}
        solution = {"a": lax.stop_gradient(p) / 2, "b": lax.stop_gradient(p) ** 2 / 4}

        def tangent_solve(g, y):  # g is triangular: a ↦ (2 a, slope a), b ↦ b
            slope = g({"a": 1.0, "b": 0.0})["b"]
            return {"a": y["a"] / 2, "b": y["b"] - slope * y["a"] / 2}

        return lax.custom_root(
            residual, {"a": 0.0, "b": 0.0}, lambda f, x: (solution, 7), tangent_solve, has_aux=True
        )

    x, aux = f(3.0)
    close((x, aux), ({"a": 1.5, "b": 2.25}, 7))
    close(weft.grad(lambda p: f(p)[0]["b"])(3.0), 1.5)  # d/dp p² / 4
    close(weft.jvp(lambda p: f(p)[0]["a"], (3.0,), (1.0,))[1], 0.5)


@pytest.mark.parametrize("wrap", [lambda f: f, weft.jit], ids=["eager", "jit"])
def test_solvers_may_close_over_values_that_are_differentiated(wrap):
    def root(solve, tangent_solve):
        return lambda y: lax.custom_root(lambda x: x**2 - y, 1.0, solve(y), tangent_solve(y))

    divide = lambda y: lambda g, t: t / g(1.0)
    for solve in (
        lambda y: lambda f, x: jnp.sqrt(y),
        lambda y: lambda f, x: jnp.sqrt(lax.stop_gradient(y)),
    ):
        close(wrap(weft.grad(root(solve, divide)))(4.0), 0.25, 1e-6)
        close(wrap(weft.vmap(root(solve, divide)))(np.array([4.0, 9.0])), [2.0, 3.0], 1e-6)
    scaled = lambda y: lambda g, t: t / g(1.0) + 0 * y
    solve = lambda y: lambda f, x: jnp.sqrt(y)
    close(wrap(weft.grad(root(solve, scaled)))(4.0), 0.25, 1e-6)
    with pytest.raises(TypeError, match="solve must return the structure of initial_guess"):
        lax.custom_root(lambda x: x, 1.0, lambda f, x: (x, x), lambda g, t: t)
