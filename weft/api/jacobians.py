"""Jacobians and Hessians: a forward or a reverse pass for each basis vector, batched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.api.grad import jvp, vjp
from weft.api.grad_arguments import argnums_of, check_inputs, leaf_name, partial_of
from weft.api.vmap_api import vmap
from weft.autodiff.jvp import has_tangent
from weft.autodiff.shape import reshape
from weft.core import dtypes
from weft.core.boundary import api_boundary
from weft.core.source import wraps
from weft.core.trace import typeof
from weft.core.tree import flatten, tree_map
from weft.driver.staging import check_callable
from weft.ops.slicing import slice_in_dim

if TYPE_CHECKING:
    from weft.core.tree import PyTreeDef
    from weft.runtime.array import Array
    from weft.typing import ArrayLike


def _basis(leaves: Sequence[Any]) -> list:
    """Return for each leaf of the standard basis, an array (total size, *shape).

    Values without a derivative have no basis vectors; they get float0 zeros.
    """
    sizes = [typeof(x).size if has_tangent(typeof(x)) else 0 for x in leaves]
    total, start, result = sum(sizes), 0, []
    for x, n in zip(leaves, sizes, strict=True):
        aval = typeof(x)
        if not has_tangent(aval):
            result.append(np.zeros((total, *aval.shape), dtypes.float0))
            continue
        block = np.zeros((total, n), np.float32).astype(aval.dtype)
        block[start : start + n] = np.eye(n)
        result.append(block.reshape((total, *aval.shape)))
        start += n
    return result


def _split(array: ArrayLike, leaves: Sequence[Any], axis: int) -> list:
    """Split the basis dimension of a result into the leaves' shapes."""
    if getattr(array, "dtype", None) == dtypes.float0:
        return [_no_derivative(array, x, axis) for x in leaves]
    start, parts = 0, []
    shape = typeof(array).shape
    for x in leaves:
        aval = typeof(x)
        part = slice_in_dim(array, start, start + aval.size, axis=axis)
        parts.append(reshape(part, (*shape[:axis], *aval.shape, *shape[axis + 1 :])))
        start += aval.size
    return parts


def _no_derivative(array: Array, x: Array, axis: int) -> np.ndarray:
    shape = array.shape[:axis] + typeof(x).shape + array.shape[axis + 1 :]
    return np.zeros(shape, dtypes.float0)


def _check_outputs(leaves: Sequence[Any], tree: PyTreeDef, holomorphic: bool) -> None:
    for i, x in enumerate(leaves):
        aval = typeof(x)
        if holomorphic and not dtypes.is_complex(aval.dtype):
            raise TypeError(
                "jacrev with holomorphic=True takes functions with complex outputs; "
                f"{leaf_name(tree, i, 'the result')} is {aval.str_short()}"
            )
        if not holomorphic and not dtypes.is_float(aval.dtype):
            raise TypeError(
                f"jacrev takes functions with real outputs; {leaf_name(tree, i, 'the result')} is "
                f"{aval.str_short()}. "
                + (
                    "Use holomorphic=True for a holomorphic function, or weft.vjp"
                    if dtypes.is_complex(aval.dtype)
                    else "Return it with has_aux=True, or use weft.vjp"
                )
            )


@api_boundary
def jacfwd(
    fun: Callable,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable:
    """Return the Jacobian by forward mode: one pass per input element, batched.

    The result has the output's structure; each leaf has the input's structure inside, with
    shapes (*output shape, *input shape). Outputs may be complex or integer (float0 then).

    Raises TypeError for inputs that are not real, unless holomorphic (then: not complex).

    >>> import weft
    >>> weft.jacfwd(lambda x: x * x)(weft.numpy.arange(2.0))
    Array([[0., 0.],
           [0., 2.]], dtype=float32)
    """
    check_callable(fun, "jacfwd")

    @wraps(fun)
    @api_boundary
    def jacobian(*args: ArrayLike | dict, **kwargs: object) -> Any:
        numbers = argnums_of(argnums, len(args), "jacfwd")
        primals = tuple(args[i] for i in numbers)
        check_inputs(primals, numbers, "jacfwd", holomorphic, real=True)
        inner = partial_of(fun, args, numbers, kwargs)
        leaves, in_tree = flatten(primals)
        basis = in_tree.unflatten(_basis(leaves))

        aux: list = []

        def push(tangents: tuple) -> Any:
            _, tangent, *aux[:] = jvp(inner, primals, tangents, has_aux=has_aux)
            return tangent

        tangents = vmap(push, out_axes=-1)(basis)

        def leaf(t: ArrayLike) -> Any:
            parts = in_tree.unflatten(_split(t, leaves, typeof(t).ndim - 1))
            return tuple(parts) if isinstance(argnums, tuple | list) else parts[0]

        result = tree_map(leaf, tangents)
        return (result, aux[0]) if has_aux else result

    return jacobian


@api_boundary
def jacrev(
    fun: Callable,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable:
    """Return the Jacobian by reverse mode: one pass per output element, batched.

    Structure and shapes as of `jacfwd`; inputs may be complex, or integer with allow_int.

    Raises TypeError for outputs that are not real, unless holomorphic (then: not complex).

    >>> import weft
    >>> weft.jacrev(lambda x: x * x)(weft.numpy.arange(2.0))
    Array([[0., 0.],
           [0., 2.]], dtype=float32)
    """
    check_callable(fun, "jacrev")

    @wraps(fun)
    @api_boundary
    def jacobian(*args: ArrayLike | dict, **kwargs: object) -> Any:
        numbers = argnums_of(argnums, len(args), "jacrev")
        primals = tuple(args[i] for i in numbers)
        check_inputs(primals, numbers, "jacrev", holomorphic, allow_int)
        pulled = vjp(partial_of(fun, args, numbers, kwargs), *primals, has_aux=has_aux)
        out, f_vjp = pulled[:2]
        out_leaves, out_tree = flatten(out)
        _check_outputs(out_leaves, out_tree, holomorphic)
        cts = out_tree.unflatten(_basis(out_leaves))
        rows, in_tree = flatten(vmap(f_vjp)(cts))  # per input leaf (total, *input shape)
        columns = [_split(r, out_leaves, 0) for r in rows]
        jac = []
        for k in range(len(out_leaves)):
            parts = in_tree.unflatten([c[k] for c in columns])
            jac.append(tuple(parts) if isinstance(argnums, tuple | list) else parts[0])
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
    """Return the Hessian: forward mode over reverse mode.

    For a scalar function, shapes (*input shape, *input shape); trees nest twice. Errors as of
    `jacfwd` and `jacrev`.

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
