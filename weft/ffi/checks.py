# Tests: tests/ffi/test_call.py
"""Checks of a call before XLA sees it: results, layouts, aliases, batch dimensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from weft.core import dtypes
from weft.core.aval import TOKEN, AbstractToken, ShapedArray
from weft.core.errors import ArgumentError
from weft.core.source import capture
from weft.core.trace import Tracer, typeof


def result(label: str, i: int, r: object) -> Any:
    if r is None or isinstance(r, AbstractToken):
        return TOKEN
    if not hasattr(r, "shape") or not hasattr(r, "dtype"):
        raise ArgumentError(
            f"{label}: result_shape_dtypes[{i}] must have shape and dtype, such as "
            f"weft.ShapeDtypeStruct((2, 3), 'float32'), got {type(r).__name__}"
        )
    for d in r.shape:
        if isinstance(d, Tracer):
            raise TypeError(
                f"{label}: the shape of result {i} depends on a traced value ({d!r}, made at "
                f"{d.source() or capture()}); shapes must be known while tracing. Mark what they "
                "depend on static"
            )
        if not isinstance(d, int | np.integer):
            raise TypeError(f"{label}: result {i} has the dimension {d!r}, which is no integer")
        if d < 0:
            raise ValueError(f"{label}: result {i} has the dimension {d}; sizes are not negative")
    dtype = dtypes.canonicalize_dtype(r.dtype)
    if isinstance(r.dtype, np.dtype) and dtype != r.dtype:
        raise ValueError(
            f"{label}: result {i} asks for {r.dtype.name}, which is not available without 64-bit "
            "mode; use a 32-bit dtype, or weft.config.update('enable_x64', True)"
        )
    return ShapedArray(tuple(int(d) for d in r.shape), dtype)


def check_layouts(label: str, name: str, layouts: object, avals: Sequence[Any]) -> tuple:
    """Return layouts from slowest to fastest as XLA's minor-to-major tuples."""
    if layouts is None:
        return (None,) * len(avals)
    if not isinstance(layouts, Sequence):
        raise TypeError(
            f"{label}: {name} must be a sequence with one layout (or None) for each array, got "
            f"{layouts!r}"
        )
    if len(layouts) != len(avals):
        raise ValueError(f"{label}: {name} has {len(layouts)} entries for {len(avals)} arrays")
    checked: list[tuple[int, ...] | None] = []
    for i, (layout, aval) in enumerate(zip(layouts, avals, strict=True)):
        if layout is None:
            checked.append(None)
            continue
        major_to_minor = getattr(layout, "major_to_minor", layout)
        if not isinstance(major_to_minor, Sequence):
            raise TypeError(
                f"{label}: {name}[{i}] must be a sequence of dimensions from slowest to fastest, "
                f"or None, got {layout!r}"
            )
        order = tuple(major_to_minor)
        if sorted(order) != list(range(len(aval.shape))):
            raise ValueError(
                f"{label}: {name}[{i}] is {order}, which is not an order of the {len(aval.shape)} "
                f"dimensions of {aval.str_short()}"
            )
        checked.append(tuple(reversed(order)))
    return tuple(checked)


def operand_types(label: str, args: Sequence[Any]) -> list:
    """Return the operands' types; raises TypeError naming the one that is no array."""
    avals = []
    for i, x in enumerate(args):
        try:
            avals.append(typeof(x))
        except TypeError:
            raise TypeError(
                f"{label}: operand {i} must be an array or a number, got {type(x).__name__} "
                f"({x!r:.60}); operands are passed one by one, attributes by keyword"
            ) from None
    return avals


def alias_pairs(label: str, aliases: object) -> tuple[tuple[int, int], ...]:
    """Return pairs of operand and result from what the user gave as input_output_aliases."""
    if aliases is None:
        return ()
    if not isinstance(aliases, Mapping):
        raise TypeError(
            f"{label}: input_output_aliases must be a dict from operand to result, such as "
            f"{{0: 0}}, got {aliases!r}"
        )
    for i, o in aliases.items():
        if not isinstance(i, int) or not isinstance(o, int):
            raise TypeError(
                f"{label}: input_output_aliases maps integers to integers, got {i!r}: {o!r}"
            )
    return tuple(sorted(aliases.items()))


def check_aliases(
    label: str,
    aliases: Sequence[tuple[int, int]],
    avals: Sequence[Any],
    results: Sequence[Any],
    ins: Sequence = (),
    outs: Sequence = (),
    kinds: tuple[str, str] = ("operand", "result"),
) -> None:
    """Raise unless values may share memory. ins, outs: their layouts. kinds: their names."""
    one, other = kinds
    taken: set[int] = set()
    for i, o in aliases:
        for number, kind, values in ((i, one, avals), (o, other, results)):
            if not 0 <= number < len(values):
                raise ValueError(
                    f"{label}: input_output_aliases names {kind} {number}; the call has "
                    f"{len(values)}"
                )
        if o in taken:
            raise ValueError(f"{label}: input_output_aliases gives {other} {o} to two {one}s")
        taken.add(o)
        a, r = avals[i], results[o]
        if (a.shape, a.dtype) != (r.shape, r.dtype):
            raise ValueError(
                f"{label}: {one} {i} of type {a.str_short()} cannot share memory with {other} {o} "
                f"of type {r.str_short()}; aliased arrays have one shape and dtype"
            )
        if ins and ins[i] != outs[o]:
            raise ValueError(
                f"{label}: {one} {i} and {other} {o} are aliased but have different layouts"
            )


def check_batch_dims(label: str, n: int, avals: Any, results: Any) -> None:
    if not isinstance(n, int) or n < 0:
        raise ValueError(f"{label}: num_batch_dims must be a nonnegative int, got {n!r}")
    if not n:
        return
    lead = results[0].shape[:n] if results else None
    for kind, group in (("operand", avals), ("result", results)):
        for i, a in enumerate(group):
            if len(a.shape) < n:
                raise ValueError(
                    f"{label}: num_batch_dims={n} is larger than the rank of {kind} {i} of type "
                    f"{a.str_short()}"
                )
            if lead is not None and a.shape[:n] != lead:
                raise ValueError(
                    f"{label}: the first {n} dimensions of {kind} {i} of type {a.str_short()} "
                    f"differ from those of result 0, {lead}; batch dimensions agree everywhere"
                )
