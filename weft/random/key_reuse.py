"""Whether random keys are used twice: the check of the option `debug_key_reuse`."""

from __future__ import annotations

import math
import sys
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autodiff.vmap import BatchTracer
from weft.core.caches import clearable
from weft.core.errors import KeyReuseError
from weft.core.source import GENERATED, capture

if TYPE_CHECKING:
    from weft.core.trace_body import Body

_KEPT = 4096
"""Keys remembered, the newest: they are held, as traced ones cannot be referred to weakly."""

_LOOKS = frozenset(("fold_in", "key_data", "key_impl"))
"""Functions that leave a key unused."""


@dataclass(slots=True)
class _Use:
    """Which keys of an array were used, the last time by whom, in which calls of this package."""

    keys: Any
    mask: np.ndarray
    used_by: str
    calls: frozenset[int]


# By the id of an array of keys, or of the variable that it is in a jaxpr.
_used: OrderedDict[int, _Use] = clearable(OrderedDict())
# By the id of keys taken out of an array: they, the array, and their positions in it.
_parts: OrderedDict[int, tuple[Any, Any, np.ndarray]] = clearable(OrderedDict())


def _keep(table: OrderedDict, keys: object, value: Any) -> None:
    table[id(keys)] = value
    if len(table) > _KEPT:
        table.popitem(last=False)


def _positions(keys: Any) -> tuple[Any, np.ndarray]:
    """Return the array that keys were taken from, or their variable, and where in it."""
    part = _parts.get(id(keys))
    if part is not None and part[0] is keys:
        return part[1], part[2]
    return getattr(keys, "variable", keys), np.arange(math.prod(keys.shape)).reshape(keys.shape)


def note_part(part: object, keys: object, index: Any) -> None:
    """Note that keys[index] are these keys, which are used where that array is."""
    whole, positions = _positions(keys)
    _keep(_parts, part, (part, whole, positions[index]))


def used_variables(variables: Sequence[Any]) -> tuple[int, ...]:
    """Return the numbers of the variables whose keys were used while a jaxpr was traced."""
    uses = [_used.get(id(v)) for v in variables]
    pairs = zip(variables, uses, strict=True)
    return tuple(i for i, (v, use) in enumerate(pairs) if use is not None and use.keys is v)


def _calls() -> list[int]:
    """Return the frames of this package around `check_key`, from the inside, without helpers."""
    frame: Any = sys._getframe(3)
    calls = []
    while frame is not None and frame.f_code.co_filename != GENERATED:
        name = frame.f_globals.get("__name__", "")
        if not name.startswith("weft.random."):
            break
        if name != "weft.random.sampling" and not frame.f_code.co_name.startswith("_"):
            calls.append(id(frame))
        frame = frame.f_back
    return calls


def use(name: str, key: object) -> None:
    """Note that a function uses a key up; KeyReuseError if one did before.

    A sampler hands its key to others while it runs, which is one use.
    """
    if name in _LOOKS:
        return
    calls = _calls()
    whole, positions = _positions(key)
    record = _used.get(id(whole))
    if record is None or record.keys is not whole:
        record = _Use(whole, np.zeros(whole.aval.shape, bool).ravel(), "", frozenset())
        _keep(_used, whole, record)
    elif not record.calls.isdisjoint(calls[1:]):
        return
    if record.mask[positions].any():
        raise KeyReuseError(
            f"{name}: key was used before, by {record.used_by}: its numbers would depend on those. "
            "Use each key once: weft.random.split makes new ones, and weft.random.clone allows it"
        )
    record.mask[positions] = True
    record.used_by, record.calls = f"{name} at {capture()}", frozenset(calls)
    while isinstance(key, BatchTracer):  # the use of one example is that of all
        key = key.val
        if not isinstance(key, BatchTracer):
            use(name, key)


class KeyUses:
    """Which keys had been used at some time, from where bodies of loops and branches are traced."""

    def __init__(self) -> None:
        self.before = self.now()

    @staticmethod
    def now() -> OrderedDict[int, _Use]:
        return OrderedDict((i, replace(u, mask=u.mask.copy())) for i, u in _used.items())

    def restore(self) -> None:
        """Return there, as what was traced since does not count."""
        _used.clear()
        _used.update((i, replace(u, mask=u.mask.copy())) for i, u in self.before.items())

    def of_branches(self, trace: Callable, functions: Sequence[Callable]) -> list:
        """Trace branches, of which one will run: a key may be used in each."""
        bodies, used = [], self.now()
        for function in functions:
            self.restore()
            bodies.append(trace(function))
            for i, other in self.now().items():
                record = used.get(i)
                if record is None or record.keys is not other.keys:
                    used[i] = other
                elif other.mask.any():
                    record.mask |= other.mask
                    record.used_by = other.used_by
        _used.clear()
        _used.update(used)
        return bodies

    def of_loop(self, api: str, body: Body, carry: Sequence[object]) -> None:
        """Note the keys that the steps of a loop use; each step needs keys of its own."""
        j, first = body.jaxpr.jaxpr, len(body.consts)
        for const in body.consts:
            const = getattr(const, "variable", const)
            record, before = _used.get(id(const)), self.before.get(id(const))
            if record is None or record.keys is not const or not record.mask.any():
                continue
            if before is None or not before.mask.any():
                raise _in_each_step(api, record, "closes over it")
        for i, x in enumerate(carry):
            record = _used.get(id(j.invars[first + i]))
            if record is not None and record.keys is j.invars[first + i]:
                if used_variables([j.outvars[i]]):
                    raise _in_each_step(api, record, "carries it on")
                use(api, x)


def _in_each_step(api: str, record: _Use, how: str) -> KeyReuseError:
    return KeyReuseError(
        f"{api}: a key is used by each step, in {record.used_by}, as the body {how}: all steps "
        "would draw the same numbers. Carry keys and split them in the body, give the loop one key "
        "for each step, or use weft.random.fold_in with the step's number"
    )


def use_in_condition(api: str, condition: Body, body: Body, carry: Sequence[object]) -> None:
    """Note the keys that the condition of a loop uses, which its body must replace."""
    first, tested = len(body.consts), condition.jaxpr.jaxpr.invars[len(condition.consts) :]
    j = body.jaxpr.jaxpr
    for i in used_variables(tested):
        if j.outvars[i] is j.invars[first + i] or used_variables([j.invars[first + i]]):
            raise _in_each_step(api, _used[id(tested[i])], "carries it on")
        use(api, carry[i])


def use_operands(api: str, bodies: Sequence[Body], operands: Sequence[object]) -> None:
    """Note the operands, the last of the bodies' arguments, that one of the bodies uses."""
    used = set()
    for body in bodies:
        invars = body.jaxpr.jaxpr.invars
        used |= set(used_variables(invars[len(invars) - len(operands) :]))
    use_arguments(api, [operands[i] for i in sorted(used)])


def use_arguments(name: str, keys: Sequence[object]) -> None:
    """Note that a jitted function uses these of its arguments up."""
    for key in keys:
        use(name, key)
