"""Types of weft.pallas, written by `make stubs` from the definitions."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from weft.pallas.api.memory import ANY as ANY
from weft.pallas.api.memory import HBM as HBM
from weft.pallas.api.memory import HOST as HOST
from weft.pallas.api.memory import LOCAL as LOCAL
from weft.pallas.api.memory import REGISTERS as REGISTERS
from weft.pallas.api.memory import SHARED as SHARED
from weft.pallas.api.memory import CoreMemorySpace as CoreMemorySpace
from weft.pallas.api.memory import MemoryRef as MemoryRef
from weft.pallas.api.memory import MemorySpace as MemorySpace
from weft.pallas.api.memory import ScratchShape as ScratchShape
from weft.pallas.api.memory import SemaphoreType as SemaphoreType
from weft.pallas.api.mesh import Mesh as Mesh
from weft.pallas.api.params import CompilerParams as CompilerParams
from weft.pallas.api.params import CostEstimate as CostEstimate
from weft.pallas.api.specs import BlockDim as BlockDim
from weft.pallas.api.specs import Blocked as Blocked
from weft.pallas.api.specs import BlockSpec as BlockSpec
from weft.pallas.api.specs import Buffered as Buffered
from weft.pallas.api.specs import Element as Element
from weft.pallas.api.specs import GridSpec as GridSpec
from weft.pallas.api.specs import RevisitMode as RevisitMode
from weft.pallas.api.specs import Squeezed as Squeezed
from weft.pallas.api.specs import no_block_spec as no_block_spec
from weft.pallas.api.specs import squeezed as squeezed
from weft.pallas.api.sync import AsyncCopy as AsyncCopy
from weft.pallas.api.sync import DeviceIdType as DeviceIdType
from weft.pallas.interpret import DataRaceError as DataRaceError
from weft.pallas.interpret import DeadlockError as DeadlockError
from weft.pallas.interpret import InterpretParams as InterpretParams
from weft.pallas.interpret import KernelError as KernelError
from weft.pallas.interpret import OutOfBoundsError as OutOfBoundsError
from weft.pallas.interpret import SemaphoreError as SemaphoreError
from weft.pallas.interpret import UninitializedReadError as UninitializedReadError
from weft.pallas.ir import BlockMapping as BlockMapping
from weft.pallas.ir import KernelCall as KernelCall
from weft.pallas.ir import UnsupportedKernelError as UnsupportedKernelError
from weft.pallas.op import pallas_call_p as pallas_call_p
from weft.refs.api import Ref as Ref
from weft.refs.indexing import Slice as Slice
from weft.typing import Array as Array
from weft.typing import ArrayLike, DTypeLike

def PrefetchScalarGridSpec(
    num_scalar_prefetch: int,
    grid: Any = ...,
    in_specs: Any = ...,
    out_specs: Any = ...,
    scratch_shapes: Any = ...,
) -> Any:
    """Return a `GridSpec` with num_scalar_prefetch as its first argument."""

def addupdate(ref: Any, idx: Any, val: Any) -> None:
    """ref[idx] += val in one op; where index arrays repeat a position, each addition …"""

def align_to(a: int, alignment: int) -> int:
    """Return the least multiple of alignment that is at least a."""

def async_copy(src: Any, dst: Any, sem: Any, *, core_index: Any = ...) -> Any:
    """Return a copy between refs of equal type that runs beside the program."""

def atomic_add(ref: Any, idx: Any, val: Any, *, mask: Any = ...) -> Array:
    """ref[idx] += val, each element in one indivisible step; returns the values before."""

def atomic_and(ref: Any, idx: Any, val: Any, *, mask: Any = ...) -> Array:
    """ref[idx] &= val, each element in one indivisible step; returns the values before."""

def atomic_cas(ref: Any, cmp: Any, val: Any) -> Array:
    """ref[...] = val if it equals cmp, in one indivisible step; returns the value before."""

def atomic_max(ref: Any, idx: Any, val: Any, *, mask: Any = ...) -> Array:
    """ref[idx] = max(ref[idx], val), each element in one indivisible step; returns the …"""

def atomic_min(ref: Any, idx: Any, val: Any, *, mask: Any = ...) -> Array:
    """ref[idx] = min(ref[idx], val), each element in one indivisible step; returns the …"""

def atomic_or(ref: Any, idx: Any, val: Any, *, mask: Any = ...) -> Array:
    """ref[idx] |= val, each element in one indivisible step; returns the values before."""

def atomic_xchg(ref: Any, idx: Any, val: Any, *, mask: Any = ...) -> Array:
    """ref[idx] = val, each element in one indivisible step; returns the values before."""

def atomic_xor(ref: Any, idx: Any, val: Any, *, mask: Any = ...) -> Array:
    """ref[idx] ^= val, each element in one indivisible step; returns the values before."""

def broadcast_to(a: ArrayLike, shape: Sequence[int]) -> Array:
    """Return a repeated along new and size-1 dimensions."""

def cdiv(a: ArrayLike, b: ArrayLike) -> int:
    """Return a / b rounded up: the number of blocks of b that cover a."""

def core_barrier(barrier: Any, *, meshes: Any = ...) -> None:
    """Wait until every core has arrived at the barrier, a scratch of …"""

def core_map(
    mesh: Mesh,
    *,
    compiler_params: Any = ...,
    interpret: Any = ...,
    debug: bool | None = ...,
    cost_estimate: Any = ...,
    name: str | None = ...,
    metadata: Any = ...,
    scratch_shapes: Any = ...,
) -> Callable[[Callable[..., None]], None]:
    """Return a decorator: runs the function at once on every core of the mesh."""

def create_core_mesh(axis_name: str, num_cores: int, **options: Any) -> Mesh:
    """Return a mesh with one axis."""

def debug_check(condition: ArrayLike, message: str) -> None:
    """Raise if condition is False where the kernel is interpreted, or native in debug mode"""

def debug_print(fmt: str, *args: Any) -> None:
    """Print `fmt.format(*args)` when the program runs, as weft.debug.print outside of …"""

def delay(nanos: int | Any) -> None:
    """Let the program wait for about so many nanoseconds, to provoke other interleavings."""

def dot(
    a: ArrayLike,
    b: ArrayLike,
    trans_a: bool = ...,
    trans_b: bool = ...,
    allow_tf32: bool | None = ...,
    precision: Any = ...,
) -> Array:
    """Return the matrix product of two rank-2 arrays, of which either may be transposed …"""

def ds(start: ArrayLike, size: int | None = ..., stride: int | None = ...) -> Any:
    """Return a window of a dimension of a ref or an array: a static size, a start …"""

def dslice(start: ArrayLike, size: int | None = ..., stride: int | None = ...) -> Any:
    """Return a window of a dimension of a ref or an array: a static size, a start …"""

def emit_pipeline(
    body: Callable[..., None],
    *,
    grid: int | tuple[Any, ...],
    in_specs: Any = ...,
    out_specs: Any = ...,
) -> Callable[..., None]:
    """Return a function of refs that runs body for each point of a grid, on blocks of …"""

def empty(shape: Sequence[int], dtype: DTypeLike | None, *, out_sharding: Any = ...) -> Any:
    """Return an array of unspecified values (zeros), with the sharding out_sharding if …"""

def empty_like(x: ArrayLike) -> Any:
    """Return a pytree of arrays of unspecified values like x."""

def empty_ref_like(x: ArrayLike) -> Any:
    """Return a ref of unspecified values with the shape, dtype and memory space of x."""

def enable_debug_checks(new_val: bool = ...) -> AbstractContextManager[None]:
    """Native kernels traced inside check their bounds and `debug_check`, as with …"""

def enable_poison_buffers(new_val: bool = ...) -> AbstractContextManager[None]:
    """Scratch of native kernels traced inside starts as NaN, or as the largest integer."""

def estimate_cost(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return the cost of a function of arrays: an op an element, two for each product of …"""

def kernel(
    body: Any = ...,
    out_type: Any = ...,
    *,
    mesh: Any,
    scratch_types: Any = ...,
    compiler_params: Any = ...,
    interpret: Any = ...,
    cost_estimate: Any = ...,
    debug: bool | None = ...,
    name: str | None = ...,
    metadata: Any = ...,
) -> Callable[..., Any]:
    """`mpmd_map` of one function on one mesh, or of equally many of both; also a …"""

def load(ref: Any, idx: Any = ..., *, mask: Any = ..., other: Any = ..., **hints: Any) -> Array:
    """ref[idx], reading only where the mask is true."""

def loop(
    lower: Any,
    upper: Any,
    *,
    init_carry: Any = ...,
    step: ArrayLike = ...,
    unroll: int | bool | None = ...,
) -> Callable[[Callable[..., Any]], Any]:
    """Call body(i) for i in range(lower, upper, step), or body(i, carry) -> carry: a …"""

def make_async_copy(src: Any, dst: Any, sem: Any, *, core_index: Any = ...) -> Any:
    """Return a copy between refs of equal type that runs beside the program."""

def mpmd_map(
    meshes_and_fns: Sequence[tuple[Mesh, Callable[..., None]]],
    /,
    out_shapes: Any = ...,
    scratch_shapes: Any = ...,
    *,
    input_output_aliases: Mapping[int, int] | Sequence[tuple[int, int]] = ...,
    compiler_params: Any = ...,
    interpret: Any = ...,
    debug: bool | None = ...,
    cost_estimate: Any = ...,
    name: str | None = ...,
    metadata: Any = ...,
    out_types: Any = ...,
    scratch_types: Any = ...,
) -> Callable[..., Any]:
    """Make a function of arrays that runs several programs at once, each on its mesh's …"""

def multiple_of(x: ArrayLike, values: Sequence[int] | int) -> Array:
    """x, with the promise that it is a multiple of values, which some backends use."""

def next_power_of_2(x: int) -> int:
    """Return the least power of 2 that is at least x; raises ValueError below 0."""

def num_programs(axis: int) -> Any:
    """Return the grid's extent along an axis: a Python int, or an int32 scalar if traced."""

def pallas_call(
    kernel: Callable[..., None],
    out_shape: Any,
    *,
    grid_spec: Any = ...,
    grid: int | tuple[int, ...] = ...,
    in_specs: Any = ...,
    out_specs: Any = ...,
    scratch_shapes: Any = ...,
    input_output_aliases: Mapping[int, int] | Sequence[tuple[int, int]] = ...,
    debug: bool | None = ...,
    interpret: Any = ...,
    name: str | None = ...,
    compiler_params: Any = ...,
    cost_estimate: Any = ...,
    metadata: Any = ...,
    sharding_rule: Any = ...,
    num_batch_dims: int = ...,
) -> Callable[..., Any]:
    """Return a function of arrays that runs a kernel once for each point of a grid."""

def program_id(axis: int) -> Array:
    """Return the index of this program along an axis of the grid, an int32 scalar."""

def reciprocal(x: ArrayLike, *, approx: bool = ..., full_range: bool = ...) -> Array:
    """1 / x; approx and full_range are hints."""

def run_scoped(
    f: Callable[..., Any], *types: Any, collective_axes: Any = ..., **kw_types: Any
) -> Any:
    """Call f with fresh scratch refs, which live until it returns."""

def run_state(f: Callable[..., Any]) -> Callable[[Any], Any]:
    """Make a function of arrays from one of refs: it runs f on refs of them; returns …"""

def semaphore_read(sem_or_view: Any) -> Array:
    """Return the semaphore's value, an int32 scalar; others may change it at any time."""

def semaphore_signal(
    sem_or_view: Any,
    inc: Any = ...,
    *,
    device_id: Any = ...,
    device_id_type: Any = ...,
    core_index: Any = ...,
) -> None:
    """Add inc to a semaphore: this core's own, a shared one, or that of the core …"""

def semaphore_wait(sem_or_view: Any, value: ArrayLike = ..., *, decrement: bool = ...) -> None:
    """Wait until a semaphore is at least `value`, then subtracts that unless decrement …"""

def store(ref: Any, idx: Any, val: Any, *, mask: Any = ..., **hints: Any) -> None:
    """ref[idx] = val, writing only where the mask is true."""

def strides_from_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the row-major strides, in elements."""

def swap(ref: Any, idx: Any, val: Any, *, mask: Any = ..., **hints: Any) -> Any:
    """ref[idx] = val, and the value before; both only where the mask is true."""

def when(condition: ArrayLike) -> Callable[[Callable[[], Any]], None]:
    """Decorate a function, which takes nothing and returns None, to be called if …"""

def with_scoped(*types: Any, collective_axes: Any = ..., **kw_types: Any) -> Callable[..., Any]:
    """Return a decorator: the function is called with fresh scratch refs after its own …"""
