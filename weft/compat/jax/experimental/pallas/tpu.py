# Tests: tests/compat/test_pallas_tpu.py
"""jax.experimental.pallas.tpu: kernels for TPUs, run or interpreted on the CPU.

A TPU's memories on the chip are a core's own memory here. Other names are those of weft.pallas.
Copies to other devices, the TPU's random bits and its matrix units are left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

import weft.numpy as wnp
from weft import lax, pallas
from weft.pallas import AsyncCopy
from weft.runtime import backend

if TYPE_CHECKING:
    from weft.pallas import Mesh
    from weft.refs.api import Ref
    from weft.typing import Array, ArrayLike, DTypeLike


class MemorySpace:
    """A TPU's memories, as memories of weft.pallas."""

    ANY, HBM, HOST = pallas.ANY, pallas.HBM, pallas.HOST
    VMEM = SMEM = pallas.LOCAL
    VMEM_SHARED = CMEM = pallas.SHARED
    SEMAPHORE = pallas.MemorySpace.SEMAPHORE


VMEM = SMEM = MemorySpace.VMEM
VMEM_SHARED = CMEM = MemorySpace.VMEM_SHARED
SEMAPHORE = MemorySpace.SEMAPHORE


class GridDimensionSemantics(Enum):
    """Whether the programs of a grid's axis may run at the same time."""

    PARALLEL = "parallel"
    CORE_PARALLEL = "core_parallel"
    SUBCORE_PARALLEL = "subcore_parallel"
    ARBITRARY = "arbitrary"


PARALLEL, CORE_PARALLEL, SUBCORE_PARALLEL, ARBITRARY = GridDimensionSemantics


class CoreType(Enum):
    """Kinds of a TPU's cores."""

    TC = "tc"
    SC_SCALAR_SUBCORE = "sc_scalar_subcore"
    SC_VECTOR_SUBCORE = "sc_vector_subcore"


class SideEffectType(Enum):
    """Whether a kernel whose results nobody uses runs all the same."""

    PURE = "pure"
    DATAFLOW_SIDE_EFFECTING = "dataflow_side_effecting"
    SIDE_EFFECTING = "side_effecting"


class CompilerParams(pallas.CompilerParams):
    """Parameters of the TPU's compiler, of which the CPU's reads dimension_semantics."""

    def __init__(self, dimension_semantics: Sequence[Any] | None = None, **of_tpus: object) -> None:
        if dimension_semantics is not None:
            names = [getattr(s, "value", s) for s in dimension_semantics]
            dimension_semantics = tuple(
                "parallel" if str(name).endswith("parallel") else name for name in names
            )
        super().__init__(dimension_semantics)


class InterpretParams(pallas.InterpretParams):
    """How a kernel is interpreted; what is particular to a TPU is taken and not looked at."""

    def __init__(
        self,
        *,
        detect_races: bool = False,
        uninitialized_memory: str = "nan",
        random_seed: int | None = None,
        **of_tpus: object,
    ) -> None:
        super().__init__(
            random_seed=random_seed or 0,
            detect_races=detect_races,
            uninitialized_memory=uninitialized_memory,
        )


@contextmanager
def force_tpu_interpret_mode(params: object = None) -> Iterator[None]:
    """Do nothing: kernels run on the CPU in any case."""
    yield


def set_tpu_interpret_mode(params: object = None) -> None:
    """Do nothing: kernels run on the CPU in any case."""


def reset_tpu_interpret_mode_state() -> None:
    """Forget nothing: interpreted kernels keep no state between calls."""


def is_tpu_device() -> bool:
    """Tell whether arrays are on TPUs by default."""
    return backend.client().platform == "tpu"


def create_tensorcore_mesh(
    axis_name: str, devices: object = None, num_cores: int | None = None
) -> Mesh:
    """Return a mesh of a device's cores: one, unless num_cores says more."""
    return pallas.create_core_mesh(axis_name, num_cores or 1)


def run_on_first_core(core_axis_name: str) -> Callable:
    """Return a decorator that calls a function on the first core along an axis."""
    return pallas.when(lax.axis_index(core_axis_name) == 0)


def core_barrier(sem: Ref, *, core_axis_name: str) -> None:
    """Wait until all cores have come to the barrier; see weft.pallas.core_barrier."""
    pallas.core_barrier(sem)


def async_copy(
    src_ref: Ref, dst_ref: Ref, sem: Ref, *, priority: int = 0, add: bool = False
) -> AsyncCopy:
    """Return a copy that has been started; see weft.pallas.make_async_copy."""
    if add:
        raise NotImplementedError("async_copy: add=True is of TPUs; copy, wait and add")
    return pallas.make_async_copy(src_ref, dst_ref, sem).start()


def sync_copy(src_ref: Ref, dst_ref: Ref, *, add: bool = False) -> None:
    """Copy what one ref holds to another, or adds it."""
    dst_ref[...] = dst_ref[...] + src_ref[...] if add else src_ref[...]


def load(ref: Ref, *, mask: ArrayLike | None = None) -> Array:
    """Return the elements of a ref where mask is True; the others are undefined."""
    return pallas.load(ref, ..., mask=mask)


def store(ref: Ref, val: ArrayLike, *, mask: ArrayLike | None = None) -> None:
    """Write the elements of val where mask is True."""
    pallas.store(ref, ..., val, mask=mask)


def with_memory_space_constraint(x: Array, memory_space: object) -> Array:
    """x: arrays are in the device's memory, from which kernels fetch their blocks."""
    return x


def touch(ref: Ref) -> None:
    """Say that a ref is in use: no backend here drops one."""


def trace_value(label: str, value: ArrayLike) -> None:
    """Name a value in a TPU's profile, which there is none of."""


def roll(
    x: Any,
    shift: Any,
    axis: int,
    *,
    stride: int | None = None,
    stride_axis: int | None = None,
) -> Any:
    """Return x with its elements moved on along an axis, the last ones to the front.

    With a stride, what has index i of stride_axis is moved by shift + i * stride.
    """
    if (stride is None) != (stride_axis is None):
        raise ValueError("roll: give stride and stride_axis, or neither")
    if stride is None or stride_axis is None:
        return wnp.roll(x, shift, axis)
    axis = axis % x.ndim - (axis % x.ndim > stride_axis % x.ndim)
    rows = [
        wnp.roll(lax.index_in_dim(x, i, stride_axis, keepdims=False), shift + i * stride, axis)
        for i in range(x.shape[stride_axis])
    ]
    return wnp.stack(rows, stride_axis)


def bitcast(x: Any, ty: DTypeLike) -> Any:
    """Return the bits of x in another width: rows become more or fewer, from the low bits on."""
    old, new = x.dtype.itemsize, wnp.dtype(ty).itemsize
    *front, rows, columns = x.shape
    if new < old:
        parts = lax.bitcast_convert_type(x, ty)
        return wnp.moveaxis(parts, -1, -2).reshape(*front, rows * (old // new), columns)
    if new == old:
        return lax.bitcast_convert_type(x, ty)
    if rows % (new // old):
        raise ValueError(
            f"bitcast: {rows} rows of {x.dtype} are no whole number of rows of {wnp.dtype(ty)}"
        )
    parts = x.reshape(*front, rows // (new // old), new // old, columns)
    return lax.bitcast_convert_type(wnp.moveaxis(parts, -2, -1), ty)


def _bits(dtype: DTypeLike) -> np.dtype:
    return np.dtype(f"uint{8 * wnp.dtype(dtype).itemsize}")


def pack_elementwise(xs: Sequence[Any], *, packed_dtype: DTypeLike) -> Any:
    """Pack arrays into one of uint32: each in a narrower dtype, the first in the low bits."""
    width = _bits(packed_dtype)
    if len(xs) * width.itemsize != 4:
        raise ValueError(
            f"pack_elementwise: {len(xs)} arrays of {wnp.dtype(packed_dtype)} do not fill 32 bits"
        )
    packed = wnp.zeros(xs[0].shape, np.uint32)
    for i, x in enumerate(xs):
        bits = lax.bitcast_convert_type(x.astype(packed_dtype), width).astype(np.uint32)
        packed = packed | (bits << np.uint32(8 * width.itemsize * i))
    return packed


def unpack_elementwise(
    x: Any, *, index: int, packed_dtype: DTypeLike, unpacked_dtype: DTypeLike
) -> Any:
    """Return one of the arrays that `pack_elementwise` packed, in a wider dtype."""
    width = _bits(packed_dtype)
    bits = lax.bitcast_convert_type(x, np.uint32) >> np.uint32(8 * width.itemsize * index)
    return lax.bitcast_convert_type(bits.astype(width), packed_dtype).astype(unpacked_dtype)


def stochastic_round(x: Any, random_bits: Any, *, target_dtype: DTypeLike) -> Any:
    """float32 rounded up or down to bfloat16, as likely as it is near, by 32 random bits each."""
    if x.dtype != np.float32 or wnp.dtype(target_dtype) != wnp.bfloat16:
        raise NotImplementedError(
            f"stochastic_round: from float32 to bfloat16, got {x.dtype} and {target_dtype}"
        )
    bits = lax.bitcast_convert_type(x, np.uint32)
    low = lax.bitcast_convert_type(random_bits, np.uint32) & np.uint32(0xFFFF)
    rounded = lax.bitcast_convert_type((bits + low) & np.uint32(0xFFFF0000), np.float32)
    return wnp.where(wnp.isfinite(x), rounded, x).astype(target_dtype)


def to_pallas_key(key: Array) -> Array:
    """Return the key: kernels take keys of every kind."""
    return key


def einshape(equation: str, x: Any, assert_is_tile_preserving: bool = False, **sizes: int) -> Any:
    """Return x with its dimensions split, joined and exchanged, as in "a(bc)->cab" with b=2."""
    before, after = (_groups(side) for side in equation.replace(" ", "").split("->"))
    if len(before) != x.ndim:
        raise ValueError(f"einshape: {equation} has {len(before)} dimensions, x has {x.ndim}")
    for group, size in zip(before, x.shape, strict=True):
        unknown = [name for name in group if name not in sizes]
        rest = math.prod(sizes[name] for name in group if name in sizes)
        if len(unknown) > 1 or size % rest:
            raise ValueError(f"einshape: {size} is not divided among {''.join(group)} by {sizes}")
        sizes |= dict.fromkeys(unknown, size // rest)
    order = [name for group in before for name in group]
    moved = wnp.transpose(
        x.reshape([sizes[name] for name in order]),
        [order.index(name) for group in after for name in group],
    )
    return moved.reshape([math.prod(sizes[name] for name in group) for group in after])


def _groups(side: str) -> list[str]:
    groups, inside = [], False
    for letter in side:
        if letter in "()":
            inside = letter == "("
            groups += [""] * inside
        elif inside:
            groups[-1] += letter
        else:
            groups.append(letter)
    return groups
