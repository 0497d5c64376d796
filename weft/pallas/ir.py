# Tests: tests/pallas/api/test_call.py
"""The input of kernel backends: a kernel call, its blocks, its programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from weft.core.aval import ShapedArray
from weft.core.effects import DEBUG
from weft.core.errors import has_page
from weft.core.jaxpr import ClosedJaxpr
from weft.core.ref import AbstractRef

if TYPE_CHECKING:
    from weft.core.jaxpr import Eqn
    from weft.ffi.rule import ShardingRule
    from weft.pallas.api.memory import MemorySpace
    from weft.pallas.api.params import CostEstimate


@dataclass(frozen=True, eq=False, slots=True)
class BlockMapping:
    """Which part of an array a program sees.

    array: the whole array's type. block_shape: the block's extent in every dimension of the array.
    squeezed: dimensions, of extent 1, that the kernel's ref lacks. by_element: dimensions in which
    index_map gives the first element; in the others it gives the number of the block, whose first
    element is number * extent. index_map: from the grid indices (int32 scalars, one for each grid
    dimension) and the refs of the scalar arguments to one int32 scalar for each dimension.
    whole: the ref is the array itself in `memory_space`, not a copy of a part of it.

    A block that reaches past the array's end is masked: what it reads there is unspecified, what
    it writes there is dropped.
    """

    array: ShapedArray
    block_shape: tuple[int, ...]
    squeezed: tuple[bool, ...]
    by_element: tuple[bool, ...]
    index_map: ClosedJaxpr
    memory_space: MemorySpace | None = None
    whole: bool = False
    origin: str = ""
    padding: tuple[tuple[int, int], ...] = ()

    @property
    def ref_shape(self) -> tuple[int, ...]:
        return tuple(n for n, gone in zip(self.block_shape, self.squeezed, strict=True) if not gone)

    def is_uneven(self) -> bool:
        """Return whether some block reaches past the end of the array."""
        return any(
            e or n % b
            for n, b, e in zip(self.array.shape, self.block_shape, self.by_element, strict=True)
        )


@dataclass(frozen=True, eq=False, slots=True)
class Program:
    """One function of a kernel, and the mesh whose cores run it (None: the grid's programs).

    jaxpr has no constants and no results. Its invars are refs: those of the call's operands
    (scalars, inputs), then outputs, then scratch, in the order of `KernelCall`.
    """

    jaxpr: ClosedJaxpr
    mesh: Any = None
    name: str = "kernel"


UNKNOWN_EXTENT = 2**31 - 1
"""In `KernelCall.grid`: an extent that is known when the kernel runs."""


@dataclass(frozen=True, eq=False, slots=True)
class KernelCall:
    """A kernel call. The op `pallas_call` has it as its only param, `call`; equal only to itself.

    Operands of the op: `num_scalars` scalar-prefetch arrays, then the inputs. Results: `outputs`.

    programs: one, of all grid points, for pallas_call; one for each mesh for mpmd_map.
    grid: the extents, row-major, last fastest; () is one program. The first `num_batch` of them
    come from vmap: program_id(axis) is the index along grid[num_batch + axis].
    blocks: one for each input, then one for each output; mpmd_map's are all `whole`.
    aliases: (operand, output): the output starts with the operand's contents, in place if XLA
    may. Other outputs, and scratch, start uninitialized.
    ref_names: what the kernel calls its refs, for messages; may be shorter than their list.
    dynamic: grid axes (without those of vmap) of extent `UNKNOWN_EXTENT`: the extent of the k-th
    of them is the k-th operand, an int32 scalar that is among the scalars.
    poison: scratch starts as NaN, or the largest integer, in native code.
    wait_limit: seconds without anything happening after which native code ends a wait; 0: never.
    used_axes: grid axes (without those of vmap) whose program_id or extent the kernel uses.
    """

    name: str
    programs: tuple[Program, ...]
    grid: tuple[int, ...]
    num_scalars: int
    num_inputs: int
    outputs: tuple[ShapedArray, ...]
    scratch: tuple[AbstractRef, ...]
    blocks: tuple[BlockMapping, ...]
    aliases: tuple[tuple[int, int], ...] = ()
    num_batch: int = 0
    interpret: Any = False
    debug: bool = False
    checked: bool = False
    compiler_params: object = None
    cost_estimate: CostEstimate | None = None
    metadata: Mapping[str, Any] | None = None
    sharding_rule: ShardingRule | None = None
    num_batch_dims: int = 0
    ref_names: tuple[str, ...] = ()
    used_axes: frozenset[int] = frozenset()
    dynamic: tuple[int, ...] = ()
    poison: bool = False
    wait_limit: float = 60.0
    cache: dict = field(default_factory=dict)

    @property
    def jaxpr(self) -> ClosedJaxpr:
        return self.programs[0].jaxpr

    @property
    def is_mpmd(self) -> bool:
        return self.programs[0].mesh is not None

    @property
    def operand_avals(self) -> list[ShapedArray]:
        refs = self.jaxpr.in_avals[: self.num_scalars]
        inputs = self.blocks[: self.num_inputs]
        return [r.inner for r in refs] + [b.array for b in inputs]

    @property
    def input_blocks(self) -> tuple[BlockMapping, ...]:
        return self.blocks[: self.num_inputs]

    @property
    def output_blocks(self) -> tuple[BlockMapping, ...]:
        return self.blocks[self.num_inputs :]

    @property
    def prints(self) -> bool:
        """Whether the kernel prints or checks, so that it must run even if nobody reads results."""
        return any(DEBUG in p.jaxpr.effects for p in self.programs)

    def ref_name(self, i: int) -> str:
        """Return the kernel's name for its ref number i."""
        return self.ref_names[i] if i < len(self.ref_names) else f"ref {i}"

    def memo(self, key: object, make: Callable[[], Any]) -> Any:
        """Return make(), computed once for the call."""
        if key not in self.cache:
            self.cache[key] = make()
        return self.cache[key]

    def describe(self) -> list[str]:
        """Return the lines that show the call and its programs, for the printer of jaxprs."""
        lines = [repr(self)]
        for p in self.programs:
            lines.append(f"{p.name} on {p.mesh}:" if p.mesh is not None else f"{p.name}:")
            lines += ["  " + line for line in str(p.jaxpr).splitlines()]
        return lines

    def replace(self, **changes: Any) -> KernelCall:
        return replace(self, cache={}, **changes)

    def __repr__(self) -> str:
        meshes = ", ".join(str(p.mesh) for p in self.programs if p.mesh is not None)
        where = f"meshes=({meshes})" if meshes else f"grid={self.grid}"
        return f"{self.name}[{where}]"


class RefOperands(NamedTuple):
    """The operands of an op on a part of a ref; mask and other are None where it has none."""

    ref: Any
    values: Sequence[Any]
    positions: Sequence[Any]
    mask: Any
    other: Any


ACCESSES = {"get": 0, "set": 1, "swap": 1, "addupdate": 1, "atomic_rmw": 1, "atomic_cas": 2}
"""Op on a part of a ref → how many values follow the ref among its operands."""


def ref_operands(eqn: Eqn, operands: Sequence[Any]) -> RefOperands:
    """Return the operands of an access, or what stands for them, by their roles."""
    start = 1 + ACCESSES[eqn.primitive.name]
    end = start + eqn.rule_params["indexer"].num_operands
    mask, other, *_ = (*operands[end:], None, None)
    return RefOperands(operands[0], operands[1:start], operands[start:end], mask, other)


def copy_operands(eqn: Eqn, operands: Sequence[Any]) -> tuple[list[tuple], Sequence[Any]]:
    """Return the operands of `async_copy_start`, or what stands for them, by their roles.

    (ref, indexer, its operands) of source, destination and semaphore; then the coordinates of the
    core whose destination and semaphore are meant.
    """
    parts, start = [], 3
    for ref, name in zip(operands, ("src_indexer", "dst_indexer", "sem_indexer"), strict=False):
        indexer = eqn.rule_params[name]
        parts.append((ref, indexer, operands[start : start + indexer.num_operands]))
        start += indexer.num_operands
    return parts, operands[start:]


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides, in elements, of an array whose last dimension is the fastest."""
    strides, size = [], 1
    for n in reversed(tuple(shape)):
        strides.append(size)
        size *= n
    return tuple(reversed(strides))


Backend = Callable[..., list]

backends: dict[str, Backend] = {}
"""Platform -> lower(ctx, call, *operands) -> results: called while the op is lowered, with a
`weft.lowering.context.RuleContext` and the operands as MLIR values. Raise `Unsupported` where the
kernel uses what the backend lacks."""


@has_page("weft.pallas")
class UnsupportedKernelError(TypeError):
    """A backend cannot compile an op of a kernel."""


OUTSIDE = frozenset(
    (
        *("cholesky", "eig", "eigh", "fft", "geqp3", "geqrf", "hessenberg"),
        *("householder_product", "lapack", "lu"),
        *("lu_pivots_to_permutation", "lu_solve", "ormqr", "qr", "schur", "svd"),
        *("triangular_solve", "tridiagonal", "tridiagonal_solve"),
    )
)
"""Ops that XLA computes by libraries, which kernels cannot call."""


def unsupported(platform: str, call: KernelCall, eqn: Eqn, why: str = "") -> UnsupportedKernelError:
    """Return the error that a backend raises for an equation it cannot compile."""
    if not why and eqn.primitive.name in OUTSIDE:
        why = "decompositions and Fourier transforms are library calls; make them outside"
    return UnsupportedKernelError(
        f"kernel {call.name}: {eqn.primitive.name} ({eqn.source}) is not supported by the "
        f"{platform} backend{': ' + why if why else ''}. Write it with other ops, or run the "
        "kernel interpreted: pallas_call(..., interpret=True)"
    )
