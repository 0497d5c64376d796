"""Functions applied to arrays: vectorize, apply_along_axis, apply_over_axes, piecewise."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

from weft.api.vmap_api import vmap
from weft.autodiff import shape as ops
from weft.autodiff.op_families import canonical_axis
from weft.autodiff.zeros import stop_gradient
from weft.core import dtypes
from weft.core.boundary import api_boundary
from weft.core.config import config
from weft.core.errors import ArgumentError
from weft.core.trace import typeof
from weft.numpy.common import INEXACT, cast, to_array
from weft.numpy.creation import asarray
from weft.numpy.eager import as_one_program
from weft.numpy.filled import zeros
from weft.ops.promote import broadcast_to as _broadcast_to
from weft.ops.promote import check_ranks

if TYPE_CHECKING:
    from weft.typing import ArrayLike

Core = tuple[str, ...]

_NAME = r"\w+"
_ARGUMENT = rf"\((?:{_NAME}(?:,{_NAME})*)?,?\)"
_SIGNATURE = re.compile(rf"^{_ARGUMENT}(?:,{_ARGUMENT})*->{_ARGUMENT}(?:,{_ARGUMENT})*$")


def parse_signature(signature: str) -> tuple[list[Core], list[Core]]:
    """'(m,n),(n)->(m)' as the core dimensions of operands and results."""
    text = re.sub(r"\s", "", signature)
    if not _SIGNATURE.match(text):
        raise ArgumentError(
            f"weft.numpy.vectorize: signature {signature!r} is not of the form '(m,n),(n)->(m)'"
        )

    def groups(part: str) -> list[Core]:
        return [tuple(re.findall(_NAME, g)) for g in re.findall(_ARGUMENT, part)]

    left, right = text.split("->")
    return groups(left), groups(right)


def vectorize(
    pyfunc: Callable, *, excluded: Any = frozenset(), signature: str | None = None
) -> Callable:
    """Return a function that maps pyfunc over leading dimensions, broadcast by NumPy's rules.

    excluded: positions and names of arguments passed as they are. signature: the core dimensions
    pyfunc works on, such as '(m,n),(n)->(m)'; without it pyfunc works on scalars.
    Source: numpy.vectorize, and "Generalized universal function API" in NumPy's reference.

    >>> import weft
    >>> dot = weft.numpy.vectorize(weft.numpy.dot, signature="(n),(n)->()")
    >>> dot(weft.numpy.ones((2, 3)), weft.numpy.arange(3.0))
    Array([3., 3.], dtype=float32)
    """
    excluded = frozenset(excluded)
    for key in excluded:
        if not isinstance(key, int | str) or (isinstance(key, int) and key < 0):
            raise ArgumentError(
                f"weft.numpy.vectorize: excluded holds nonnegative positions and names, got {key!r}"
            )
    cores = None if signature is None else parse_signature(signature)
    context = "" if signature is None else f" of {signature!r}"

    @api_boundary
    @functools.wraps(pyfunc)
    def vectorized(*args: Any, **kwargs: Any) -> Any:
        call, args, kwargs = fix_arguments(pyfunc, excluded, args, kwargs)
        n, names = len(args), list(kwargs)
        args = (*args, *kwargs.values())
        inputs, outputs = cores or ([()] * len(args), None)

        def positional(*xs: object) -> Any:
            return call(*xs[:n], **dict(zip(names, xs[n:], strict=True)))

        for i, (x, core) in enumerate(zip(args, inputs, strict=False)):
            if x is None and core:
                raise ArgumentError(
                    f"weft.numpy.vectorize: operand {i} is None, but has the core dimensions "
                    f"{core}{context}; give an array, or name the position in excluded="
                )
        absent = {i for i, x in enumerate(args) if x is None}
        inputs = [core for i, core in enumerate(inputs) if i not in absent]
        function, args, _ = fix_arguments(positional, absent, args, {})
        operands = [_operand(x) for x in args]
        lead, sizes = input_dimensions(operands, inputs, context)
        if outputs is not None:
            function = check_results(function, sizes, outputs, context)
        return _map(function, operands, [len(core) for core in inputs], lead)

    return vectorized


def fix_arguments(
    function: Callable, fixed: Collection[int | str], args: Any, kwargs: dict[str, Any]
) -> tuple[Callable, Any, dict[str, Any]]:
    """Fix the arguments of these positions and names; return the function of the others, and them.

    A position counts among `args`.
    """
    if not fixed:
        return function, args, kwargs
    positions = [i for i in range(len(args)) if i not in fixed]
    template = list(args)
    named = {k: v for k, v in kwargs.items() if k in fixed}

    def of_others(*others: object, **rest: object) -> Any:
        full = list(template)
        for i, x in zip(positions, others, strict=True):
            full[i] = x
        return function(*full, **named, **rest)

    rest = {k: v for k, v in kwargs.items() if k not in fixed}
    return of_others, [args[i] for i in positions], rest


def _operand(x: Any) -> Any:
    if isinstance(x, list | tuple):
        return asarray(x)
    return to_array(x)


def input_dimensions(
    operands: Sequence[Any], cores: Sequence[Core], context: str = ""
) -> tuple[tuple[int, ...], dict[str, int]]:
    """Return the shape to map operands over, and the sizes of their core dimensions by name.

    context: what messages say after a dimension's name. A name of digits is a name, as in
    numpy.vectorize.
    """
    if len(operands) != len(cores):
        raise ArgumentError(
            f"weft.numpy.vectorize: {len(cores)} operands are needed{context}, got {len(operands)}"
        )
    sizes: dict[str, int] = {}
    leads = []
    for i, (x, core) in enumerate(zip(operands, cores, strict=True)):
        shape = typeof(x).shape
        if len(shape) < len(core):
            raise ArgumentError(
                f"weft.numpy.vectorize: operand {i} of shape {shape} lacks the core dimensions "
                f"{core}{context}"
            )
        lead = shape[: len(shape) - len(core)]
        leads.append(lead)
        for name, n in zip(core, shape[len(lead) :], strict=True):
            expected = sizes.setdefault(name, n)
            if expected != n:
                raise ArgumentError(
                    f"weft.numpy.vectorize: core dimension {name!r}{context} has size "
                    f"{n} in operand {i} and {expected} elsewhere"
                )
    if config.numpy_rank_promotion != "allow":
        ranked = [lead for x, lead in zip(operands, leads, strict=True) if typeof(x).shape]
        check_ranks(ranked)
    return ops.broadcast_shapes(*leads) if leads else (), sizes


def _map(function: Callable, operands: list, ranks: list[int], lead: tuple[int, ...]) -> Any:
    """Map the function over the dimensions in front of each operand's last `ranks`."""
    leads = [typeof(x).shape[: typeof(x).ndim - r] for x, r in zip(operands, ranks, strict=True)]
    squeezed = []
    for x, dims in zip(operands, leads, strict=True):
        ones = tuple(
            d for d, n in enumerate(dims) if n == 1 and lead[len(lead) - len(dims) + d] != 1
        )
        squeezed.append(ops.squeeze(x, ones) if ones else x)
    # What is not a core dimension is mapped, from the last to the first.
    for k in range(len(lead) - 1, -1, -1):
        axes = []
        for dims in leads:
            d = k - (len(lead) - len(dims))
            axes.append(0 if d >= 0 and dims[d] == lead[k] else None)
        if any(a is not None for a in axes):
            function = vmap(function, in_axes=tuple(axes))
        else:
            function = vmap(function, in_axes=tuple(axes), axis_size=lead[k])
    return function(*squeezed)


def check_results(
    call: Callable, sizes: dict[str, int], outputs: Sequence[Core], context: str = ""
) -> Callable:
    """Check the function's results against core dimensions and the sizes of operands'."""

    def function(*xs: object) -> Any:
        out = call(*xs)
        results = out if isinstance(out, tuple) else (out,)
        if len(results) != len(outputs):
            raise ArgumentError(
                f"weft.numpy.vectorize: the function gave {len(results)} results, "
                f"{len(outputs)} are needed{context}"
            )
        known = dict(sizes)
        for r, core in zip(results, outputs, strict=True):
            shape = typeof(r).shape
            if len(shape) != len(core) or any(
                n != known.setdefault(c, n) for c, n in zip(core, shape, strict=True)
            ):
                raise ArgumentError(
                    f"weft.numpy.vectorize: a result of shape {shape} does not fit {core}{context} "
                    f"with sizes {sizes}"
                )
        return out

    return function


def apply_along_axis(
    func1d: Callable, axis: int, arr: ArrayLike, *args: object, **kwargs: object
) -> Any:
    """func1d applied to every vector along an axis. Source: numpy.apply_along_axis.

    >>> import weft
    >>> weft.numpy.apply_along_axis(weft.numpy.sum, 0, weft.numpy.ones((2, 3)))
    Array([2., 2., 2.], dtype=float32)
    """
    arr = to_array(arr)
    rank = typeof(arr).ndim
    axis = canonical_axis(axis, rank)
    function = lambda v: func1d(v, *args, **kwargs)
    for i in range(1, rank - axis):
        function = vmap(function, in_axes=i, out_axes=-1)
    for _ in range(axis):
        function = vmap(function, in_axes=0, out_axes=0)
    return function(arr)


def apply_over_axes(func: Callable, a: ArrayLike, axes: int | Sequence[int] | None) -> Any:
    """func(a, axis) applied over one axis after the other; reduced dimensions stay with size 1.

    >>> import weft.numpy as wnp
    >>> wnp.apply_over_axes(wnp.sum, wnp.ones((2, 3, 4)), (0, 2))
    Array([[[8.],
            [8.],
            [8.]]], dtype=float32)
    """
    a = to_array(a)
    rank = typeof(a).ndim
    for axis in axes if isinstance(axes, Sequence) else (axes,):
        out = func(a, axis)
        shape = typeof(out).shape
        if len(shape) == rank - 1:
            axis = canonical_axis(axis, rank)
            out = ops.reshape(out, (*shape[:axis], 1, *shape[axis:]))
        elif len(shape) != rank:
            raise ArgumentError(
                f"weft.numpy.apply_over_axes: func gave {len(shape)} dimensions for {rank}; it "
                "must keep them or drop the axis"
            )
        a = out
    return a


def piecewise(x: Any, condlist: Any, funclist: Sequence, *args: Any, **kw: object) -> Any:
    """Return the value of the function whose condition holds, of the later one where several do.

    An additional function or value is the default, else 0. Source: numpy.piecewise.

    >>> import weft.numpy as wnp
    >>> x = wnp.array([-2.0, 3.0])
    >>> wnp.piecewise(x, [x < 0, x >= 0], [lambda x: -x, 10.0])
    Array([ 2., 10.], dtype=float32)
    """
    x = to_array(x)
    # An array of another shape than x's holds conditions, as a list does.
    several = isinstance(condlist, Sequence) or typeof(condlist).shape not in ((), x.shape)
    conds = list(condlist) if several else [condlist]
    if len(funclist) == len(conds) + 1:
        *functions, default = funclist
    elif len(funclist) == len(conds):
        functions, default = list(funclist), 0
    else:
        raise ArgumentError(
            f"weft.numpy.piecewise: {len(conds)} conditions need {len(conds)} or {len(conds) + 1} "
            f"functions, got {len(funclist)}"
        )

    values = [*functions, default]
    if not (args or kw or any(map(callable, values))):
        return as_one_program(_chosen, x, *conds, *values, count=len(conds))
    return _chosen(x, *conds, *(_applied(f, args, kw) for f in values), count=len(conds))


def _applied(f: Any, args: tuple, kw: dict[str, Any]) -> Any:
    return (lambda x: f(x, *args, **kw)) if callable(f) else f


def _chosen(x: Any, *operands: Any, count: int) -> Any:
    """`piecewise` of `count` conditions and of their values or functions, the default last."""
    from weft.numpy.selection import where
    from weft.numpy.ufuncs import equal

    def value(f: Any, chosen: Any) -> Any:
        if not callable(f):
            return cast(f, x.dtype)
        # Elsewhere the function may have no derivative: 0 times infinity would be NaN.
        chosen_x = where(chosen, x, stop_gradient(x)) if x.dtype in INEXACT else x
        return cast(f(chosen_x), x.dtype)

    conds, (*functions, default) = operands[:count], operands[count:]
    index = zeros(x.shape, dtypes.int32)
    for i, cond in enumerate(conds):
        index = where(cond, i + 1, index)
    out = _broadcast_to(value(default, equal(index, 0)), x.shape)
    for i, f in enumerate(functions):
        chosen = equal(index, i + 1)
        out = where(chosen, value(f, chosen), out)
    return out
