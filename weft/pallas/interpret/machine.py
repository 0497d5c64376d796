# Tests: tests/pallas/test_interpret.py
"""Evaluates kernel jaxprs: each task is a generator that yields at accesses to shared memory."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.core import dtypes
from weft.core.jaxpr import ClosedJaxpr, Eqn, Literal, open_jaxpr
from weft.core.ref import AbstractRef
from weft.pallas.interpret.errors import (
    DataRaceError,
    DeadlockError,
    KernelError,
    UninitializedReadError,
)
from weft.pallas.interpret.memory import Buffer, Region, locate
from weft.pallas.interpret.numpy_ops import DIRECT, function_of, in_numpy
from weft.pallas.interpret.params import InterpretParams
from weft.pallas.interpret.scheduler import Scheduler, Task, Wait
from weft.pallas.ir import OUTSIDE, RefOperands, ref_operands
from weft.pallas.legalize import Target, lowering_formula
from weft.pallas.order import used_vars
from weft.pallas.spin_loops import limit_text, polls

if TYPE_CHECKING:
    from weft.core.aval import ShapedArray
    from weft.core.jaxpr import Atom, Jaxpr
    from weft.core.source import Source
    from weft.pallas.interpret.races import Access

Steps = Generator[Wait | None, None, list]
RULES: dict[str, tuple[Callable[..., Any], bool]] = {}
"""Op name -> (rule(machine, task, op, *args), whether it is simple). The rule gives the list of
results; one that is not simple is a generator, which yields where others may take a turn."""


def _is_native(eqn: Eqn) -> bool:
    """Tell whether an op has a rule, a function of NumPy, or no formula: then it runs compiled."""
    if eqn.primitive.name in RULES or eqn.primitive.name in OUTSIDE:
        return True
    if any(_is_ref_or_key(v.aval) for v in (*eqn.invars, *eqn.outvars)):
        return True
    return in_numpy(eqn) is not None or lowering_formula(eqn) is None


def _is_ref_or_key(aval: ShapedArray) -> bool:
    return isinstance(aval, AbstractRef) or dtypes.is_extended(aval.dtype)


NUMPY = Target(
    "interpreter",
    frozenset(),
    _is_native,
    narrowest=lambda name: 4 if name in ("reduce_sum", "reduce_prod", "cumsum", "cumprod") else 1,
    has_all_dtypes=True,
)


class Code:
    """A jaxpr prepared for evaluation: its equations, and the values of constants and literals."""

    __slots__ = ("inputs", "ops", "outputs", "values")

    def __init__(self, jaxpr: Jaxpr, consts: Sequence[Any]) -> None:
        self.inputs, self.outputs, used = jaxpr.invars, jaxpr.outvars, used_vars(jaxpr)
        self.ops = [_Op(eqn, any(v in used for v in eqn.outvars)) for eqn in jaxpr.eqns]
        self.values: dict[Atom, Any] = {
            v: np.asarray(c).astype(v.aval.dtype, copy=False)
            for v, c in zip(jaxpr.constvars, consts, strict=True)
        }
        for v in itertools.chain(jaxpr.outvars, *(eqn.invars for eqn in jaxpr.eqns)):
            if v.__class__ is Literal:
                self.values[v] = np.asarray(v.val).astype(v.aval.dtype)[()]


class _Op:
    """One equation: a function of values, or a rule that may yield. used: anything reads it."""

    __slots__ = ("eqn", "function", "ins", "many", "outs", "rule", "simple", "used")

    def __init__(self, eqn: Eqn, used: bool) -> None:
        self.eqn, self.used = eqn, used
        self.ins, self.outs, self.many = eqn.invars, eqn.outvars, eqn.primitive.multiple_results
        self.rule: Any
        self.rule, self.simple = RULES.get(eqn.primitive.name, (None, False))
        self.function = None
        if self.rule is None:
            if any(isinstance(v.aval, AbstractRef) for v in eqn.invars):
                raise KernelError(
                    f"{eqn.primitive.name} at {eqn.source} takes a Ref, which the interpreter does "
                    "not support; read the ref first and pass its value"
                )
            self.function = function_of(eqn)


def code_of(jaxpr: ClosedJaxpr) -> Code:
    consts = jaxpr.consts if isinstance(jaxpr, ClosedJaxpr) else ()
    return jaxpr.memo("interpreter code", lambda: Code(open_jaxpr(jaxpr), consts))


LOOKS = 20_000
"""Looks of all cores at semaphores and locks, with nothing else, that are taken for a deadlock."""


class Machine:
    """A running kernel: its tasks, semaphores, and what is checked."""

    def __init__(self, kernel: str, params: InterpretParams, wait_limit: float = 0.0) -> None:
        self.kernel = kernel
        self.params = params
        self.wait_limit = wait_limit
        self.events = 0  # writes, signals, copies: of all tasks
        self.scheduler = Scheduler(params.random_seed)
        self.num_batch = 0
        self.names: dict[int, str] = {}  # of tasks, by number
        self.looks = 0  # at semaphores and locks, since any core did anything else

    def fail(self, error: type, text: str) -> None:
        raise error(f"kernel {self.kernel}: {text}")

    def look(self, task: Task, source: Source) -> None:
        """Note that a task looked at what another is to change; loops may do so forever."""
        self.looks += 1
        if self.looks > LOOKS:
            self.fail(
                DeadlockError,
                f"{task.name} looks again and again at {source}, and in {LOOKS} looks of all cores "
                "nothing else has happened: what it looks for will not come",
            )

    # Evaluation ---------------------------------------------------------------------------------

    def run(self, jaxpr: ClosedJaxpr, args: Sequence[Any], task: Task) -> Any:
        """Return a generator that evaluates a jaxpr and returns its results."""
        code = code_of(jaxpr)
        values = code.values.copy()
        values.update(zip(code.inputs, args, strict=True))
        for op in code.ops:
            operands = [values[v] for v in op.ins]
            if op.function is not None and not op.many:
                values[op.outs[0]] = op.function(*operands)
                continue
            if op.function is not None:
                outs = op.function(*operands)
            elif op.simple:
                outs = op.rule(self, task, op, *operands)
            else:
                outs = yield from op.rule(self, task, op, *operands)
            values.update(zip(op.outs, outs, strict=True))
        return [values[v] for v in code.outputs]

    def evaluate(self, jaxpr: ClosedJaxpr, args: Sequence[Any], task: Task) -> list:
        """Return the results of a jaxpr that does not wait for anything, such as an index map."""
        steps = self.run(jaxpr, args, task)
        try:
            while True:
                next(steps)
        except StopIteration as done:
            return done.value

    # Memory -------------------------------------------------------------------------------------

    def check_written(self, task: Task, buffer: Buffer, region: Region, source: Source) -> None:
        """Raise for a read of what nobody wrote."""
        if buffer.written is None or self.params.uninitialized_memory != "raise":
            return
        if not np.all(region.get(buffer.written)):
            self.fail(
                UninitializedReadError,
                f"{task.name} reads {buffer} at {source}, of which "
                f"{_missing(region, buffer)} nobody wrote; write it first, for example when "
                "pl.program_id(...) is 0",
            )

    def read(self, task: Task, buffer: Buffer, region: Region, source: Source) -> None:
        """Check and record a read of a region."""
        self.looks = 0
        if buffer.shadow is not None:
            conflict = buffer.shadow.read(region, task.number, task.clock, source)
            self._race(buffer, conflict, task, source, "reads")
        self.check_written(task, buffer, region, source)

    def write(
        self, task: Task, buffer: Buffer, region: Region, source: Any, atomic: bool = False
    ) -> None:
        """Check and record a write to a region."""
        self.looks = 0
        self.events += 1
        task.events += 1
        if not buffer.data.flags.writeable:
            buffer.data = buffer.data.copy()
        if buffer.shadow is not None:
            conflict = buffer.shadow.write(region, task.number, task.clock, source, atomic)
            self._race(buffer, conflict, task, source, "updates" if atomic else "writes")
        if buffer.written is not None:
            region.put(buffer.written, True)

    def _race(
        self, buffer: Buffer, conflict: Access | None, task: Task, source: Source, does: str
    ) -> None:
        if conflict is None:
            return
        other = self.names.get(conflict.task, f"task {conflict.task}")
        self.fail(
            DataRaceError,
            f"data race on {buffer}: {task.name} {does} it at {source}, and {other} "
            f"{'wrote' if conflict.writes else 'read'} it at {conflict.source}, with nothing that "
            "orders the two; let one signal a semaphore after its access that the other waits for",
        )

    def new_task(self, name: str, coords: dict | None = None) -> Task:
        task = self.scheduler.new_task(name, coords)
        self.names[task.number] = name
        return task


def _missing(region: Region, buffer: Buffer) -> str:
    assert buffer.written is not None  # something was found missing
    written = np.asarray(region.get(buffer.written))
    if not written.any():
        return "all of the elements read"
    return f"{int((~written).sum())} of the {written.size} elements read"


# Refs ------------------------------------------------------------------------------------------


def rule(name: str, simple: bool = False) -> Callable[[Callable], Callable]:
    """Register how an op runs: a generator, or, if it is simple, a function."""

    def add(fun: Callable) -> Callable:
        RULES[name] = (fun, simple)
        return fun

    return add


def _region(m: Machine, of: RefOperands, op: _Op) -> Region:
    label = f"kernel {m.kernel}: {op.eqn.primitive.name}"
    indexer, source = op.eqn.rule_params["indexer"], op.eqn.source
    return locate(of.ref, indexer, of.positions, source, label, of.mask)


def _value(region: Region, data: np.ndarray, other: int) -> Any:
    """Return the result of a read."""
    if region.mask is None:
        return np.array(region.get(data))
    out = np.array(np.broadcast_to(np.asarray(other, data.dtype), region.shape))
    out[region.mask] = region.get(data)
    return out


@rule("get")
def _get(m: Machine, task: Task, op: _Op, ref: Buffer, *rest: object) -> Steps:
    of = ref_operands(op.eqn, (ref, *rest))
    region = _region(m, of, op)
    m.read(task, ref, region, op.eqn.source)
    value = _value(region, ref.data, 0 if of.other is None else of.other)
    if ref.shadow is not None:
        yield None
    return [value]


@rule("set")
def _set(m: Machine, task: Task, op: _Op, ref: Buffer, value: object, *rest: object) -> Steps:
    region = _region(m, ref_operands(op.eqn, (ref, value, *rest)), op)
    m.write(task, ref, region, op.eqn.source)
    region.put(ref.data, value)
    if ref.shadow is not None:
        yield None
    return []


@rule("addupdate")
def _addupdate(
    m: Machine, task: Task, op: _Op, ref: Buffer, value: np.ndarray, *rest: np.ndarray
) -> Steps:
    """At index arrays, where positions may repeat."""
    region = _region(m, ref_operands(op.eqn, (ref, value, *rest)), op)
    m.read(task, ref, region, op.eqn.source)
    m.write(task, ref, region, op.eqn.source)
    region.combine(ref.data, value, np.add)
    if ref.shadow is not None:
        yield None
    return []


@rule("atomic_rmw")
def _atomic_rmw(
    m: Machine, task: Task, op: _Op, ref: Buffer, value: object, *rest: np.ndarray
) -> Steps:
    if ref.shadow is not None:
        yield None
    region = _region(m, ref_operands(op.eqn, (ref, value, *rest)), op)
    _begin_atomic(m, task, ref, region, op)
    how = op.eqn.rule_params["op"]
    if op.used:
        return [_one_by_one(ref, region, value, how)]
    if how == "xchg":
        region.put(ref.data, value)
    else:
        region.combine(ref.data, value, DIRECT[how])
    return [np.zeros(region.shape, ref.data.dtype)]


def _begin_atomic(m: Machine, task: Task, ref: Buffer, region: Region, op: _Op) -> None:
    """Check an atomic; one on a single element orders what the tasks do around it."""
    if ref.shadow is not None and region.shape == () and region.mask is None:
        element = tuple(int(i) for i in region.view if not isinstance(i, slice))
        ref.shadow.synchronize(element, task.clock)
    if op.used or op.eqn.rule_params.get("op") != "xchg":
        m.check_written(task, ref, region, op.eqn.source)
    m.write(task, ref, region, op.eqn.source, atomic=True)
    task.tick()


def _one_by_one(ref: Buffer, region: Region, value: Any, how: str) -> np.ndarray:
    """Return the values before, where positions may repeat: element after element."""
    flat = np.arange(ref.data.size).reshape(ref.data.shape)
    where = np.asarray(region.get(flat))
    value = np.broadcast_to(value, region.shape)
    updates = value[region.mask] if region.mask is not None else value
    data = ref.data.flat
    old = np.zeros(where.shape, ref.data.dtype)
    for k, i in enumerate(where.reshape(-1)):
        old.reshape(-1)[k] = data[i]
        new = updates.reshape(-1)[k]
        data[i] = new if how == "xchg" else DIRECT[how](data[i], new)
    if region.mask is None:
        return old
    out = np.zeros(region.shape, ref.data.dtype)
    out[region.mask] = old
    return out


@rule("atomic_cas")
def _atomic_cas(
    m: Machine, task: Task, op: _Op, ref: Buffer, compare: object, value: object, *rest: object
) -> Steps:
    if ref.shadow is not None:
        yield None
    region = _region(m, ref_operands(op.eqn, (ref, compare, value, *rest)), op)
    looks = m.looks
    _begin_atomic(m, task, ref, region, op)
    old = np.array(region.get(ref.data))
    if old == compare:
        region.put(ref.data, value)
    else:
        m.looks = looks
        m.look(task, op.eqn.source)
    return [old]


# Calls, branches and loops ----------------------------------------------------------------------


@rule("cond")
def _cond(m: Machine, task: Task, op: _Op, index: np.ndarray, *args: object) -> Steps:
    branches = op.eqn.rule_params["branches"]
    k = min(max(int(index), 0), len(branches) - 1)
    return (yield from m.run(branches[k], args, task))


@rule("while")
def _while(m: Machine, task: Task, op: _Op, *args: object) -> Steps:
    p = op.eqn.rule_params
    nc, nb = p["cond_nconsts"], p["body_nconsts"]
    cond_consts, body_consts, carry = args[:nc], args[nc : nc + nb], list(args[nc + nb :])
    looks = m.wait_limit and polls(op.eqn)
    looked, events, in_vain = time.monotonic(), m.events - task.events, 0.0
    while True:
        (go_on,) = yield from m.run(p["cond_jaxpr"], [*cond_consts, *carry], task)
        if not go_on:
            return carry
        if looks:
            yield None
            now, before = time.monotonic(), events
            events = m.events - task.events
            # While the process is stopped nobody waits: a look counts for a part of the limit.
            step = min(now - looked, m.wait_limit / 16)
            looked, in_vain = now, in_vain + step if events == before else 0.0
            if in_vain > m.wait_limit:
                m.fail(
                    DeadlockError,
                    f"{task.name} looks again and again at {op.eqn.source}, and nothing else has "
                    f"happened for {limit_text(m.wait_limit)}",
                )
        carry = yield from m.run(p["body_jaxpr"], [*body_consts, *carry], task)


@rule("scan")
def _scan(m: Machine, task: Task, op: _Op, *args: Any) -> Steps:
    p = op.eqn.rule_params
    n, end = p["num_consts"], p["num_consts"] + p["num_carry"]
    consts, carry, xs = args[:n], list(args[n:end]), args[end:]
    length = p["length"]
    ys = [np.empty(v.aval.shape, v.aval.dtype) for v in op.eqn.outvars[p["num_carry"] :]]
    for i in reversed(range(length)) if p["reverse"] else range(length):
        outs = yield from m.run(p["jaxpr"], [*consts, *carry, *(x[i] for x in xs)], task)
        carry = outs[: len(carry)]
        for y, value in zip(ys, outs[len(carry) :], strict=True):
            y[i] = value
    return [*carry, *ys]
