"""Types of weft, written by `make stubs` from the definitions."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Concatenate, Generic, Literal, Never, ParamSpec, Protocol, TypeVar, overload

from typing_extensions import TypeVar as TypeVarWithDefault

from weft import ad as ad
from weft import ad_checkpoint as ad_checkpoint
from weft import checkify as checkify
from weft import checkpoints as checkpoints
from weft import collectives as collectives
from weft import communication as communication
from weft import custom_batching as custom_batching
from weft import custom_derivatives as custom_derivatives
from weft import custom_partitioning as custom_partitioning
from weft import debug as debug
from weft import distributed as distributed
from weft import dlpack as dlpack
from weft import dtypes as dtypes
from weft import errors as errors
from weft import example_libraries as example_libraries
from weft import export as export
from weft import ffi as ffi
from weft import flatten_util as flatten_util
from weft import image as image
from weft import jet as jet
from weft import lax as lax
from weft import layout as layout
from weft import memory as memory
from weft import mesh_utils as mesh_utils
from weft import monitoring as monitoring
from weft import multihost_utils as multihost_utils
from weft import nn as nn
from weft import numpy as numpy
from weft import ode as ode
from weft import ops as ops
from weft import pallas as pallas
from weft import partition as partition
from weft import profiler as profiler
from weft import random as random
from weft import ref as ref
from weft import rnn as rnn
from weft import scipy as scipy
from weft import shard_alike as shard_alike
from weft import sharding as sharding
from weft import sparse as sparse
from weft import stages as stages
from weft import test_util as test_util
from weft import testing as testing
from weft import topologies as topologies
from weft import tree as tree
from weft import tree_util as tree_util
from weft import typing as typing
from weft.api import checkpoint_policies as checkpoint_policies
from weft.communication import CommReport
from weft.communication import HardwareModel as HardwareModel
from weft.core.config import config as config
from weft.core.dtypes import float0 as float0
from weft.core.jaxpr import ClosedJaxpr
from weft.driver.ahead_of_time import Lowered, Traced
from weft.driver.context import array_garbage_collection_guard as array_garbage_collection_guard
from weft.driver.context import check_tracer_leaks as check_tracer_leaks
from weft.driver.context import checking_leaks as checking_leaks
from weft.driver.context import debug_infs as debug_infs
from weft.driver.context import debug_key_reuse as debug_key_reuse
from weft.driver.context import debug_nans as debug_nans
from weft.driver.context import default_device as default_device
from weft.driver.context import default_matmul_precision as default_matmul_precision
from weft.driver.context import default_prng_impl as default_prng_impl
from weft.driver.context import enable_checks as enable_checks
from weft.driver.context import enable_custom_prng as enable_custom_prng
from weft.driver.context import enable_x64 as enable_x64
from weft.driver.context import explain_cache_misses as explain_cache_misses
from weft.driver.context import legacy_prng_key as legacy_prng_key
from weft.driver.context import log_compiles as log_compiles
from weft.driver.context import no_execution as no_execution
from weft.driver.context import no_tracing as no_tracing
from weft.driver.context import numpy_dtype_promotion as numpy_dtype_promotion
from weft.driver.context import numpy_rank_promotion as numpy_rank_promotion
from weft.driver.context import thread_guard as thread_guard
from weft.driver.context import threefry_partitionable as threefry_partitionable
from weft.driver.context import transfer_guard_device_to_device as transfer_guard_device_to_device
from weft.driver.context import transfer_guard_device_to_host as transfer_guard_device_to_host
from weft.driver.context import transfer_guard_host_to_device as transfer_guard_host_to_device
from weft.driver.context import varying_promotion as varying_promotion
from weft.driver.jit_info import UNSPECIFIED as UNSPECIFIED
from weft.driver.staging import ShapeDtypeStruct as ShapeDtypeStruct
from weft.refs.api import Ref as Ref
from weft.runtime.array import Shard as Shard
from weft.runtime.compile import CompilerEffortLevel as CompilerEffortLevel
from weft.sharding.mesh import AbstractMesh
from weft.sharding.mesh import AxisType as AxisType
from weft.sharding.mesh import Mesh as Mesh
from weft.sharding.mesh import set_mesh as set_mesh
from weft.sharding.mesh import use_mesh as use_mesh
from weft.sharding.named import NamedSharding as NamedSharding
from weft.sharding.spec import P as P
from weft.typing import Array as Array
from weft.typing import ArrayLike, DTypeLike

__version__: str
__version_info__: tuple[int, int, int]

_P = ParamSpec("_P")
_T = TypeVar("_T")
_R = TypeVar("_R")
_R_co = TypeVar("_R_co", covariant=True)
_F = TypeVar("_F", bound=Callable[..., Any])
_First = TypeVarWithDefault("_First", bound=Any, default=Any)
_Second = TypeVarWithDefault("_Second", bound=Any, default=Any)

class Device:
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def addressable_memories(self, *args: Any, **kwargs: Any) -> Any: ...
    client: Any
    def default_memory(self, *args: Any, **kwargs: Any) -> Any: ...
    device_kind: Any
    def get_stream_for_external_ready_events(self, *args: Any, **kwargs: Any) -> Any: ...
    host_id: Any
    id: Any
    def live_buffers(self, *args: Any, **kwargs: Any) -> Any: ...
    local_hardware_id: Any
    def memory(self, *args: Any, **kwargs: Any) -> Any: ...
    def memory_stats(self, *args: Any, **kwargs: Any) -> Any: ...
    platform: Any
    def poison_execution(self, *args: Any, **kwargs: Any) -> Any: ...
    process_index: Any
    task_id: Any

def as_jax() -> None:
    """Make `import jax` find weft, in this process and in those that it starts."""

def block_until_ready(x: _T) -> _T:
    """Wait for the arrays of a pytree to be computed."""

@overload
def checkpoint(
    fun: Callable[_P, _R],
    *,
    concrete: bool = False,
    prevent_cse: bool = True,
    policy: Callable[..., Any] | None = None,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
) -> Callable[_P, _R]:
    """Return the function with a derivative that keeps little and computes the rest again."""

@overload
def checkpoint(
    fun: None = None,
    *,
    concrete: bool = False,
    prevent_cse: bool = True,
    policy: Callable[..., Any] | None = None,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]: ...

remat = checkpoint

def clear_caches() -> None:
    """Forget all traces, compiled programs and dispatch entries of this process."""

def closure_convert(
    fun: Callable[..., Any], *example_args: Any
) -> tuple[Callable[..., Any], list[Any]]:
    """Return a function without closed-over tracers, and their values as extra arguments."""

def comm(
    fun: Callable[..., Any],
    *args: Any,
    hardware: Any = ...,
    compile: bool = ...,
    profile: Any = ...,
    **kwargs: Any,
) -> CommReport:
    """Report the communication of `fun(*args, **kwargs)` on its shardings' devices or …"""

@overload
def copy_to_host_async(x: Never) -> Any:
    """Start copying every array of the pytree to the host, and return the pytree."""

@overload
def copy_to_host_async(x: ArrayLike) -> Array:
    """Start copying every array of the pytree to the host, and return the pytree."""

@overload
def copy_to_host_async(x: _T) -> _T:
    """Start copying every array of the pytree to the host, and return the pytree."""

def custom_gradient(fun: Callable[_P, tuple[_R, Any]]) -> Callable[_P, _R]:
    """Decorate a function that returns its output and its own backward function."""

class custom_jvp(Generic[_P, _R_co]):
    """A function with its own derivative."""

    def __init__(
        self,
        fun: Callable[_P, _R_co],
        nondiff_argnums: int | Sequence[int] = (),
        nondiff_argnames: str | Sequence[str] = (),
    ) -> None: ...
    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R_co: ...
    def defjvp(self, jvp: _F, symbolic_zeros: bool = False) -> _F:
        """Set the derivative (primals, tangents) -> (result, tangent); use as a decorator."""
    def defjvps(self, *jvps: Callable[..., Any] | None) -> None:
        """Set the derivative by each argument (tangent, result, *arguments); None is zero."""

class custom_vjp(Generic[_P, _R_co]):
    """A function with its own forward and backward pass."""

    def __init__(
        self,
        fun: Callable[_P, _R_co],
        nondiff_argnums: int | Sequence[int] = (),
        nondiff_argnames: str | Sequence[str] = (),
    ) -> None: ...
    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R_co: ...
    def defvjp(
        self,
        fwd: Callable[..., tuple[Any, Any]],
        bwd: Callable[..., Any],
        symbolic_zeros: bool = False,
        optimize_remat: bool = False,
    ) -> None:
        """Set the forward function (result, residuals) and the backward one."""

def default_backend() -> str:
    """Return the name of the default platform: 'cpu' or 'gpu'."""

def device_count(backend: str | None = ...) -> int:
    """Return the number of devices over all processes."""

def device_get(x: Any) -> Any:
    """Return the pytree with every array as a NumPy array. Transfers run side by side."""

def device_put(
    x: _T, device: Any = None, *, src: Any = None, donate: Any = False, may_alias: Any = None
) -> _T:
    """Place the arrays of a pytree on devices."""

def devices(backend: str | None = ...) -> list[Device]:
    """Return all devices of a platform (of the default one), over all processes, by id."""

def disable_jit(disable: bool = ...) -> AbstractContextManager[None]:
    """Run jitted functions op by op inside the `with` block, on this thread."""

def ds(start: ArrayLike, size: int | None = ..., stride: int | None = ...) -> Any:
    """Return a window of a dimension of a ref or an array: a static size, a start …"""

def effects_barrier() -> None:
    """Wait until the side effects of all programs started so far (prints, callbacks) are …"""

def empty_ref(ty: Any, memory_space: Any = ...) -> Ref:
    """Return a ref to an array that need not have any particular value yet."""

def ensure_compile_time_eval() -> Any:
    """Inside, ops on concrete values run at once even while tracing."""

@overload
def eval_shape(fun: Callable[..., Array], *args: Any, **kwargs: Any) -> ShapeDtypeStruct:
    """Return the result's tree with `ShapeDtypeStruct` leaves; nothing is computed."""

@overload
def eval_shape(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return the result's tree with `ShapeDtypeStruct` leaves; nothing is computed."""

def free_ref(ref: Any) -> None:
    """Give up a ref: any later use of it is an error, and its memory is free."""

def freeze(ref: Any) -> Array:
    """Return the value of a ref, which cannot be used from then on."""

def fwd_and_bwd(
    fun: Callable[..., Any], argnums: int | Sequence[int], has_aux: bool = ..., jitted: bool = ...
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return the forward and the backward pass of `fun` as two functions, each compiled …"""

def get_abstract_mesh() -> AbstractMesh:
    """Return the abstract mesh in context; one without axes (``.empty``) when there is …"""

def get_mesh() -> Mesh | None:
    """Return the concrete mesh in context, or None."""

@overload
def grad(
    fun: Callable[Concatenate[_First, _P], Any],
    argnums: Literal[0] = 0,
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
) -> Callable[Concatenate[_First, _P], _First]:
    """Return the gradient of a scalar-valued function, by reverse mode."""

@overload
def grad(
    fun: Callable[Concatenate[_First, _P], tuple[Any, _R]],
    argnums: Literal[0] = 0,
    *,
    has_aux: Literal[True],
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
) -> Callable[Concatenate[_First, _P], tuple[_First, _R]]:
    """Return the gradient of a scalar-valued function, by reverse mode."""

@overload
def grad(
    fun: Callable[Concatenate[_First, _Second, _P], Any],
    argnums: Literal[1],
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
) -> Callable[Concatenate[_First, _Second, _P], _Second]:
    """Return the gradient of a scalar-valued function, by reverse mode."""

@overload
def grad(
    fun: Callable[Concatenate[_First, _Second, _P], tuple[Any, _R]],
    argnums: Literal[1],
    *,
    has_aux: Literal[True],
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
) -> Callable[Concatenate[_First, _Second, _P], tuple[_Second, _R]]:
    """Return the gradient of a scalar-valued function, by reverse mode."""

@overload
def grad(
    fun: Callable[Concatenate[_First, _P], Any],
    argnums: tuple[Literal[0]],
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
) -> Callable[Concatenate[_First, _P], tuple[_First]]:
    """Return the gradient of a scalar-valued function, by reverse mode."""

@overload
def grad(
    fun: Callable[Concatenate[_First, _P], tuple[Any, _R]],
    argnums: tuple[Literal[0]],
    *,
    has_aux: Literal[True],
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
) -> Callable[Concatenate[_First, _P], tuple[tuple[_First], _R]]:
    """Return the gradient of a scalar-valued function, by reverse mode."""

@overload
def grad(
    fun: Callable[Concatenate[_First, _Second, _P], Any],
    argnums: tuple[Literal[0], Literal[1]],
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
) -> Callable[Concatenate[_First, _Second, _P], tuple[_First, _Second]]:
    """Return the gradient of a scalar-valued function, by reverse mode."""

@overload
def grad(
    fun: Callable[Concatenate[_First, _Second, _P], tuple[Any, _R]],
    argnums: tuple[Literal[0], Literal[1]],
    *,
    has_aux: Literal[True],
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
) -> Callable[Concatenate[_First, _Second, _P], tuple[tuple[_First, _Second], _R]]:
    """Return the gradient of a scalar-valued function, by reverse mode."""

@overload
def grad(
    fun: Callable[_P, Any],
    argnums: int | Sequence[int] = 0,
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
) -> Callable[_P, Any]:
    """Return the gradient of a scalar-valued function, by reverse mode."""

@overload
def grad(
    fun: Callable[_P, tuple[Any, _R]],
    argnums: int | Sequence[int] = 0,
    *,
    has_aux: Literal[True],
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
) -> Callable[_P, tuple[Any, _R]]:
    """Return the gradient of a scalar-valued function, by reverse mode."""

def hessian(
    fun: Callable[_P, Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[_P, Any]:
    """Return the Hessian: forward mode over reverse mode."""

def io_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: Any = ...,
    ordered: bool = ...,
    **kwargs: Any,
) -> Any:
    """Call a Python function with side effects when the program runs, exactly once."""

def jacfwd(
    fun: Callable[_P, Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[_P, Any]:
    """Return the Jacobian by forward mode: one pass per input element, batched."""

def jacrev(
    fun: Callable[_P, Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[_P, Any]:
    """Return the Jacobian by reverse mode: one pass per output element, batched."""

jacobian = jacrev

class Jitted(Protocol[_P, _R_co]):
    """A function compiled by `jit`: called as the original, and lowered ahead of time."""

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R_co: ...
    def lower(self, *args: _P.args, **kwargs: _P.kwargs) -> Lowered: ...
    def trace(self, *args: _P.args, **kwargs: _P.kwargs) -> Traced: ...
    def eval_shape(self, *args: _P.args, **kwargs: _P.kwargs) -> Any: ...
    def clear_cache(self) -> None: ...

_ShardingTree = Any

@overload
def jit(
    fun: Callable[_P, _R],
    *,
    in_shardings: _ShardingTree = ...,
    out_shardings: _ShardingTree = ...,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Sequence[str] | None = None,
    keep_unused: bool = False,
    device: Any = None,
    backend: str | None = None,
    inline: bool = False,
    compiler_options: dict[str, Any] | None = None,
    partitioner: Literal["auto", "weft", "xla"] | None = None,
) -> Jitted[_P, _R]:
    """Compile a function with XLA, once for each signature of its arguments."""

@overload
def jit(
    fun: None = None,
    *,
    in_shardings: _ShardingTree = ...,
    out_shardings: _ShardingTree = ...,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Sequence[str] | None = None,
    keep_unused: bool = False,
    device: Any = None,
    backend: str | None = None,
    inline: bool = False,
    compiler_options: dict[str, Any] | None = None,
    partitioner: Literal["auto", "weft", "xla"] | None = None,
) -> Callable[[Callable[_P, _R]], Jitted[_P, _R]]:
    """Compile a function with XLA, once for each signature of its arguments."""

_A = TypeVar("_A")

@overload
def jvp(
    fun: Callable[..., _R],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    has_aux: Literal[False] = False,
) -> tuple[_R, _R]:
    """Return the value of a function and its derivative along tangents of the arguments."""

@overload
def jvp(
    fun: Callable[..., tuple[_R, _A]],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    has_aux: Literal[True],
) -> tuple[_R, _R, _A]: ...
def linear_transpose(
    fun: Callable[..., Any], *primals: Any, reduce_axes: Sequence[Any] = ...
) -> Callable[..., Any]:
    """Return the transpose of a linear function, for inputs of the types of `primals`."""

@overload
def linearize(
    fun: Callable[..., _R], *primals: Any, has_aux: Literal[False] = False
) -> tuple[_R, Callable[..., _R]]:
    """Return the value of a function and its linear part, a function of tangents."""

@overload
def linearize(
    fun: Callable[..., tuple[_R, _A]], *primals: Any, has_aux: Literal[True]
) -> tuple[_R, Callable[..., _R], _A]:
    """Return the value of a function and its linear part, a function of tangents."""

def live_arrays(platform: str | None = ...) -> list[Array]:
    """Return all arrays of a platform (the default one) that exist and are not deleted."""

def local_device_count(backend: str | None = ...) -> int:
    """Return the number of devices of this process."""

def local_devices(
    process_index: int | None = ..., backend: str | None = ..., host_id: int | None = ...
) -> list[Device]:
    """List the devices of a process, by default of this one."""

def make_array_from_callback(
    shape: Sequence[int],
    sharding: Any,
    data_callback: Callable[[tuple[Any, ...]], Any],
    dtype: DTypeLike | None = ...,
) -> Array:
    """Make an array by a function of its parts, called once for each distinct local part."""

def make_array_from_process_local_data(
    sharding: Any, local_data: Any, global_shape: Any = ...
) -> Array:
    """Return an array of which every process gives the data that belongs to its devices."""

def make_array_from_single_device_arrays(
    shape: Sequence[int], sharding: Any, arrays: Sequence[Any], *, dtype: DTypeLike | None = ...
) -> Array:
    """Return an array from its parts, one single-device array for each device of this …"""

@overload
def make_jaxpr(
    fun: Callable[_P, Any],
    static_argnums: int | Sequence[int] = (),
    axis_env: Sequence[tuple[Any, int]] | None = None,
    return_shape: Literal[False] = False,
) -> Callable[_P, ClosedJaxpr]:
    """Return a function that gives the typed equations of another."""

@overload
def make_jaxpr(
    fun: Callable[_P, Any],
    static_argnums: int | Sequence[int] = (),
    axis_env: Sequence[tuple[Any, int]] | None = None,
    *,
    return_shape: Literal[True],
) -> Callable[_P, tuple[ClosedJaxpr, Any]]:
    """Return a function that gives the typed equations of another."""

def make_mesh(
    axis_shapes: Sequence[int],
    axis_names: Sequence[Any] | str,
    axis_types: Any = ...,
    *,
    devices: Sequence[Any] | None = ...,
) -> Mesh:
    """Return a mesh of the given shape over the first devices."""

def make_user_context(default_value: Any = ...) -> Any:
    """Make a value that jitted functions may depend on: they are traced anew when it …"""

def named_call(fun: Callable[_P, _R], *, name: str | None = None) -> Callable[_P, _R]:
    """Return the function with its ops under its name in programs and profiles."""

def named_scope(name: str) -> AbstractContextManager[None]:
    """Name the operations traced inside, in jaxprs' sources and in compiled programs."""

def new_ref(init_val: Any, *, memory_space: Any = ..., kind: Any = ...) -> Ref:
    """Return a mutable array that starts with the value of init_val."""

def pmap(
    fun: Callable[_P, _R],
    axis_name: Any = None,
    *,
    in_axes: Any = 0,
    out_axes: Any = 0,
    static_broadcasted_argnums: int | Iterable[int] = (),
    devices: Sequence[Any] | None = None,
    backend: str | None = None,
    axis_size: int | None = None,
    donate_argnums: int | Iterable[int] = (),
) -> Callable[_P, _R]:
    """Return a function on every device, given a leading axis as long as there are devices."""

def powers_of_two(size: int) -> int:
    """Return the least power of two that is at least `size`, as `weft.jit(bucket=)` …"""

def process_count(backend: str | None = ...) -> int:
    """Return the number of processes."""

def process_index(backend: str | None = ...) -> int:
    """Return the number of this process, counted from 0."""

def process_indices(backend: str | None = ...) -> list[int]:
    """Return the numbers of all processes."""

def pure_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: Any = ...,
    vmap_method: str | None = ...,
    **kwargs: Any,
) -> Any:
    """Call a Python function without side effects when the program runs."""

@overload
def reshard(xs: Never, out_shardings: Any) -> Any:
    """Place arrays by other shardings; in a program, give values that sharding in their …"""

@overload
def reshard(xs: ArrayLike, out_shardings: Any) -> Array:
    """Place arrays by other shardings; in a program, give values that sharding in their …"""

@overload
def reshard(xs: _T, out_shardings: Any) -> _T:
    """Place arrays by other shardings; in a program, give values that sharding in their …"""

@overload
def shard_map(
    f: Callable[_P, _R],
    /,
    *,
    out_specs: Any,
    in_specs: Any = ...,
    mesh: Mesh | AbstractMesh | None = None,
    axis_names: Any = ...,
    check_vma: bool = True,
) -> Callable[_P, _R]:
    """Run a function on every device, on its shards of the arguments."""

@overload
def shard_map(
    f: None = None,
    /,
    *,
    out_specs: Any,
    in_specs: Any = ...,
    mesh: Mesh | AbstractMesh | None = None,
    axis_names: Any = ...,
    check_vma: bool = True,
) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Run a function on every device, on its shards of the arguments."""

@overload
def smap(
    f: Callable[_P, _R], /, *, axis_name: Any, out_axes: Any, in_axes: Any = ...
) -> Callable[_P, _R]:
    """shard_map over one axis of the mesh in context, told which dimension is split."""

@overload
def smap(
    f: None = None, /, *, axis_name: Any, out_axes: Any, in_axes: Any = ...
) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """shard_map over one axis of the mesh in context, told which dimension is split."""

def transfer_guard(new_val: str) -> Iterator[None]:
    """Say what happens at transfers between host and devices inside the `with` block."""

def typeof(x: ArrayLike) -> Any:
    """Return the type of a value: its shape, dtype, weak type, sharding and manual-axis …"""

@overload
def value_and_grad(
    fun: Callable[Concatenate[_First, _P], _R],
    argnums: Literal[0] = 0,
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
) -> Callable[Concatenate[_First, _P], tuple[_R, _First]]:
    """Return a function returning both the scalar value of `fun` and its gradient."""

@overload
def value_and_grad(
    fun: Callable[Concatenate[_First, _P], tuple[Any, _R]],
    argnums: Literal[0] = 0,
    *,
    has_aux: Literal[True],
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
) -> Callable[Concatenate[_First, _P], tuple[tuple[Any, _R], _First]]:
    """Return a function returning both the scalar value of `fun` and its gradient."""

@overload
def value_and_grad(
    fun: Callable[Concatenate[_First, _Second, _P], _R],
    argnums: Literal[1],
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
) -> Callable[Concatenate[_First, _Second, _P], tuple[_R, _Second]]:
    """Return a function returning both the scalar value of `fun` and its gradient."""

@overload
def value_and_grad(
    fun: Callable[Concatenate[_First, _Second, _P], tuple[Any, _R]],
    argnums: Literal[1],
    *,
    has_aux: Literal[True],
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
) -> Callable[Concatenate[_First, _Second, _P], tuple[tuple[Any, _R], _Second]]:
    """Return a function returning both the scalar value of `fun` and its gradient."""

@overload
def value_and_grad(
    fun: Callable[Concatenate[_First, _P], _R],
    argnums: tuple[Literal[0]],
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
) -> Callable[Concatenate[_First, _P], tuple[_R, tuple[_First]]]:
    """Return a function returning both the scalar value of `fun` and its gradient."""

@overload
def value_and_grad(
    fun: Callable[Concatenate[_First, _P], tuple[Any, _R]],
    argnums: tuple[Literal[0]],
    *,
    has_aux: Literal[True],
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
) -> Callable[Concatenate[_First, _P], tuple[tuple[Any, _R], tuple[_First]]]:
    """Return a function returning both the scalar value of `fun` and its gradient."""

@overload
def value_and_grad(
    fun: Callable[Concatenate[_First, _Second, _P], _R],
    argnums: tuple[Literal[0], Literal[1]],
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
) -> Callable[Concatenate[_First, _Second, _P], tuple[_R, tuple[_First, _Second]]]:
    """Return a function returning both the scalar value of `fun` and its gradient."""

@overload
def value_and_grad(
    fun: Callable[Concatenate[_First, _Second, _P], tuple[Any, _R]],
    argnums: tuple[Literal[0], Literal[1]],
    *,
    has_aux: Literal[True],
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
) -> Callable[Concatenate[_First, _Second, _P], tuple[tuple[Any, _R], tuple[_First, _Second]]]:
    """Return a function returning both the scalar value of `fun` and its gradient."""

@overload
def value_and_grad(
    fun: Callable[_P, _R],
    argnums: int | Sequence[int] = 0,
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
) -> Callable[_P, tuple[_R, Any]]:
    """Return a function returning both the scalar value of `fun` and its gradient."""

@overload
def value_and_grad(
    fun: Callable[_P, tuple[Any, _R]],
    argnums: int | Sequence[int] = 0,
    *,
    has_aux: Literal[True],
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
) -> Callable[_P, tuple[tuple[Any, _R], Any]]:
    """Return a function returning both the scalar value of `fun` and its gradient."""

@overload
def vjp(
    fun: Callable[[_First], _R],
    primal: _First,
    /,
    *,
    has_aux: Literal[False] = False,
    reduce_axes: Sequence[Any] = (),
    saveable_args: bool | tuple[Any, ...] = True,
) -> tuple[_R, Callable[[_R], tuple[_First]]]:
    """Return a function's value, and a function from its cotangents to those of the arguments."""

@overload
def vjp(
    fun: Callable[[_First, _Second], _R],
    primal: _First,
    second: _Second,
    /,
    *,
    has_aux: Literal[False] = False,
    reduce_axes: Sequence[Any] = (),
    saveable_args: bool | tuple[Any, ...] = True,
) -> tuple[_R, Callable[[_R], tuple[_First, _Second]]]:
    """Return a function's value, and a function from its cotangents to those of the arguments."""

@overload
def vjp(
    fun: Callable[..., _R],
    *primals: Any,
    has_aux: Literal[False] = False,
    reduce_axes: Sequence[Any] = (),
    saveable_args: bool | tuple[Any, ...] = True,
) -> tuple[_R, Callable[[_R], tuple[Any, ...]]]:
    """Return a function's value, and a function from its cotangents to those of the arguments."""

@overload
def vjp(
    fun: Callable[..., tuple[_R, _A]],
    *primals: Any,
    has_aux: Literal[True],
    reduce_axes: Sequence[Any] = (),
    saveable_args: bool | tuple[Any, ...] = True,
) -> tuple[_R, Callable[[_R], tuple[Any, ...]], _A]:
    """Return a function's value, and a function from its cotangents to those of the arguments."""

def vmap(
    fun: Callable[_P, _R],
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_name: Any = None,
    axis_size: int | None = None,
    spmd_axis_name: Any = None,
    sum_match: bool = False,
) -> Callable[_P, _R]:
    """Map a function over an axis of its arguments."""
