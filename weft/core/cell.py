# Tests: tests/refs/test_api.py, tests/refs/test_indexing.py
"""Cells: refs made by `new_ref`, which the traces they are made under read and write at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from weft.core import provided
from weft.core.errors import ArgumentError
from weft.core.state import state

if TYPE_CHECKING:
    from weft.core.primitive import Primitive


class Cell:
    """A ref made by `new_ref`: the array it holds now, and the trace it was made under.

    Under that trace, and under transformations nested in it, reading and writing are plain: the
    cell's value is replaced. A function traced to a jaxpr of its own (jit, a loop's body) takes
    the cell as an operand of type `AbstractRef`.
    """

    __slots__ = ("__weakref__", "alone", "aval", "fixed", "home", "value")

    def __init__(self, value: Any, aval: Any, home: Any, fixed: bool = False) -> None:
        self.value = value
        self.aval = aval
        self.home = home
        self.fixed = fixed  # stands for a ref of a jaxpr, whose types are settled
        self.alone = False  # nothing else has the array, so that its memory may be written to

    def is_open(self) -> bool:
        """Return whether the current trace is the cell's own, or a transformation nested in it."""
        trace = state.trace
        while trace is not self.home:
            trace = getattr(trace, "parent", None)
            if trace is None:
                return False
        return True

    def get(self) -> Any:
        if self.value is None:
            raise ValueError(
                f"a {self.aval.str_short()} is used after weft.freeze(ref) or free_ref(ref); use "
                "the array that freeze returned, or make a new ref of it"
            )
        self.alone = False
        return self.value

    def put(self, value: object) -> None:
        """Replace the array; it must belong to the cell's trace or one outside of it."""
        trace = state.trace
        while trace is not self.home:
            if getattr(value, "_trace", None) is trace:
                operation, how = _LEAKS.get(type(trace).__name__, _LEAKS["JVPTrace"])
                raise TypeError(
                    f"a {operation} value is written to a {self.aval.str_short()} that was made "
                    f"outside of the {operation} function; make the ref inside it, {how}"
                )
            trace = trace.parent
        sharding = self.aval.inner.sharding
        if (
            sharding is not None
            and getattr(getattr(value, "aval", None), "sharding", 0) != sharding
        ):
            value = provided.reshard(value, sharding)  # the type of a ref does not change
        mat = getattr(value, "aval", self.aval).mat
        if mat is not self.aval.mat:
            wider = sorted(mat.varying - self.aval.mat.varying, key=str)
            if self.fixed and wider:
                raise TypeError(
                    f"a value that varies over mesh axis {wider[0]!r} is written to a "
                    f"{self.aval.str_short()}, which does not, in a loop, branch or jitted function"
                    f" ({state.source}); let the ref vary from the start: "
                    f"weft.new_ref(weft.lax.pcast(x, {wider[0]!r}, to='varying'))"
                )
            self.aval = self.aval.update(mat=mat)
        self.value, self.alone = value, False

    def __repr__(self) -> str:
        return f"Cell({self.aval.str_short()})"


_LEAKS = {
    "JVPTrace": ("differentiated", "or write weft.lax.stop_gradient(value)"),
    "BatchTrace": ("mapped", "or pass it to the mapped function as a mapped argument"),
}


DISCHARGE: dict[Any, Callable] = {}
"""Primitive -> rule(args, **params) -> results, where some of args are open cells."""


def bind_open(prim: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """Apply an op of which some operands are open cells."""
    if prim not in DISCHARGE:  # the rules of ops with jaxprs load when a ref first meets one
        import_module("weft.api.ref_rules")
    rule = DISCHARGE.get(prim)
    if rule is None:
        position = next(i for i, a in enumerate(args) if a.__class__ is Cell)
        raise TypeError(
            f"{prim.name} cannot take a Ref ({args[position].aval.str_short()}, operand "
            f"{position}): what it runs must not read or write refs from outside. Pass the value "
            "ref[...] as an argument, and write the result to the ref afterwards"
        )
    return rule(args, **params)


def split_open(args: Sequence[Any]) -> tuple[list, list[bool]]:
    """Return the operands with the values of open cells, and which ones those are."""
    is_open = [a.__class__ is Cell and a.is_open() for a in args]
    cells = [a for a, o in zip(args, is_open, strict=True) if o]
    if len({id(c) for c in cells}) < len(cells):
        double = next(c for c in cells if sum(c is d for d in cells) > 1)
        raise ValueError(
            f"a {double.aval.str_short()} is passed to a transformed function twice (as an "
            "argument and by closing over it, or as two arguments): the two would be one array; "
            "pass it once"
        )
    return [a.get() if o else a for a, o in zip(args, is_open, strict=True)], is_open


def put_back(cells: Sequence[Any], written: Sequence[int], values: Sequence[Any]) -> None:
    for i, value in zip(written, values, strict=True):
        cells[i].put(value)


def cell_aval(cell: Cell) -> Any:
    if getattr(cell.home, "finished", False):
        raise ArgumentError(
            f"a {cell.aval.str_short()} made inside a transformed function cannot leave it: return "
            "its value, ref[...] or weft.freeze(ref)"
        )
    return cell.aval
