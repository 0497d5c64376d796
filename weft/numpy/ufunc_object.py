"""The ufunc class: a function of scalars with reduce, accumulate, outer, at and reduceat."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from weft.core.aval import ShapedArray
from weft.core.boundary import api_boundary
from weft.core.errors import ArgumentError, UnsupportedArgumentError
from weft.core.namespace import EagerPrograms, bounded
from weft.core.trace import typeof
from weft.driver.staging import eval_shape
from weft.numpy.common import axes_of, canonical, cast, concrete, refuse_out, static_int, to_array
from weft.numpy.refusals import refuse
from weft.ops.slicing import slice_in_dim


class ufunc(functools.partial):
    """An elementwise function of `nin` operands with NumPy's ufunc methods.

    `frompyfunc` makes one of any function of scalars.
    """

    nin: int
    nout: int
    identity: Any
    __name__: str
    __qualname__: str
    _reduce: Callable | None
    _accumulate: Callable | None

    def __new__(
        cls,
        func: Callable,
        nin: int,
        nout: int,
        *,
        name: str | None = None,
        identity: Any = None,
        reduce: Callable | None = None,
        accumulate: Callable | None = None,
        programs: EagerPrograms | None = None,
    ) -> ufunc:
        if isinstance(func, FunctionType):
            func = bounded(func, "weft.numpy", name, refuse, programs=programs)
        self = super().__new__(cls, func)
        self.nin, self.nout, self.identity = nin, nout, identity
        self.__name__ = self.__qualname__ = name or str(getattr(func, "__name__", "ufunc"))
        self.__module__, self.__doc__ = "weft.numpy", func.__doc__
        self._reduce, self._accumulate = reduce, accumulate
        return self

    def __repr__(self) -> str:
        return f"<weft.numpy.ufunc {self.__name__!r}>"

    def __reduce__(self) -> Any:
        import weft.numpy

        if getattr(weft.numpy, self.__name__, None) is self:
            return self.__name__  # pickled by name, as functions are
        return super().__reduce__()

    nargs = property(lambda self: self.nin + self.nout)

    def _check_binary(self, method: str) -> None:
        if self.nin != 2 or self.nout != 1:
            raise ArgumentError(
                f"weft.numpy.{self.__name__}.{method}: only functions of two operands with one "
                f"result have {method}, this one has {self.nin} and {self.nout}"
            )

    @api_boundary
    def reduce(
        self,
        a: object,
        axis: int | Sequence[int] | None = 0,
        dtype: object = None,
        out: object = None,
        keepdims: bool = False,
        initial: object = None,
        where: object = None,
    ) -> Any:
        """Fold the function over one axis, a tuple of them, or all (None).

        >>> import weft
        >>> weft.numpy.add.reduce(weft.numpy.array([1, 2, 3]))
        Array(6, dtype=int32)
        """
        refuse_out(f"{self.__name__}.reduce", out)
        self._check_binary("reduce")
        if self._reduce is not None:
            options: dict[str, Any] = {} if where is None else {"where": where}
            if self.__name__ in ("add", "multiply"):
                options["dtype"] = dtype
            elif dtype is not None:
                a = self._operand(a, dtype)
            if initial is None:
                return self._reduce(a, axis=axis, keepdims=keepdims, **options)
            if not self.__name__.startswith("logical"):
                return self._reduce(a, axis=axis, keepdims=keepdims, initial=initial, **options)
            return self(self._reduce(a, axis=axis, keepdims=keepdims, **options), initial)
        return _fold(self, a, axes_of(axis, typeof(a).ndim), dtype, keepdims, initial, where)

    @api_boundary
    def accumulate(self, a: Any, axis: int = 0, dtype: object = None, out: object = None) -> Any:
        """Return the results of folding ever longer beginnings of an axis."""
        from weft.api.mapping import associative_scan
        from weft.ops.control.scan import scan

        refuse_out(f"{self.__name__}.accumulate", out)
        self._check_binary("accumulate")
        if self._accumulate is not None:
            return self._accumulate(a, axis=axis, dtype=dtype)
        from weft.numpy.shaping import moveaxis

        a = self._operand(a, dtype)
        if self.associative:
            return associative_scan(lambda x, y: cast(self(x, y), a.dtype), a, axis=axis)
        from weft.numpy.joining import concatenate

        rows = moveaxis(a, axis, 0)
        if rows.shape[0] == 0:
            return a
        first = rows[:1]

        def step(carry: object, x: object) -> tuple:
            y = cast(self(carry, x), typeof(carry).dtype)
            return y, y

        rest: Any
        _, rest = scan(step, rows[0], rows[1:])
        return moveaxis(concatenate([first, rest]), 0, axis)

    def _operand(self, a: Any, dtype: Any) -> Any:
        """Convert the operand of a fold to the dtype asked for, or the function's own."""
        a = to_array(a)
        if dtype is not None:
            return cast(a, canonical(dtype))
        one = ShapedArray((), a.dtype)
        return cast(a, eval_shape(self, one, one).dtype)

    associative = False

    @api_boundary
    def outer(self, A: Any, B: Any, /) -> Any:
        """Return the function of every pair of elements of A and B."""
        self._check_binary("outer")
        from weft.autodiff.shape import reshape

        A, B = to_array(A), to_array(B)
        return self(reshape(A, A.shape + (1,) * B.ndim), reshape(B, (1,) * A.ndim + B.shape))

    @api_boundary
    def at(self, a: Any, indices: object, b: Any = None, /, *, inplace: bool = True) -> Any:
        """Apply the function to `a` at the indices, as often as they occur; `a` stays."""
        from weft.numpy.creation import arange
        from weft.ops.control.divergence import vary
        from weft.ops.control.loops import fori_loop

        if inplace:
            raise UnsupportedArgumentError(
                f"weft.numpy.{self.__name__}.at: arrays are immutable; pass inplace=False and use "
                "the result"
            )
        a = to_array(a)
        if self.nin == 1:
            return a.at[indices].apply(self)
        method = _AT.get(self.__name__)
        if method is not None:
            return getattr(a.at[indices], method)(b)
        from weft.numpy.shaping import broadcast_to, ravel, reshape

        slots = reshape(arange(a.size), a.shape)[indices]
        values = ravel(broadcast_to(to_array(b), slots.shape))
        slots, flat = ravel(slots), ravel(a)
        flat = vary(flat, typeof(values).mat.varying | typeof(slots).mat.varying)

        def step(i: Any, flat: Any) -> Any:
            at = slots[i]
            return flat.at[at].set(cast(self(flat[at], values[i]), a.dtype))

        return reshape(fori_loop(0, slots.shape[0], step, flat), a.shape)

    @api_boundary
    def reduceat(
        self,
        a: Any,
        indices: object,
        axis: int = 0,
        dtype: object = None,
        out: object = None,
    ) -> Any:
        """Fold slices indices[i]:indices[i+1] of an axis; indices are known on the host."""
        from weft.numpy.joining import stack

        refuse_out(f"{self.__name__}.reduceat", out)
        self._check_binary("reduceat")
        a = to_array(a)
        bounds = np.asarray(concrete(indices, f"{self.__name__}.reduceat: indices"))
        size = a.shape[axis]
        if bounds.ndim != 1 or bounds.dtype.kind not in "iu":
            raise ArgumentError(
                f"weft.numpy.{self.__name__}.reduceat: indices must be a vector of integers, got "
                f"{bounds.dtype} of shape {bounds.shape}"
            )
        if not ((bounds >= 0) & (bounds < size)).all():
            raise IndexError(
                f"weft.numpy.{self.__name__}.reduceat: indices must be from 0 to {size - 1}, got "
                f"{bounds.tolist()}"
            )
        starts = bounds.tolist()
        ends = [*starts[1:], size]
        parts = [
            self.reduce(slice_in_dim(a, i, max(j, i + 1), axis=axis), axis=axis, dtype=dtype)
            for i, j in zip(starts, ends, strict=True)
        ]
        return stack(parts, axis)


_AT = {
    "add": "add",
    "multiply": "multiply",
    "maximum": "max",
    "minimum": "min",
    "subtract": "subtract",
}


def _fold(
    fun: ufunc, a: Any, axes: tuple, dtype: object, keepdims: bool, initial: Any, where: Any
) -> Any:
    """Return a fold without an op of its own: pairwise over halves, so its depth is logarithmic."""
    from weft.numpy.selection import where as choose
    from weft.numpy.shaping import broadcast_to, moveaxis, reshape
    from weft.ops.control.scan import scan

    a = fun._operand(a, dtype)
    start = fun.identity if initial is None else initial
    if where is not None and start is None:
        raise ArgumentError(
            f"weft.numpy.{fun.__name__}.reduce: where needs initial, the function has no identity"
        )
    kept = tuple(d for i, d in enumerate(a.shape) if i not in axes)
    shape = tuple(1 if i in axes else d for i, d in enumerate(a.shape))
    rows = reshape(moveaxis(a, axes, range(len(axes))), (-1, *kept) if a.size else (0, *kept))
    if start is None:
        if rows.shape[0] == 0:
            raise ArgumentError(
                f"weft.numpy.{fun.__name__}.reduce: the reduction of no elements needs initial"
            )
        carry, rows = rows[0], rows[1:]
    else:
        carry = broadcast_to(cast(to_array(start), a.dtype), kept)
    mask = None
    if where is not None:
        mask = broadcast_to(to_array(where), a.shape)
        mask = reshape(moveaxis(mask, axes, range(len(axes))), (-1, *kept))

    def step(carry: Any, x: Any) -> tuple:
        value, keep = x if mask is not None else (x, None)
        new = cast(fun(carry, value), carry.dtype)
        return (new if keep is None else choose(keep, new, carry)), None

    out, _ = scan(step, carry, rows if mask is None else (rows, mask))
    return reshape(out, shape) if keepdims else out


def frompyfunc(func: Callable, /, nin: int, nout: int, *, identity: object = None) -> ufunc:
    """Return a ufunc from a function of scalars.

    >>> import weft
    >>> f = weft.numpy.frompyfunc(lambda x, y: x + 2 * y, 2, 1)
    >>> f(weft.numpy.arange(3), 1)
    Array([2, 3, 4], dtype=int32)
    """
    from weft.numpy.vectorization import vectorize

    if not callable(func):
        raise ArgumentError(f"weft.numpy.frompyfunc: func must be callable, got {func!r}")
    return ufunc(
        vectorize(func),
        static_int(nin, "frompyfunc: nin"),
        static_int(nout, "frompyfunc: nout"),
        name=getattr(func, "__name__", "ufunc"),
        identity=np.asarray(identity)[()] if identity is not None else None,
    )
