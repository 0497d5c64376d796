"""Checks that compiled dispatch leaves out: donated buffers and static values.

XLA notices a donated buffer that is passed again, or donated twice in one call, only when the
program has started; over several devices that ends the process (quirks.DONATED_TWICE). So arguments
are compared before a donating call, and after it the arrays that gave up their buffers are marked
as deleted, which sends any later use to Python and its error message.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MethodType
from typing import Any

from weft._xla.pytree import flatten
from weft.core.boundary import show_user_frames
from weft.runtime.array import ArrayImpl
from weft.runtime.executable import check_given_once
from weft.runtime.shared_buffers import (
    claim,
    is_held_alone,
    release,
    release_one,
    second_owners,
    unclaim,
)


class Guarded:
    """`call` with its donated arguments checked before, and marked as deleted after it.

    explain: for calls with static arguments, what to say when one of them is not hashable.

    Raises ValueError when an array that it donates stands in the call twice, and for a static
    argument that does not hash.
    """

    __slots__ = (
        "__dict__",
        "__weakref__",
        "_call",
        "_donates",
        "_explain",
        "_name",
        "_names",
        "_positions",
    )

    def __init__(
        self,
        call: Callable[..., Any],
        name: str,
        donated_positions: Sequence[int],
        donated_names: Sequence[str],
        explain: Callable[[tuple, dict], str] | None = None,
    ) -> None:
        self._call, self._name, self._explain = call, name, explain
        self._positions, self._names = donated_positions, donated_names
        self._donates = bool(donated_positions or donated_names)

    def __call__(self, *args: object, **kwargs: object) -> Any:
        try:
            if not self._donates:
                # An empty dict of keywords would be copied.
                return self._call(*args, **kwargs) if kwargs else self._call(*args)
            if len(args) == 1 and not kwargs and is_held_alone(args[0]):
                result = self._call(*args)
                release_one(args[0])
                return result
            donated = _leaves([args[i] for i in self._positions if -len(args) <= i < len(args)])
            if kwargs:
                donated = [*donated, *_leaves([kwargs[n] for n in self._names if n in kwargs])]
            if len(args) + len(kwargs) > 1 or len(donated) > 1:
                check_given_once(self._name, donated, _leaves([*args, *kwargs.values()]))
            claimed = claim(donated)
            try:
                owners = second_owners(donated)
                result = self._call(*args, **kwargs)
                release(donated, owners)
            finally:
                unclaim(claimed)
            return result
        except Exception as error:
            if self._explain is not None and str(error).startswith("Non-hashable static"):
                error.args = (self._explain(args, kwargs),)
            show_user_frames(error)
            raise  # bare, so that this frame does not show either

    def __get__(self, instance: object, owner: object = None) -> Any:
        return self if instance is None else MethodType(self, instance)


def _leaves(values: Sequence[Any]) -> Sequence[Any]:
    for x in values:
        if x.__class__ is not ArrayImpl:
            return flatten(values)[0]
    return values
