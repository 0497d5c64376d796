"""Why a call of a jitted function was traced: what differs from the calls before."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from weft.core.config import options

if TYPE_CHECKING:
    from weft.core.aval import ShapedArray

Key = tuple[Any, Any, tuple, Any, Any, Any]
"""(options of jit, tree, types, static arguments, options of weft.config, axes in scope)"""


def log_miss(name: str, arg_names: Sequence[str], key: Key, cached_keys: Sequence[Key]) -> None:
    """Log how a call differs from the most similar one of those that are known."""
    logging.getLogger("weft").warning("%s", explain(name, arg_names, key, cached_keys))


def log_time(name: str, seconds: float) -> None:
    """Log how long the call was traced for; `weft.log_compiles` has the time of compiling."""
    logging.getLogger("weft").warning("%s was traced in %.1f ms", name, 1e3 * seconds)


def explain(name: str, arg_names: Sequence[str], key: Key, cached_keys: Sequence[Key]) -> str:
    """Return the text that is logged."""
    types = ", ".join(f"{n}: {_type(a)}" for n, a in zip(arg_names, key[2], strict=True))
    event = f"{name}({types}) is traced"
    if not cached_keys:
        return f"{event}: it is the function's first call"
    newest_first = reversed(cached_keys)
    differences = min((list(_differences(arg_names, key, old)) for old in newest_first), key=len)
    return "\n  ".join([f"{event}; unlike the most similar call before,", *differences])


def _differences(arg_names: Sequence[str], new: Key, old: Key) -> Iterator[str]:
    if new[1] != old[1]:
        yield f"the structure of the arguments is {new[1]}, it was {old[1]}"
    else:
        for name, a, b in zip(arg_names, new[2], old[2], strict=True):
            if a is not b:
                yield f"{name} is {_type(a)}, it was {_type(b)}"
    if new[3] != old[3]:
        yield f"static arguments are {_statics(new[3])}, they were {_statics(old[3])}"
    yield from _options(new[4], old[4])
    if new[5] != old[5]:
        yield f"the named axes in scope are {new[5]}, they were {old[5]}"
    if new[0] != old[0]:
        yield "it is jitted with other donate_argnums or shardings"


def _type(aval: ShapedArray) -> str:
    return aval.str_short() + (" (weak)" if getattr(aval, "weak_type", False) else "")


def _statics(static: tuple) -> str:
    positions, names = static or ((), ())
    return repr({**dict(positions), **dict(names)})


def _options(new: tuple, old: tuple) -> Iterator[str]:
    names = [o.name for o in options.values() if o.traced]
    for a, b in zip(new, old, strict=True):
        if a == b:
            continue
        values, before = getattr(a, "values", None), getattr(b, "values", None)
        if isinstance(values, tuple) and isinstance(before, tuple) and len(values) == len(before):
            more = [*names, *["a context of yours"] * (len(values) - len(names))]
            for name, x, y in zip(more, values, before, strict=True):
                if x != y:
                    yield f"{name} is {x!r}, it was {y!r}"
        else:
            yield f"options are set on this thread: {a}, they were {b}"
