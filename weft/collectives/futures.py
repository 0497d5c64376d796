# Tests: tests/collectives/test_async.py
"""Futures: pytree nodes that users hold for the results of started collectives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from weft._xla import pytree
from weft.collectives.async_types import AsyncType
from weft.core.trace import typeof
from weft.core.tree import flatten, tree_map

if TYPE_CHECKING:
    from weft.collectives.async_ import Future
    from weft.collectives.permute import Message


class FutureTree:
    """Stands for values in flight. Whatever computes with it raises, with `remedy`."""

    __slots__ = ("_started",)

    remedy: str

    def __init__(self, started: Any) -> None:
        self._started = started

    def __repr__(self) -> str:
        return f"{type(self).__name__}({tree_map(_type_text, self._started)})"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise AttributeError(f"{self._under_way()} before {name!r} is asked for")

    def __weft_array__(self) -> Any:
        raise TypeError(f"{self._under_way()} before it is computed with")

    def _under_way(self) -> str:
        types = ", ".join(map(_type_text, flatten(self._started)[0]))
        return f"a value of type {types} is in flight: {self.remedy}"


def _type_text(x: object) -> str:
    """Return the type of a value, or of what `eval_shape` gives for one."""
    return str(x if isinstance(x, AsyncType) else typeof(x))


def _refuse(*operands: int | Future | Message) -> Any:
    return next(x for x in operands if isinstance(x, FutureTree)).__weft_array__()


_BINARY = "add sub mul truediv floordiv mod divmod pow matmul and or xor lshift rshift"
_OTHER = (
    "neg pos abs invert round getitem iter len contains array lt le gt ge eq ne "
    "bool int float complex index"
)
for _name in _BINARY.split():
    setattr(FutureTree, f"__{_name}__", _refuse)
    setattr(FutureTree, f"__r{_name}__", _refuse)
for _name in _OTHER.split():
    setattr(FutureTree, f"__{_name}__", _refuse)


def register(kind: type[FutureTree]) -> None:
    """Make a kind of them a pytree node."""

    def children(future: FutureTree) -> tuple[tuple, None]:
        return (future._started,), None

    def made_of(_: None, children: Sequence[Any]) -> FutureTree:
        return kind(children[0])

    pytree.register_node(kind, children, made_of)
