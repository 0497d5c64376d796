"""Fast paths of array methods and operators outside of jit.

A method that is several ops runs as one compiled program for each set of options, and numbers
beside arrays are put on the device once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.core.boundary import explain_and_show
from weft.core.caches import clearable
from weft.core.config import config
from weft.core.namespace import MISTAKES, EagerPrograms
from weft.core.state import state
from weft.core.trace import EVAL
from weft.driver.jit import jit, unguarded
from weft.ops.promote import adapts
from weft.runtime.array import ArrayImpl
from weft.runtime.transfers import put_host

if TYPE_CHECKING:
    from weft.runtime.array import Array
    from weft.sharding.named import NamedSharding
    from weft.typing import ArrayLike

_MOST = 256
"""How many programs of one method, or numbers of one kind, are kept."""


def one_program(function: Callable[[], Callable], name: str, doc: str) -> Callable:
    """Return an array's method function()(self, *args, **kwargs), compiled for each set of options.

    Options that do not hash, such as arrays, run the function op by op.
    """
    programs: dict[tuple, Callable] = clearable({})

    def program_for(key: tuple, args: tuple, kwargs: dict[str, Any]) -> Callable:
        target = function()

        def run(array: Array) -> Any:
            return target(array, *args, **kwargs)

        run.__name__ = name
        if len(programs) >= _MOST:
            programs.clear()
        program = programs[key] = jit(run)
        return program

    def wrapped(self: Array, *args: object, **kwargs: object) -> Any:
        if state.trace is not EVAL:
            return function()(self, *args, **kwargs)
        key: tuple = ()
        if args or kwargs:  # equal numbers of different kinds are different options
            key = (*args, *kwargs.items(), *map(type, (*args, *kwargs.values())))
        try:
            try:
                program = programs.get(key)
            except TypeError:
                return function()(self, *args, **kwargs)
            if program is None:
                program = program_for(key, args, kwargs)
            return program(self)
        except Exception as error:
            explain_and_show(f"Array.{name}", error, function())
            raise

    wrapped.__name__ = wrapped.__qualname__ = name
    wrapped.__doc__ = doc
    return wrapped


_PLAIN = frozenset((ArrayImpl, bool, int, float, type(None)))
"""Operands that a program takes as they are."""


def as_one_program(function: Callable, *operands: object, **options: object) -> Any:
    """function(*operands, **options), which is several ops, as one program outside of jit.

    There is a program for each set of options; options that do not hash run it op by op.
    """
    if state.trace is not EVAL or not _PLAIN.issuperset(map(type, operands)):
        return function(*operands, **options)
    if ArrayImpl not in map(type, operands):
        return function(*operands, **options)
    try:
        program = compiled(function, options)
    except TypeError:
        return function(*operands, **options)
    return program(*operands)


OPERANDS = (ArrayImpl, np.ndarray, bool, int, float, complex)
"""Classes of what binary functions take, as jit does."""
_OPERANDS = frozenset(OPERANDS)


def are_like(x: Any, y: Any) -> bool:
    """Return whether an op takes these operands, of which one is an array, as they are."""
    if x.__class__ is not ArrayImpl:
        x, y = y, x
    a = x.aval
    if y.__class__ is ArrayImpl:
        b = y.aval
        if a is b:
            return True
        one_type = a.dtype is b.dtype and a.weak_type is b.weak_type
        return one_type and (a.shape == b.shape or not a.shape or not b.shape)
    return adapts(y, a.dtype)


def one_program_of_unlike(function: Callable) -> Callable:
    """Return a binary function, as one program of operands that it converts or broadcasts.

    An op for each of these steps costs a call of its own, and XLA sees the conversion of a boolean
    only within the program: it has inf * False as 0.
    """
    program: Any = None

    def call(x: ArrayLike, y: ArrayLike) -> Any:
        nonlocal program
        if state.trace is EVAL:
            kinds = x.__class__, y.__class__
            if ArrayImpl in kinds and _OPERANDS.issuperset(kinds) and not are_like(x, y):
                if program is None:
                    program = jit(function)
                try:
                    return program(x, y)
                except MISTAKES:
                    pass  # the function itself tells of it
        return function(x, y)

    return call


def compiled(
    function: Callable, options: dict[str, Any], out_sharding: NamedSharding | None = None
) -> Callable:
    """Return the function with these options as a jitted function of its operands, made once.

    Raises TypeError for options that do not hash.
    """
    # Equal numbers of different kinds, such as 1, 1.0 and True, are different options.
    typed = tuple([(name, value, value.__class__) for name, value in options.items()])
    return _compiled(function, typed, out_sharding)


@clearable
@functools.lru_cache(maxsize=4096)
def _compiled(function: Callable, options: tuple, out_sharding: NamedSharding | None) -> Callable:
    static = {name: value for name, value, _ in options}

    def run(*operands: object) -> Any:
        return function(*operands, **static)

    run.__name__ = function.__name__.strip("_")
    return jit(run) if out_sharding is None else jit(run, out_shardings=out_sharding)


_OPTIONS = """
    algorithm allow_negative_indices assume_unique axes axis axis1 axis2 bias bitorder copy
    correction ddof decimals deg descending destination device dtype edge_order endpoint equal_nan
    include_initial increasing indexing indices_are_sorted invert k keepdims kind kth method mode N
    n new_shape num num_classes offset order out_sharding overwrite_input precision
    preferred_element_type promote_integers rank reps returned right rowvar side source sparse
    stable start trim_leading_zeros unique_indices unroll wrap_negative_indices
"""
"""Parameters that are no operands, of any function that runs as one program."""
_INTEGERS = "axes axis axis1 axis2 destination k kth new_shape num_classes offset reps source start"


def _unless(separate: Callable[[], bool], function: Callable) -> Callable:
    """Return the function, refused by traces under settings by which calls run op by op."""

    @functools.wraps(function)
    def run(*args: object, **kwargs: object) -> Any:
        if separate():
            raise TypeError("each call runs op by op")
        return function(*args, **kwargs)

    return run


def eager_programs(
    names: str,
    *,
    joining: str = "",
    options: str = "",
    operands: str = "",
    arrays: tuple[type, ...] = (ArrayImpl,),
    separate: Callable[[], bool] | None = None,
) -> EagerPrograms:
    """Name the functions of a namespace that run as one program outside of transformations.

    joining: those whose first argument is a list of arrays. options: static parameters of these
    functions alone. operands: parameters that are none, though options of others have the name or
    their defaults are numbers. arrays: classes of the first argument. separate: whether settings
    that are part of a program's key want each call to run op by op.
    """

    import weft.numpy.methods  # noqa: F401  (of the results; it imports this module)

    def compile_one(function: Callable, at: list[int], named: list[str]) -> Callable:
        if separate is not None:
            function = _unless(separate, function)
        return unguarded(jit(function, static_argnums=at, static_argnames=named))

    none = frozenset(operands.split())
    return EagerPrograms(
        frozenset((*names.split(), *joining.split())),
        frozenset((*_OPTIONS.split(), *options.split())) - none,
        none,
        frozenset(_INTEGERS.split()) - none,
        frozenset(joining.split()),
        arrays,
        compile_one,
        state,
        EVAL,
    )


_floats: dict[float, Any] = {}
_ints: dict[int, Any] = {}


def number_beside(value: Any, array: ArrayLike) -> Any:
    """Return the float or int as an array on the array's device, or as it is."""
    if config.transfer_guard_host_to_device:
        return value  # a number that is there already would pass the guard
    kept_numbers = _floats if value.__class__ is float else _ints
    kept = kept_numbers.get(value)
    if kept is None:
        if value.__class__ is float and not value < 0 and not value > 0:
            return value  # 0.0 equals -0.0, and NaN itself not
        if len(kept_numbers) >= _MOST:
            kept_numbers.clear()
        dtype = np.float32 if value.__class__ is float else np.int32
        kept = kept_numbers[value] = put_host(np.asarray(value, dtype), weak_type=True)
    return kept if getattr(array, "_sharding", None) is kept._sharding else value
