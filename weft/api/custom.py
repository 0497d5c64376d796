# Tests: tests/api/test_custom_vjp.py
"""Custom derivatives: the public names, and custom_gradient and linear_call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from weft.api.custom_common import SymbolicZero, zero_from_primal
from weft.api.custom_jvp import custom_jvp, custom_jvp_p
from weft.api.custom_vjp import CustomVJPPrimal, custom_vjp, custom_vjp_p
from weft.autodiff.jvp import cotangent_aval, filled_cotangents, filled_tangents
from weft.autodiff.vmap import AxisData, batch_jaxpr, move_dim, to_front
from weft.core.boundary import api_boundary
from weft.core.jaxpr import ClosedJaxpr, eval_closed, eval_jaxpr, jaxpr_axes
from weft.core.primitive import Primitive
from weft.core.source import wraps
from weft.core.trace import closed_call_jaxpr, trace_to_jaxpr, typeof
from weft.core.tree import flatten, flatten_fun
from weft.core.undefined import is_undefined

if TYPE_CHECKING:
    from weft.core.undefined import UndefinedPrimal
    from weft.typing import ArrayLike


@api_boundary
def custom_gradient(fun: Callable) -> Callable:
    """Decorate a function that returns its output and its own backward function.

    `fun(*args)` returns (output, vjp_fun), where vjp_fun maps an output cotangent to the tuple of
    the arguments' cotangents (or to the one cotangent of a single argument). It may close over
    what was computed on the way.

    >>> import weft
    >>> @weft.custom_gradient
    ... def square(x):
    ...     return x * x, lambda ct: (10.0 * ct,)
    >>> weft.grad(square)(3.0)
    Array(10., dtype=float32, weak_type=True)
    """
    if not callable(fun):
        raise TypeError(f"custom_gradient: expected a function, got {type(fun).__name__}")

    def split(result: tuple) -> tuple:
        if not (isinstance(result, tuple | list) and len(result) == 2 and callable(result[1])):
            raise TypeError(
                "custom_gradient: the function must return a pair (output, vjp function), got "
                f"{type(result).__name__}"
            )
        return tuple(result)

    @wraps(fun)
    def wrapped(*args: object, **kwargs: object) -> Any:
        traced: list = []

        def primal(*args: object) -> Any:
            return split(fun(*args, **kwargs))[0]

        def fwd(*args: object) -> tuple:
            # The rule closes over tracers: as a jaxpr it keeps them as residuals.
            out, rule = split(fun(*args, **kwargs))
            leaves, tree = flatten(out)
            flat_rule, rule_out = flatten_fun(rule, flatten(((out,), {}))[1])
            avals = [cotangent_aval(typeof(x)) for x in leaves]
            jaxpr, consts = trace_to_jaxpr(flat_rule, avals, "custom_gradient")
            traced[:] = [jaxpr, rule_out.tree]
            return out, consts

        def bwd(consts: list, ct: ArrayLike) -> tuple:
            jaxpr, tree = traced
            result = tree.unflatten(eval_jaxpr(jaxpr, consts, *flatten(ct)[0]))
            return result if isinstance(result, tuple) else (result,)

        primal.__name__ = getattr(fun, "__name__", "fun")
        call = custom_vjp(primal)
        call.defvjp(fwd, bwd)
        return call(*args)

    return wrapped


# linear_call -----------------------------------------------------------------------------------

# Operands: what the function closes over, what its transpose closes over, the residuals, the
# linear arguments. `counts` holds the numbers of the first three.


def _parts(args: Sequence[Any], counts: tuple) -> tuple[Any, Any, Any, Any]:
    a, b, c = counts[0], counts[0] + counts[1], sum(counts)
    return args[:a], args[a:b], args[b:c], args[c:]


def _linear_impl(*args: ArrayLike, fun: ClosedJaxpr, transpose: ClosedJaxpr, counts: tuple) -> list:
    consts, _, residuals, linear = _parts(args, counts)
    return eval_closed(fun, *consts, *residuals, *linear)


def _linear_jvp(primals: list, tangents: list, *, counts: tuple, **params: object) -> tuple:
    n = sum(counts)
    if any(t is not None for t in tangents[:n]):
        raise TypeError(
            "linear_call is differentiated with respect to its residual arguments; only its "
            "linear arguments have derivatives. Wrap it in weft.custom_jvp to give the others"
        )
    linear_tangents = filled_tangents(primals[n:], tangents[n:])
    outs = linear_call_p.bind(*primals, counts=counts, **params)
    return outs, linear_call_p.bind(*primals[:n], *linear_tangents, counts=counts, **params)


def _linear_transpose(
    cts: list,
    *args: float | UndefinedPrimal,
    fun: ClosedJaxpr,
    transpose: ClosedJaxpr,
    counts: tuple,
) -> list:
    consts, t_consts, residuals, linear = _parts(args, counts)
    cotangents = filled_cotangents(fun.out_avals, cts)
    outs = linear_call_p.bind(
        *t_consts,
        *consts,
        *residuals,
        *cotangents,
        fun=transpose,
        transpose=fun,
        counts=(counts[1], counts[0], counts[2]),
    )
    return [None] * sum(counts) + [
        ct if is_undefined(x) else None for ct, x in zip(outs, linear, strict=True)
    ]


def _linear_batch(
    axis: AxisData,
    args: list,
    dims: list,
    *,
    fun: ClosedJaxpr,
    transpose: ClosedJaxpr,
    counts: tuple,
) -> tuple:
    n = sum(counts)
    head, mask = to_front(args[:n], dims[:n])
    linear = [move_dim(x, d, 0, axis) for x, d in zip(args[n:], dims[n:], strict=True)]
    m0, m1, m2, _ = _parts(mask, counts)
    n_out = len(fun.out_avals)
    batched = batch_jaxpr(fun, axis, [*m0, *m2, *(True,) * len(linear)], True)[0]
    back = batch_jaxpr(transpose, axis, [*m1, *m2, *(True,) * n_out], True)[0]
    outs = linear_call_p.bind(*head, *linear, fun=batched, transpose=back, counts=counts)
    return outs, [0] * n_out


linear_call_p = Primitive(
    "linear_call",
    abstract=lambda *avals, fun, transpose, counts: list(fun.out_avals),
    effects=lambda avals, params: params["fun"].effects,
    impl=_linear_impl,
    jvp=_linear_jvp,
    transpose=_linear_transpose,
    batch=_linear_batch,
    lower=lambda ctx, *args, fun, transpose, counts: ctx.inline(
        fun, *_parts(args, counts)[0], *_parts(args, counts)[2], *_parts(args, counts)[3]
    ),
    named_axes=lambda params: jaxpr_axes(params["fun"]),
    multiple_results=True,
    own_types=True,
    higher_order=True,
)


@api_boundary
def linear_call(
    fun: Callable, fun_transpose: Callable, residual_args: object, linear_args: object
) -> Any:
    """Call a linear function that brings its own transpose.

    Args:
      fun: `fun(residual_args, linear_args)`, linear in the second argument.
      fun_transpose: `fun_transpose(residual_args, out)`, from a cotangent of fun's output to one
        of linear_args.

    >>> import weft
    >>> double = lambda r, x: r * x
    >>> weft.custom_derivatives.linear_call(double, double, 2.0, 3.0)
    Array(6., dtype=float32, weak_type=True)
    """
    res = flatten(residual_args)[0]
    lin, lin_tree = flatten(linear_args)
    res_avals, lin_avals = [typeof(x) for x in res], [typeof(x) for x in lin]
    flat_fun, out = flatten_fun(fun, flatten(((residual_args, linear_args), {}))[1])
    closed, consts = closed_call_jaxpr(flat_fun, [*res_avals, *lin_avals], "linear_call")
    out_tree = out.tree
    example = out_tree.unflatten([0] * out_tree.num_leaves)
    flat_back, back_out = flatten_fun(fun_transpose, flatten(((residual_args, example), {}))[1])
    ct_avals = [cotangent_aval(a) for a in closed.out_avals]
    back, back_consts = closed_call_jaxpr(flat_back, [*res_avals, *ct_avals], "linear_transpose")
    if back_out.tree != lin_tree:
        raise TypeError(
            f"linear_call: fun_transpose must return the structure of linear_args, {lin_tree}, "
            f"got {back_out.tree}"
        )
    for i, (want, got) in enumerate(zip(lin_avals, back.out_avals, strict=True)):
        want = cotangent_aval(want)
        if (want.shape, want.dtype) != (got.shape, got.dtype):
            raise TypeError(
                f"linear_call: fun_transpose must return {want.str_short()} for linear argument "
                f"{i}, got {got.str_short()}"
            )
    outs = linear_call_p.bind(
        *consts,
        *back_consts,
        *res,
        *lin,
        fun=closed,
        transpose=back,
        counts=(len(consts), len(back_consts), len(res)),
    )
    return out_tree.unflatten(outs)


__all__ = [
    "CustomVJPPrimal",
    "SymbolicZero",
    "custom_gradient",
    "custom_jvp",
    "custom_jvp_p",
    "custom_vjp",
    "custom_vjp_p",
    "linear_call",
    "zero_from_primal",
]
