"""Kernels: functions over mutable references, run over a grid or on cores of several meshes.

`pallas_call` runs one function for each point of a grid, `mpmd_map` several functions at once,
each on the cores of its mesh. See docs/kernels.md.
"""

from __future__ import annotations

import importlib as _importlib
from typing import Any as _Any

from weft.core.namespace import missing as _missing
from weft.core.namespace import public as _public

_HOMES = {
    "weft.pallas.api.call": "pallas_call",
    "weft.pallas.api.mpmd": "mpmd_map kernel core_map",
    "weft.pallas.api.specs": """BlockSpec GridSpec PrefetchScalarGridSpec Blocked Element Squeezed
        squeezed Buffered BlockDim RevisitMode no_block_spec""",
    "weft.pallas.api.checks": "enable_debug_checks enable_poison_buffers",
    "weft.pallas.api.mesh": "Mesh create_core_mesh",
    "weft.pallas.api.memory": "MemorySpace MemoryRef ScratchShape CoreMemorySpace SemaphoreType",
    "weft.pallas.api.primitives": """program_id num_programs multiple_of debug_print debug_check
        delay run_scoped with_scoped""",
    "weft.pallas.api.sync": """semaphore_signal semaphore_wait semaphore_read core_barrier
        async_copy make_async_copy AsyncCopy atomic_add atomic_max atomic_min atomic_and
        atomic_or atomic_xor atomic_xchg atomic_cas DeviceIdType""",
    "weft.pallas.api.helpers": """when loop cdiv align_to next_power_of_2 strides_from_shape
        empty empty_like empty_ref_like broadcast_to reciprocal dot run_state estimate_cost""",
    "weft.pallas.api.params": "CostEstimate CompilerParams",
    "weft.refs.indexing": "ds Slice",
    "weft.pallas.api.pipeline": "emit_pipeline",
    "weft.refs.api": "load store swap addupdate Ref",
    "weft.pallas.op": "pallas_call_p",
    "weft.pallas.ir": "UnsupportedKernelError KernelCall BlockMapping",
    "weft.pallas.interpret": """InterpretParams KernelError DataRaceError DeadlockError
        OutOfBoundsError SemaphoreError UninitializedReadError""",
}
_NAMES = {name: home for home, names in _HOMES.items() for name in names.split()}
_NAMES |= {"dslice": "weft.refs.indexing"}
_SPACES = ("ANY", "HBM", "SHARED", "LOCAL", "REGISTERS", "HOST")


def __getattr__(name: str) -> _Any:
    if name in _SPACES:
        value = getattr(_importlib.import_module("weft.pallas.api.memory").MemorySpace, name)
    elif name in _NAMES:
        module = _importlib.import_module(_NAMES[name])
        value = _public(getattr(module, "ds" if name == "dslice" else name), "weft.pallas")
    else:
        module_name = f"weft.pallas.{name}"
        try:
            return _importlib.import_module(module_name)
        except ModuleNotFoundError as e:
            if e.name != module_name:
                raise
            raise _missing(__name__, name) from None
    globals()[name] = value
    return value


__all__ = sorted([*_NAMES, *_SPACES])  # noqa: PLE0605


def __dir__() -> list[str]:
    return __all__
