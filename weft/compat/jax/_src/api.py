# Tests: tests/compat/test_private_names.py
"""jax._src.api, for adv-jax-math: the parts of jacfwd and jacrev, for Jacobians in chunks."""

from __future__ import annotations

from functools import partial
from typing import Any

from weft.api.jacobians import _basis, _split
from weft.core.dtypes import is_complex, is_float
from weft.core.trace import typeof
from weft.tree_util import tree_flatten
from weft.typing import ArrayLike


def _std_basis(tree: object) -> Any:
    """Return the standard basis of a pytree, (total size, *shape) for each leaf."""
    leaves, treedef = tree_flatten(tree)
    return treedef.unflatten(_basis(leaves))


def _unravel(tree: object, array: ArrayLike, axis: int) -> Any:
    leaves, treedef = tree_flatten(tree)
    return treedef.unflatten(_split(array, leaves, axis % typeof(array).ndim))


def _jacfwd_unravel(inputs: object, output: ArrayLike, array: ArrayLike) -> Any:
    """Split the last dimension of an output's derivatives into the inputs' shapes."""
    return _unravel(inputs, array, -1)


def _jacrev_unravel(outputs: object, input_: ArrayLike, array: ArrayLike) -> Any:
    """Split the first dimension of an input's cotangents into the outputs' shapes."""
    return _unravel(outputs, array, 0)


def _check(api: str, real: bool, holomorphic: bool, *allow_int_and_value: ArrayLike) -> None:
    """Raise TypeError unless a value is complex for holomorphic functions, else differentiable."""
    *allow_int, x = allow_int_and_value
    dtype = typeof(x).dtype
    fits = is_complex(dtype) or not holomorphic and (is_float(dtype) or any(allow_int))
    if not fits or real and is_complex(dtype) and not holomorphic:
        kind = "complex" if holomorphic else "real" if real else "real or complex"
        raise TypeError(f"{api}: {kind} numbers are needed, got {typeof(x).str_short()}")


def _check_output_dtype_jacfwd(holomorphic: bool, x: ArrayLike) -> None:
    if holomorphic:
        _check("output of jacfwd", False, True, x)


_check_input_dtype_jacfwd = partial(_check, "input of jacfwd", True)
_check_input_dtype_jacrev = partial(_check, "input of jacrev", False)
_check_output_dtype_jacrev = partial(_check, "output of jacrev", True)
