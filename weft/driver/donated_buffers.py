# Tests: tests/driver/test_donation_guard.py
"""Donated arguments, matched to the results that can take their memory."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

from weft.core.source import warn
from weft.driver.program import physical

if TYPE_CHECKING:
    from weft.core.aval import ShapedArray
    from weft.driver.program import Program


def match_results(program: Program) -> tuple[dict[int, int], list[bool]]:
    """Return the result that takes each argument's memory, and which others stay donors.

    An argument and a result match if their buffers have equal types and shardings, else, on one
    device, if they have as many elements of as many bytes; what then matches none is kept.

    On one device an argument in a memory of its own is no donor (quirks.DONOR_MEMORY).
    """
    # Results by what their memory must be; several may be equal.
    free: dict[Any, list[int]] = {}
    in_layouts, out_layouts = program.layouts or ([None] * len(program.donated), None)
    out_layouts = out_layouts or [None] * len(program.out_shardings)
    one = len(program.devices) <= 1  # all placements are the same, but for the memory
    memories = set()
    for i, (a, s) in enumerate(zip(program.jaxpr.out_avals, program.out_shardings, strict=True)):
        memories.add(_memory(s))
        s = _memory(s) if one else s
        a = physical(a)
        key = (getattr(a, "shape", ()), a.dtype, s, out_layouts[i])
        free.setdefault(key, []).append(i)
    aliases, donors = {}, [False] * len(program.donated)
    others: list[int] = []
    for i, (a, s, d) in enumerate(
        zip(program.jaxpr.in_avals, program.in_shardings, program.donated, strict=True)
    ):
        if not d:
            continue
        buffer = physical(a)
        key = (buffer.shape, buffer.dtype, _memory(s) if one else s, in_layouts[i])
        candidates = free.get(key, [])
        if candidates and (s is not None or one):
            aliases[i] = candidates.pop(0)
        elif not one:
            donors[i] = True
        elif memories <= {_memory(s)}:
            others.append(i)
    # What found no equal result may still serve one of its size, which the runtime pairs up.
    left = Counter(_extent(program.jaxpr.out_avals[k]) for rest in free.values() for k in rest)
    unused = []
    for i in others:
        a = program.jaxpr.in_avals[i]
        left[_extent(a)] -= 1
        donors[i] = left[_extent(a)] >= 0
        if not donors[i]:
            unused.append(a.str_short())
    if unused:
        warn(
            f"{program.name}: donated buffers of types {', '.join(unused)} match no result, "
            "which could take their memory"
        )
    return aliases, donors


def _extent(aval: ShapedArray) -> tuple[int, int]:
    """Return the elements of a buffer, and the bytes of one."""
    buffer = physical(aval)
    return math.prod(getattr(buffer, "shape", ())), buffer.dtype.itemsize


def _memory(sharding: object) -> str:
    return getattr(sharding, "memory_kind", None) or "device"
