# Tests: tests/pallas/test_cpu.py
"""Kernel jaxprs → code: the walk over equations, and what is alive when memory changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

import weft.pallas.cpu.loops as loops
import weft.pallas.cpu.scalar as scalar
import weft.pallas.cpu.types as types
from weft.core import dtypes
from weft.core.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Literal, Var, open_jaxpr
from weft.pallas.cpu.llvm import Function
from weft.pallas.cpu.values import (
    COSTLY,
    Array,
    Buffer,
    Group,
    constant,
    no_indices,
    register,
)
from weft.pallas.cpu.values import same_indices as same
from weft.pallas.ir import row_major, unsupported
from weft.pallas.legalize import Target
from weft.pallas.narrow_integers import byte_of
from weft.pallas.uses import written_vars

if TYPE_CHECKING:
    from weft.core.aval import ShapedArray
    from weft.core.ref import AbstractRef
    from weft.pallas.ir import KernelCall

Value = Array | Buffer
"""Arrays by value; refs as the memory they stand for."""

Rule = Callable[..., Any]
RULES: dict[str, Rule] = {}
"""Primitive name → rule(translator, eqn, *operands): an Array, a list of them, or None."""


def _is_native(eqn: Eqn) -> bool:
    if eqn.primitive.name == "dot_general":
        return not _is_of_vector(eqn)
    return eqn.primitive.name in RULES or scalar.has_code(eqn.primitive.name)


def _is_of_vector(product: Eqn) -> bool:
    """Return whether a product has one row or column, or is empty: it is a sum, by formula."""
    x, y = (v.aval for v in product.invars)
    return min(x.shape[-2], y.shape[-1]) <= 1 or x.size == 0


def _narrowest(name: str) -> int:
    if name.startswith(("cum", "reduce_", "sort")):
        return 4
    return scalar.narrowest(name)


LLVM = Target(
    "CPU",
    frozenset({"cpu"}),
    _is_native,
    _narrowest,
    instead=lambda dtype: "" if types.is_supported(byte_of(dtype)) else "float32",
)


def rule(*names: str) -> Callable[[Rule], Rule]:
    def add(function: Rule) -> Rule:
        for name in names:
            RULES[name] = function
        return function

    return add


STATUS_BITS = 62
"""The bit of `%status` that stands for all messages from this one on."""


class Translator:
    """Writes the code of one program of a kernel into a function.

    f: the function. memory: its temporary memory. program_ids: i64 registers, by grid dimension.
    checks: messages of failed run-time checks; `fail` refers to them. cores: for mpmd, see mpmd.
    """

    def __init__(
        self, f: Function, call: KernelCall, memory: loops.Memory, messages: list[str]
    ) -> None:
        self.f, self.call, self.memory, self.messages = f, call, memory, messages
        self.program_ids: list[str] = []
        self.core: Any = None
        self.scopes: list[dict[Var, Value]] = []
        self.eqn: Any = None
        self.depth = 0

    # Jaxprs ------------------------------------------------------------------------------------

    def run(self, jaxpr: Jaxpr | ClosedJaxpr, values: Sequence[Value]) -> list[Any]:
        """Return the results of a jaxpr on the values, its code written at this place."""
        if isinstance(jaxpr, ClosedJaxpr):
            values = [*(self.literal(c) for c in jaxpr.consts), *values]
            jaxpr = jaxpr.jaxpr
        scope: dict[Var, Value] = dict(zip([*jaxpr.constvars, *jaxpr.invars], values, strict=True))
        uses, last = _usage(jaxpr)
        self.scopes.append(scope)
        before = self.eqn
        for number, eqn in enumerate(jaxpr.eqns):
            self.eqn = eqn
            operands = [
                self.literal(v.val, v.aval) if isinstance(v, Literal) else scope[v]
                for v in eqn.invars
            ]
            for v in eqn.invars:
                if not isinstance(v, Literal) and last[v] == number:
                    scope.pop(v, None)
            self.used = [uses.get(v, 0) > 0 for v in eqn.outvars]
            results = self.apply(eqn, operands)
            for v, value in zip(eqn.outvars, results, strict=True):
                if uses.get(v, 0):
                    if value.__class__ is Array:
                        self._plan(value, uses[v])
                    scope[v] = value
        self.eqn = before
        self.scopes.pop()
        return [
            self.literal(v.val, v.aval) if isinstance(v, Literal) else scope[v]
            for v in jaxpr.outvars
        ]

    def _plan(self, value: Array, uses: int) -> None:
        """Compute scalars at once; what is costly and used again is kept."""
        if value.producer is not None:
            if uses > 1:
                self.materialize(value)
        elif value.buffer is None:
            if not value.shape:
                text = value.at(self.f, ())
                value.element = lambda f, i: text
                value.inputs, value.cost, value.touched = (), 0, ()
            elif uses > 1 and value.cost >= COSTLY:
                value.kept = True
        elif not value.shape and value.buffer is not None:
            text = value.at(self.f, ())
            value.buffer, value.element = None, lambda f, i: text

    def apply(self, eqn: Eqn, operands: list[Any]) -> list[Value]:
        name = eqn.primitive.name
        function = RULES.get(name)
        if function is not None:
            out = function(self, eqn, *operands)
        else:
            out = self.elementwise(eqn, operands)
        if out is None:
            return []
        return list(out) if isinstance(out, list | tuple) else [out]

    def elementwise(self, eqn: Eqn, operands: list[Array]) -> Array:
        aval = eqn.outvars[0].aval
        dtype = operands[-1 if eqn.primitive.name == "select_n" else 0].dtype
        name, params, result = eqn.primitive.name, eqn.rule_params, aval.dtype
        plain = [not o.shape for o in operands]

        def element(f: Function, indices: tuple) -> str:
            values = [o.at(f, () if p else indices) for o, p in zip(operands, plain, strict=True)]
            return scalar.emit(f, name, dtype, values, params, result)

        inputs = [(o, no_indices if p else same) for o, p in zip(operands, plain, strict=True)]
        cost = scalar.COSTS.get(name, 1)
        return Array(aval.shape, result, element, inputs, cost, pointwise=True)

    # Values ------------------------------------------------------------------------------------

    def literal(self, value: object, aval: ShapedArray | None = None) -> Array:
        array = np.asarray(value)
        if aval is not None and array.dtype != aval.dtype:
            array = array.astype(aval.dtype)
        if array.shape:
            return self.constant_array(array)
        return constant(array[()], array.dtype)

    def constant_array(self, array: Any) -> Array:
        """Return an array constant as read-only data of the module."""
        data = array.tobytes()
        listing = "\\" + data.hex("\\") if data else ""
        names = self.f.module.globals
        name = f"@data{len(names)}"
        names[name] = f'private unnamed_addr constant [{len(data)} x i8] c"{listing}", align 64'
        group = Group("constant")
        buffer = Buffer(name, array.dtype, array.shape, row_major(array.shape), group)
        return Array(array.shape, array.dtype, buffer=buffer)

    def scalar(self, text: str, dtype: np.dtype) -> Array:
        return register(text, dtype)

    def index(self, value: Array | int) -> Any:
        """Return a scalar as an i64 register, or the int itself."""
        if isinstance(value, int):
            return value
        text = value.at(self.f, ())
        if text.lstrip("-").isdigit():
            return int(text)
        key = ("index", text, value.dtype)
        wide = self.f.memo.get(key)
        if wide is None:
            wide = self.f.memo[key] = scalar.convert(self.f, text, value.dtype, dtypes.int64)
        return wide

    def program_id(self, axis: int) -> Array:
        """Return the number of the running program along an axis of the grid."""
        return self.int32(self.program_ids[axis])

    def int32(self, text: str) -> Array:
        """Return an i64 register as an int32 scalar."""
        return register(self.f.op(f"trunc i64 {text} to i32"), dtypes.int32)

    def temporary(self, shape: Sequence[int], dtype: np.dtype) -> Buffer:
        return loops.temporary(self.f, self.memory, shape, dtype)

    def scratch(self, aval: AbstractRef, name: str = "scratch") -> Buffer:
        """Fresh memory for a ref; semaphores start at 0. name: what errors call it."""
        buffer = self.temporary(aval.shape, aval.dtype)
        buffer.group.name = name
        if aval.holds_semaphores or self.call.poison:
            number = 0 if aval.holds_semaphores else types.poison(aval.dtype)
            text = types.constant(number, aval.dtype)
            self.store(buffer, Array(aval.shape, aval.dtype, lambda f, i: text))
        return buffer

    def materialize(self, array: Array) -> Buffer:
        return loops.materialize(self.f, self.memory, array)

    def snapshot(self, array: Array) -> None:
        """Return the value as it is now, whatever happens to the memory it was read from."""
        if array.buffer is None:
            self.materialize(array)
        else:
            copy = self.temporary(array.shape, array.dtype)
            loops.copy_elements(self.f, copy, array.buffer)
            array.become(copy)

    def store(self, target: Buffer, value: Array, mask: Array | None = None) -> None:
        loops.store(self.f, self.memory, target, value, mask)

    # Changing memory ---------------------------------------------------------------------------

    def before_write(self, *groups: Group) -> None:
        """Store living values that read memory which is about to change."""
        self._snapshot_where(lambda group: group in groups)

    def before_sync(self) -> None:
        """Read what living values need of memory that other cores may change."""
        self._snapshot_where(lambda group: group.shared)

    def _snapshot_where(self, changes: Callable[[Group], bool]) -> None:
        for scope in self.scopes:
            for value in list(scope.values()):
                if value.__class__ is Array and any(map(changes, value.reads)):
                    self.snapshot(value)

    def before_region(
        self, operands: Sequence[Any], writes: set[Group], repeated: bool = False
    ) -> list[Any]:
        """Before code that may run not at all or, if repeated, many times: what it reads is made
        here. Gives the operands for the code, whose own storing of them ends with it."""
        self.before_write(*writes)
        result = []
        for value in operands:
            if value.__class__ is Array and value.shape:
                if not writes.isdisjoint(value.reads):
                    self.snapshot(value)
                elif repeated and value.cost >= COSTLY:
                    self.materialize(value)
                for waiting in value.waiting():
                    self.materialize(waiting)
                if value.buffer is None:
                    value = proxy(value)
            result.append(value)
        return result

    @contextmanager
    def region(self) -> Iterator[None]:
        """Temporary memory taken inside is free again after it."""
        before = self.memory.offset
        self.depth += 1
        try:
            yield
        finally:
            self.memory.offset = before
            self.depth -= 1

    def written(self, jaxpr: Jaxpr | ClosedJaxpr, values: Sequence[Value]) -> set[Group]:
        """Return groups of the refs among the values that the jaxpr may change."""
        written = written_vars(jaxpr)
        pairs = zip(open_jaxpr(jaxpr).invars, values, strict=True)
        return {x.group for v, x in pairs if x.__class__ is Buffer and v in written}

    # Errors ------------------------------------------------------------------------------------

    def unsupported(self, eqn: Eqn, why: str = "") -> Exception:
        return unsupported("CPU", self.call, eqn, why)

    def message(self, text: str) -> int:
        """Return the number of an error's message, from 1."""
        if text not in self.messages:
            self.messages.append(text)
        return self.messages.index(text) + 1

    def fail(self, condition: str, text: str) -> None:
        """Return where the condition (i1) holds, the call will end with this error."""
        number, f = self.message(text), self.f
        if self.core is not None:
            with f.when(condition):
                self.core.end(f, number)
            return
        # A bit for each message: loops that collect them are vectorized, unlike those that branch.
        note(f, condition, number)

    def greatest(self, text: str, type_: str, high: int) -> str:
        """Return where loops keep the greatest of positions (unsigned); the call will end with this
        error if it is more than `high`."""
        number = self.message(text)
        key = number, type_, high
        if key not in self.f.greatest:
            name = self.f.alloca(type_)
            self.f.entry.append(f"  store {type_} 0, ptr {name}")
            self.f.greatest[key] = name
        return self.f.greatest[key]

    def leave_unless(self, on: str) -> None:
        """End the program here, and with it what the function does, if `on` (i1) is false."""
        go_on = self.f.name_of("goon")
        self.f.do(f"br i1 {on}, label {go_on}, label %leave")
        self.f.label(go_on)


def note(f: Function, condition: str, number: int) -> None:
    """Return where the condition (i1) holds, `%status` has the bit of a message."""
    bit = f.op(f"select i1 {condition}, i64 {1 << min(number - 1, STATUS_BITS)}, i64 0")
    before = f.load("i64", "%status", parallel=False)
    f.store("i64", f.op(f"or i64 {before}, {bit}"), "%status", parallel=False)


def proxy(x: Array) -> Array:
    """Return the same elements; storing the proxy does not store x."""
    return Array(x.shape, x.dtype, lambda f, i: x.at(f, i), [(x, same)], pointwise=True)


def _usage(jaxpr: Jaxpr) -> tuple[dict[Var, int], dict[Var, int]]:
    """Return how often each variable is used, and by which equation last; results count as uses."""

    def count() -> tuple[dict[Var, int], dict[Var, int]]:
        uses: dict[Var, int] = {}
        last: dict[Var, int] = {}
        for number, eqn in enumerate(jaxpr.eqns):
            for v in eqn.invars:
                if not isinstance(v, Literal):
                    uses[v] = uses.get(v, 0) + 1
                    last[v] = number
        for v in jaxpr.outvars:
            if not isinstance(v, Literal):
                uses[v] = uses.get(v, 0) + 1
                last[v] = len(jaxpr.eqns)
        return uses, last

    return jaxpr.memo("cpu usage", count)
