# Tests: tests/compat/test_other_modules.py
"""jax._src.util, for interpreters of jaxprs as JAX's documentation writes them."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, SupportsIndex, TypeVar

from weft.core.source import wraps as _wraps

__all__ = [
    "OrderedSet",
    "cache",
    "canonicalize_axis",
    "ceil_of_ratio",
    "curry",
    "foreach",
    "fun_name",
    "memoize",
    "merge_lists",
    "partition_list",
    "safe_map",
    "safe_zip",
    "split_list",
    "subs_list",
    "subvals",
    "tuple_delete",
    "tuple_insert",
    "unzip2",
    "unzip3",
    "weakref_lru_cache",
    "wrap_name",
    "wraps",
]

T = TypeVar("T")


def safe_zip(*columns: Iterable[Any]) -> list[tuple]:
    return list(zip(*map(list, columns), strict=True))


def safe_map(f: Callable, *columns: Iterable[Any]) -> list:
    return list(itertools.starmap(f, safe_zip(*columns)))


def unzip2(xys: Iterable[Sequence[Any]]) -> tuple[tuple, tuple]:
    table = list(xys)
    return tuple(x for x, _ in table), tuple(y for _, y in table)


def unzip3(xyzs: Iterable[Sequence[Any]]) -> tuple[tuple, tuple, tuple]:
    table = list(xyzs)
    x, y, z = (tuple(row[i] for row in table) for i in range(3))
    return x, y, z


def foreach(f: Callable, *columns: Iterable[Any]) -> None:
    safe_map(f, *columns)


def split_list(elements: Sequence[T], lengths: Sequence[int]) -> list[list[T]]:
    """List of these lengths, and what is left."""
    rest = iter(elements)
    return [list(itertools.islice(rest, n)) for n in lengths] + [list(rest)]


def partition_list(chosen: Sequence[bool], elements: Sequence[T]) -> tuple[list[T], list[T]]:
    """Return elements where the mask is false, and those where it is true."""
    pairs = safe_zip(chosen, elements)
    return [x for c, x in pairs if not c], [x for c, x in pairs if c]


def merge_lists(chosen: Sequence[bool], others: Sequence[T], those: Sequence[T]) -> list[T]:
    """Put the two lists of `partition_list` together again."""
    sources: tuple[Iterator[T], Iterator[T]] = iter(others), iter(those)
    return [next(sources[bool(c)]) for c in chosen]


def subs_list(indices: Sequence[int | None], source: Sequence[T], base: Sequence[T]) -> list[T]:
    """Replace elements of `base` by those of `source` that the indices name."""
    return [b if i is None else source[i] for i, b in safe_zip(indices, base)]


def subvals(elements: Sequence[T], replaced: Iterable[tuple[int, T]]) -> tuple[T, ...]:
    values = dict(enumerate(elements)) | dict(replaced)
    return tuple(values.values())


def tuple_insert(t: tuple, index: int, value: object) -> tuple:
    return (*t[:index], value, *t[index:])


def tuple_delete(t: tuple, index: int) -> tuple:
    return (*t[:index], *t[index + 1 :])


def curry(f: Callable) -> Callable:
    """Take the first arguments in one call, and the others in a second."""
    return functools.wraps(f)(functools.partial(functools.partial, f))


def wraps(
    wrapped: Callable, namestr: str | None = None, docstr: str | None = None, **fields: object
) -> Callable:
    """`functools.wraps`; `{fun}` in a new name stands for the old one, as do fields in the text."""

    def wrap(fun: Callable) -> Callable:
        _wraps(wrapped)(fun)
        if namestr:
            fun.__name__ = namestr.format(fun=getattr(wrapped, "__name__", "<unnamed>"))
        if docstr:
            fun.__doc__ = docstr.format(fun=fun.__name__, doc=wrapped.__doc__, **fields)
        return fun

    return wrap


def weakref_lru_cache(call: Callable, maxsize: int | None = 2048, **_: object) -> Callable:
    """Return a cache of that size; it holds its first arguments, which JAX's lets go."""
    return functools.lru_cache(maxsize=maxsize)(call)


def cache(max_size: int | None = 4096, trace_context_in_key: object = True) -> Callable:
    """Return a decorator that caches results by arguments."""
    return functools.lru_cache(maxsize=max_size)


memoize = cache(None)


def canonicalize_axis(axis: SupportsIndex, num_dims: int) -> int:
    """Return an axis counted from the first; ValueError if an array of that rank has none."""
    index = operator.index(axis)
    if not -num_dims <= index < num_dims:
        raise ValueError(f"axis {index} is out of bounds for array of dimension {num_dims}")
    return index % num_dims


def ceil_of_ratio(x: int, y: int) -> int:
    return -(-x // y)


def wrap_name(transform_name: str, name: str) -> str:
    return f"{transform_name}({name})"


def fun_name(fun: Callable, default_name: str = "<unnamed function>") -> str:
    return getattr(getattr(fun, "func", fun), "__name__", default_name)


class OrderedSet(dict):
    """A set that keeps the order in which elements came."""

    def __init__(self, elements: Iterable[Any] = ()) -> None:
        super().__init__(dict.fromkeys(elements))

    def add(self, element: Any) -> None:
        self[element] = None
