"""Kernels: functions over mutable references, run over a grid or on cores of several meshes.

`pallas_call` runs one function for each point of a grid, `mpmd_map` several functions at once,
each on the cores of its mesh. See docs/kernels.md.

    api/                        what users write: calls, blocks, meshes, memory, synchronization
    ir, op                      a kernel call as data, and as an op under every transformation
    lower                       chooses who runs it: a backend, or the interpreter
    constants, split, order     what a kernel closes over; its call on shards; what may run at once
    legalize, pairs, narrow_integers, formulas/
                                a kernel in the ops that its backend has
    combiners, uses, spin_loops what backends ask of a jaxpr
    cpu/, gpu/, interpret/      LLVM IR; Triton IR; NumPy, with checks of every access
"""

from weft.core.namespace import load_on_use

__getattr__, _NAMES = load_on_use(
    globals(),
    {
        "api.call": "pallas_call",
        "api.mpmd": "mpmd_map kernel core_map",
        "api.specs": """BlockSpec GridSpec PrefetchScalarGridSpec Blocked Element Squeezed
            squeezed Buffered BlockDim RevisitMode no_block_spec""",
        "api.checks": "enable_debug_checks enable_poison_buffers",
        "api.mesh": "Mesh create_core_mesh",
        "api.memory": """ANY HBM SHARED LOCAL REGISTERS HOST MemorySpace MemoryRef ScratchShape
            CoreMemorySpace SemaphoreType""",
        "api.primitives": """program_id num_programs multiple_of debug_print debug_check
            delay run_scoped with_scoped""",
        "api.sync": """semaphore_signal semaphore_wait semaphore_read core_barrier
            async_copy make_async_copy AsyncCopy atomic_add atomic_max atomic_min atomic_and
            atomic_or atomic_xor atomic_xchg atomic_cas DeviceIdType""",
        "api.helpers": """when loop cdiv align_to next_power_of_2 strides_from_shape
            empty empty_like empty_ref_like broadcast_to reciprocal dot run_state estimate_cost""",
        "api.params": "CostEstimate CompilerParams",
        "weft.refs.indexing": "ds dslice Slice",
        "api.pipeline": "emit_pipeline",
        "weft.refs.api": "load store swap addupdate Ref",
        "op": "pallas_call_p",
        "ir": "UnsupportedKernelError KernelCall BlockMapping",
        "interpret": """InterpretParams KernelError DataRaceError DeadlockError
            OutOfBoundsError SemaphoreError UninitializedReadError""",
    },
    aliases={"dslice": "ds"},
)
