# Tests: tests/pallas/api/test_mpmd.py
"""Synchronization and movement in kernels: semaphores, barriers, asynchronous copies, atomics."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.collectives.axis import axis_index
from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.effects import WRITES
from weft.core.errors import MissingRuleError
from weft.core.kernel_frame import current_frame
from weft.core.primitive import Primitive
from weft.core.ref import Indexer
from weft.ops.as_array import as_array
from weft.pallas.api.memory import MemorySpace
from weft.pallas.api.primitives import as_int32
from weft.refs.api import Ref, check_dtype, mask_operands, shown, stored, to_plain
from weft.refs.ops import atomic_cas_p, atomic_rmw_p

if TYPE_CHECKING:
    from weft.typing import ArrayLike

_WRITES = frozenset((WRITES,))
_INT32 = ShapedArray((), dtypes.int32)


def _op(name: str, abstract: Callable | None = None) -> Primitive:
    prim = Primitive(
        name,
        abstract=abstract or (lambda *avals, **params: []),
        effects=lambda avals, params: _WRITES,
        jvp=lambda primals, tangents, **params: _sync_jvp(prim, primals, tangents, params),
        multiple_results=abstract is None,
        own_types=True,
        takes_refs=True,
    )
    return prim


def _sync_jvp(prim: Primitive, primals: Any, tangents: Any, params: dict) -> tuple:
    """Give synchronization no tangent; the tangents' own movement is not synchronized."""
    if any(t is not None for t in tangents):
        raise MissingRuleError(
            f"{prim.name} has no derivative; give the kernel a rule with weft.custom_vjp"
        )
    return prim.bind(*primals, **params), [] if prim.multiple_results else None


semaphore_signal_p = _op("semaphore_signal")
semaphore_wait_p = _op("semaphore_wait")
semaphore_read_p = _op("semaphore_read", lambda *avals, **params: _INT32)
core_barrier_p = _op("core_barrier")
async_copy_start_p = _op("async_copy_start")


class DeviceIdType(enum.Enum):
    """How a core is named: MESH by its coordinates, LOGICAL by its number in row-major order."""

    MESH = "mesh"
    LOGICAL = "logical"


# Semaphores ------------------------------------------------------------------------------------


def _semaphore(api: str, sem: Ref, spaces: Sequence[MemorySpace]) -> tuple[Any, Indexer, tuple]:
    """(handle, indexer, operands) of one semaphore."""
    if not isinstance(sem, Ref) or not getattr(sem.memory_space, "holds_semaphores", False):
        kind = sem.aval.str_short() if isinstance(sem, Ref) else type(sem).__name__
        raise TypeError(
            f"{api}: sem must be a semaphore, a ref of a scratch type such as "
            f"pl.SemaphoreType.REGULAR; got {kind}"
        )
    if sem.memory_space not in spaces:
        raise TypeError(f"{api}: takes a {' or '.join(map(str, spaces))}, got a {sem.memory_space}")
    if sem.shape:
        raise ValueError(
            f"{api}: sem is an array of semaphores of shape {sem.shape}; choose one: sem.at[i]"
        )
    return sem.pointer()


_COUNTING = (MemorySpace.SEMAPHORE, MemorySpace.DMA_SEMAPHORE)


def _int32(api: str, label: str, x: ArrayLike) -> Any:
    return as_int32(f"{api}: {label} must be an integer scalar, got", x)


def _target(api: str, aval: Any, core_index: Any) -> tuple[tuple[str, ...], list]:
    """Return the axes of the mesh whose cores own a ref, and the coordinates of the one meant.

    Without axes it is the caller's own, or the only one.
    """
    frame = current_frame(api)
    mesh = aval.core
    if mesh is None:
        if core_index is not None:
            raise ValueError(
                f"{api}: core_index is given, but a {aval.str_short()} is shared by all cores; "
                "leave core_index out, or give the scratch type a mesh: type @ mesh"
            )
        return (), []
    # No index names the caller's own core, one number that of a mesh of one axis.
    if core_index is None:
        if mesh == frame.mesh:
            return (), []
        named: dict = {}
    elif isinstance(core_index, Mapping):
        named = dict(core_index)
    elif len(mesh.shape) == 1:
        named = {mesh.axis_names[0]: core_index}
    else:
        raise ValueError(
            f"{api}: core_index must be a dict over the axes {list(mesh.shape)} of {mesh}, got "
            f"{core_index!r:.80}"
        )
    unknown = set(named) - set(mesh.shape)
    if unknown:
        raise ValueError(
            f"{api}: core_index names axis {sorted(map(str, unknown))[0]!r}, which {mesh} lacks; "
            f"its axes are {list(mesh.shape)}"
        )
    # An axis left out is the caller's own coordinate where it has one.
    sizes = frame.axis_sizes
    coordinates = []
    for axis, size in mesh.shape.items():
        if axis in named:
            coordinates.append(_int32(api, f"core_index[{axis!r}]", named[axis]))
        elif axis in sizes:
            coordinates.append(axis_index(axis))
        elif size == 1:
            coordinates.append(np.int32(0))
        else:
            raise ValueError(
                f"{api}: a {aval.str_short()} belongs to the cores of {mesh}; say which one's with "
                f"core_index={{{axis!r}: …}}"
            )
    return mesh.axis_names, coordinates


def semaphore_signal(
    sem_or_view: Any,
    inc: Any = 1,
    *,
    device_id: object = None,
    device_id_type: DeviceIdType = DeviceIdType.MESH,
    core_index: Any = None,
) -> None:
    """Add inc to a semaphore: this core's own, a shared one, or that of the core core_index.

    core_index: an int, or a dict from axis names of the semaphore's mesh to indices; axes left out
    are the caller's own coordinates. device_id: the same, under the name it has elsewhere; with
    device_id_type=DeviceIdType.LOGICAL it is the number of the core in row-major order.

    What this core wrote before is seen by whoever waits for the signal.

    Raises TypeError for what is no semaphore, ValueError where the target core is not named.

    >>> import weft
    >>> pl = weft.pallas
    >>> def kernel(out, sem):
    ...     pl.semaphore_signal(sem, 3)
    ...     pl.semaphore_wait(sem, 2)
    ...     out[...] = pl.semaphore_read(sem)
    ...     pl.semaphore_wait(sem)
    >>> pl.kernel(kernel, weft.ShapeDtypeStruct((), "int32"), mesh=pl.Mesh({"core": 1}),
    ...     scratch_types=[pl.SemaphoreType.REGULAR], interpret=True)()
    Array(1, dtype=int32)
    """
    api = "semaphore_signal"
    if device_id is not None:
        if core_index is not None:
            raise ValueError(f"{api}: give core_index or device_id, not both")
        core_index = device_id
        if DeviceIdType(device_id_type) is DeviceIdType.LOGICAL and sem_or_view.ref_aval.core:
            core_index = _coordinates(sem_or_view.ref_aval.core, device_id)
    handle, indexer, operands = _semaphore(api, sem_or_view, (MemorySpace.SEMAPHORE,))
    axes, core = _target(api, sem_or_view.ref_aval, core_index)
    semaphore_signal_p.bind(
        handle, *operands, _int32(api, "inc", inc), *core, indexer=indexer, axes=axes
    )


def _coordinates(mesh: Any, number: object) -> dict[str, Any]:
    """Return where on the mesh the core of a number, row-major, is."""
    coordinates = {}
    for axis, size in reversed(mesh.shape.items()):
        coordinates[axis] = number % size
        number = number // size
    return coordinates


def _own_only(api: str, sem: Ref) -> None:
    frame = current_frame(api)
    core = sem.ref_aval.core
    if core is not None and core != frame.mesh:
        raise ValueError(
            f"{api}: a {sem.aval.str_short()} belongs to the cores of {core}; a core waits for and "
            "reads its own semaphores or shared ones"
        )


def semaphore_wait(sem_or_view: Any, value: ArrayLike = 1, *, decrement: bool = True) -> None:
    """Wait until a semaphore is at least `value`, then subtracts that unless decrement is False.

    sem_or_view: this core's own, or a shared one. Seeing the value and subtracting are one
    indivisible step; with decrement=False nothing is written, and any number of cores may wait for
    one signal.

    Raises TypeError for what is no semaphore, ValueError for another core's.

    >>> import weft
    >>> pl = weft.pallas
    >>> def kernel(out, sem):
    ...     pl.semaphore_signal(sem, 3)
    ...     pl.semaphore_wait(sem, 2)
    ...     out[...] = pl.semaphore_read(sem)
    ...     pl.semaphore_wait(sem)
    >>> pl.kernel(kernel, weft.ShapeDtypeStruct((), "int32"), mesh=pl.Mesh({"core": 1}),
    ...     scratch_types=[pl.SemaphoreType.REGULAR], interpret=True)()
    Array(1, dtype=int32)
    """
    handle, indexer, operands = _semaphore("semaphore_wait", sem_or_view, _COUNTING)
    _own_only("semaphore_wait", sem_or_view)
    count = _int32("semaphore_wait", "value", value)
    semaphore_wait_p.bind(
        handle, *operands, count, indexer=indexer, decrement=bool(decrement), of_copy=False
    )


def semaphore_read(sem_or_view: Any) -> Any:
    """Return the semaphore's value, an int32 scalar; others may change it at any time.

    Raises TypeError for what is no semaphore, ValueError for another core's.

    >>> import weft
    >>> pl = weft.pallas
    >>> def kernel(out, sem):
    ...     pl.semaphore_signal(sem, 3)
    ...     pl.semaphore_wait(sem, 2)
    ...     out[...] = pl.semaphore_read(sem)
    ...     pl.semaphore_wait(sem)
    >>> pl.kernel(kernel, weft.ShapeDtypeStruct((), "int32"), mesh=pl.Mesh({"core": 1}),
    ...     scratch_types=[pl.SemaphoreType.REGULAR], interpret=True)()
    Array(1, dtype=int32)
    """
    handle, indexer, operands = _semaphore("semaphore_read", sem_or_view, _COUNTING)
    _own_only("semaphore_read", sem_or_view)
    return semaphore_read_p.bind(handle, *operands, indexer=indexer)


def core_barrier(barrier: Any, *, meshes: Any = None) -> None:
    """Wait until every core has arrived at the barrier, a scratch of SemaphoreType.BARRIER.

    meshes: those whose cores take part (all of the kernel's); all participants name the same.

    Raises TypeError for what is no barrier, ValueError in pallas_call, whose programs do not run
    together.

    >>> import weft
    >>> pl = weft.pallas
    >>> def kernel(x, out, shared, barrier):
    ...     i = weft.lax.axis_index("core")
    ...     shared[i] = x[i] * 10
    ...     pl.core_barrier(barrier)
    ...     out[i] = shared[1 - i]
    >>> pl.kernel(kernel, weft.ShapeDtypeStruct((2,), "float32"), mesh=pl.Mesh({"core": 2}),
    ...     scratch_types=[pl.SHARED((2,), "float32"), pl.SemaphoreType.BARRIER], interpret=True)(
    ...     weft.numpy.arange(2.0))
    Array([10.,  0.], dtype=float32)
    """
    frame = current_frame("core_barrier")
    handle, indexer, operands = _semaphore("core_barrier", barrier, (MemorySpace.BARRIER,))
    if frame.mesh is None:
        raise ValueError("core_barrier: the programs of a grid do not run together; use mpmd_map")
    chosen = frame.meshes if meshes is None else tuple(meshes)
    for m in chosen:
        if m not in frame.meshes:
            raise ValueError(f"core_barrier: {m} is not one of the kernel's meshes")
    core_barrier_p.bind(handle, *operands, indexer=indexer, count=sum(m.size for m in chosen))


# Copies ----------------------------------------------------------------------------------------


class AsyncCopy:
    """A copy from one ref to another: `start()` starts it, `wait()` waits until it is done."""

    __slots__ = ("_args", "_params", "_semaphore")

    def __init__(self, args: list, params: dict, semaphore: list) -> None:
        self._args, self._params = args, params
        self._semaphore = semaphore

    def start(self) -> AsyncCopy:
        """Start the copy; source and destination must be left alone until it is done."""
        async_copy_start_p.bind(*self._args, **self._params)
        return self

    def wait(self) -> None:
        """Wait until a copy of this form is done: for its semaphore, at its destination."""
        semaphore_wait_p.bind(
            *self._semaphore,
            np.int32(1),
            indexer=self._params["sem_indexer"],
            decrement=True,
            of_copy=True,
        )


def async_copy(src: Any, dst: Any, sem: Any, *, core_index: object = None) -> AsyncCopy:
    """Return a copy between refs of equal type that runs beside the program.

    src, dst: refs or parts of refs (`ref.at[...]`), of one shape and dtype. sem: a semaphore of
    SemaphoreType.DMA, which counts copies done. core_index: the core whose dst and sem are meant,
    where those belong to the cores of a mesh.

    >>> import weft
    >>> pl = weft.pallas
    >>> def kernel(x, out, sem):
    ...     copy = pl.async_copy(x, out, sem).start()
    ...     copy.wait()
    >>> spec = pl.BlockSpec(memory_space=pl.ANY)
    >>> pl.pallas_call(kernel, weft.ShapeDtypeStruct((3,), "float32"), in_specs=[spec],
    ...     out_specs=spec, scratch_shapes=[pl.SemaphoreType.DMA], interpret=True)(
    ...     weft.numpy.arange(3.0))
    Array([0., 1., 2.], dtype=float32)
    """
    api = "async_copy"
    for name, ref in (("src", src), ("dst", dst)):
        if not isinstance(ref, Ref):
            raise TypeError(
                f"{api}: {name} must be a Ref, got {type(ref).__name__}; to copy a part of a ref "
                "give ref.at[index], as ref[index] reads it"
            )
    if (src.shape, src.dtype) != (dst.shape, dst.dtype):
        raise TypeError(
            f"{api}: src and dst must have one shape and dtype, got {src.aval.inner.str_short()} "
            f"and {dst.aval.inner.str_short()}"
        )
    handle, sem_indexer, sem_operands = _semaphore(api, sem, _COUNTING)
    from_handle, src_indexer, src_operands = src.pointer()
    to_handle, dst_indexer, dst_operands = dst.pointer()
    if src_indexer.has_picks or dst_indexer.has_picks:
        raise TypeError(f"{api}: copies a window, not the positions in an index array; use pl.ds")
    owner = dst.ref_aval if dst.ref_aval.core is not None else sem.ref_aval
    axes, core = _target(api, owner, core_index)
    params = {
        "src_indexer": src_indexer,
        "dst_indexer": dst_indexer,
        "sem_indexer": sem_indexer,
        "axes": axes,
    }
    args = [from_handle, to_handle, handle, *src_operands, *dst_operands, *sem_operands, *core]
    return AsyncCopy(args, params, [handle, *sem_operands])


make_async_copy = async_copy

# Atomics ---------------------------------------------------------------------------------------


def _atomic(ref: Any, idx: object, val: Any, mask: object, op: str) -> Any:
    api = f"atomic_{op}"
    if not isinstance(ref, Ref):
        raise TypeError(f"{api}: expected a Ref, got {type(ref).__name__}: {ref!r:.80}")
    at = ref.located(idx, mask)
    check_dtype(ref, api)
    value = stored(ref, at, val, api)
    extras = [to_plain(at, m) for m in mask_operands(at.shape, mask, api)]
    out = atomic_rmw_p.bind(
        ref._handle,
        value,
        *at.operands,
        *extras,
        indexer=at.indexer,
        masked=mask is not None,
        op=op,
    )
    return shown(at, out)


def _atomic_function(op: str, summary: str, shown: str) -> Callable:
    def atomic(ref: object, idx: object, val: object, *, mask: object = None) -> Any:
        return _atomic(ref, idx, val, mask, op)

    atomic.__name__ = atomic.__qualname__ = f"atomic_{op}"
    atomic.__module__ = __name__
    atomic.__doc__ = f"""{summary}, each element in one indivisible step; returns the values before.

    idx: as in ref[idx]; repeated positions all take effect. mask: only where it is True. Raises
    TypeError for what is not a Ref, or a value of another dtype.

    >>> import weft
    >>> ref = weft.new_ref(weft.numpy.arange(3))
    >>> old = weft.pallas.atomic_{op}(ref, 1, 6); ref[...]
    Array([0, {shown}, 2], dtype=int32)
    """
    return atomic


atomic_add = _atomic_function("add", "ref[idx] += val", "7")
atomic_max = _atomic_function("max", "ref[idx] = max(ref[idx], val)", "6")
atomic_min = _atomic_function("min", "ref[idx] = min(ref[idx], val)", "1")
atomic_and = _atomic_function("and", "ref[idx] &= val", "0")
atomic_or = _atomic_function("or", "ref[idx] |= val", "7")
atomic_xor = _atomic_function("xor", "ref[idx] ^= val", "7")
atomic_xchg = _atomic_function("xchg", "ref[idx] = val", "6")


def atomic_cas(ref: Any, cmp: Any, val: Any) -> Any:
    """ref[...] = val if it equals cmp, in one indivisible step; returns the value before.

    ref: a Ref to one element, such as ref.at[i]; TypeError for another.

    >>> import weft
    >>> ref = weft.new_ref(weft.numpy.arange(3))
    >>> old = weft.pallas.atomic_cas(ref.at[1], 1, 7); ref[...]
    Array([0, 7, 2], dtype=int32)
    """
    if not isinstance(ref, Ref) or ref.shape:
        shape = f" of shape {ref.shape}" if isinstance(ref, Ref) else f": {type(ref).__name__}"
        raise TypeError(f"atomic_cas: expected a Ref to one element{shape}; use ref.at[index]")
    at = ref.located(...)
    check_dtype(ref, "atomic_cas")
    old, new = (stored(ref, at, as_array(v), "atomic_cas") for v in (cmp, val))
    return atomic_cas_p.bind(ref._handle, old, new, *at.operands, indexer=at.indexer)
