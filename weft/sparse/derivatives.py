# Tests: tests/sparse/test_transform.py
"""Derivatives with respect to the stored elements of sparse arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import weft
from weft import tree
from weft.core.boundary import api_boundary
from weft.core.errors import ArgumentError
from weft.core.source import wraps
from weft.sparse.transform import is_sparse


class _Opened:
    """Arguments of which those to be differentiated are given as their stored elements."""

    def __init__(self, api: str, fun: Callable, argnums: int | Sequence[int], args: tuple) -> None:
        numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
        if any(not -len(args) <= n < len(args) for n in numbers):
            raise ArgumentError(
                f"{api}: argnums {argnums} must be among the {len(args)} positional arguments"
            )
        self.numbers = tuple(n % len(args) for n in numbers)
        self.single = isinstance(argnums, int)
        self.fun, self.args = fun, args
        self.values = [
            tree.map(lambda x: x.data if is_sparse(x) else x, args[n], is_leaf=is_sparse)
            for n in self.numbers
        ]

    def _with(self, number: int, values: object) -> Any:
        """Return an argument, or its derivative: the same indices, other elements."""
        put = lambda x, v: _rebuilt(x, v) if is_sparse(x) else v
        return tree.map(put, self.args[number], values, is_leaf=is_sparse)

    def __call__(self, *values: object, **kwargs: object) -> Any:
        args = list(self.args)
        for n, v in zip(self.numbers, values, strict=True):
            args[n] = self._with(n, v)
        return self.fun(*args, **kwargs)

    def close(self, derivatives: Sequence[Any]) -> Any:
        """Return the derivatives as argnums asks for them."""
        out = tuple(self._with(n, d) for n, d in zip(self.numbers, derivatives, strict=True))
        return out[0] if self.single else out


def _rebuilt(x: Any, data: Any) -> Any:
    """Return the sparse array of other elements, whose leading axes are batches."""
    extra = data.ndim - x.data.ndim
    if not extra:
        return type(x).tree_unflatten(x._info, (data, *x._bufs[1:]))
    lead = data.shape[:extra]
    info = {**x._info, "shape": (*lead, *x.shape)}
    rest = [b.reshape((1,) * extra + b.shape) for b in x._bufs[1:]]
    return type(x).tree_unflatten(info, (data, *rest))


def _made(name: str, transformation: Callable, has_value: bool, doc: str) -> Callable:
    def transform(
        fun: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: object
    ) -> Callable:
        transformation(fun, argnums, has_aux, **kwargs)  # raises for bad arguments

        @wraps(fun)
        @api_boundary
        def derivative(*args: object, **keywords: object) -> Any:
            opened = _Opened(f"sparse.{name}", fun, argnums, args)
            every = tuple(range(len(opened.numbers)))
            inner = transformation(opened, every, has_aux, **kwargs)
            out = inner(*opened.values, **keywords)
            if has_value:
                return out[0], opened.close(out[1])
            return (opened.close(out[0]), out[1]) if has_aux else opened.close(out)

        return derivative

    transform.__name__ = transform.__qualname__ = name
    transform.__doc__ = doc
    return transform


_DOC = """{summary}

    Arguments are those of `weft.{name}`. A sparse argument is differentiated in its stored
    elements: the derivative is a sparse array with the same indices{more}.

    Raises TypeError or ValueError as `weft.{name}` does.

    >>> import weft.numpy as wnp
    >>> from weft import sparse
    >>> m = sparse.BCOO.fromdense(wnp.array([[0.0, 2.0], [1.0, 0.0]]))
    >>> {example}
    """


def _doc(name: str, summary: str, more: str, example: str) -> str:
    return _DOC.format(name=name, summary=summary, more=more, example=example)


_JACOBIAN = """sparse.{}(lambda m: m @ wnp.ones(2))(m).data.tolist()
    [[1.0, 0.0], [0.0, 1.0]]"""

grad = _made(
    "grad",
    weft.grad,
    False,
    _doc(
        "grad",
        "Return the gradient of a scalar function that may take sparse arrays.",
        "",
        "sparse.grad(lambda m: (m @ wnp.ones(2)).sum())(m)\n    BCOO(float32[2, 2], nse=2)",
    ),
)
value_and_grad = _made(
    "value_and_grad",
    weft.value_and_grad,
    True,
    _doc(
        "value_and_grad",
        "Return the value and the gradient of a scalar function that may take sparse arrays.",
        "",
        "sparse.value_and_grad(lambda m: (m @ wnp.ones(2)).sum())(m)\n"
        "    (Array(3., dtype=float32), BCOO(float32[2, 2], nse=2))",
    ),
)
jacfwd = _made(
    "jacfwd",
    weft.jacfwd,
    False,
    _doc(
        "jacfwd",
        "Return the Jacobian by forward mode of a function that may take sparse arrays.",
        ", and the axes of the function's result as batches before them",
        _JACOBIAN.format("jacfwd"),
    ),
)
jacrev = _made(
    "jacrev",
    weft.jacrev,
    False,
    _doc(
        "jacrev",
        "Return the Jacobian by reverse mode of a function that may take sparse arrays.",
        ", and the axes of the function's result as batches before them",
        _JACOBIAN.format("jacrev"),
    ),
)
jacobian = jacrev
