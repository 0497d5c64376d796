# Tests: tests/pallas/api/test_call.py
"""Ops of kernels that are not about refs: program ids, hints, printing, scoped scratch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.api.callback import check_format
from weft.api.callback import debug_print as outside
from weft.autodiff.jvp import has_tangent, jvp_jaxpr
from weft.autodiff.vmap import batch_jaxpr, move_dim
from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.effects import DEBUG, WRITES
from weft.core.jaxpr import ClosedJaxpr
from weft.core.kernel_frame import current_frame, inside_kernel
from weft.core.masks import unpick
from weft.core.primitive import Primitive
from weft.core.trace import Tracer, closed_call_jaxpr, typeof
from weft.core.tree import flatten
from weft.ops.as_array import as_array
from weft.ops.elementwise_api import convert
from weft.pallas.api.memory import ScratchShape, SemaphoreType, as_scratch
from weft.refs.api import Ref, new_ref

if TYPE_CHECKING:
    from weft.runtime.array import Array
    from weft.typing import ArrayLike

_INT32 = ShapedArray((), dtypes.int32)


def as_int32(misfit: str, x: ArrayLike) -> Any:
    """Return an integer scalar as int32; misfit: the error of another type, but for its name."""
    if isinstance(x, int) and not isinstance(x, bool):
        return np.int32(x)
    aval = typeof(x)
    if aval.shape or not dtypes.is_integer(aval.dtype):
        raise TypeError(f"{misfit} {aval.str_short()}")
    return convert(x, dtypes.int32)


# Programs --------------------------------------------------------------------------------------

program_id_p = Primitive("program_id", abstract=lambda *, axis: _INT32, own_types=True)


def _grid_axis(api: str, axis: int) -> tuple[int, Any]:
    """Return (the axis, its extent) in the grid of the kernel being traced."""
    frame = current_frame(api)
    if frame.mesh is not None and frame.ids is None:
        raise ValueError(
            f"{api}: the programs of an mpmd_map have no grid; use weft.lax.axis_index of an axis "
            f"of the mesh, one of {list(frame.mesh.shape)}"
        )
    if isinstance(axis, Tracer) or not hasattr(axis, "__index__"):
        raise TypeError(f"{api}: axis must be a Python int, got {axis!r:.80}")
    axis = axis.__index__()
    if not 0 <= axis < len(frame.grid):
        raise ValueError(
            f"{api}: axis {axis} is out of bounds for the grid {frame.grid} of {frame.label}"
        )
    frame.asked.add(axis)
    extent = frame.extents.get(axis)
    return axis, frame.grid[axis] if extent is None else extent[...]


def program_id(axis: int) -> Any:
    """Return the index of this program along an axis of the grid, an int32 scalar.

    Raises RuntimeError outside of a kernel, ValueError if the grid has no such axis.

    >>> import weft
    >>> pl = weft.pallas
    >>> def kernel(out):
    ...     out[pl.program_id(0)] = pl.program_id(0) * 10
    >>> out = weft.ShapeDtypeStruct((3,), "int32")
    >>> pl.pallas_call(kernel, out, grid=3, interpret=True)()
    Array([ 0, 10, 20], dtype=int32)
    """
    axis, _ = _grid_axis("program_id", axis)
    ids = current_frame("program_id").ids
    return program_id_p.bind(axis=axis) if ids is None else as_array(ids[axis])


def num_programs(axis: int) -> Any:
    """Return the grid's extent along an axis: a Python int, or an int32 scalar if traced.

    >>> import weft
    >>> pl = weft.pallas
    >>> def kernel(out):
    ...     out[pl.program_id(0)] = pl.num_programs(0)
    >>> out = weft.ShapeDtypeStruct((3,), "int32")
    >>> pl.pallas_call(kernel, out, grid=3, interpret=True)()
    Array([3, 3, 3], dtype=int32)
    """
    return _grid_axis("num_programs", axis)[1]


# Hints and printing ----------------------------------------------------------------------------

multiple_of_p = Primitive(
    "multiple_of",
    abstract=lambda x, *, values: x,
    jvp=lambda primals, tangents, *, values: (multiple_of_p.bind(*primals, values=values), None),
    batch=lambda axis, args, dims, *, values: (multiple_of_p.bind(*args, values=values), dims[0]),
    lower=lambda ctx, x, *, values: x,
    sharding="elementwise",  # type: ignore[arg-type]
)


def multiple_of(x: ArrayLike, values: Sequence[int] | int) -> Any:
    """x, with the promise that it is a multiple of values, which some backends use.

    >>> import weft
    >>> weft.pallas.multiple_of(16, 8)
    Array(16, dtype=int32, weak_type=True)
    """
    values = (values,) if isinstance(values, int) else tuple(int(v) for v in values)
    return multiple_of_p.bind(x, values=values)


_DEBUG = frozenset((DEBUG,))


def _debugging(name: str) -> Primitive:
    """Return an op without results that only tells of a program, or checks it."""
    prim = Primitive(
        name,
        abstract=lambda *avals, **params: [],
        effects=lambda avals, params: _DEBUG,
        jvp=lambda primals, tangents, **params: (prim.bind(*primals, **params), []),
        multiple_results=True,
        own_types=True,
    )
    return prim


debug_print_p = _debugging("debug_print")
debug_check_p = _debugging("debug_check")
delay_p = _debugging("delay")


def debug_print(fmt: str, *args: Any) -> None:
    """Print `fmt.format(*args)` when the program runs, as weft.debug.print outside of kernels.

    Raises TypeError or ValueError if fmt is no string or does not match the arguments.

    >>> import weft
    >>> pl = weft.pallas
    >>> def kernel(x, out):
    ...     pl.debug_print("x is {}", x[0])
    ...     out[...] = x[...]
    >>> out = weft.ShapeDtypeStruct((1,), "float32")
    >>> y = pl.pallas_call(kernel, out, interpret=True)(weft.numpy.ones(1))
    x is 1.0
    """
    if not inside_kernel():
        return outside(fmt, *args)
    check_format("debug_print", fmt, len(args), {}, skip=False)
    debug_print_p.bind(*(as_array(a) for a in args), fmt=fmt)
    return None


def debug_check(condition: ArrayLike, message: str) -> None:
    """Raise if condition is False where the kernel is interpreted, or native in debug mode
    (pallas_call(..., debug=True), or under `enable_debug_checks`).

    >>> import weft
    >>> pl = weft.pallas
    >>> def kernel(x, out):
    ...     pl.debug_check(x[0] > 0, "x must be positive")
    ...     out[...] = x[...]
    >>> out = weft.ShapeDtypeStruct((1,), "float32")
    >>> pl.pallas_call(kernel, out, interpret=True)(weft.numpy.zeros(1))
    Traceback (most recent call last):
        ...
    weft.pallas.KernelError: kernel kernel: ...failed: x must be positive
    [docs/errors.md#kernelerror]
    """
    current_frame("debug_check")
    debug_check_p.bind(condition, message=str(message))


def delay(nanos: int | Any) -> None:
    """Let the program wait for about so many nanoseconds, to provoke other interleavings.

    Raises RuntimeError outside of a kernel.

    >>> import weft
    >>> pl = weft.pallas
    >>> def kernel(out):
    ...     pl.delay(100)
    ...     out[...] = 1.0
    >>> pl.pallas_call(kernel, weft.ShapeDtypeStruct((), "float32"), interpret=True)()
    Array(1., dtype=float32)
    """
    current_frame("delay")
    delay_p.bind(nanos)


# Scoped scratch --------------------------------------------------------------------------------


def _scoped_jvp(primals: Any, tangents: Any, *, jaxpr: ClosedJaxpr, num_consts: int) -> tuple:
    refs = jaxpr.in_avals[num_consts:]
    nonzero = [t is not None for t in tangents] + [_floats(a) for a in refs]
    pushed, out_nonzero = jvp_jaxpr(jaxpr, nonzero)
    n, k = len(jaxpr.in_avals), sum(nonzero[:num_consts])
    # (consts, refs, t_consts, t_refs) -> (consts, t_consts, refs, t_refs)
    j = pushed.jaxpr
    order = [
        *range(num_consts),
        *range(n, n + k),
        *range(num_consts, n),
        *range(n + k, len(j.invars)),
    ]
    pushed = pushed.memo(
        ("scoped", num_consts),
        lambda: ClosedJaxpr(j.replace(invars=[j.invars[i] for i in order]), pushed.consts),
    )
    nonzero_tangents = [t for t in tangents if t is not None]
    outs = run_scoped_p.bind(*primals, *nonzero_tangents, jaxpr=pushed, num_consts=num_consts + k)
    m = len(jaxpr.out_avals)
    return outs[:m], unpick(outs[m:], out_nonzero)


def _floats(aval: Any) -> bool:
    """Return whether a scratch ref has a tangent: it holds floats, no semaphores."""
    return has_tangent(aval.inner) and not aval.holds_semaphores


def _scoped_batch(axis: Any, args: Any, dims: Any, *, jaxpr: ClosedJaxpr, num_consts: int) -> tuple:
    moved = [x if d is None else move_dim(x, d, 0, axis) for x, d in zip(args, dims, strict=True)]
    fresh = len(jaxpr.in_avals) - num_consts
    inner, out = batch_jaxpr(jaxpr, axis, [*(d is not None for d in dims), *(True,) * fresh])
    outs = run_scoped_p.bind(*moved, jaxpr=inner, num_consts=num_consts)
    return outs, [0 if b else None for b in out]


run_scoped_p = Primitive(
    "run_scoped",
    abstract=lambda *avals, jaxpr, num_consts: list(jaxpr.out_avals),
    effects=lambda avals, params: params["jaxpr"].effects | {WRITES},
    jvp=_scoped_jvp,
    batch=_scoped_batch,
    multiple_results=True,
    own_types=True,
    higher_order=True,
)


def scratch_types(label: str, tree: Sequence) -> tuple[list[ScratchShape], Any]:
    """Return the scratch types in a tree of them, and its structure."""
    leaves, structure = flatten(tree, lambda x: isinstance(x, ScratchShape | SemaphoreType))
    return [as_scratch(f"{label}[{i}]", x) for i, x in enumerate(leaves)], structure


def run_scoped(
    f: Callable, *types: object, collective_axes: object = (), **kw_types: object
) -> Any:
    """Call f with fresh scratch refs, which live until it returns.

    types, kw_types: pytrees of scratch types, as scratch_shapes; f gets refs in their place. The
    scratch is uninitialized, semaphores are 0. Returns what f returns: arrays, no refs.
    collective_axes: () only; each core has scratch of its own.

    >>> import weft
    >>> pl = weft.pallas
    >>> def kernel(x, out):
    ...     def body(tmp):
    ...         tmp[...] = x[...] * 2
    ...         out[...] = tmp[...] + 1
    ...     pl.run_scoped(body, pl.LOCAL((3,), "float32"))
    >>> pl.pallas_call(kernel, weft.ShapeDtypeStruct((3,), "float32"), interpret=True)(
    ...     weft.numpy.arange(3.0))
    Array([1., 3., 5.], dtype=float32)
    """
    if collective_axes != ():
        raise ValueError(
            f"run_scoped: collective_axes={collective_axes!r} is not supported: each core has "
            "scratch of its own. For scratch that cores share, give the kernel "
            "scratch_shapes=[type @ weft.pallas.SHARED]"
        )
    shapes, structure = scratch_types("run_scoped: scratch type ", (types, kw_types))
    if not inside_kernel():
        refs = [new_ref(np.zeros(s.shape, s.dtype), memory_space=s.memory_space) for s in shapes]
        args, kwargs = structure.unflatten(refs)
        return f(*args, **kwargs)
    trees: list[Any] = []

    def flat(*handles: Array) -> list:
        args, kwargs = structure.unflatten([Ref(h) for h in handles])
        outs, tree = flatten(f(*args, **kwargs))
        trees.append(tree)
        return outs

    avals = [s.get_ref_aval() for s in shapes]
    name = getattr(f, "__name__", "run_scoped")
    jaxpr, consts = closed_call_jaxpr(flat, avals, name)
    for aval in jaxpr.out_avals:
        if not isinstance(aval, ShapedArray):
            raise TypeError(f"run_scoped: {name} returns a {aval.str_short()}; return arrays only")
    outs = run_scoped_p.bind(*consts, jaxpr=jaxpr, num_consts=len(consts))
    return trees[-1].unflatten(outs)


def with_scoped(*types: object, collective_axes: object = (), **kw_types: object) -> Callable:
    """Return a decorator: the function is called with fresh scratch refs after its own arguments.

    >>> import weft
    >>> pl = weft.pallas
    >>> def kernel(x, out):
    ...     @pl.with_scoped(pl.LOCAL((), "float32"))
    ...     def double(source, tmp):
    ...         tmp[...] = source[...] * 2
    ...         out[...] = tmp[...]
    ...     double(x)
    >>> out = weft.ShapeDtypeStruct((), "float32")
    >>> pl.pallas_call(kernel, out, interpret=True)(weft.numpy.float32(3))
    Array(6., dtype=float32)
    """

    def decorator(f: Callable) -> Callable:
        def inner(*args: Ref) -> Any:
            return run_scoped(
                lambda *refs, **kw: f(*args, *refs, **kw),
                *types,
                collective_axes=collective_axes,
                **kw_types,
            )

        return inner

    return decorator
