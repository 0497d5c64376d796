"""Programs compiled in pieces: a block that repeats is compiled once, and run for each of its uses.

XLA's CPU compiler inlines every function, so that unrolled layers cost their compile time once
each. A piece is a program of its own; one after the other they compute what the whole would.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.config import config
from weft.core.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Var
from weft.driver.execute import Request
from weft.driver.repeats import Repeat, find_repeats, flattened
from weft.runtime.compile import LoadedExecutable
from weft.runtime.device_put import constant_at
from weft.runtime.executable import Executable
from weft.sharding.physical import SingleDeviceSharding

if TYPE_CHECKING:
    from weft.driver.program import Program

WORTH = 1000
"""Equations to be saved from which "auto" compiles in pieces."""
WORK = 500_000
"""Elements that the equations of a block compute together at least: starting a piece takes as
long as some 100,000 of them."""


@dataclass(slots=True)
class Step:
    """A run of a piece: values are numbered, `free` are those that nobody reads later."""

    piece: int
    ins: list[int]
    outs: list[int]
    free: list[int]


@dataclass(slots=True)
class Plan:
    """Pieces as jaxprs and donated arguments, and their runs."""

    pieces: list[tuple[ClosedJaxpr, list[bool], str]]
    steps: list[Step]
    num_values: int
    inputs: list[int]
    consts: list[tuple[int, Any]]
    results: list[int]


def plan_of(program: Program) -> Plan | None:
    """Return how a program is divided, or None where it is compiled whole."""
    asked = config.repeated_blocks
    closed = program.jaxpr
    if asked == "inline" or not _can_divide(program):
        return None
    if asked == "auto" and len(closed.eqns) < WORTH // 8:
        return None
    closed = flattened(closed)
    if asked == "auto" and len(closed.eqns) < WORTH:
        return None
    repeats = find_repeats(closed.jaxpr, WORK if asked == "auto" else 0)
    if asked == "auto" and sum(r.saved for r in repeats) < WORTH:
        return None
    return _divide(closed, repeats, program.donated) if repeats else None


def _can_divide(program: Program) -> bool:
    """Return whether a program runs on one CPU device, without effects and special placements."""
    if len(program.devices) != 1 or program.mesh is not None or program.platforms != ("cpu",):
        return False
    if program.effects or program.layouts is not None or program.host_callbacks:
        return False
    if program.keepalives or program.options or any(program.in_shardings):
        return False
    if any(program.out_shardings):
        return False
    read = {v for e in program.jaxpr.eqns for v in e.invars}
    if not read.issuperset(program.jaxpr.invars):
        return False
    avals = (*program.jaxpr.in_avals, *program.jaxpr.out_avals)
    return all(isinstance(a, ShapedArray) and a.dtype != dtypes.float0 for a in avals)


def _divide(closed: ClosedJaxpr, repeats: Sequence[Repeat], donated: Sequence[bool]) -> Plan:
    """Divide a program into its repeated blocks and the pieces between the blocks."""
    jaxpr = closed.jaxpr
    n = len(jaxpr.eqns)
    # Blocks are calls of one program; what is between them are pieces of their own.
    last_read = {v: i for i, e in enumerate(jaxpr.eqns) for v in e.invars}
    # (first equation, end, blocks that are the same program, which of them)
    parts: list[tuple[int, int, Repeat | None, int]] = []
    at = 0
    for r in repeats:
        if at < r.start:
            parts.append((at, r.start, None, 0))
        parts += [
            (r.start + k * r.period, r.start + (k + 1) * r.period, r, k) for k in range(r.count)
        ]
        at = r.end
    parts.append((at, n, None, 0))

    defined_at = {v: i for i, e in enumerate(jaxpr.eqns) for v in e.outvars}
    returned: dict[Atom, int] = {}  # what its own piece returns to the caller
    tail: list[tuple[int, Atom]] = []  # results that the last piece returns
    for k, v in enumerate(jaxpr.outvars):
        if isinstance(v, Literal) or v not in defined_at or v in returned:
            tail.append((k, v))
        else:
            returned[v] = k
    numbers: dict[Atom, int] = {}

    def number(v: Atom) -> int:
        return numbers.setdefault(v, len(numbers))

    inputs = [number(v) for v in jaxpr.invars]
    consts = [(number(v), c) for v, c in zip(jaxpr.constvars, closed.consts, strict=True)]
    # Blocks that are one program return what any of them has to.
    needed_outs: dict[int, set[tuple[int, int]]] = {}
    for low, high, repeat, _ in parts:
        if repeat is not None:
            needed_outs.setdefault(repeat.start, set()).update(
                _outputs(jaxpr.eqns, low, high, last_read, returned)
            )

    donatable = {v for v, d in zip(jaxpr.invars, donated, strict=True) if d}
    donatable -= {v for _, v in tail}
    # Each piece becomes a jaxpr of what it reads and what later pieces read of it.
    pieces: list[tuple[ClosedJaxpr, list[bool], str]] = []
    piece_of: dict[int, int] = {}
    reads: list[tuple[int, list[Atom], list[Atom]]] = []
    for low, high, repeat, k in parts:
        eqns = jaxpr.eqns[low:high]
        if repeat is not None:
            ins: list[Atom] = list(repeat.externals[k])
            places = sorted(needed_outs[repeat.start])
        else:
            inner = {v for e in eqns for v in e.outvars}
            ins = list(
                dict.fromkeys(
                    v for e in eqns for v in e.invars if isinstance(v, Var) and v not in inner
                )
            )
            places = _outputs(jaxpr.eqns, low, high, last_read, returned)
        outs: list[Atom] = [eqns[i].outvars[j] for i, j in places]
        extra: list[Atom] = []
        if high == n and low == parts[-1][0] and repeat is None:
            extra = [v for _, v in tail]
            inner = {v for e in eqns for v in e.outvars}
            ins += [
                v for v in dict.fromkeys(extra) if isinstance(v, Var) and v not in {*ins, *inner}
            ]
        if not eqns and not extra:
            continue
        reads.append((len(pieces), ins, outs))
        if repeat is None or repeat.start not in piece_of:
            body = Jaxpr(
                [], [v for v in ins if isinstance(v, Var)], [*outs, *extra], eqns, debug=jaxpr.debug
            )
            name = f"part{len(pieces)}" if repeat is None else f"block{len(pieces)}"
            if repeat is not None:
                piece_of[repeat.start] = len(pieces)
            pieces.append((ClosedJaxpr(body), [False] * len(ins), name))
        else:
            reads[-1] = (piece_of[repeat.start], ins, outs)

    # Memory of values is free, or donated, after the last piece that reads them.
    last_step = {v: s for s, (_, ins, _) in enumerate(reads) for v in ins}
    _donate(pieces, reads, donatable, last_step)
    steps = []
    for s, (p, ins, outs) in enumerate(reads):
        free = [number(v) for v in dict.fromkeys(ins) if last_step[v] == s and v not in returned]
        steps.append(Step(p, [number(v) for v in ins], [number(v) for v in outs], free))
    results = [0] * len(jaxpr.outvars)
    for v, k in returned.items():
        results[k] = number(v)
    total = len(numbers)
    for k, _ in tail:  # numbers of their own: a result is never an argument's array
        results[k] = total
        steps[-1].outs.append(total)
        total += 1
    return Plan(pieces, steps, total, inputs, consts, results)


def _outputs(
    eqns: Sequence[Eqn], low: int, high: int, last_read: dict, returned: dict
) -> list[tuple[int, int]]:
    """List (equation, result) numbers within [low, high) that are read behind them."""
    return [
        (i, k)
        for i, e in enumerate(eqns[low:high])
        for k, v in enumerate(e.outvars)
        if v in returned or last_read.get(v, -1) >= high
    ]


def _donate(
    pieces: Sequence[tuple[ClosedJaxpr, list[bool], str]],
    reads: Sequence[tuple[int, list[Atom], list[Atom]]],
    donated: set,
    last_step: dict,
) -> None:
    """Give donated arguments to the pieces that read them last, where all their runs can."""
    for p, (closed, flags, _) in enumerate(pieces):
        free = Counter((v.aval.shape, v.aval.dtype) for v in closed.jaxpr.outvars)
        for i, v in enumerate(closed.jaxpr.invars):
            kind = (v.aval.shape, v.aval.dtype)
            if free[kind] and all(
                ins[i] in donated and last_step[ins[i]] == s
                for s, (q, ins, _) in enumerate(reads)
                if q == p
            ):
                flags[i] = True
                free[kind] -= 1


class _Results:
    """The arrays of a run, as XLA's results are handed over."""

    __slots__ = ("arrays",)

    def __init__(self, arrays: list) -> None:
        self.arrays = arrays

    def consume_with_handlers(self, handlers: Sequence[Any]) -> list:
        """Return the arrays, which their pieces have made with the program's types."""
        return self.arrays


class Sequenced:
    """The executables of pieces, run one after the other like a single one of XLA's."""

    def __init__(self, plan: Plan, executables: list[Executable], consts: list) -> None:
        self.plan = plan
        self.executables = executables
        self.values: list[Any] = [None] * plan.num_values
        for i, c in consts:
            self.values[i] = c
        self.donated: list[int] = []

    def get_parameter_layouts(self) -> list:
        """Return the layouts of the arguments, from the pieces that read the arguments."""
        layouts = {
            i: x
            for step in self.plan.steps
            for i, x in zip(
                step.ins, self.executables[step.piece].xla.get_parameter_layouts(), strict=True
            )
        }
        return [layouts[i] for i in self.plan.inputs]

    def get_output_layouts(self) -> list:
        """Return the layouts of the results, from the pieces that compute the results."""
        layouts = {
            i: x
            for step in self.plan.steps
            for i, x in zip(
                step.outs, self.executables[step.piece].xla.get_output_layouts(), strict=True
            )
        }
        return [layouts[i] for i in self.plan.results]

    def execute_sharded(self, args: Sequence[Any]) -> _Results:
        """Run all pieces; values are dropped when their last reader has started."""
        plan = self.plan
        values = self.values.copy()
        for i, x in zip(plan.inputs, args, strict=True):
            values[i] = x
        donated = [args[i] for i in self.donated]
        for step in plan.steps:
            executable = self.executables[step.piece]
            placed = [values[i] for i in step.ins]
            if executable.place:
                outs = executable._run_with_token(placed)
            else:
                outs = executable.xla.execute_sharded(placed)
            results = outs.consume_with_handlers(executable.handlers)
            for i, x in zip(step.outs, results, strict=True):
                values[i] = x
            for i in step.free:
                values[i] = None
        for x in donated:
            if not x.is_deleted():
                x.delete()
        return _Results([values[i] for i in plan.results])


@dataclass(slots=True)
class Memory:
    """Bytes that a program in pieces needs, by the names of XLA's analysis."""

    generated_code_size_in_bytes: int
    argument_size_in_bytes: int
    output_size_in_bytes: int
    alias_size_in_bytes: int
    temp_size_in_bytes: int
    peak_memory_in_bytes: int


class LoadedPieces(LoadedExecutable):
    """A program compiled in pieces, as `LoadedExecutable`."""

    __slots__ = ()

    @property
    def runs(self) -> bool:
        """True: described devices get whole programs."""
        return True

    def as_text(self) -> str:
        """Return the optimized HLO of each piece, with how often it runs."""
        plan = self.xla.plan
        runs = Counter(step.piece for step in plan.steps)
        texts = [
            f"// {name}: runs {runs[p]}×, {len(closed.eqns)} equations\n"
            + self.xla.executables[p].compiled.as_text()
            for p, (closed, _, name) in enumerate(plan.pieces)
        ]
        return "\n\n".join(texts)

    def cost_analysis(self) -> dict[str, float]:
        """Return XLA's estimates, added up over all runs of pieces."""
        total: Counter[str] = Counter()
        each = [e.compiled.cost_analysis() for e in self.xla.executables]
        for step in self.xla.plan.steps:
            total.update(each[step.piece])
        return dict(total)

    def memory_analysis(self) -> Memory:
        """Return bytes of arguments, outputs, code, and temporaries with what pieces pass on."""
        plan = self.xla.plan
        stats = [e.compiled.memory_analysis() for e in self.xla.executables]
        sizes: dict[int, int] = {}
        for step in plan.steps:
            executable = self.xla.executables[step.piece]
            avals = (*executable.in_avals, *executable.out_avals)
            sizes |= {i: _bytes(a) for i, a in zip((*step.ins, *step.outs), avals, strict=True)}
        results, fixed = {*plan.results}, {*plan.inputs, *(i for i, _ in plan.consts)}
        live: set[int] = set()
        peak = 0
        for step in plan.steps:
            live |= {*step.outs} - results
            passed_bytes = sum(sizes[i] for i in live - fixed)
            peak = max(peak, passed_bytes + stats[step.piece].temp_size_in_bytes)
            live -= {*step.free}
        arguments = sum(sizes.get(i, 0) for i in fixed)
        outputs = sum(sizes[i] for i in results)
        code = sum(s.generated_code_size_in_bytes for s in stats)
        return Memory(code, arguments, outputs, 0, peak, arguments + outputs + peak)

    def output_shardings(self) -> list | None:
        return None

    def parameter_shardings(self) -> list | None:
        return None


def _bytes(aval: ShapedArray) -> int:
    return int(np.prod(aval.shape)) * aval.dtype.itemsize


class PiecedExecutable(Executable):
    """An executable of pieces; C++ cannot run it alone."""

    __slots__ = ()

    def fastpath(self, *args: object) -> Any:
        """Return None: each call goes through Python."""
        return None


def executable_of_pieces(program: Program) -> Executable | None:
    """Return the executable of a program whose repeated blocks are compiled once, if it is."""
    plan = plan_of(program)
    if plan is None:
        return None
    return program._executable(compile_pieces(program, plan), False, PiecedExecutable)


def compile_pieces(program: Program, plan: Plan) -> LoadedPieces:
    """Compile each piece once."""
    from weft.driver.program import Program as Pieces

    sharding = SingleDeviceSharding(program.devices[0])
    executables, seconds = [], 0.0
    runs = Counter(step.piece for step in plan.steps)
    for p, (closed, donated, name) in enumerate(plan.pieces):
        n, m = len(closed.in_avals), len(closed.out_avals)
        times = f"x{runs[p]}" if runs[p] > 1 else ""
        request = Request(
            f"{program.name}.{name}{times}",
            (None,) * n,
            (sharding,) * n,
            (None,) * m,
            tuple(donated),
            keep_unused=True,
        )
        piece = Pieces.place(closed, request, hoist=False)
        piece.whole = True
        executable = piece.lower().compile()
        executable.committed = program.placed
        piece.forget_modules()
        executables.append(executable)
        seconds += executable.compiled.seconds
    consts = [(i, constant_at(c, sharding)) for i, c in plan.consts]
    sequenced = Sequenced(plan, executables, consts)
    sequenced.donated = [i for i, d in enumerate(program.donated) if d]
    cached = all(e.compiled.from_cache for e in executables)
    return LoadedPieces(sequenced, program.devices, program.name, seconds, cached, None)
