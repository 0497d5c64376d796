# Tests: tests/pallas/test_interpret.py
"""Runs a kernel call on NumPy arrays: blocks are cut, programs scheduled, outputs put together."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import weft.pallas.interpret.sync as _sync  # noqa: F401  (registers its rules)
from weft.core.jaxpr import walk_eqns
from weft.pallas.api.params import semantics
from weft.pallas.interpret.errors import OutOfBoundsError
from weft.pallas.interpret.machine import NUMPY, Machine
from weft.pallas.interpret.memory import Buffer, Region, poison
from weft.pallas.interpret.params import InterpretParams
from weft.pallas.interpret.scheduler import Task
from weft.pallas.interpret.sync import Semaphores, Waits, fresh
from weft.pallas.ir import BlockMapping, KernelCall, Program
from weft.pallas.legalize import legalize_call
from weft.pallas.narrow_integers import byte_of


def run_call(call: KernelCall, operands: Sequence[Any], params: InterpretParams) -> list:
    """Return the outputs of a kernel call, from NumPy operands."""
    with np.errstate(all="ignore"):
        in_bytes = [x.astype(byte_of(x.dtype), copy=False) for x in map(np.asarray, operands)]
        outs = _Run(legalize_call(call, NUMPY), in_bytes, params).outputs()
    return [x.astype(a.dtype, copy=False) for x, a in zip(outs, call.outputs, strict=True)]


class _Run:
    """One execution of a kernel."""

    def __init__(self, call: KernelCall, operands: Sequence[Any], params: InterpretParams) -> None:
        self.call = call
        self.m = Machine(call.name, params, call.wait_limit)
        self.m.num_batch = call.num_batch
        n = call.num_scalars
        arrays = [np.ascontiguousarray(x).reshape(np.shape(x)) for x in operands]
        self.grid = list(call.grid)
        for k, d in enumerate(call.dynamic):
            self.grid[call.num_batch + d] = max(0, int(arrays[k]))
        self.scalars = [Buffer(call.ref_name(i), x) for i, x in enumerate(arrays[:n])]
        self.inputs = [Buffer(call.ref_name(n + i), x) for i, x in enumerate(arrays[n:])]
        first = len(arrays)
        source = {o: arrays[i] for i, o in call.aliases}
        how = params.uninitialized_memory
        self.results = []
        for o, aval in enumerate(call.outputs):
            if o in source:
                buffer = Buffer(call.ref_name(first + o), np.array(source[o]))
            else:
                buffer = Buffer.empty(call.ref_name(first + o), aval.shape, aval.dtype, how)
            self.results.append(buffer)
        copies = any(
            e.primitive.name == "async_copy_start"
            for p in call.programs
            for e in walk_eqns(p.jaxpr)
        )
        # The grid axes whose programs run at the same time.
        self.parallel = tuple(d for d, s in semantics(call).items() if s == "parallel")
        several = call.is_mpmd or math.prod(self.grid[a] for a in self.parallel) > 1
        self.watching = params.detect_races and (several or copies)

    def scratch_name(self, i: int) -> str:
        return self.call.ref_name(len(self.scalars) + len(self.inputs) + len(self.results) + i)

    def outputs(self) -> list:
        if self.watching:
            for buffer in self.results:
                buffer.watch()
        scratch = self.start_cores() if self.call.is_mpmd else self.start_grid()
        self.m.scheduler.run(self.call.name)
        if self.m.params.check_semaphores:
            for s in scratch:
                if isinstance(s, Semaphores):
                    s.check_balanced(self.m, "the kernel")
        return [b.data for b in self.results]

    # Meshes -------------------------------------------------------------------------------------

    def start_cores(self) -> list:
        """Start a task for every core of every mesh; return all scratch."""
        scratch: list[Any] = []
        per_call: list[dict[Any, Any]] = []  # for each scratch: mesh coordinates -> instance
        for i, aval in enumerate(self.call.scratch):
            name = self.scratch_name(i)
            if aval.core is None:
                one = fresh(self.m, name, aval, "", self.watching)
                per_call.append({None: one})
                scratch.append(one)
                continue
            group: dict[Any, Any] = {}
            for coords in aval.core.cores():
                group[coords] = fresh(
                    self.m, name, aval, aval.core.core_name(coords), self.watching
                )
            for one in group.values():
                one.others = group
            per_call.append(group)
            scratch += group.values()
        for program in self.call.programs:
            for coords in program.mesh.cores():
                coordinates = dict(zip(program.mesh.axis_names, coords, strict=True))
                task = self.m.new_task(program.mesh.core_name(coords), coordinates)
                args: list[Any] = [*self.scalars, *self.inputs, *self.results]
                for aval, group in zip(self.call.scratch, per_call, strict=True):
                    if aval.core is None:
                        args.append(group[None])
                    elif aval.core == program.mesh:
                        args.append(group[coords])
                    else:  # only its other cores' are of use here
                        args.append(next(iter(group.values())))
                self.m.scheduler.start(task, self.core(program, args, task))
        return scratch

    def core(self, program: Program, args: list, task: Task) -> Waits:
        yield from self.m.run(program.jaxpr, args, task)

    # Grids --------------------------------------------------------------------------------------

    def start_grid(self) -> list:
        """Start a task for each choice of the parallel indices; return all scratch."""
        grid = self.grid
        scratches: list[Any] = []
        for fixed in itertools.product(*(range(grid[a]) for a in self.parallel)):
            where = dict(zip(self.parallel, fixed, strict=True))
            name = f"program {fixed}" if self.parallel else "the program"
            task = self.m.new_task(name)
            scratch = [
                fresh(self.m, self.scratch_name(i), aval, "", self.watching)
                for i, aval in enumerate(self.call.scratch)
            ]
            scratches += scratch
            self.m.scheduler.start(task, self.programs(task, where, scratch))
        return scratches

    def programs(self, task: Task, where: dict[int, int], scratch: list) -> Waits:
        """Return the programs of one task, in row-major order."""
        call, m = self.call, self.m
        axes = [
            range(where[a], where[a] + 1) if a in where else range(n)
            for a, n in enumerate(self.grid)
        ]
        blocks = [
            _Block(self, b, array, False)
            for b, array in zip(call.input_blocks, self.inputs, strict=True)
        ]
        blocks += [
            _Block(self, b, array, True)
            for b, array in zip(call.output_blocks, self.results, strict=True)
        ]
        for indices in itertools.product(*axes):
            task.grid = indices
            if not self.parallel:
                task.name = f"program {indices}" if indices else "the program"
                m.names[task.number] = task.name
            for b in blocks:
                b.move(indices, task)
            args = [*self.scalars, *(b.buffer for b in blocks), *scratch]
            yield from m.run(call.jaxpr, args, task)
        for b in blocks:
            b.flush(task)


@dataclass(slots=True, eq=False)
class _Block:
    """The block of one array that a task works on; it moves from program to program."""

    run: _Run
    mapping: BlockMapping
    array: Buffer
    writes: bool
    start: tuple[int, ...] | None = None
    region: Region | None = None
    inside: tuple = ()
    buffer: Buffer = field(init=False)

    def __post_init__(self) -> None:
        self.buffer = self.array

    def move(self, indices: tuple[int, ...], task: Task) -> None:
        mapping = self.mapping
        if mapping.whole:
            return
        args = [*map(np.int32, indices), *self.run.scalars]
        at = [int(i) for i in self.run.m.evaluate(mapping.index_map, args, task)]
        start = []
        for d, (i, n) in enumerate(zip(at, mapping.block_shape, strict=True)):
            if mapping.by_element[d]:
                start.append(i - (mapping.padding[d][0] if mapping.padding else 0))
            else:
                start.append(i * n)
        if tuple(start) == self.start:
            return
        self.flush(task)
        self.start = tuple(start)
        self.load(at, task)

    def load(self, at: list[int], task: Task) -> None:
        """Return the array's block: a part of an output, else a copy, with poison outside."""
        m, array = self.mapping, self.array
        assert self.start is not None
        outer: list[slice] = []
        inner: list[Any] = []
        shape: list[int] = []
        for d, (s, b, n) in enumerate(zip(self.start, m.block_shape, m.array.shape, strict=True)):
            lo, hi = max(s, 0), min(s + b, n)
            if lo >= hi and b and n:
                self.run.m.fail(
                    OutOfBoundsError,
                    f"the index map of {array.name} gives index {at[d]} along dimension {d} in "
                    f"{task.name}: its block, elements {s} to {s + b}, lies outside of the array "
                    f"{m.array.str_short()}",
                )
            outer.append(slice(lo, hi))
            if m.squeezed[d]:
                inner.append(0)
            else:
                inner.append(slice(lo - s, hi - s))
                shape.append(b)
        cut = tuple(s.start if gone else s for s, gone in zip(outer, m.squeezed, strict=True))
        # Writes to a whole block go to the array itself; other programs see them at once.
        if self.writes and all(
            s.stop - s.start == b for s, b in zip(outer, m.block_shape, strict=True)
        ):
            self.region, self.buffer = None, array.part((*cut, ...))
            return
        self.inside = tuple(i for i, gone in zip(inner, m.squeezed, strict=True) if not gone)
        self.region = Region(tuple(shape), cut)
        part = array.data[cut]
        uneven = part.shape != tuple(shape)
        if uneven:
            data = poison(tuple(shape), array.data.dtype)
            data[self.inside] = part
        else:
            data = np.array(part)
        # Padding counts as written: reading poison is shown by its value, not as an error.
        written = None
        if array.written is not None:
            written = np.ones(tuple(shape), np.bool_)
            written[self.inside] = array.written[cut]
        self.buffer = Buffer(array.name, data, written)
        if self.run.watching:
            self.buffer.watch()

    def flush(self, task: Task) -> None:
        """Write an output's block that reaches past its array back to it."""
        if not self.writes or self.mapping.whole or self.region is None:
            return
        region, block, array = self.region, self.buffer, self.array
        value = block.data[self.inside]
        if block.written is not None:
            done = block.written[self.inside]
            value = np.where(done, value, array.data[region.view])
            if array.written is not None:
                array.written[region.view] |= done
        if array.shadow is not None:
            source = f"the end of {task.name}, where its block of {array.name} is stored"
            saved, array.written = array.written, None
            self.run.m.write(task, array, region, source)
            array.written = saved
        array.data[region.view] = value
