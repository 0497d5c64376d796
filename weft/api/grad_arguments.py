# Tests: tests/api/test_grad.py
"""Arguments of the derivative functions: flattening, choosing and checking them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.cell import Cell
from weft.core.errors import ArgumentError
from weft.core.source import function_name
from weft.core.trace import is_array_like, typeof
from weft.core.tree import flatten, names_in
from weft.ops.elementwise_api import convert

if TYPE_CHECKING:
    from weft.core.tree import PyTreeDef
    from weft.typing import ArrayLike


class Flat:
    """A user's function on flat arguments. `extra` are the leaves of its auxiliary output."""

    __slots__ = ("api", "aux_tree", "extra", "fun", "has_aux", "in_tree", "out_tree")

    def __init__(self, fun: Callable, in_tree: PyTreeDef, has_aux: bool, api: str) -> None:
        self.fun = fun
        self.in_tree = in_tree
        self.has_aux = has_aux
        self.api = api
        self.extra: list = []

    def __call__(self, *xs: object) -> list:
        out = self.fun(*self.in_tree.unflatten(xs))
        if self.has_aux:
            if not (isinstance(out, tuple | list) and len(out) == 2):
                raise TypeError(
                    f"{self.api} with has_aux=True: the function must return a pair (output, aux), "
                    f"got {described(out)}"
                )
            out, aux = out
            self.extra[:], self.aux_tree = flatten(aux)
        outs, self.out_tree = flatten(out)
        return outs

    @property
    def aux(self) -> Any:
        return self.aux_tree.unflatten(self.extra)


def described(x: ArrayLike) -> str:
    if is_array_like(x):
        return f"an array of type {typeof(x).str_short()}"
    return f"a {type(x).__name__} of {len(x)}" if isinstance(x, tuple | list) else type(x).__name__


def check_arrays(leaves: Sequence[Any], tree: object, api: str, root: str) -> None:
    """Raise TypeError naming the first leaf that is no array."""
    for i, x in enumerate(leaves):
        if not is_array_like(x):
            raise TypeError(
                f"{api}: {leaf_name(tree, i, root)} is not an array or a number but "
                f"{type(x).__name__}: {x!r:.100}"
            )


def leaf_name(tree: object, i: int, root: str) -> str:
    return names_in(tree, root)[i]


def fits(got: ShapedArray, want: ShapedArray) -> bool:
    """Tell whether a value of type `got` can be used for type `want`; weak types adapt."""
    if not (isinstance(got, ShapedArray) and isinstance(want, ShapedArray)):
        return True
    return got.shape == want.shape and (got.dtype == want.dtype or got.weak_type)


def as_type(x: ArrayLike, got: ShapedArray, want: ShapedArray) -> Any:
    if not (isinstance(got, ShapedArray) and isinstance(want, ShapedArray)):
        return x
    if got.dtype == want.dtype and not got.weak_type:
        return x
    if isinstance(x, bool | int | float | complex):
        return want.dtype.type(x)

    return convert(x, want.dtype)


def matched(
    leaves: Sequence[Any],
    avals: Sequence[Any],
    mask: Sequence[bool],
    where: Any,
    error: type[Exception] = ValueError,
) -> list:
    """Return tangents or cotangents of the marked values, checked against their types.

    where: (api, tree, root, label) for messages.
    """
    result = []
    for i, (x, want, nz) in enumerate(zip(leaves, avals, mask, strict=True)):
        if not nz:
            continue
        api, tree, root, label = where
        if not is_array_like(x):
            check_arrays(leaves, tree, api, root)
        got = typeof(x)
        if hasattr(got, "finish") and not hasattr(want, "finish"):  # cotangents are here already
            x, got = got.finish(x), got.value
        if not fits(got, want):
            raise error(
                f"{api}: {leaf_name(tree, i, root)} must have the type of {label}, "
                f"{want.str_short()}, got {got.str_short()}"
            )
        result.append(as_type(x, got, want))
    return result


def argnums_of(argnums: object, n: int, api: str) -> tuple[int, ...]:
    numbers = argnums if isinstance(argnums, tuple | list) else (argnums,)
    result = []
    for i in numbers:
        if not isinstance(i, int) and not hasattr(i, "__index__"):
            raise TypeError(f"{api}: argnums must be an int or a sequence of ints, got {argnums!r}")
        i = i.__index__()
        if not -n <= i < n:
            raise TypeError(
                f"{api}: argnums {i} is out of range: the function was called with {n} positional "
                "arguments (arguments passed by keyword cannot be differentiated)"
            )
        result.append(i % n)
    if len(set(result)) != len(result):
        raise ValueError(f"{api}: argnums {argnums!r} names an argument twice")
    return tuple(result)


def partial_of(
    fun: Callable, args: Sequence[Any], numbers: Sequence[int], kwargs: dict
) -> Callable:
    """fun as a function of the arguments at `numbers`."""

    if not kwargs and len(numbers) == len(args) and tuple(numbers) == tuple(range(len(args))):
        return fun

    def inner(*chosen: object) -> Any:
        full = list(args)
        for i, x in zip(numbers, chosen, strict=True):
            full[i] = x
        return fun(*full, **kwargs)

    inner.__name__ = function_name(fun)
    return inner


def check_inputs(
    primals: Sequence[Any],
    numbers: Sequence[int],
    api: str,
    holomorphic: bool,
    allow_int: bool = False,
    real: bool = False,
) -> None:
    """Raise TypeError for an argument without a derivative (real: or with a complex one)."""
    for number, x in zip(numbers, primals, strict=True):
        leaves, tree = flatten(x)
        for i, leaf in enumerate(leaves):
            root = f"argument {number}"
            if not is_array_like(leaf):
                check_arrays(leaves, tree, api, root)
            aval = typeof(leaf)
            if not isinstance(aval, ShapedArray):
                if isinstance(leaf, Cell):
                    raise ArgumentError(
                        f"{api}: {leaf_name(tree, i, root)} is a {aval.str_short()}, which has no "
                        "derivative; differentiate in its value, ref[...], or exclude it by argnums"
                    )
                continue
            d = aval.dtype
            if dtypes.is_float(d) and not holomorphic:
                continue
            text = aval.str_short()
            if holomorphic and not dtypes.is_complex(d):
                raise TypeError(
                    f"{api} with holomorphic=True takes complex inputs; "
                    f"{leaf_name(tree, i, root)} is {text}"
                )
            if dtypes.is_complex(d):
                if real and not holomorphic:
                    raise TypeError(
                        f"{api} takes real-valued inputs; {leaf_name(tree, i, root)} is {text}. "
                        "Use holomorphic=True for a holomorphic function, weft.jvp for others"
                    )
                continue
            if allow_int and not dtypes.is_extended(d):
                continue
            remedy = "Pass it as a float, or exclude it by argnums"
            if api not in ("jacfwd", "hessian") and not dtypes.is_extended(d):
                remedy += ", or use allow_int=True"
            raise TypeError(
                f"{api} takes real- or complex-valued inputs; {leaf_name(tree, i, root)} is "
                f"{text}. {remedy}"
            )
