"""grad, vjp, jvp, linearize and what is built from them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.jaxpr import eval_jaxpr
from weft.core.trace import typeof
from weft.core.tree import flatten, flatten_fun, leaf_names, tree_map
from weft.transforms.boundary import api_boundary
from weft.transforms.jvp import (
    cotangent_aval,
    has_tangent,
    jvp_flat,
    linearize_flat,
    tangent_aval,
)
from weft.transforms.staging import _check_callable, aval_of_spec
from weft.transforms.transpose import UndefinedPrimal, backward_pass, linear_transpose_flat


def _aux_split(fun: Callable, cell: list, who: str) -> Callable:
    """The function without its auxiliary output, which goes to `cell`."""

    def inner(*args: Any, **kwargs: Any) -> Any:
        result = fun(*args, **kwargs)
        if not (isinstance(result, tuple) and len(result) == 2):
            raise TypeError(
                f"{who} with has_aux=True: the function must return a pair (output, aux), got "
                f"{type(result).__name__}"
            )
        out, aux = result
        cell[:] = [aux]
        return out

    return inner


def _strip(x: Any, trace: Any) -> Any:
    return trace.unwrap(x)[0]


def _zero(aval: Any) -> Any:
    from weft.ops.special import instantiate_zero

    return instantiate_zero(aval)


# Forward -------------------------------------------------------------------------------------


@api_boundary
def jvp(
    fun: Callable, primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False
) -> Any:
    """Value and directional derivative of `fun` at `primals` along `tangents`.

    primals and tangents are tuples or lists of pytrees of equal structure; tangents of integers
    have dtype `float0`. Returns (out, out_tangent), or (out, out_tangent, aux).

    >>> import weft
    >>> weft.jvp(weft.numpy.sin, (0.0,), (2.0,))
    (Array(0., dtype=float32, weak_type=True), Array(2., dtype=float32, weak_type=True))
    """
    _check_callable(fun, "jvp")
    for name, value in (("primals", primals), ("tangents", tangents)):
        if not isinstance(value, tuple | list):
            raise TypeError(f"jvp: {name} must be a tuple or list, got {type(value).__name__}")
    flat_primals, tree = flatten(tuple(primals))
    flat_tangents, tangent_tree = flatten(tuple(tangents))
    if tree != tangent_tree:
        raise TypeError(
            f"jvp: primals and tangents must have one structure, got {tree} and {tangent_tree}"
        )
    checked = [
        _check_tangent(p, t, name)
        for p, t, name in zip(
            flat_primals, flat_tangents, leaf_names(tuple(primals), "primals"), strict=True
        )
    ]
    aux: list = []
    inner = _aux_split(fun, aux, "jvp") if has_aux else fun
    flat_fun, out = flatten_fun(lambda *args: inner(*args), flatten((tuple(primals), {}))[1])
    if has_aux:
        box: list = []

        def with_aux(*xs: Any) -> list:
            outs = flat_fun(*xs)
            leaves, aux_tree = flatten(aux[0])
            box[:] = [aux_tree, len(outs)]
            return outs + leaves

        outs, out_tangents = jvp_flat(with_aux, flat_primals, checked)
        n = box[1]
        aux_value = box[0].unflatten(outs[n:])
        outs, out_tangents = outs[:n], out_tangents[:n]
    else:
        outs, out_tangents = jvp_flat(flat_fun, flat_primals, checked)
    full = [_derivative(t, typeof(o)) for o, t in zip(outs, out_tangents, strict=True)]
    result = (out.tree.unflatten(_arrays(outs)), out.tree.unflatten(full))
    return (*result, aux_value) if has_aux else result


def _arrays(xs: Sequence[Any]) -> list:
    """Python scalars among results made arrays."""
    from weft.ops.convert import as_array

    return [as_array(x) for x in xs]


def _derivative(t: Any, of: Any) -> Any:
    """The tangent of a result of type `of`: zeros if there is none, weakly typed if `of` is.

    Inside the transformations tangents are never weakly typed, so that sums of them agree.
    """
    if t is None:
        t = _zero(tangent_aval(of))
    return _as_weak(t) if getattr(of, "weak_type", False) else t


def _as_weak(t: Any) -> Any:
    from weft.ops.elementwise import convert

    aval = typeof(t)
    return t if aval.dtype == dtypes.float0 else convert(t, aval.dtype, weak_type=True)


def _check_tangent(primal: Any, tangent: Any, name: str) -> Any:
    p = typeof(primal)
    if not has_tangent(p):
        t_dtype = getattr(tangent, "dtype", None)
        if t_dtype != dtypes.float0:
            raise TypeError(
                f"jvp: {name} is {p.str_short()}, which has no derivative; its tangent must have "
                f"dtype float0 (np.zeros({p.shape}, weft.dtypes.float0)), got "
                f"{typeof(tangent).str_short()}"
            )
        return None
    t = typeof(tangent)
    want = tangent_aval(p)
    if isinstance(t, ShapedArray) and (
        t.shape != want.shape or (t.dtype != want.dtype and not t.weak_type)
    ):
        raise TypeError(
            f"jvp: the tangent of {name} must have type {want.str_short()} as the primal, got "
            f"{t.str_short()}"
        )
    if isinstance(t, ShapedArray) and (t.dtype != want.dtype or t.weak_type):
        from weft.ops.elementwise import convert

        if isinstance(tangent, bool | int | float | complex):
            return want.dtype.type(tangent)
        return convert(tangent, want.dtype)
    return tangent


@api_boundary
def linearize(fun: Callable, *primals: Any, has_aux: bool = False) -> Any:
    """The value of `fun` and its derivative at `primals` as a function of tangents.

    The nonlinear work is done once. Returns (out, f_jvp), or (out, f_jvp, aux).

    >>> import weft
    >>> y, f_jvp = weft.linearize(weft.numpy.sin, 0.0)
    >>> f_jvp(2.0)
    Array(2., dtype=float32, weak_type=True)
    """
    _check_callable(fun, "linearize")
    outs, lin, out_tree, in_tree, aux = _linearize(fun, primals, has_aux, "linearize")
    in_avals = [typeof(p) for p in flatten(primals)[0]]

    @api_boundary
    def f_jvp(*tangents: Any) -> Any:
        leaves, tree = flatten(tangents)
        if tree != in_tree:
            raise TypeError(
                f"the linearized function takes tangents of structure {in_tree}, got {tree}"
            )
        given = []
        for i, (t, aval, nz) in enumerate(zip(leaves, in_avals, lin.nonzero_in, strict=True)):
            if nz:
                given.append(_check_tangent_type(t, aval, f"tangent {i}"))
        out_t = iter(eval_jaxpr(lin.jaxpr, lin.consts, *given))
        full = [
            _derivative(next(out_t) if nz else None, a)
            for nz, a in zip(lin.nonzero_out, lin.out_avals, strict=True)
        ]
        return out_tree.unflatten(_arrays(full))

    result = out_tree.unflatten(_arrays(outs))
    return (result, f_jvp, aux) if has_aux else (result, f_jvp)


def _check_tangent_type(t: Any, aval: Any, name: str) -> Any:
    want, got = tangent_aval(aval), typeof(t)
    if not isinstance(want, ShapedArray):
        return t
    if got.shape != want.shape or (got.dtype != want.dtype and not got.weak_type):
        raise TypeError(f"{name} must have type {want.str_short()}, got {got.str_short()}")
    if got.dtype != want.dtype or isinstance(t, bool | int | float | complex):
        return want.dtype.type(t) if not isinstance(t, np.ndarray) else t.astype(want.dtype)
    return t


def _linearize(
    fun: Callable, primals: Sequence[Any], has_aux: bool, who: str
) -> tuple[list, Any, Any, Any, Any]:
    leaves, in_tree = flatten(tuple(primals))
    aux: list = []
    inner = _aux_split(fun, aux, who) if has_aux else fun
    flat_fun, out = flatten_fun(lambda *args: inner(*args), flatten((tuple(primals), {}))[1])
    counts: list = []

    def run(*xs: Any) -> list:
        outs = flat_fun(*xs)
        if has_aux:
            aux_leaves, aux_tree = flatten(aux[0])
            counts[:] = [len(outs), aux_tree]
            return outs + aux_leaves
        return outs

    outs, lin = linearize_flat(run, leaves)
    aux_value = None
    if has_aux:
        n, aux_tree = counts
        aux_value = aux_tree.unflatten(outs[n:])
        lin = _first_outputs(lin, n)
        outs = outs[:n]
    return outs, lin, out.tree, in_tree, aux_value


def _first_outputs(lin: Any, n: int) -> Any:
    """The linear program restricted to the first n outputs."""
    kept = sum(lin.nonzero_out[:n])
    lin.jaxpr = lin.jaxpr.replace(outvars=lin.jaxpr.outvars[:kept])
    lin.nonzero_out = lin.nonzero_out[:n]
    lin.out_avals = lin.out_avals[:n]
    return lin


# Reverse -------------------------------------------------------------------------------------


@api_boundary
def vjp(fun: Callable, *primals: Any, has_aux: bool = False, reduce_axes: Sequence = ()) -> Any:
    """The value of `fun` and a function from output cotangents to input cotangents.

    Returns (out, f_vjp), or (out, f_vjp, aux); f_vjp returns a tuple with one cotangent for
    each primal, float0 for integers.

    >>> import weft
    >>> y, f_vjp = weft.vjp(weft.numpy.sin, 0.0)
    >>> f_vjp(3.0)
    (Array(3., dtype=float32, weak_type=True),)
    """
    _check_callable(fun, "vjp")
    outs, lin, out_tree, in_tree, aux = _linearize(fun, primals, has_aux, "vjp")
    in_avals = [typeof(p) for p in flatten(primals)[0]]

    @api_boundary
    def f_vjp(cts: Any) -> Any:
        leaves, tree = flatten(cts)
        if tree != out_tree:
            raise TypeError(
                f"the vjp function takes a cotangent of the output's structure {out_tree}, got "
                f"{tree}"
            )
        given = [
            _check_tangent_type(ct, cotangent_aval(a), f"cotangent {i}")
            for i, (ct, a, nz) in enumerate(
                zip(leaves, lin.out_avals, lin.nonzero_out, strict=True)
            )
            if nz
        ]
        return in_tree.unflatten(_backward(lin, in_avals, given))

    result = out_tree.unflatten(_arrays(outs))
    return (result, f_vjp, aux) if has_aux else (result, f_vjp)


def _backward(lin: Any, in_avals: Sequence[Any], cts: Sequence[Any]) -> list:
    """Cotangents for all flat inputs, zeros where there are none."""
    linear_avals = [v.aval for v in lin.jaxpr.invars]
    args = [UndefinedPrimal(a) for a in linear_avals]
    result = iter(backward_pass(lin.jaxpr, lin.consts, args, cts))
    full = []
    for aval, nz in zip(in_avals, lin.nonzero_in, strict=True):
        ct = next(result) if nz else None
        ct = _zero(cotangent_aval(aval)) if ct is None else ct
        full.append(_as_weak(ct) if getattr(aval, "weak_type", False) else ct)
    return full


def _argnums(argnums: Any, n: int, who: str) -> tuple[int, ...]:
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    result = []
    for i in numbers:
        if not isinstance(i, int) and not hasattr(i, "__index__"):
            raise TypeError(f"{who}: argnums must be an int or a sequence of ints, got {argnums!r}")
        i = i.__index__()
        if not -n <= i < n:
            raise ValueError(
                f"{who}: argnums {i} is out of range: the function was called with {n} positional "
                "arguments (arguments passed by keyword cannot be differentiated)"
            )
        result.append(i % n)
    if len(set(result)) != len(result):
        raise ValueError(f"{who}: argnums {argnums!r} names an argument twice")
    return tuple(result)


def _partial(fun: Callable, args: Sequence[Any], numbers: Sequence[int], kwargs: dict) -> Callable:
    """fun as a function of the arguments at `numbers`."""

    def inner(*given: Any) -> Any:
        full = list(args)
        for i, x in zip(numbers, given, strict=True):
            full[i] = x
        return fun(*full, **kwargs)

    return inner


def _check_input_dtype(x: Any, who: str, name: str, holomorphic: bool, allow_int: bool) -> None:
    for leaf, path in zip(flatten(x)[0], leaf_names(x, name), strict=True):
        aval = typeof(leaf)
        if not isinstance(aval, ShapedArray):
            continue
        d = aval.dtype
        if holomorphic and not dtypes.is_complex(d):
            raise TypeError(f"{who} with holomorphic=True takes complex inputs; {path} is {aval}")
        if dtypes.is_extended(d) or not dtypes.is_inexact(d):
            if allow_int and not dtypes.is_extended(d):
                continue
            raise TypeError(
                f"{who} takes real- or complex-valued inputs; {path} is {aval.str_short()}. Pass "
                "it as a float, exclude it by argnums, or use allow_int=True"
            )
        if dtypes.is_complex(d) and not holomorphic and who != "vjp":
            return


@api_boundary
def value_and_grad(
    fun: Callable,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence = (),
) -> Callable:
    """A function returning both the scalar value of `fun` and its gradient.

    The gradient has the structure of the argument(s) at argnums. With has_aux, fun returns
    (value, aux) and the result is ((value, aux), gradient).

    >>> import weft
    >>> weft.value_and_grad(lambda x: x ** 2)(3.0)
    (Array(9., dtype=float32, weak_type=True), Array(6., dtype=float32, weak_type=True))
    """
    _check_callable(fun, "value_and_grad")
    return _value_and_grad(fun, argnums, has_aux, holomorphic, allow_int, "value_and_grad")


def _value_and_grad(
    fun: Callable, argnums: Any, has_aux: bool, holomorphic: bool, allow_int: bool, who: str
) -> Callable:
    @functools.wraps(fun)
    @api_boundary
    def value_and_grad_fun(*args: Any, **kwargs: Any) -> Any:
        numbers = _argnums(argnums, len(args), who)
        primals = [args[i] for i in numbers]
        for i, p in zip(numbers, primals, strict=True):
            _check_input_dtype(p, who, f"argument {i}", holomorphic, allow_int)
        outs, lin, out_tree, in_tree, aux = _linearize(
            _partial(fun, args, numbers, kwargs), primals, has_aux, who
        )
        _check_scalar(outs, out_tree, holomorphic, who)
        in_avals = [typeof(p) for p in flatten(tuple(primals))[0]]
        aval = typeof(outs[0])
        cts = [_one_like(aval)] if lin.nonzero_out[0] else []
        grads = in_tree.unflatten(_backward(lin, in_avals, cts))
        grad = grads[0] if isinstance(argnums, int) else tuple(grads)
        value = _arrays(outs)[0]
        return ((value, aux), grad) if has_aux else (value, grad)

    return value_and_grad_fun


def _one_like(aval: ShapedArray) -> Any:
    from weft.ops.special import match_type

    return match_type(aval.dtype.type(1), cotangent_aval(aval))


def _check_scalar(outs: list, out_tree: Any, holomorphic: bool, who: str) -> None:
    if len(outs) != 1 or out_tree != flatten(0)[1]:
        raise TypeError(
            f"{who} takes functions with one scalar output, got the structure {out_tree}; "
            "return auxiliary values with has_aux=True"
        )
    aval = typeof(outs[0])
    if aval.shape != ():
        raise TypeError(
            f"{who} takes functions with a scalar output, got {aval.str_short()}; reduce it "
            "(sum or mean), or use weft.jacrev for the whole Jacobian"
        )
    if holomorphic:
        if not dtypes.is_complex(aval.dtype):
            raise TypeError(f"{who} with holomorphic=True needs a complex output, got {aval}")
    elif not dtypes.is_float(aval.dtype):
        hint = "; use holomorphic=True" if dtypes.is_complex(aval.dtype) else ""
        raise TypeError(f"{who} takes functions with a real output, got {aval.str_short()}{hint}")


@api_boundary
def grad(
    fun: Callable,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence = (),
) -> Callable:
    """The gradient of a scalar-valued function, by reverse mode.

    The result has the structure of the argument at argnums (a tuple of such for several). With
    has_aux, fun returns (value, aux) and the result is (gradient, aux).

    >>> import weft
    >>> weft.grad(weft.numpy.tanh)(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    _check_callable(fun, "grad")
    both = _value_and_grad(fun, argnums, has_aux, holomorphic, allow_int, "grad")

    @functools.wraps(fun)
    @api_boundary
    def grad_fun(*args: Any, **kwargs: Any) -> Any:
        value, gradient = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return grad_fun


@api_boundary
def linear_transpose(fun: Callable, *primals: Any, reduce_axes: Sequence = ()) -> Callable:
    """The transpose of a linear function, for inputs of the types of `primals`.

    primals may be arrays or `ShapeDtypeStruct`s. The result maps a cotangent of the output to
    a tuple of cotangents of the inputs.

    >>> import weft
    >>> weft.linear_transpose(lambda x: 3 * x, 1.0)(2.0)
    (Array(6., dtype=float32),)
    """
    _check_callable(fun, "linear_transpose")
    leaves, tree = flatten(tuple(primals))
    avals = [tangent_aval(aval_of_spec(x)) for x in leaves]
    flat_fun, out = flatten_fun(lambda *args: fun(*args), flatten((tuple(primals), {}))[1])
    out_avals: list = []

    def run(*xs: Any) -> list:
        outs = flat_fun(*xs)
        out_avals[:] = [typeof(o) for o in outs]
        return outs

    transposed = linear_transpose_flat(run, avals)

    @api_boundary
    def transposed_fun(cts: Any) -> Any:
        ct_leaves, ct_tree = flatten(cts)
        if ct_tree != out.tree:
            raise TypeError(
                f"the transposed function takes a cotangent of structure {out.tree}, got {ct_tree}"
            )
        given = [
            _check_tangent_type(ct, a, f"cotangent {i}")
            for i, (ct, a) in enumerate(zip(ct_leaves, out_avals, strict=True))
        ]
        result = transposed(given)
        full = [
            _zero(cotangent_aval(a)) if ct is None else ct
            for ct, a in zip(result, avals, strict=True)
        ]
        return tree.unflatten(_arrays(full))

    return transposed_fun


# Jacobians -----------------------------------------------------------------------------------


def _basis(leaves: Sequence[Any]) -> list:
    """For each leaf of the standard basis, an array (total size, *shape)."""
    sizes = [typeof(x).size for x in leaves]
    total, start, result = sum(sizes), 0, []
    for x, n in zip(leaves, sizes, strict=True):
        aval = typeof(x)
        block = np.zeros((total, n), np.float32).astype(aval.dtype)
        block[start : start + n] = np.eye(n)
        result.append(block.reshape((total, *aval.shape)))
        start += n
    return result


def _split(array: Any, leaves: Sequence[Any], axis: int) -> list:
    """Splits the basis dimension of a result into the leaves' shapes."""
    from weft.ops.shape import reshape
    from weft.ops.slicing import slice_in_dim

    start, parts = 0, []
    shape = typeof(array).shape
    for x in leaves:
        aval = typeof(x)
        part = slice_in_dim(array, start, start + aval.size, axis=axis)
        parts.append(reshape(part, (*shape[:axis], *aval.shape, *shape[axis + 1 :])))
        start += aval.size
    return parts


@api_boundary
def jacfwd(
    fun: Callable,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable:
    """The Jacobian by forward mode: one pass per input element, batched.

    The result has the output's structure; each leaf has the input's structure inside, with
    shapes (*output shape, *input shape).

    >>> import weft
    >>> weft.jacfwd(lambda x: x * x)(weft.numpy.arange(2.0))
    Array([[0., 0.],
           [0., 2.]], dtype=float32)
    """
    _check_callable(fun, "jacfwd")

    @functools.wraps(fun)
    @api_boundary
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        from weft.transforms.vmap_api import vmap

        numbers = _argnums(argnums, len(args), "jacfwd")
        primals = tuple(args[i] for i in numbers)
        for i, p in zip(numbers, primals, strict=True):
            _check_input_dtype(p, "jacfwd", f"argument {i}", holomorphic, False)
        inner = _partial(fun, args, numbers, kwargs)
        leaves, in_tree = flatten(primals)
        basis = in_tree.unflatten(_basis(leaves))

        def push(tangents: Any) -> Any:
            result = jvp(inner, primals, tangents, has_aux=has_aux)
            return result[1:] if has_aux else result[1]

        pushed = vmap(push, out_axes=((-1, None) if has_aux else -1))(basis)
        tangents, aux = pushed if has_aux else (pushed, None)

        def leaf(t: Any) -> Any:
            parts = in_tree.unflatten(_split(t, leaves, typeof(t).ndim - 1))
            return parts[0] if isinstance(argnums, int) else tuple(parts)

        result = tree_map(leaf, tangents)
        return (result, aux) if has_aux else result

    return jacobian


@api_boundary
def jacrev(
    fun: Callable,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable:
    """The Jacobian by reverse mode: one pass per output element, batched.

    Structure and shapes as `jacfwd`.

    >>> import weft
    >>> weft.jacrev(lambda x: x * x)(weft.numpy.arange(2.0))
    Array([[0., 0.],
           [0., 2.]], dtype=float32)
    """
    _check_callable(fun, "jacrev")

    @functools.wraps(fun)
    @api_boundary
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        from weft.transforms.vmap_api import vmap

        numbers = _argnums(argnums, len(args), "jacrev")
        primals = tuple(args[i] for i in numbers)
        for i, p in zip(numbers, primals, strict=True):
            _check_input_dtype(p, "jacrev", f"argument {i}", holomorphic, allow_int)
        pulled = vjp(_partial(fun, args, numbers, kwargs), *primals, has_aux=has_aux)
        out, f_vjp = pulled[:2]
        out_leaves, out_tree = flatten(out)
        cts = out_tree.unflatten(_basis(out_leaves))
        rows, in_tree = flatten(vmap(f_vjp)(cts))  # per input leaf (total, *input shape)
        columns = [_split(r, out_leaves, 0) for r in rows]
        jac = []
        for k in range(len(out_leaves)):
            parts = in_tree.unflatten([c[k] for c in columns])
            jac.append(parts[0] if isinstance(argnums, int) else tuple(parts))
        result = out_tree.unflatten(jac)
        return (result, pulled[2]) if has_aux else result

    return jacobian


jacobian = jacrev


@api_boundary
def hessian(
    fun: Callable,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable:
    """The Hessian: forward mode over reverse mode.

    >>> import weft
    >>> weft.hessian(lambda x: x ** 3)(2.0)
    Array(12., dtype=float32, weak_type=True)
    """
    return jacfwd(
        jacrev(fun, argnums, has_aux=has_aux, holomorphic=holomorphic),
        argnums,
        has_aux=has_aux,
        holomorphic=holomorphic,
    )


@api_boundary
def closure_convert(fun: Callable, *example_args: Any) -> tuple[Callable, list[Any]]:
    """A function without closed-over tracers, and their values as extra arguments.

    Returns (converted, values): `converted(*args, *values)` equals `fun(*args)`. Needed where a
    function that closes over differentiated values is an argument of a custom_vjp function.
    """
    from weft.core.trace import Tracer, trace_to_jaxpr

    leaves, in_tree = flatten((example_args, {}))
    flat_fun, out = flatten_fun(fun, in_tree)
    jaxpr, consts = trace_to_jaxpr(flat_fun, [aval_of_spec(x) for x in leaves])
    hoisted = [isinstance(c, Tracer) and has_tangent(typeof(c)) for c in consts]
    values = [c for c, h in zip(consts, hoisted, strict=True) if h]
    kept = [None if h else c for c, h in zip(consts, hoisted, strict=True)]

    def converted(*args: Any) -> Any:
        n = len(args) - len(values)
        args, given = args[:n], iter(args[n:])
        full = [next(given) if h else k for k, h in zip(kept, hoisted, strict=True)]
        flat, tree = flatten((args, {}))
        if tree != in_tree:
            raise TypeError(f"closure_convert: the function was traced for {in_tree}, got {tree}")
        return out.tree.unflatten(eval_jaxpr(jaxpr, full, *flat))

    return converted, values
