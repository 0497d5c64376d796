# Tests: tests/compat/test_other_modules.py
"""jax._src.util, for interpreters of jaxprs as JAX's documentation writes them."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from weft.core.source import wraps as _wraps

__all__ = [
    "curry",
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
    "weakref_lru_cache",
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


def wraps(wrapped: Callable, namestr: str | None = None, docstr: str | None = None) -> Callable:
    """`functools.wraps`; `{fun}` in a new name stands for the old one."""

    def wrap(fun: Callable) -> Callable:
        _wraps(wrapped)(fun)
        if namestr:
            fun.__name__ = namestr.format(fun=getattr(wrapped, "__name__", "<unnamed>"))
        if docstr:
            fun.__doc__ = docstr.format(fun=fun.__name__, doc=wrapped.__doc__)
        return fun

    return wrap


def weakref_lru_cache(call: Callable, maxsize: int | None = 2048, **_: object) -> Callable:
    """Return a cache of that size; it holds its first arguments, which JAX's lets go."""
    return functools.lru_cache(maxsize=maxsize)(call)
