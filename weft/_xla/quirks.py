"""Faults and limits of jaxlib, XLA and Shardy that weft works around, one entry each.

A comment or docstring at the workaround names the entry: `quirks.BOOL_ADD`. An entry goes, with its
workaround, when the fault does: tests/xla/test_quirks.py runs a program for each entry that shows
whether it is still there. Entries without such a program say why in `unprobed`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Quirk:
    """A fault: the part that has it, its symptom, the version of jaxlib it was seen on."""

    part: str
    symptom: str
    seen: str = "0.10.2"
    unprobed: str = ""


_MANY = "needs several processes: tests/runtime/test_distributed.py runs them"
_RACE = "depends on which thread is faster"
_GPU = "needs the GPU plugin: `make test-accelerators` compiles such programs"
_BINDINGS = "MLIR bindings"

# -- bindings and arrays ---------------------------------------------------------------------------

JAX_CORE_LOOKUP = Quirk(
    "jaxlib", "searches the path for `jax.core` when an array is first copied to the host"
)
JAX_SHARDINGS_LOOKUP = Quirk(
    "jaxlib", "imports `jax._src.sharding_impls` for each array made with jaxlib's own sharding"
)
NAMED_SHARDING = Quirk("jaxlib", "`_jax.NamedSharding` imports a module of the jax package")
WEAK_FUNCTIONS = Quirk(
    "jaxlib",
    "cached dispatch ends the process over a function that takes no weak references",
    unprobed="not in every process; tests/api/test_linear_maps.py calls such a function",
)
SECTIONS_APART = Quirk(
    "LLVM",
    "RuntimeDyld ends the process where sections of a program come to lie 2 GiB apart",
    unprobed="tests/pallas/test_cpu_engine.py links programs in such a process",
)
BFLOAT_COMPARED = Quirk(
    "LLVM",
    "ends the process over some comparisons of bfloats for processors of x86 without AVX512-BF16",
    unprobed="tests/pallas/test_scalar_formulas.py has such kernels, which need such a processor",
)
LATE_REGISTRATION = Quirk(
    "jaxlib", "the registration of a process outlasts its timeout by 5 s", unprobed=_MANY
)
COMPLEX_ELEMENTS = Quirk(_BINDINGS, "no class for elements attributes of complex numbers")
AXIS_REF_LISTS = Quirk(_BINDINGS, "no class for sdy's lists of axis references")
SIZE_OVERFLOW = Quirk("XLA", "ends the process where the bytes of a type overflow 64 bits")
MHLO_DIALECT = Quirk(
    "XLA:CPU",
    "loads the MHLO dialect into a shared context as it compiles, which ends the process where "
    "two threads compile first",
    seen="0.10 to 0.12",
    unprobed=_RACE,
)
MALFORMED_MODULES = Quirk(
    "XLA",
    "ends the process on modules without @main or with a body-less or recursive function, dynamic "
    "shapes in the signature or another count of partitions than there are devices",
)
BATCH_CALL_LAYOUTS = Quirk(
    "XLA", "ends the process on a batch-partitionable custom call without layouts"
)
SPLIT_COUNT = Quirk(
    "XLA:CPU",
    "xla_cpu_parallel_codegen_split_count outside of 1 … 65536 ends or hangs the process",
)
PARTS_ELSEWHERE = Quirk(
    "jaxlib",
    "compiled dispatch runs on the parts of an array wherever they are, which ends the process",
    unprobed="needs dispatch data that weft never hands over",
)
PARTS_WITHOUT_AVAL = Quirk("jaxlib", "the parts of an array have no aval")
DLPACK_COPY = Quirk("jaxlib", "from_dlpack(copy=True) copies only memory that is not aligned")
HELD_PARTS = Quirk(
    "PJRT",
    "a donation leaves parts that NumPy or DLPack looks at alive, and takes the others",
    unprobed="tests/driver/test_donation_guard.py donates such arrays",
)
LOST_PARTS = Quirk("PJRT", "ends the process over an array of which one part's buffer is gone")
READ_WHILE_RELEASED = Quirk(
    "PJRT",
    "ends the process where NumPy asks for the memory of an array that another thread releases",
    unprobed=_RACE,
)
DONATED_TWICE = Quirk(
    "PJRT",
    "notices a buffer donated twice when the program has started, which over several CPU devices "
    "ends the process",
)
DONATED_MEANWHILE = Quirk(
    "PJRT", "as DONATED_TWICE, where two threads donate one array", unprobed=_RACE
)
DONOR_MEMORY = Quirk(
    "XLA",
    "uses a donated buffer in one memory for a result in another, and ends the process",
    unprobed="tests/runtime/test_memories.py donates such arrays",
)
DONATE_INPUT = Quirk(
    "PJRT",
    "ends the process at a use of an array after a copy with DONATE_INPUT",
    unprobed="tests/runtime/test_device_put.py donates such arrays",
)
EXPORTED_LAST = Quirk(
    "PJRT", "ends the process if the last array of a buffer that DLPack exported is deleted"
)
COPIED_LAYOUT = Quirk(
    "PJRT",
    "a copy to other devices has its layout in name only",
    unprobed="tests/test_layout.py copies such arrays",
)
COPY_OF_ONE_PART = Quirk(
    "PJRT",
    "copies an array of one local part to the first device of its sharding",
    unprobed=_MANY,
)
COPY_BETWEEN_PROCESSES = Quirk(
    "PJRT", "CPU devices of different processes do not send each other buffers", unprobed=_MANY
)
SOME_DEVICES_PUT = Quirk(
    "PJRT",
    "'bad_function_call' at a zero-copy put of one piece of memory on some of the devices",
    unprobed="tests/runtime/test_callback_context.py puts such arrays",
)

# -- runs on the CPU -------------------------------------------------------------------------------

SHARED_POOL = Quirk(
    "XLA:CPU",
    "all virtual devices share one pool of threads, which starts and collectives can exhaust",
    unprobed="a hang; tests/runtime/test_cpu_run_limit.py starts that many programs",
)
JOINT_RUNS_QUEUE = Quirk(
    "XLA:CPU",
    "programs over several devices run one after the other, also one that a callback starts",
    unprobed="a hang; tests/runtime/test_cpu_run_limit.py starts such a program",
)
FAILED_PART = Quirk(
    "XLA:CPU",
    "where a call fails on one device the others wait in the next collective, for 40 s, after "
    "which the process ends",
    unprobed="takes 40 s; tests/runtime/test_cpu_joint_failure.py holds the workaround",
)
CALLBACK_POOL = Quirk(
    "XLA:CPU",
    "copies large host arrays on the pool whose threads callbacks may all hold",
    unprobed="a hang; tests/api/test_callback.py makes such arrays",
)
REPORTED_CALLBACKS = Quirk(
    "XLA:CPU",
    "a failed call in the background raises XlaRuntimeError, the same at once a ValueError",
    unprobed="depends on which of the two XLA chooses",
)
BARE_FFI_ERROR = Quirk(
    "XLA",
    "an ffi::Error names neither the target nor the call",
    unprobed="tests/ffi/test_native_errors.py holds the workaround",
)
ANY_FUNCTION_A_HANDLER = Quirk(
    "XLA",
    "calls a function of another signature as if it were a typed FFI handler",
    unprobed="needs a compiler; tests/ffi/test_native_errors.py registers such a function",
)
PEERS_END = Quirk(
    "jaxlib",
    "ends every process whose connection to the coordination service breaks, and all when one dies",
    unprobed=_MANY,
)
REGISTRATION_TIMEOUT = Quirk(
    "jaxlib",
    "ends every process where not all register with the service in time; with a callback for "
    "missed heartbeats, which it cannot call, it raises std::bad_cast",
    unprobed=_MANY,
)

# -- operations ------------------------------------------------------------------------------------

BOOL_ADD = Quirk("XLA", "folds an add of booleans among constants to the exclusive or")
ZERO_DIVISOR = Quirk(
    _BINDINGS, "MLIR's folding divides known integers by zero, which ends the process"
)
NESTED_SLICES = Quirk(
    "XLA", "joins nested dynamic_slices by adding up their starts without clamping them"
)
DOT_ALGORITHM = Quirk(
    "XLA:CPU",
    "refuses an algorithm on small products",
    unprobed="which sizes are small changes: tests/ops/test_dot.py has products of several",
)
NARROW_DOT = Quirk("XLA:CPU", "compiles no product of 2- or 4-bit operands with a wider result")
TILED_LOOPS = Quirk(
    "XLA:CPU",
    "writes elementwise loops of its tiled emitter through the stack, which takes three times the "
    "time: abs(x), x + y, conversions, one_hot; its transposes are five times as fast as others, "
    "its exp, tanh and sqrt of float64 nearly twice",
    unprobed="shows in times alone",
)
KERNEL_MODULES = Quirk(
    "XLA:CPU",
    "writes each fusion's kernel through MLIR passes into an LLVM module of its own, 20 ms each, "
    "though of equal ones once; the emitter before them needs half of that, but what writes over "
    "its operand, as activations and loops do, is not vectorized there, and conversions to float4 "
    "round twice, subnormals are NaN in float8 without negative zeros, complex are not compared",
    unprobed="shows in times alone",
)
SPLAT_PRODUCT = Quirk(
    "XLA:CPU",
    "a library fusion that multiplies by a spread scalar reads past it: garbage",
    seen="0.10 to 0.12",
)
SHARED_QUOTIENTS = Quirk(
    "XLA:CPU",
    "fuses no quotient of two arrays with what reads it, if several operations do; nor a root",
    unprobed="tests/native/test_formulas.py counts the loops of formulas with quotients",
)
CONSTANT_SUMS = Quirk("XLA", "takes (x + c) - c for x, also of floats")
MULHI = Quirk("XLA:CPU", "refuses chlo.mulhi in fusions")
COMPLEX_SPECIALS = Quirk(
    "XLA",
    "complex functions lose signs of zeros, and give NaN where one part of an operand is infinite "
    "and the other is NaN or infinite",
    unprobed="tests/numpy/test_array_api_values.py holds the repairs, function by function",
)
COMPLEX_TRIG = Quirk(
    "XLA", "sine and cosine of complex numbers: NaN at infinities, sin(1e-30j) is 0"
)
COMPLEX_LOGS = Quirk(
    "XLA:CPU",
    "its logarithm of complex128 numbers of modulus 0.77 has 46 bits, its powers square the modulus"
    ", its inverse root of -1 + 1e-12j has a real part of 1e-8",
    unprobed="tests/ops/test_complex_logs.py compares what is used instead",
)
COMPLEX_EXTREMA = Quirk(
    "XLA:CPU", "compares the real parts only in maximum and minimum of complex numbers"
)
LOST_NANS = Quirk(
    "XLA:CPU",
    "reductions of 4096 float32 or float64 and more, and what is fused with them, lose NaNs in "
    "maximum and minimum: the library's instructions give the second operand then",
)
FEW_ROWS = Quirk(
    "XLA:CPU",
    "gives sums and extrema over a few long rows to a library that takes ten times as long",
    unprobed="a matter of time: benchmarks/ has the case",
)
DEPTHWISE = Quirk(
    "XLA:CPU",
    "runs convolutions with a feature group of one as a loop of its own, slowly",
    unprobed="a matter of time: benchmarks/ has the case",
)
INLINED_KEYS = Quirk(
    "XLA:CPU",
    "computes a scalar of a hundred operations anew in every loop that reads it, and compiles it",
    unprobed="a matter of time: tests/random/test_keys.py counts the operations",
)
MIXED_PADDING = Quirk(
    "XLA:CPU",
    "reads other memory in convolutions that are cut on one side and padded on the other",
    unprobed="it may hold zeros; tests/native/test_convolution.py has the programs",
)
FFT_LAYOUT = Quirk(
    "XLA:CPU",
    "lays out operands of FFTs for their neighbours, and refuses them as it runs",
    unprobed="tests/partition/corpus has the programs",
)
ALL_TO_ALL_LAYOUT = Quirk(
    "XLA:CPU",
    "parts of an all_to_all's operand get different layouts, which its own verifier rejects",
    unprobed="tests/partition/corpus has the programs",
)
SCATTER_PADDING = Quirk(
    "XLA",
    "select_and_scatter selects among zeros in padding where it pads itself",
    unprobed="tests/partition/corpus has the programs",
)
CODEGEN_TILES = Quirk(
    "XLA:GPU",
    "takes tiles that do not fit some products where no GPU is there to try them on",
    unprobed=_GPU,
)
COMBINER_WITHOUT_OP = Quirk(
    "XLA:GPU", "ends the process at a Triton combiner without an op", seen="0.11.2", unprobed=_GPU
)
ASYNC_START_ON_GPU = Quirk("XLA:GPU", "its plugin takes no async_start", unprobed=_GPU)
LOOPED_ALL_REDUCE = Quirk(
    "XLA:GPU",
    "WhileLoopAllReduceCodeMotion ends the process at an all_reduce of several operands in a loop",
    unprobed=_GPU,
)

# -- collectives -----------------------------------------------------------------------------------

MATMUL_ALLOCATION = Quirk(
    "XLA:CPU",
    "reports an internal error without a reason where a fused matrix product gets no memory",
    unprobed="tests/runtime/test_allocation_failure.py runs one with little memory",
)
ALL_REDUCE_NANS = Quirk("XLA:CPU", "all_reduce of a maximum or minimum drops NaNs")
ALL_REDUCE_LOGIC = Quirk("XLA:CPU", "all_reduce takes and, or of booleans only")
NARROW_COLLECTIVES = Quirk(
    "XLA:CPU",
    "writes past the end of a collective's result of 2- or 4-bit integers, or refuses it",
    unprobed="shows by chance; tests/collectives/test_small_integers.py sends such values",
)
PERMUTE_WAITS = Quirk(
    "XLA:CPU",
    "a collective_permute waits for all devices, not only for those of its pairs",
    unprobed="a hang; tests/collectives/test_permute.py holds the workaround",
)
ASYNC_ALL_TO_ALL = Quirk(
    "XLA",
    "asynchronous computations hold an all_to_all along dimension 0 only",
    unprobed="tests/collectives/test_async.py has the programs",
)
ASYNC_EMPTY = Quirk("XLA", "takes no asynchronous start of a value without elements")
RAGGED_CHANNEL = Quirk(
    "XLA", "ends the process on a ragged_all_to_all without a channel as it converts it to HLO"
)
PARTITION_ID = Quirk(
    "XLA", "its partitioner, run once more on the program of a device, rejects partition_id"
)

# -- XLA's partitioner (GSPMD) ---------------------------------------------------------------------

GSPMD_MANUAL_SOURCES = Quirk(
    "GSPMD",
    'ends the process on unmarked sources in manual regions ("sharding.IsManualSubgroup()")',
    unprobed="tests/lowering/test_manual.py holds the workaround",
)
GSPMD_COLLECTIVES = Quirk(
    "GSPMD",
    "refuses collectives in regions that leave axes to it, or ends the process",
    unprobed="tests/collectives/test_errors.py holds the error raised instead",
)
GSPMD_LOOP_SUMS = Quirk(
    "GSPMD",
    "takes what a loop carries for whole, and loses parts of partial sums in gathers, loops and "
    "complex numbers",
    unprobed="tests/collectives/test_partial_sums.py holds the workaround",
)
GSPMD_WINDOWS = Quirk(
    "GSPMD",
    "a convolution whose window or grouped batch is split is added up over all devices, also those "
    "with equal parts, and loses the ends of strided windows; the gradient of a maximum of "
    "overlapping windows loses what they share with other devices",
)
GSPMD_NEGATIVE_PADDING = Quirk(
    "GSPMD", "ends the process on pads of split dimensions, dilated, that take elements away"
)
GSPMD_SPLIT_FFT = Quirk(
    "GSPMD",
    "ends the process on transforms along a dimension of fewer elements than the square of its "
    "parts",
    unprobed="tests/driver/test_xla_partitioned.py holds the workaround",
)
GSPMD_MANUAL_SCATTERS = Quirk(
    "GSPMD",
    "ends the process on sums of scattered updates that are split over some of the axes that a "
    "manual region leaves to it (ExpandDeviceGroupsWithIota)",
    unprobed="tests/driver/test_xla_partitioned.py holds the workaround",
)
GSPMD_WAITS = Quirk(
    "GSPMD",
    "adds permutations, which wait for all devices, to branches that devices take differently",
    unprobed="a hang; tests/driver/test_use_partitioner.py holds the error raised instead",
)
GSPMD_CALLS = Quirk(
    "GSPMD",
    "makes host calls on every device, refuses those with effects, and cannot place a call with "
    "neither operands nor results",
    unprobed="tests/ffi/test_sharding.py holds the workaround",
)
GSPMD_BATCH_CALLS = Quirk(
    "GSPMD",
    "splits custom calls along leading batch dimensions only, gathers those without another "
    "dimension, and drops the aliases of those it splits",
    unprobed="tests/ffi/test_sharding.py holds the workaround",
)

# -- Shardy ----------------------------------------------------------------------------------------

SHARDY_CHLO = Quirk("Shardy", "has no rules for CHLO operations")
SHARDY_RESHAPES = Quirk("Shardy", "ends the process on reshapes whose dimensions do not nest")
SHARDY_PRIMES = Quirk(
    "Shardy",
    "on meshes with axes of different primes, ends the process on reshapes of three or more "
    "dimensions at once",
)
SHARDY_GROUPS = Quirk("Shardy", "ends the process on sharding groups that share a value")
SHARDY_EQUAL_CONSTANTS = Quirk(
    "Shardy",
    "makes equal constants one, and ends the process on their two sharding groups",
    unprobed="tests/partition/test_propagate.py has the programs",
)
SHARDY_UNREDUCED = Quirk("Shardy", "takes an unreduced constraint for a change of a whole value")
SHARDY_FORGETS = Quirk(
    "Shardy",
    "forgets shardings that split nothing, and then refuses to make such a value a partial sum",
)
SHARDY_FUTURES = Quirk("Shardy", "sees nothing in a future: an async_start's operand is gathered")
SHARDY_MIXED_RESHARD = Quirk(
    "Shardy", "ends the process on a reshard that both begins and ends partial sums"
)
SHARDY_MESHES = Quirk(
    "Shardy",
    "ends the process where shardings of different meshes meet",
    unprobed="no small program does it",
)
SHARDY_ORIGINS = Quirk(
    "Shardy",
    "sometimes ends the process as it records where shardings come from",
    unprobed="no small program does it",
)
SHARDY_LOOP_SUMS = Quirk(
    "Shardy",
    "refuses some partial sums in loops",
    unprobed="tests/partition/corpus has the programs",
)
SHARDY_EXPORT = Quirk(
    "Shardy",
    "its export pipeline refuses ops that add up partial sums unasked, and writes the mesh into "
    "every sharding",
    seen="0.11",
    unprobed="on other versions; CI runs the corpus on them",
)
