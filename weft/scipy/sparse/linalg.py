# Tests: tests/scipy/test_solvers.py
"""Iterative solvers of linear systems, as jax.scipy.sparse.linalg has them.

Operators are matrices or functions of pytrees; solutions are differentiated by another solve.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

import weft.numpy as wnp
from weft import lax, tree
from weft.core.errors import ArgumentError
from weft.core.namespace import seal
from weft.flatten_util import ravel_pytree

if TYPE_CHECKING:
    from weft.runtime.array import Array
    from weft.typing import ArrayLike

__all__ = ["bicgstab", "cg", "gmres"]


def _operator(name: str, argument: str, a: Array) -> Callable:
    if callable(a):
        return a
    if getattr(a, "ndim", None) != 2 or a.shape[0] != a.shape[1]:
        raise ArgumentError(
            f"{name}: {argument} must be a function or a square matrix, got "
            f"{getattr(a, 'shape', type(a).__name__)}"
        )
    return lambda x: a @ x


def _solve(
    name: str,
    solver: Callable,
    A: ArrayLike | Callable,
    b: Array | dict,
    x0: tuple | np.ndarray | None,
    tol: float,
    atol: float,
    maxiter: object,
    M: np.ndarray | None,
    symmetric: bool,
    **options: object,
) -> tuple[Any, None]:
    """x with A x = b by a solver of vectors, differentiable by the solver of the transpose."""
    operator = _operator(name, "A", A)
    condition = (lambda x: x) if M is None else _operator(name, "M", M)
    b = tree.map(wnp.asarray, b)
    x0 = tree.map(wnp.zeros_like, b) if x0 is None else tree.map(wnp.asarray, x0)
    if tree.structure(b) != tree.structure(x0):
        raise ArgumentError(
            f"{name}: x0 and b must have one structure, got {tree.structure(x0)} and "
            f"{tree.structure(b)}"
        )
    shapes = [(x.shape, v.shape) for x, v in zip(tree.leaves(x0), tree.leaves(b), strict=True)]
    if any(a != b for a, b in shapes):
        raise ArgumentError(f"{name}: x0 and b must have the same shapes, got {shapes}")
    size = sum(v.size for v in tree.leaves(b))
    limit = 10 * size if maxiter is None else maxiter
    start = lax.stop_gradient(x0)

    def solve(matvec: Callable, right: Array | dict) -> Any:
        flat, unravel = ravel_pytree(right)
        first, _ = ravel_pytree(start)
        on_vectors = lambda f: lambda v: ravel_pytree(f(unravel(v)))[0].astype(flat.dtype)
        floor = wnp.maximum(tol * wnp.linalg.norm(flat), atol)
        # The start is a guess of the solution for b, which a cotangent's solution is not.
        x = solver(
            on_vectors(matvec),
            flat,
            first.astype(flat.dtype),
            floor,
            limit,
            on_vectors(condition),
            **options,
        )
        return unravel(x)

    x = lax.custom_linear_solve(operator, b, solve, solve, symmetric=symmetric)
    return x, None


def _norm(x: Array) -> Any:
    return wnp.linalg.norm(x)


def _cg(a: Callable, b: Array, x: Array, floor: Array, limit: int, m: Callable) -> Any:
    def go_on(s: tuple) -> Any:
        _, r, _, _, k = s
        return (_norm(r) > floor) & (k < limit)

    def body(s: tuple) -> tuple:
        x, r, p, rz, k = s
        ap = a(p)
        alpha = rz / wnp.vdot(p, ap)
        x, r = x + alpha * p, r - alpha * ap
        z = m(r)
        new = wnp.vdot(r, z)
        return x, r, z + new / rz * p, new, k + 1

    r = b - a(x)
    z = m(r)
    return lax.while_loop(go_on, body, (x, r, z, wnp.vdot(r, z), 0))[0]


def _bicgstab(a: Callable, b: Array, x: Array, floor: Array, limit: int, m: Callable) -> Any:
    def go_on(s: tuple) -> Any:
        _, r, _, _, _, broken, k = s
        return (_norm(r) > floor) & (k < limit) & ~broken

    def body(s: tuple) -> tuple:
        x, r, shadow, p, rho, _, k = s
        v_hat = m(p)
        v = a(v_hat)
        alpha = rho / wnp.vdot(shadow, v)
        half = r - alpha * v
        early = _norm(half) <= floor
        t_hat = m(half)
        t = a(t_hat)
        square = wnp.vdot(t, t)
        omega = wnp.where(
            early | (square == 0), 0, wnp.vdot(t, half) / wnp.where(square == 0, 1, square)
        )
        x = x + alpha * v_hat + omega * t_hat
        r = half - omega * t
        new = wnp.vdot(shadow, r)
        broken = ~early & ((omega == 0) | (new == 0))
        beta = wnp.where(broken | early, 0, new / rho * alpha / wnp.where(omega == 0, 1, omega))
        return x, r, shadow, r + beta * (p - omega * v), new, broken, k + 1

    r = b - a(x)
    start = (x, r, r, r, wnp.vdot(r, r), wnp.asarray(False), 0)
    return lax.while_loop(go_on, body, start)[0]


def _gmres(
    a: Callable,
    b: Array,
    x: Array,
    floor: Array,
    limit: int,
    m: Callable,
    restart: int,
    incremental: bool,
) -> Any:
    """Restarted Arnoldi iterations, each ended by a least-squares problem."""
    n = b.shape[0]
    restart = min(restart, n)

    def orthonormal(v: Array, basis: Array) -> tuple:
        """v without its parts in the basis, twice over, and these parts."""
        h = wnp.conj(basis) @ v
        v = v - basis.T @ h
        more = wnp.conj(basis) @ v
        return v - basis.T @ more, h + more

    def normalized(v: Array, size: Array, threshold: int) -> Any:
        fine = size > threshold
        return wnp.where(fine, v / wnp.where(fine, size, 1), 0)

    eps = float(wnp.finfo(b.dtype).eps)

    def cycle(x: Array) -> Any:
        r = m(b - a(x))
        # The basis begins with the direction of the residual.
        size = _norm(r)
        basis = wnp.zeros((restart + 1, n), b.dtype).at[0].set(normalized(r, size, 0))
        h = wnp.zeros((restart + 1, restart), b.dtype)

        def step(k: Array, s: tuple) -> tuple:
            basis, h = s
            v = m(a(basis[k]))
            before = _norm(v)
            v, column = orthonormal(v, basis)
            length = _norm(v)
            # What is left is rounding: the space of the residual is complete.
            length = wnp.where(length > eps * before, length, 0)
            basis = basis.at[k + 1].set(normalized(v, length, 0))
            return basis, h.at[:, k].set(column.at[k + 1].set(length.astype(b.dtype)))

        if incremental:
            # Ends a cycle as soon as the least-squares residual is small enough.
            def residual(s: tuple) -> Any:
                _, h, k = s
                y = _least_squares(h, size, restart)
                e = wnp.zeros(restart + 1, b.dtype).at[0].set(size.astype(b.dtype))
                return wnp.where(k == 0, size, _norm(e - h @ y))

            go_on = lambda s: (s[2] < restart) & (residual(s) > floor)
            basis, h, _ = lax.while_loop(
                go_on, lambda s: (*step(s[2], s[:2]), s[2] + 1), (basis, h, 0)
            )
        else:
            basis, h = lax.fori_loop(0, restart, step, (basis, h))
        return x + basis[:-1].T @ _least_squares(h, size, restart)

    def _least_squares(h: Array, size: Array, k: int) -> Any:
        e = wnp.zeros(k + 1, b.dtype).at[0].set(size.astype(b.dtype))
        return wnp.linalg.lstsq(h, e)[0]

    def go_on(s: tuple) -> Any:
        x, k = s
        return (_norm(m(b - a(x))) > floor) & (k < limit)

    return lax.while_loop(go_on, lambda s: (cycle(s[0]), s[1] + 1), (x, 0))[0]


def cg(
    A: Any,
    b: ArrayLike,
    x0: Any = None,
    *,
    tol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
) -> tuple[Any, None]:
    """Return x with A x = b for Hermitian positive definite A, by conjugate gradients; and None.

    A: a matrix or a function of pytrees like b. x0: where it starts, zero by default. It ends when
    the residual's norm is at most max(tol |b|, atol), or after maxiter steps (10 n). M: an
    approximate inverse of A. Source: Hestenes and Stiefel, 1952; scipy.sparse.linalg.cg.

    >>> import weft.numpy as wnp
    >>> from weft.scipy.sparse.linalg import cg
    >>> x, _ = cg(wnp.diag(wnp.array([2.0, 4.0])), wnp.ones(2))
    >>> [round(float(v), 3) for v in x]
    [0.5, 0.25]
    """
    return _solve("cg", _cg, A, b, x0, tol, atol, maxiter, M, True)


def bicgstab(
    A: Any,
    b: ArrayLike,
    x0: Any = None,
    *,
    tol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
) -> tuple[Any, None]:
    """Return x with A x = b for any square A, by stabilized biconjugate gradients; and None.

    Arguments are those of `cg`. Source: van der Vorst, Bi-CGSTAB, 1992.

    >>> import weft.numpy as wnp
    >>> from weft.scipy.sparse.linalg import bicgstab
    >>> x, _ = bicgstab(wnp.diag(wnp.array([2.0, 4.0])), wnp.ones(2))
    >>> [round(float(v), 3) for v in x]
    [0.5, 0.25]
    """
    return _solve("bicgstab", _bicgstab, A, b, x0, tol, atol, maxiter, M, False)


def gmres(
    A: ArrayLike,
    b: ArrayLike,
    x0: Any = None,
    *,
    tol: float = 1e-5,
    atol: float = 0.0,
    restart: int = 20,
    maxiter: int | None = None,
    M: Any = None,
    solve_method: str = "batched",
) -> tuple[Any, None]:
    """Return x with A x = b for any square A, by restarted generalized minimal residuals; and None.

    Arguments are those of `cg`; restart: how many vectors are kept; maxiter: how many restarts.
    solve_method: 'batched' solves once in a restart, 'incremental' may end within one.
    Source: Saad and Schultz, GMRES, 1986.

    >>> import weft.numpy as wnp
    >>> from weft.scipy.sparse.linalg import gmres
    >>> x, _ = gmres(wnp.diag(wnp.array([2.0, 4.0])), wnp.ones(2))
    >>> [round(float(v), 3) for v in x]
    [0.5, 0.25]
    """
    if solve_method not in ("batched", "incremental"):
        raise ArgumentError(
            f"gmres: solve_method must be 'batched' or 'incremental', got {solve_method!r}"
        )
    return _solve(
        "gmres",
        _gmres,
        A,
        b,
        x0,
        tol,
        atol,
        maxiter,
        M,
        False,
        restart=restart,
        incremental=solve_method == "incremental",
    )


seal(globals())
