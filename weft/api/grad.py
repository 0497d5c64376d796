"""grad, vjp, jvp, linearize and what is built from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from weft.api.grad_arguments import (
    Flat,
    argnums_of,
    as_type,
    check_arrays,
    check_inputs,
    fits,
    leaf_name,
    partial_of,
)
from weft.api.linear_maps import (
    LinearProgram,
    Pullback,
    Pushforward,
    Transposed,
    TransposedProgram,
    as_arrays,
    full_cotangents,
    full_tangent,
    leave_out,
    saveable,
)
from weft.autodiff.jvp import (
    Linearized,
    has_tangent,
    jvp_flat,
    linearize_flat,
    tangent_aval,
)
from weft.core import dtypes
from weft.core.boundary import api_boundary
from weft.core.jaxpr import eval_jaxpr
from weft.core.masks import pick, unpick
from weft.core.source import function_name, wraps
from weft.core.trace import Tracer, check_unchangeable, trace_to_jaxpr, typeof
from weft.core.tree import flatten, flatten_fun
from weft.driver.jit import jit
from weft.driver.staging import aval_of_spec, check_callable
from weft.refs.accumulate import is_ref, on_values

if TYPE_CHECKING:
    from weft.core.tree import PyTreeDef
    from weft.typing import ArrayLike


@api_boundary
def jvp(
    fun: Callable, primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False
) -> Any:
    """Value and directional derivative of `fun` at `primals` along `tangents`.

    primals and tangents are tuples or lists of pytrees of equal structure; tangents of integers
    have dtype `float0`. Returns (out, out_tangent), or (out, out_tangent, aux).

    Raises TypeError if structures or types of primals and tangents differ, naming the argument.
    Source: Siskind and Pearlmutter, "Nesting forward-mode AD in a functional framework" (2008).

    >>> import weft
    >>> weft.jvp(weft.numpy.sin, (0.0,), (2.0,))
    (Array(0., dtype=float32, weak_type=True), Array(2., dtype=float32, weak_type=True))
    """
    check_callable(fun, "jvp")
    for name, value in (("primals", primals), ("tangents", tangents)):
        if not isinstance(value, tuple | list):
            raise TypeError(f"jvp: {name} must be a tuple or list, got {type(value).__name__}")
    flat_primals, tree = flatten(tuple(primals))
    flat_tangents, tangent_tree = flatten(tuple(tangents))
    if tree != tangent_tree:
        raise TypeError(
            f"jvp: primals and tangents must have one structure, got {tree} and {tangent_tree}"
        )
    check_unchangeable(flat_primals)
    check_arrays(flat_primals, tree, "jvp", "primals")
    check_arrays(flat_tangents, tree, "jvp", "tangents")
    checked = [
        _check_tangent(p, t, tree, i)
        for i, (p, t) in enumerate(zip(flat_primals, flat_tangents, strict=True))
    ]
    flat = Flat(fun, tree, has_aux, "jvp")
    outs, out_tangents = jvp_flat(flat, flat_primals, checked, flat.extra)
    check_arrays(outs, flat.out_tree, "jvp", "the function's result")
    full = [full_tangent(t, typeof(o)) for o, t in zip(outs, out_tangents, strict=True)]
    result = (flat.out_tree.unflatten(as_arrays(outs)), flat.out_tree.unflatten(full))
    return (*result, flat.aux) if has_aux else result


def _check_tangent(primal: ArrayLike, tangent: ArrayLike, tree: PyTreeDef, i: int) -> Any:
    """Return the tangent, of the primal's tangent type; None for what has no derivative."""
    p, t = typeof(primal), typeof(tangent)
    if not has_tangent(p):
        if getattr(tangent, "dtype", None) != dtypes.float0:
            raise TypeError(
                f"jvp: {leaf_name(tree, i, 'primals')} is {p.str_short()}, which has no "
                f"derivative; its tangent must have dtype float0 (np.zeros({p.shape}, "
                f"weft.dtypes.float0)), got {t.str_short()}"
            )
        return None
    want = tangent_aval(p)
    if not fits(t, want):
        kind = TypeError if getattr(t, "shape", None) == want.shape else ValueError
        raise kind(
            f"jvp: the tangent of {leaf_name(tree, i, 'primals')} must have type "
            f"{want.str_short()} as the primal, got {t.str_short()}"
        )
    return as_type(tangent, t, want)


@api_boundary
def linearize(fun: Callable, *primals: object, has_aux: bool = False) -> Any:
    """Return the value of `fun` and its derivative at `primals` as a function of tangents.

    The nonlinear work is done once. Returns (out, f_jvp), or (out, f_jvp, aux); f_jvp is a pytree
    of the values it keeps.

    f_jvp raises TypeError for tangents of another structure or type than the primals'.
    Source: Radul et al., "You Only Linearize Once" (2022).

    >>> import weft
    >>> y, f_jvp = weft.linearize(weft.numpy.sin, 0.0)
    >>> f_jvp(2.0)
    Array(2., dtype=float32, weak_type=True)
    """
    check_callable(fun, "linearize")
    outs, lin, flat, in_avals = _linearize(fun, primals, has_aux, "linearize")
    f_jvp = Pushforward(LinearProgram(function_name(fun), lin, in_avals, flat), lin.consts)
    result = flat.out_tree.unflatten(as_arrays(outs))
    return (result, f_jvp, flat.aux) if has_aux else (result, f_jvp)


def _linearize(
    fun: Callable, primals: tuple, has_aux: bool, api: str, root: str = "primals"
) -> tuple[list, Linearized, Flat, list]:
    """Return outputs, the linear program, the function's trees, the types of the flat inputs."""
    leaves, in_tree = flatten(primals)
    check_unchangeable(leaves)
    try:
        in_avals = [typeof(x) for x in leaves]
    except TypeError:
        check_arrays(leaves, in_tree, api, root)
        raise
    flat = Flat(fun, in_tree, has_aux, api)
    outs, lin = linearize_flat(flat, leaves, extra=flat.extra)
    return outs, lin, flat, in_avals


# Reverse -------------------------------------------------------------------------------------


@api_boundary
def vjp(
    fun: Callable,
    *primals: object,
    has_aux: bool = False,
    reduce_axes: Sequence = (),
    saveable_args: bool | tuple = True,
) -> Any:
    """Return the value of `fun` and a function from output cotangents to input cotangents.

    Returns (out, f_vjp), or (out, f_vjp, aux); f_vjp returns a tuple with one cotangent for
    each primal, float0 for integers. f_vjp is a pytree of the values it keeps: of primals that the
    backward pass reads, `f_vjp.args_res`, and of others, `f_vjp.opaque_residuals`.

    saveable_args: which primals f_vjp may keep, a bool or bools in nested tuples, each for all that
    is below it. What is left out must be assigned to `f_vjp.args_res` before the call.

    A primal may be a Ref: `f_vjp.with_refs(grad_ref)` adds the cotangent of what it held to a ref.

    f_vjp raises ValueError for cotangents of another structure or type than the output's.
    Source: Frostig et al., "Decomposing reverse-mode automatic differentiation" (2021).

    >>> import weft
    >>> y, f_vjp = weft.vjp(weft.numpy.sin, 0.0)
    >>> f_vjp(3.0)
    (Array(3., dtype=float32, weak_type=True),)
    """
    check_callable(fun, "vjp")
    _no_reduce_axes("vjp", reduce_axes)
    name = function_name(fun)
    refs: Sequence[int] = ()
    if any(is_ref(x) for x in flatten(primals, is_ref)[0]):
        fun, primals, refs, finish = on_values(fun, primals, has_aux)
    outs, lin, flat, in_avals = _linearize(fun, primals, has_aux or bool(refs), "vjp")
    aux = flat.aux if has_aux or refs else None
    if refs:
        aux = finish(aux)
    leaves = flatten(primals)[0]
    f_vjp = Pullback(LinearProgram(name, lin, in_avals, flat, leaves, refs), lin.consts)
    if saveable_args is not True:
        f_vjp = leave_out(f_vjp, saveable(saveable_args, flat.in_tree))
    result = flat.out_tree.unflatten(as_arrays(outs))
    return (result, f_vjp, aux) if has_aux else (result, f_vjp)


def _no_reduce_axes(api: str, axes: Sequence) -> None:
    if axes:
        raise ValueError(
            f"{api}: reduce_axes={axes!r} is not supported; add the gradient up with "
            "weft.lax.psum, or use weft.shard_map, whose types say where a gradient is a sum"
        )


@api_boundary
def fwd_and_bwd(
    fun: Callable,
    argnums: int | Sequence[int],
    has_aux: bool = False,
    jitted: bool = True,
) -> tuple[Callable, Callable]:
    """Return the forward and the backward pass of `fun` as two functions, each compiled once.

    fwd(*args) returns (out, residuals), or (out, residuals, aux); bwd(residuals, cotangent) the
    cotangents of the arguments at argnums. jitted: whether both are `weft.jit`ted.

    >>> import weft
    >>> fwd, bwd = weft.fwd_and_bwd(lambda x, y: x * y, argnums=(0, 1))
    >>> out, residuals = fwd(2.0, 3.0)
    >>> bwd(residuals, 1.0)
    (Array(3., dtype=float32, weak_type=True), Array(2., dtype=float32, weak_type=True))
    """
    check_callable(fun, "fwd_and_bwd")

    @wraps(fun)
    def fwd(*args: ArrayLike, **kwargs: object) -> Any:
        numbers = argnums_of(argnums, len(args), "fwd_and_bwd")
        primals = [args[i] for i in numbers]
        return vjp(partial_of(fun, args, numbers, kwargs), *primals, has_aux=has_aux)

    def bwd(residuals: Pullback, ct: ArrayLike | dict) -> Any:
        cts = residuals(ct)
        return cts[0] if isinstance(argnums, int) else cts

    if not jitted:
        return api_boundary(fwd), api_boundary(bwd)

    return jit(fwd), jit(bwd)


@api_boundary
def value_and_grad(
    fun: Callable,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence = (),
) -> Callable:
    """Return a function returning both the scalar value of `fun` and its gradient.

    The gradient has the structure of the argument(s) at argnums. With has_aux, fun returns
    (value, aux) and the result is ((value, aux), gradient). Options and errors as of `grad`.

    >>> import weft
    >>> weft.value_and_grad(lambda x: x ** 2)(3.0)
    (Array(9., dtype=float32, weak_type=True), Array(6., dtype=float32, weak_type=True))
    """
    check_callable(fun, "value_and_grad")
    _no_reduce_axes("value_and_grad", reduce_axes)
    run = _value_and_grad(fun, argnums, has_aux, holomorphic, allow_int, "value_and_grad")

    @wraps(fun)
    @api_boundary
    def value_and_grad_fun(*args: ArrayLike | dict | list, **kwargs: object) -> Any:
        value, gradient, aux = run(*args, **kwargs)
        value = as_arrays([value])[0]
        return ((value, aux), gradient) if has_aux else (value, gradient)

    return value_and_grad_fun


def _value_and_grad(
    fun: Callable, argnums: object, has_aux: bool, holomorphic: bool, allow_int: bool, api: str
) -> Callable:
    """From arguments to (value, gradient, aux)."""

    def run(*args: ArrayLike | dict | list, **kwargs: object) -> tuple:
        numbers = argnums_of(argnums, len(args), api)
        primals = tuple([args[i] for i in numbers])
        check_inputs(primals, numbers, api, holomorphic, allow_int)
        outs, lin, flat, in_avals = _linearize(
            partial_of(fun, args, numbers, kwargs), primals, has_aux, api
        )
        _check_scalar(outs, flat.out_tree, holomorphic, api)
        cts: list | None = None if lin.nonzero_out[0] else []
        grads = flat.in_tree.unflatten(
            full_cotangents(lin.jaxpr, lin.consts, lin.nonzero_in, in_avals, cts)
        )
        gradient = grads if isinstance(argnums, tuple | list) else grads[0]
        return outs[0], gradient, flat.aux if has_aux else None

    return run


_LEAF = flatten(0)[1]


def _check_scalar(outs: list, out_tree: PyTreeDef, holomorphic: bool, api: str) -> None:
    if len(outs) != 1 or out_tree != _LEAF:
        raise TypeError(
            f"{api} takes functions with one scalar output, got the structure {out_tree}; "
            "return auxiliary values with has_aux=True"
        )
    check_arrays(outs, out_tree, api, "the function's result")
    aval = typeof(outs[0])
    if aval.shape != ():
        raise TypeError(
            f"{api} takes functions with a scalar output, got {aval.str_short()}; reduce it "
            "(sum or mean), or use weft.jacrev for the whole Jacobian"
        )
    if holomorphic:
        if not dtypes.is_complex(aval.dtype):
            raise TypeError(
                f"{api} with holomorphic=True needs a complex output, got {aval.str_short()}"
            )
    elif not dtypes.is_float(aval.dtype):
        hint = ""
        if dtypes.is_complex(aval.dtype):
            hint = "; use holomorphic=True if it is holomorphic, weft.vjp or weft.jvp if not"
        raise TypeError(f"{api} takes functions with a real output, got {aval.str_short()}{hint}")


@api_boundary
def grad(
    fun: Callable,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence = (),
) -> Callable:
    """Return the gradient of a scalar-valued function, by reverse mode.

    The result has the structure of the argument at argnums (a tuple of such for several). With
    has_aux, fun returns (value, aux) and the result is (gradient, aux).

    Args:
      argnums: the positional argument or arguments to differentiate.
      has_aux: fun returns a pair; aux may be anything and is returned as it is.
      holomorphic: inputs and output are complex, and fun is holomorphic; otherwise the output is
        real, and the gradient in a complex x + iy is the partial derivative in x minus i times
        that in y.
      allow_int: integer arguments are allowed; their gradients have dtype float0.

    Raises:
      TypeError: the output is not one real scalar, an argument has no derivative, or argnums
        names one that is not there.
      ValueError: argnums names an argument twice.

    >>> import weft
    >>> weft.grad(weft.numpy.tanh)(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    check_callable(fun, "grad")
    _no_reduce_axes("grad", reduce_axes)
    run = _value_and_grad(fun, argnums, has_aux, holomorphic, allow_int, "grad")

    @wraps(fun)
    @api_boundary
    def grad_fun(*args: ArrayLike, **kwargs: object) -> Any:
        _, gradient, aux = run(*args, **kwargs)
        return (gradient, aux) if has_aux else gradient

    return grad_fun


@api_boundary
def linear_transpose(fun: Callable, *primals: object, reduce_axes: Sequence = ()) -> Callable:
    """Return the transpose of a linear function, for inputs of the types of `primals`.

    primals may be arrays or `ShapeDtypeStruct`s. The result maps a cotangent of the output to
    a tuple of cotangents of the inputs. A function of integers alone has integer cotangents.

    >>> import weft
    >>> weft.linear_transpose(lambda x: 3 * x, 1.0)(2.0)
    (Array(6., dtype=float32, weak_type=True),)
    """
    check_callable(fun, "linear_transpose")
    _no_reduce_axes("linear_transpose", reduce_axes)
    leaves, tree = flatten(tuple(primals))
    specs = [aval_of_spec(x) for x in leaves]
    weak = [getattr(a, "weak_type", False) for a in specs]
    whole = bool(specs) and all(dtypes.is_integer(getattr(a, "dtype", None)) for a in specs)
    avals = [a.strip_weak_type() if whole else tangent_aval(a) for a in specs]
    name = function_name(fun)
    flat_fun, out = flatten_fun(fun, flatten((tuple(primals), {}))[1])
    jaxpr, consts = trace_to_jaxpr(flat_fun, avals, name)
    return Transposed(TransposedProgram(name, jaxpr, avals, weak, whole, tree, out.tree), consts)


@api_boundary
def closure_convert(fun: Callable, *example_args: object) -> tuple[Callable, list[Any]]:
    """Return a function without closed-over tracers, and their values as extra arguments.

    Returns (converted, values): `converted(*args, *values)` equals `fun(*args)`. Needed where a
    function that closes over differentiated values is an argument of a custom_vjp function.

    >>> import weft
    >>> f, values = weft.closure_convert(lambda x: x * 2, 1.0)
    >>> f(3.0, *values)
    Array(6., dtype=float32, weak_type=True)
    """
    leaves, in_tree = flatten((example_args, {}))
    flat_fun, out = flatten_fun(fun, in_tree)
    jaxpr, consts = trace_to_jaxpr(flat_fun, [aval_of_spec(x) for x in leaves])
    hoisted = [isinstance(c, Tracer) and has_tangent(typeof(c)) for c in consts]
    values = pick(consts, hoisted)
    kept = [None if h else c for c, h in zip(consts, hoisted, strict=True)]

    def converted(*args: ArrayLike | dict | tuple) -> Any:
        n = len(args) - len(values)
        full, args = unpick(args[n:], hoisted, kept), args[:n]
        flat, tree = flatten((args, {}))
        if tree != in_tree:
            raise TypeError(f"closure_convert: the function was traced for {in_tree}, got {tree}")
        return out.tree.unflatten(eval_jaxpr(jaxpr, full, *flat))

    return converted, values
