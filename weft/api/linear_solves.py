"""custom_linear_solve and custom_root: derivatives of solvers by the implicit function theorem."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from weft.api.custom_common import SymbolicZero, zero_from_primal
from weft.api.custom_jvp import custom_jvp
from weft.api.custom_vmap import push_inline
from weft.api.grad import linearize
from weft.autodiff.jvp import filled_cotangents, filled_tangents, tangent_aval
from weft.autodiff.transpose import linear_transpose_flat
from weft.autodiff.vmap import AxisData, batch_jaxpr, move_dim, to_front
from weft.autodiff.zeros import add_any, instantiate_zero
from weft.core.boundary import api_boundary
from weft.core.jaxpr import ClosedJaxpr, eval_closed, jaxpr_as_fun
from weft.core.primitive import Primitive
from weft.core.trace import closed_call_jaxpr, typeof
from weft.core.trace_body import trace_body
from weft.core.tree import flatten, tree_map
from weft.core.undefined import is_undefined
from weft.ops.control.common import check_function, join_axes
from weft.ops.elementwise_api import neg_p

if TYPE_CHECKING:
    from weft._xla.mlir import ir
    from weft.core.aval import ShapedArray
    from weft.core.tree import PyTreeDef
    from weft.core.undefined import UndefinedPrimal
    from weft.lowering.context import RuleContext
    from weft.runtime.array import Array
    from weft.typing import ArrayLike

# The op solves A x = b. Operands: the constants of four jaxprs, in the order of `_PARTS`, then b.
# A jaxpr that was not given is None.
_PARTS = ("matvec", "vecmat", "solve", "transpose_solve")


def _constants(args: Sequence[Any], counts: tuple) -> tuple[list[Any], list]:
    parts, start = [], 0
    for n in counts:
        parts.append(args[start : start + n])
        start += n
    return parts, list(args[start:])


def _abstract(*avals: ShapedArray, solve: ClosedJaxpr, **params: object) -> list:
    return list(solve.out_avals)


def _impl(*args: ArrayLike, solve: ClosedJaxpr, counts: tuple, **params: object) -> list:
    parts, b = _constants(args, counts)
    return eval_closed(solve, *parts[2], *b)


def _jvp(primals: list, tangents: list, *, counts: tuple, **params: Any) -> tuple:
    """Solve A dx = db - dA x: the tangent has the same system."""
    outs = linear_solve_p.bind(*primals, counts=counts, **params)
    parts, b = _constants(primals, counts)
    t_parts, tb = _constants(tangents, counts)
    x = outs[: len(b)]
    rhs = list(tb)
    if any(t is not None for t in t_parts[0]):
        matvec = params["matvec"]
        _, moved = push_inline(lambda *c: eval_closed(matvec, *c, *x), parts[0], t_parts[0])
        for i, t in enumerate(moved):
            if t is not None:
                minus = neg_p.bind(t)
                rhs[i] = minus if rhs[i] is None else add_any(rhs[i], minus)
    if all(t is None for t in rhs):
        return outs, [None] * len(outs)
    consts = [c for part in parts for c in part]
    dx = linear_solve_p.bind(*consts, *filled_tangents(b, rhs), counts=counts, **params)
    return outs, [*dx[: len(b)], *[None] * (len(outs) - len(b))]


def _transpose(
    cts: list, *args: ArrayLike | UndefinedPrimal, counts: tuple, num_aux: int, **params: Any
) -> list:
    if params["transpose_solve"] is None:
        raise TypeError(
            "custom_linear_solve: reverse-mode differentiation solves the transposed system; give "
            "transpose_solve, or symmetric=True if the matrix is symmetric"
        )
    parts, b = _constants(args, counts)
    n = len(b)
    cotangents = filled_cotangents(params["solve"].out_avals[:n], cts[:n])
    m, v, s, t = parts
    outs = linear_solve_p.bind(
        *v,
        *m,
        *t,
        *s,
        *cotangents,
        matvec=params["vecmat"],
        vecmat=params["matvec"],
        solve=params["transpose_solve"],
        transpose_solve=params["solve"],
        counts=(counts[1], counts[0], counts[3], counts[2]),
        num_aux=num_aux,
    )
    cts_b = [ct if is_undefined(x) else None for ct, x in zip(outs, b, strict=False)]
    return [None] * sum(counts) + cts_b


def _batch(
    axis: AxisData, args: list, dims: list, *, counts: tuple, num_aux: int, **params: Any
) -> tuple:
    n = sum(counts)
    consts, mask = to_front(args[:n], dims[:n])
    b = [move_dim(x, d, 0, axis) for x, d in zip(args[n:], dims[n:], strict=True)]
    masks, _ = _constants(mask, counts)
    batched = {
        name: None
        if params[name] is None
        else batch_jaxpr(params[name], axis, [*masks[i], *(True,) * len(b)], True)[0]
        for i, name in enumerate(_PARTS)
    }
    outs = linear_solve_p.bind(*consts, *b, counts=counts, num_aux=num_aux, **batched)
    return outs, [0] * len(outs)


def _lower(
    ctx: RuleContext, *operands: ir.Value, solve: ClosedJaxpr, counts: tuple, **params: object
) -> list:
    parts, b = _constants(operands, counts)
    return ctx.inline(solve, *parts[2], *b)


def _inner(avals: list, outs: list, params: dict) -> Iterator[tuple]:
    consts, b = _constants(avals, params["counts"])
    for name, part_consts in zip(_PARTS, consts, strict=True):
        if params[name] is not None:
            yield name, params[name].in_avals, [*part_consts, *b]


linear_solve_p = Primitive(
    "custom_linear_solve",
    abstract=_abstract,
    effects=lambda avals, params: params["solve"].effects,
    impl=_impl,
    jvp=_jvp,
    transpose=_transpose,
    batch=_batch,
    lower=_lower,
    inner=_inner,
    named_axes=lambda params: join_axes(
        *(params[name] for name in _PARTS if params[name] is not None)
    ),
    multiple_results=True,
    own_types=True,
    higher_order=True,
)


@api_boundary
def custom_linear_solve(
    matvec: Callable,
    b: object,
    solve: Callable,
    transpose_solve: Callable | None = None,
    symmetric: bool = False,
    has_aux: bool = False,
) -> Any:
    """Solve `matvec(x) = b` by a given solver; derivatives solve the same system again.

    Args:
      matvec: a linear function, of the structure of b to the same.
      b: the right-hand side, a pytree.
      solve: `solve(matvec, b)` returns x; it may iterate as it likes.
      transpose_solve: `transpose_solve(vecmat, b)` for the transposed system, which reverse mode
        needs; `solve` serves if symmetric.
      has_aux: the solvers return (x, anything else); the rest has no derivative.

    >>> import weft
    >>> solve = lambda matvec, b: b / 2.0
    >>> weft.grad(lambda b: weft.lax.custom_linear_solve(lambda x: 2.0 * x, b, solve, solve))(3.0)
    Array(0.5, dtype=float32, weak_type=True)
    """
    api = "custom_linear_solve"
    check_function(api, "matvec", matvec)
    check_function(api, "solve", solve)
    if transpose_solve is None and symmetric:
        transpose_solve = solve
    leaves, tree = flatten(b)
    avals = [typeof(x).strip_weak_type() for x in leaves]
    n = len(leaves)
    aux_tree: list = []

    def flat_matvec(*xs: ArrayLike) -> list:
        return _same_structure(matvec(tree.unflatten(xs)), tree, f"{api}: matvec")

    def solver(function: Callable, apply: Callable, label: str) -> Callable:
        def flat(*xs: Array) -> list:
            result = function(lambda v: tree.unflatten(apply(*flatten(v)[0])), tree.unflatten(xs))
            if not has_aux:
                return _same_structure(result, tree, f"{api}: {label}")
            if not (isinstance(result, tuple | list) and len(result) == 2):
                raise TypeError(f"{api}: with has_aux=True, {label} must return a pair (x, aux)")
            rest, rest_tree = flatten(result[1])
            aux_tree[:] = aux_tree or [rest_tree]
            return [*_same_structure(result[0], tree, f"{api}: {label}"), *rest]

        return flat

    # Everything is traced now, so that the op can be transformed without the user's functions.
    m, m_consts = closed_call_jaxpr(flat_matvec, avals, "matvec")
    _check_avals(f"{api}: matvec", avals, m.out_avals)
    s, s_consts = closed_call_jaxpr(solver(solve, flat_matvec, "solve"), avals, "solve")
    _check_avals(f"{api}: solve", avals, s.out_avals[:n])
    v = t = None
    v_consts: list = []
    t_consts: list = []
    # The transposed system, for reverse mode: its product follows from that of matvec.
    if transpose_solve is not None:

        def flat_vecmat(*cts: ArrayLike) -> list:
            cotangents = linear_transpose_flat(flat_matvec, avals)(cts)
            return [
                instantiate_zero(a) if ct is None else ct
                for ct, a in zip(cotangents, avals, strict=True)
            ]

        transposed = flat_matvec if symmetric else flat_vecmat
        v, v_consts = closed_call_jaxpr(transposed, avals, "vecmat")
        t, t_consts = closed_call_jaxpr(
            solver(transpose_solve, transposed, "transpose_solve"), avals, "transpose_solve"
        )
        _check_avals(f"{api}: transpose_solve", avals, t.out_avals[:n])
    # The constants of all four are operands, as they may be differentiated.
    outs = linear_solve_p.bind(
        *m_consts,
        *v_consts,
        *s_consts,
        *t_consts,
        *leaves,
        matvec=m,
        vecmat=v,
        solve=s,
        transpose_solve=t,
        counts=(len(m_consts), len(v_consts), len(s_consts), len(t_consts)),
        num_aux=len(s.out_avals) - n,
    )
    x = tree.unflatten(outs[:n])
    return (x, aux_tree[0].unflatten(outs[n:])) if has_aux else x


def _same_structure(result: ArrayLike, tree: PyTreeDef, api: str) -> list:
    leaves, got = flatten(result)
    if got != tree:
        raise TypeError(f"{api} must return the structure of b, {tree}, got {got}")
    return leaves


def _check_avals(api: str, want: Sequence[Any], got: Sequence[Any]) -> None:
    for a, b in zip(want, got, strict=True):
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            raise TypeError(
                f"{api} must return what has the type of b, {a.str_short()}, got {b.str_short()}"
            )


@api_boundary
def custom_root(
    f: Callable,
    initial_guess: object,
    solve: Callable,
    tangent_solve: Callable,
    has_aux: bool = False,
) -> Any:
    """Return a root of f found by a given solver; its derivative is that of the implicit function.

    Args:
      f: from a pytree like initial_guess to the same; what it closes over is differentiated.
      solve: `solve(f, initial_guess)` returns x with f(x) = 0 (or (x, aux) if has_aux).
      tangent_solve: `tangent_solve(g, y)` solves g(x) = y for a linear g.

    >>> import weft
    >>> def cube_root(y):
    ...     newton = lambda f, x: weft.lax.fori_loop(0, 9, lambda _, x: x - f(x) / (3 * x * x), x)
    ...     return weft.lax.custom_root(lambda x: x**3 - y, y, newton, lambda g, y: y / g(1.0))
    >>> weft.grad(cube_root)(8.0)
    Array(0.08333334, dtype=float32, weak_type=True)
    """
    for name, function in (("f", f), ("solve", solve), ("tangent_solve", tangent_solve)):
        check_function("custom_root", name, function)
    guess, tree = flatten(initial_guess)

    def flat_f(*xs: Array) -> list:
        leaves, got = flatten(f(tree.unflatten(xs)))
        if got != tree:
            raise TypeError(
                f"custom_root: f must return the structure of initial_guess, {tree}, got {got}"
            )
        return leaves

    avals = [typeof(x) for x in guess]
    closed, consts = closed_call_jaxpr(flat_f, avals, "f")
    apply = jaxpr_as_fun(closed)
    kinds = [typeof(c) for c in consts]

    def at(consts: Sequence[Any]) -> Callable:
        return lambda x: tree.unflatten(apply(*consts, *flatten(x)[0]))

    # The solvers may close over values that are differentiated: these become arguments, too.
    def solve_at(consts: Sequence[Any], guess: object) -> Any:
        result = solve(at(consts), guess)
        if has_aux and not (isinstance(result, tuple | list) and len(result) == 2):
            raise TypeError("custom_root: with has_aux=True, solve must return a pair (x, aux)")
        return result if has_aux else (result, ())

    def solve_tangent_at(consts: Sequence[Any], x: object, rhs: object) -> Any:
        return tangent_solve(linearize(at(consts), x)[1], rhs)

    solving = trace_body(solve_at, flatten(((consts, initial_guess), {}))[1], [*kinds, *avals])
    roots, got = flatten(solving.out_tree.unflatten(solving.jaxpr.out_avals)[0])
    if got != tree:
        raise TypeError(
            f"custom_root: solve must return the structure of initial_guess, {tree}, got {got}"
        )
    solving_tangents = trace_body(
        solve_tangent_at,
        flatten(((consts, initial_guess, initial_guess), {}))[1],
        [*kinds, *roots, *map(tangent_aval, roots)],
    )
    run_solve, run_tangent = map(jaxpr_as_fun, (solving.jaxpr, solving_tangents.jaxpr))

    @custom_jvp
    def root(consts: list, solvers: tuple, guess: list) -> Any:
        return solving.out_tree.unflatten(run_solve(*solvers[0], *consts, *guess))

    def rule(primals: tuple, tangents: tuple) -> tuple:
        consts, solvers, guess = primals
        x, aux = root(consts, solvers, guess)
        leaves = flatten(x)[0]
        const_tangents = [None if t.__class__ is SymbolicZero else t for t in tangents[0]]
        # Along the curve f(x, c) = 0, so f_x dx = -f_c dc: one linear solve.
        _, moved = push_inline(lambda *c: apply(*c, *leaves), consts, const_tangents)
        still = _zeros(aux)
        if all(t is None for t in moved):
            return (x, aux), (_zeros(x), still)
        rhs = [
            instantiate_zero(tangent_aval(typeof(v))) if t is None else neg_p.bind(t)
            for t, v in zip(moved, leaves, strict=True)
        ]
        dx = run_tangent(*solvers[1], *consts, *leaves, *rhs)
        return (x, aux), (tree.unflatten(dx), still)

    root.defjvp(rule, symbolic_zeros=True)
    x, aux = root(consts, (solving.consts, solving_tangents.consts), guess)
    return (x, aux) if has_aux else x


def _zeros(x: int | tuple) -> Any:
    return tree_map(lambda v: zero_from_primal(v, symbolic_zeros=True), x)


__all__ = ["custom_linear_solve", "custom_root", "linear_solve_p"]
