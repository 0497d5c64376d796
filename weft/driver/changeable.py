# Tests: tests/compat/test_experimental.py
"""Jitted functions of objects that programs write to: arrays go in, and their last values come out.

A call passes the arrays of each such argument. The traced function makes objects of its own from
them, and returns what they hold at its end, which the call writes to the caller's objects.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from weft._xla import pytree
from weft.core.source import wraps
from weft.core.trace import changeable
from weft.core.tree import flatten, tree_map

if TYPE_CHECKING:
    from weft.driver.jit_info import JitInfo


@dataclass(slots=True, eq=False)
class _Lowered:
    """One object's arrays; those of an object that came before are not repeated."""

    arrays: Sequence[Any]
    structure: Hashable
    index: int


pytree.register_node(
    _Lowered,
    lambda x: (tuple(x.arrays), (x.structure, x.index)),
    lambda aux, arrays: _Lowered(arrays, *aux),
)


def _is_lowered(x: object) -> bool:
    return type(x) is _Lowered


class _Objects:
    """The objects of one call, in the order in which they are met."""

    def __init__(self) -> None:
        self.by_index: list[Any] = []
        self.indices: dict[int, int] = {}

    def add(self, x: Any) -> int:
        self.indices[id(x)] = len(self.by_index)
        self.by_index.append(x)
        return len(self.by_index) - 1

    def lowered(self, tree: object) -> Any:
        """Return the tree with the arrays of objects."""

        def lower(x: Any) -> Any:
            if type(x) not in changeable:
                return x
            if id(x) in self.indices:
                return _Lowered((), None, self.indices[id(x)])
            arrays, structure = changeable[type(x)].lower(x)
            return _Lowered(arrays, (type(x), structure), self.add(x))

        return tree_map(lower, tree)

    def lifted(self, tree: object) -> Any:
        """Return the tree with objects again; those that are not known yet are made."""

        def lift(x: Any) -> Any:
            if not _is_lowered(x):
                return x
            if x.index == len(self.by_index):
                kind, structure = x.structure
                self.add(changeable[kind].make(structure, x.arrays))
            return self.by_index[x.index]

        return tree_map(lift, tree, is_leaf=_is_lowered)

    def states(self) -> list:
        lowered = [(type(x), *changeable[type(x)].lower(x)) for x in self.by_index]
        return [_Lowered(arrays, (kind, s), i) for i, (kind, arrays, s) in enumerate(lowered)]


def has_changeable(args: tuple, kwargs: dict) -> bool:
    """Return whether an argument is, or holds, an object that programs write to."""
    return any(type(x) in changeable for x in flatten((args, kwargs))[0])


def _positions(numbers: Sequence[int], n: int) -> frozenset[int]:
    return frozenset(i % n if -n <= i < n else i for i in numbers)


def _map_dynamic(
    f: Callable, args: tuple, kwargs: dict, numbers: Sequence[int], names: Sequence[str]
) -> tuple[tuple, dict]:
    """Return the arguments, f applied to those not static, in an order that both sides have."""
    static = _positions(numbers, len(args))
    args = tuple(x if i in static else f(x) for i, x in enumerate(args))
    return args, {k: kwargs[k] if k in names else f(kwargs[k]) for k in sorted(kwargs)}


def of_arrays(fun: Callable, numbers: Sequence[int] = (), names: Sequence[str] = ()) -> Callable:
    """Return the function of lowered arguments; it gives its lowered result and objects' states.

    numbers, names: the static arguments, which hold no objects.
    """

    @wraps(fun)
    def lowered(*args: Any, **kwargs: Any) -> tuple:
        objects = _Objects()
        args, kwargs = _map_dynamic(objects.lifted, args, kwargs, numbers, names)
        num_inputs = len(objects.by_index)
        result = objects.lowered(fun(*args, **kwargs))
        return result, objects.states()[:num_inputs]

    return lowered


_jitted: WeakKeyDictionary = WeakKeyDictionary()
"""Options of a jitted function -> the jitted function of lowered arguments."""


def call(info: JitInfo, args: tuple, kwargs: dict) -> Any:
    """Call a jitted function with objects among its arguments, and write to them what it wrote."""
    jitted = _jitted.get(info)
    if jitted is None:
        fun = of_arrays(info.fun, info.static_argnums, info.static_argnames)
        asked = None if info.out_shardings is None else (info.out_shardings, None)
        jitted = _jitted[info] = info.jitted_again(fun, asked)
    objects = _Objects()
    args, kwargs = _map_dynamic(
        objects.lowered, args, kwargs, info.static_argnums, info.static_argnames
    )
    result, states = jitted(*args, **kwargs)
    for x, state in zip(objects.by_index, states, strict=True):
        kind, structure = state.structure
        changeable[kind].update(x, structure, state.arrays)
    return objects.lifted(result)


def eval_shape(fun: Callable, args: tuple, kwargs: dict) -> Any:
    """Act as `weft.eval_shape`, with objects among the arguments, to which nothing is written."""
    from weft.driver.staging import eval_shape

    objects = _Objects()
    args, kwargs = _map_dynamic(objects.lowered, args, kwargs, (), ())
    result, _ = eval_shape(of_arrays(fun), *args, **kwargs)
    return objects.lifted(result)
