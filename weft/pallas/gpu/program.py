# Tests: tests/pallas/test_gpu.py
"""A kernel call as a Triton module: parameters, the grid, blocks, the programs' bodies.

The launch has one dimension. Grid dimensions whose programs may run at the same time are spread
over it; the others, along which an output block is visited again, are loops within a program.
The programs of an mpmd_map divide the launch among themselves: each core is one program.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import weft.pallas.gpu.elementwise as elementwise  # noqa: F401  (their rules)
import weft.pallas.gpu.products as products  # noqa: F401  (their rules)
import weft.pallas.gpu.sync as sync  # noqa: F401  (their rules)
from weft._xla import mlir
from weft._xla.mlir import ir
from weft.core.aval import ShapedArray
from weft.core.jaxpr import open_jaxpr, subjaxprs
from weft.core.ref import AbstractRef
from weft.pallas.gpu.control import for_loop, program_index
from weft.pallas.gpu.edges import steps_of
from weft.pallas.gpu.emitter import INT, Emitter, i32_attr, target_of
from weft.pallas.gpu.memory import View, array_view, pointer_type, read_whole, write_whole
from weft.pallas.gpu.registers import holds, is_set, new_cell, reads, used
from weft.pallas.ir import BlockMapping, KernelCall, Program, UnsupportedKernelError
from weft.pallas.legalize import legalize_call
from weft.pallas.order import parallel_dims

if TYPE_CHECKING:
    from weft.core.jaxpr import Var

LARGEST = 1 << 31
"""The first number that is no int32."""


@dataclass(frozen=True, slots=True)
class Extra:
    """Memory that a launch needs besides operands and results; semaphores start as zeros.

    ref: the type of one copy. copies: how many there are.
    """

    ref: AbstractRef
    copies: int

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.copies, *self.ref.shape)


@dataclass(frozen=True, slots=True)
class Launch:
    """A built kernel: its module, the number of programs, and its extra memory in order."""

    module: ir.Module
    programs: int
    extras: tuple[Extra, ...]


# The grid ----------------------------------------------------------------------------------------


def sequential_dims(call: KernelCall) -> frozenset[int]:
    """Return the grid dimensions along which programs run one after another."""
    parallel = parallel_dims(call)
    return frozenset(i for i, n in enumerate(call.grid) if n > 1 and i not in parallel)


# Memory ------------------------------------------------------------------------------------------


def _scoped(jaxpr: Any, threads: int) -> list[tuple[int, AbstractRef]]:
    """(id of the body's variable, type) of every ref in memory that a run_scoped makes."""
    scoped: list[tuple[int, AbstractRef]] = []
    for eqn in open_jaxpr(jaxpr).eqns:
        if eqn.primitive.name == "run_scoped":
            inner, n = eqn.rule_params["jaxpr"], eqn.rule_params["num_consts"]
            fresh = list(enumerate(inner.jaxpr.invars))[n:]
            scoped += [(id(v), v.aval) for i, v in fresh if not holds(inner, i, v.aval, threads)]
        for _, inner in subjaxprs(eqn.rule_params):
            scoped += _scoped(inner, threads)
    return scoped


class Builder:
    """Builds the module of one call."""

    def __init__(self, call: KernelCall, platform: str, converts_float8: bool) -> None:
        self.call = call
        if call.dynamic:
            raise UnsupportedKernelError(
                f"kernel {call.name}: a traced extent of the grid is not supported on the GPU: the "
                "number of programs is fixed at launch. Take its largest extent, and skip programs "
                "with pl.when"
            )
        for aval in (*call.operand_avals, *call.outputs, *(r.inner for r in call.scratch)):
            if any(n >= LARGEST for n in aval.shape):
                raise UnsupportedKernelError(
                    f"kernel {call.name}: an array of shape {aval.shape} has a dimension of 2**31 "
                    "or more, and indices on the GPU are int32. Reshape it to more dimensions "
                    "outside of the kernel"
                )
        self.e = Emitter(call, platform, converts_float8)
        self.e.streamed, self.e.stream = products.streamed, products.emit
        # Dimensions in which programs depend on each other become a loop of one program.
        self.sequential = frozenset() if call.is_mpmd else sequential_dims(call)
        self.parallel = [i for i in range(len(call.grid)) if i not in self.sequential]
        if call.is_mpmd:
            self.programs = sum(p.mesh.size for p in call.programs)
        else:
            self.programs = math.prod(call.grid[i] for i in self.parallel)
        if self.programs >= LARGEST:
            raise UnsupportedKernelError(
                f"kernel {call.name}: a grid of {self.programs} programs that run at the same time "
                "is larger than a launch can be, 2**31 - 1. Use larger blocks"
            )
        self.first_scratch = len(call.operand_avals) + len(call.outputs)
        # Scratch too large, or shared too widely, for registers is an output that nobody reads.
        self.in_memory = {
            k: i
            for i, k in enumerate(
                k for k, ref in enumerate(call.scratch) if not self._is_cell(k, ref)
            )
        }
        self.extras = [
            Extra(call.scratch[k], self._copies(call.scratch[k])) for k in self.in_memory
        ]
        self.scoped: dict[int, int] = {}  # id of a run_scoped ref's variable -> its extra
        for program in call.programs:
            for key, ref in _scoped(program.jaxpr, self.e.threads):
                if key not in self.scoped:
                    self.scoped[key] = len(self.extras)
                    self.extras.append(Extra(ref, self.programs))

    def _is_cell(self, k: int, ref: AbstractRef) -> bool:
        """Return whether a program holds scratch k in registers."""
        index, threads = self.first_scratch + k, self.e.threads
        if not self.call.is_mpmd:
            return holds(self.call.jaxpr, index, ref, threads)
        return ref.core is not None and all(
            holds(p.jaxpr, index, ref, threads) if p.mesh == ref.core else not used(p.jaxpr, index)
            for p in self.call.programs
        )

    def _copies(self, ref: AbstractRef) -> int:
        if not self.call.is_mpmd:
            return self.programs
        return ref.core.size if ref.core is not None else 1

    def build(self) -> Launch:
        call, e = self.call, self.e
        # XLA passes the operands, then the results; zeroed memory is both.
        kinds = [a.dtype for a in call.operand_avals]
        kinds += [x.ref.dtype for x in self.extras if x.ref.holds_semaphores]
        kinds += [a.dtype for a in call.outputs] + [x.ref.dtype for x in self.extras]
        types = [pointer_type(dtype) for dtype in kinds]
        context = mlir.context()
        with context, mlir.unknown_location():
            module = ir.Module.create()
            aligned = ir.DictAttr.get({"tt.divisibility": i32_attr(16)}, context)
            attrs = {
                "sym_name": ir.StringAttr.get(function_name(call), context),
                "sym_visibility": ir.StringAttr.get("public", context),
                "function_type": ir.TypeAttr.get(ir.FunctionType.get(types, [], context)),
                "arg_attrs": ir.ArrayAttr.get([aligned] * len(types), context),
            }
            with ir.InsertionPoint(module.body):
                function = e.op("tt.func", [], [], attrs, regions=1)
            block = function.regions[0].blocks.append(*types, arg_locs=[e.loc] * len(types))
            arguments, n = list(block.arguments), len(call.operand_avals)
            zeros = sum(x.ref.holds_semaphores for x in self.extras)
            with ir.InsertionPoint(block):
                self.body(arguments[:n] + arguments[n + zeros :])
                e.op("tt.return", [])
        mlir.verify(module)
        return Launch(module, self.programs, tuple(self.extras))

    def body(self, pointers: list[ir.Value]) -> None:
        call, e = self.call, self.e
        arrays = [*call.operand_avals, *call.outputs]
        same = {call.num_inputs + call.num_scalars + o: i for i, o in call.aliases}
        self.arrays = [
            array_view(p, same.get(k, k), a.shape, a.dtype)
            for k, (p, a) in enumerate(zip(pointers, arrays, strict=False))
        ]
        self.spare = [
            array_view(p, ("extra", k), x.ref.shape, x.ref.dtype, x.copies)
            for k, (p, x) in enumerate(zip(pointers[len(arrays) :], self.extras, strict=True))
        ]
        self.index = program_index(e)
        self.cells: dict[int, Any] = {}  # operand number -> the cell it is
        e.scoped = self.scratch
        if call.is_mpmd:
            self.divide(0, 0)
        else:
            self.over_grid()

    def copy_of(self, k: int, which: ir.Value) -> View:
        """Return the `which`-th copy of extra memory k."""
        view = self.spare[k]
        e, kind = self.e, view.index_dtype
        which = elementwise.convert(e, which, INT, kind)
        return view.moved(e, e.binary("mul", which, math.prod(self.extras[k].ref.shape), kind))

    def scratch(self, var: Var) -> View:
        """Return the storage of a ref that run_scoped makes."""
        return self.copy_of(self.scoped[id(var)], self.index)

    # pallas_call -------------------------------------------------------------------------------

    def over_grid(self) -> None:
        call, e = self.call, self.e
        ids: list[Any] = [None] * len(call.grid)
        spread = e.unflatten(self.index, [call.grid[i] for i in self.parallel])
        for i, x in zip(self.parallel, spread, strict=True):
            ids[i] = x
        loops = sorted(self.sequential)
        for k, ref in enumerate(call.scratch):
            if k not in self.in_memory:
                self.cells[self.first_scratch + k] = new_cell(e, ref)
        depths = self.depths(loops)
        innermost = loops[-1] if loops else 0
        axis = innermost - call.num_batch if loops else -1
        steps = steps_of(call.jaxpr, axis, call.grid[innermost] if loops else 1)

        def nest(depth: int) -> None:
            outputs = [k for k, d in depths.items() if d == depth]
            opened = [self.open(k, ids, reads=depth > 0) for k in outputs]
            if depth == len(loops):
                e.program_ids = list(ids)
                e.run(steps.every, self.refs(ids))
            else:
                dim = loops[depth]

                def body(index: ir.Value) -> list:
                    ids[dim] = index
                    nest(depth + 1)
                    return []

                inner = depth == len(loops) - 1
                self.branches(steps.first if inner else (), ids, dim, 0)
                for_loop(e, call.grid[dim], [], body, list(e.cells))
                self.branches(steps.last if inner else (), ids, dim, call.grid[dim] - 1)
            for k, view in zip(outputs, opened, strict=True):
                self.close(k, view)

        nest(0)

    def depths(self, loops: list[int]) -> dict[int, int]:
        """Operand number of each output held in registers -> inside of how many loops it is.

        An output block stays in registers while the loops further in visit it again.
        """
        call, depths = self.call, {}
        first = len(call.operand_avals)
        for k, aval in enumerate(call.outputs, first):
            block = call.blocks[k - call.num_scalars]
            ref = AbstractRef(aval.update(shape=aval.shape if block.whole else block.ref_shape))
            if not holds(call.jaxpr, k, ref, self.e.threads) or not self.is_own(k):
                continue
            moves = [] if block.whole else [d for d in loops if used(block.index_map, d)]
            depth = loops.index(moves[-1]) + 1 if moves else 0
            if depth < len(loops) or reads(call.jaxpr, k):
                depths[k] = depth
        return depths

    def is_own(self, k: int) -> bool:
        """Tell whether no program running meanwhile may leave output k's block to another."""
        block = self.call.blocks[k - self.call.num_scalars]
        shared = [d for d in self.parallel if self.call.grid[d] > 1]
        if not block.whole:
            body = open_jaxpr(block.index_map)
            places = set(map(id, body.outvars))
            shared = [d for d in shared if id(body.invars[d]) not in places]
        return not shared or is_set(self.call.jaxpr, k)

    def open(self, k: int, ids: list, *, reads: bool) -> View:
        """Make output k a cell, of what memory holds if that may matter."""
        call, e = self.call, self.e
        scalars = self.arrays[: call.num_scalars]
        view = self.block(self.arrays[k], call.blocks[k - call.num_scalars], ids, scalars)
        cell = self.cells[k] = new_cell(e, AbstractRef(ShapedArray(view.shape, view.dtype)))
        if reads or any(o == k - len(call.operand_avals) for _, o in call.aliases):
            e.cells[cell] = read_whole(e, view)
        return view

    def close(self, k: int, view: View) -> None:
        write_whole(self.e, view, self.e.cells.pop(self.cells.pop(k)))

    def branches(self, taken: Sequence[Any], ids: list, dim: int, step: int) -> None:
        """Return the work done at only one step of the innermost loop, along `dim`."""
        for jaxpr, places in taken:
            ids[dim] = self.e.constant(step)
            self.e.program_ids = list(ids)
            refs = self.refs(ids)
            self.e.run(jaxpr, [refs[i] for i in places])

    def refs(self, ids: list[ir.Value]) -> list:
        """Return the kernel's refs at one step."""
        call = self.call
        scalars = self.arrays[: call.num_scalars]
        refs: list[Any] = list(scalars)
        for k, view in enumerate(self.arrays[call.num_scalars :], call.num_scalars):
            block = call.blocks[k - call.num_scalars]
            refs.append(self.cells.get(k) or self.block(view, block, ids, scalars))
        return refs + [self.scratch_of(k, self.index) for k in range(len(call.scratch))]

    def scratch_of(self, k: int, copy: ir.Value | None) -> Any:
        """Scratch k: a cell, or the copy of that number, or the one that all share."""
        if k not in self.in_memory:
            return self.cells[self.first_scratch + k]
        i = self.in_memory[k]
        return self.spare[i] if copy is None else self.copy_of(i, copy)

    def block(
        self, view: View, block: BlockMapping, ids: Sequence[ir.Value], scalars: Sequence[View]
    ) -> View:
        """Return the part of an array that a program sees."""
        if block.whole:
            return view
        e, kind = self.e, view.index_dtype
        places = e.run(block.index_map, [*ids, *scalars])
        shape, strides, bounds = [], [], []
        for d, (block_index, extent) in enumerate(zip(places, block.block_shape, strict=True)):
            size, by_element = block.array.shape[d], block.by_element[d]
            start = block_index if by_element else e.binary("mul", block_index, extent)
            start = e.binary("sub", start, block.padding[d][0] if block.padding else 0)
            if not block.squeezed[d]:
                bound = None
                if by_element or size % extent:
                    high = e.binary("sub", size, start)
                    low = e.binary("sub", 0, start) if by_element else None
                    bound = (low, high)
                shape.append(extent)
                strides.append(view.strides[d])
                bounds.append(bound)
            wide = elementwise.convert(e, start, INT, kind)
            view = view.moved(e, e.binary("mul", wide, view.strides[d], kind))
        return replace(view, shape=tuple(shape), strides=tuple(strides), bounds=tuple(bounds))

    # mpmd_map ----------------------------------------------------------------------------------

    def divide(self, first: int, start: int) -> None:
        """Return the programs from `first` on, whose cores begin at the launch's index `start`."""
        e, programs = self.e, self.call.programs
        program = programs[first]
        end = start + program.mesh.size
        if first == len(programs) - 1:
            self.core(program, start)
            return
        is_this = e.compare("lt", self.index, end)

        def run_this() -> list:
            self.core(program, start)
            e.written.clear()
            e.read.clear()
            return []

        def run_others() -> list:
            self.divide(first + 1, end)
            return []

        e.either(is_this, run_this, run_others)

    def core(self, program: Program, start: int) -> None:
        e = self.e
        core = e.binary("sub", self.index, start)
        places = e.unflatten(core, list(program.mesh.shape.values()))
        e.core_index = dict(zip(program.mesh.shape, places, strict=True))
        scratch = []
        for k, ref in enumerate(self.call.scratch):
            is_ours = ref.core is not None and ref.core == program.mesh
            if k not in self.in_memory:
                self.cells[self.first_scratch + k] = new_cell(e, ref) if is_ours else None
            scratch.append(self.scratch_of(k, core if is_ours else None))
        e.run(program.jaxpr, [*self.arrays, *scratch])


def function_name(call: KernelCall) -> str:
    """Return the kernel's name as a symbol of PTX."""
    name = "".join(c if c.isalnum() else "_" for c in call.name)
    return name if name and not name[0].isdigit() else f"kernel_{name}"


def build(call: KernelCall, platform: str = "cuda", capability: Any = None) -> Launch:
    """Return the Triton module of a call, verified; made once for each kind of GPU.

    platform: "cuda" or "rocm". capability: CUDA's compute capability, such as (9, 0), if known.
    """
    converts_float8 = capability is not None and capability >= (8, 9)

    def make() -> Launch:
        legal = legalize_call(call, target_of(platform))
        return Builder(legal, platform, converts_float8).build()

    return call.memo((platform, converts_float8), make)
