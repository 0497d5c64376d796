# Tests: tests/compat/test_other_modules.py
"""Functions with transformations around them, as JAX's interpreters pass them on."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.core.tree import PyTreeDef
    from weft.runtime.array import Array

_EMPTY = object()


class StoreException(Exception):
    """An auxiliary output of a transformation was read before it ran, or stored twice."""


class Store:
    """Where a transformation leaves what is not a result."""

    def __init__(self) -> None:
        self._value = _EMPTY

    def store(self, value: int | PyTreeDef) -> None:
        if self._value is not _EMPTY:
            raise StoreException("the function was called twice, and its store filled twice")
        self._value = value

    def reset(self) -> None:
        self._value = _EMPTY

    @property
    def val(self) -> Any:
        if self._value is _EMPTY:
            raise StoreException("the store is empty: the function has not been called")
        return self._value

    def __bool__(self) -> bool:
        return self._value is not _EMPTY


class WrappedFun:
    """A function, the transformations around it, and parameters that stand for it in caches."""

    def __init__(
        self,
        f: Callable,
        f_transformed: Callable,
        transforms: tuple,
        stores: tuple,
        params: tuple,
        debug_info: Any = None,
    ) -> None:
        self.f = f
        self.f_transformed = f_transformed
        self.transforms = transforms
        self.stores = stores
        self.params = params
        self.debug_info = debug_info

    @property
    def __name__(self) -> str:
        return getattr(self.f, "__name__", "<unnamed function>")

    def wrap(self, generator: Callable, params: tuple, store: Store | None) -> WrappedFun:
        inner = self.f_transformed

        def transformed(*args: object, **kwargs: object) -> Any:
            running = generator(*params, *args, **kwargs)
            inner_args, inner_kwargs = next(running)
            result = running.send(inner(*inner_args, **inner_kwargs))
            running.close()
            return _keep(result, store)

        return self._with(transformed, generator, params, store)

    def wrap2(self, transform: Callable, params: tuple, store: Store | None) -> WrappedFun:
        stores = (store,) if store is not None else ()
        transformed = functools.partial(transform, self.f_transformed, *stores, *params)
        return self._with(transformed, transform, params, store)

    def _with(
        self, transformed: Callable, transform: Callable, params: tuple, store: Store | None
    ) -> WrappedFun:
        return WrappedFun(
            self.f,
            transformed,
            ((transform, params), *self.transforms),
            (store, *self.stores),
            self.params,
            self.debug_info,
        )

    def call_wrapped(self, *args: Array, **kwargs: object) -> Any:
        return self.f_transformed(*args, **kwargs)

    def with_unknown_names(self) -> WrappedFun:
        return self

    def _key(self) -> tuple:
        return self.f, self.transforms, self.params

    def __hash__(self) -> int:
        return hash(self._key())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WrappedFun) and self._key() == other._key()


def _keep(result: tuple, store: Store | None) -> Any:
    if store is None:
        return result
    result, aside = result
    store.store(aside)
    return result


def wrap_init(f: Callable, params: dict | None = None, *, debug_info: object = None) -> WrappedFun:
    """Return a function without transformations so far."""
    params = params or {}
    bound = functools.partial(f, **params) if params else f
    return WrappedFun(f, bound, (), (), tuple(sorted(params.items())), debug_info)


def transformation(generator: Callable, fun: Any = _EMPTY, *params: object) -> Any:
    """Make a transformation of a generator, which yields arguments and is sent the results."""
    if fun is _EMPTY:
        return functools.partial(transformation, generator)
    return fun.wrap(generator, params, None)


def transformation_with_aux(generator: Callable, fun: Any = _EMPTY, *params: object) -> Any:
    """Return the same, yielding a pair of the results and what is left aside."""
    if fun is _EMPTY:
        return functools.partial(transformation_with_aux, generator)
    store = Store()
    return fun.wrap(generator, params, store), lambda: store.val


def transformation2(transform: Callable, fun: Any = _EMPTY, *params: object) -> Any:
    """Return a transformation written as a function: of the function, params and arguments."""
    if fun is _EMPTY:
        return functools.partial(transformation2, transform)
    return fun.wrap2(transform, params, None)


def transformation_with_aux2(transform: Callable, fun: Any = _EMPTY, *params: PyTreeDef) -> Any:
    """Return the same, of the function, a store, params and arguments."""
    if fun is _EMPTY:
        return functools.partial(transformation_with_aux2, transform)
    store = Store()
    return fun.wrap2(transform, params, store), lambda: store.val


def merge_linear_aux(first: Callable, second: Callable) -> tuple[bool, Any]:
    """Return which of two stores was filled, and its value."""
    try:
        value = first()
    except StoreException:
        return False, second()
    try:
        second()
    except StoreException:
        return True, value
    raise StoreException("both stores were filled")


def cache(call: Callable, **_: object) -> Callable:
    """Return a function of a WrappedFun that keeps its results."""
    results: dict = {}

    @functools.wraps(call)
    def cached(fun: WrappedFun, *args: object) -> Any:
        key = (fun, args)
        if key not in results:
            results[key] = call(fun, *args)
        return results[key]

    return cached
