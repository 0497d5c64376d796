"""Calls from compiled programs back into Python: pure_callback, io_callback, debug.callback."""

from __future__ import annotations

import functools
import string
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft._xla.callback import API_VERSION, checked, target_name
from weft.api.host_function import HostFunction
from weft.autodiff.shape import expand_dims
from weft.autodiff.vmap import VMAP_METHODS, AxisData, move_dim
from weft.collectives.groups import needs_shardy
from weft.core import dtypes
from weft.core.aval import Mat, ShapedArray
from weft.core.boundary import api_boundary
from weft.core.effects import DEBUG, IO, ORDERED_DEBUG, ORDERED_IO, Effect
from weft.core.jaxpr import NO_EFFECTS
from weft.core.masks import pick, unpick
from weft.core.primitive import Primitive
from weft.core.source import capture, warn
from weft.core.state import state
from weft.core.trace import EVAL, Tracer, is_array_like, typeof
from weft.core.tree import flatten, leaf_names
from weft.driver.staging import aval_of_spec
from weft.lowering.call_device import device_of, mark
from weft.lowering.manual import manual_attr
from weft.lowering.sharding import physical_rank
from weft.ops.control.scan import scan_rows
from weft.ops.joining import concatenate
from weft.ops.slicing import index_in_dim
from weft.runtime.array import ArrayImpl
from weft.runtime.cpu_joint_failure import blank_arrays, calls_of, failing_together
from weft.runtime.device_put import device_put
from weft.runtime.executable import effects_barrier as effects_barrier
from weft.runtime.host_calls import as_raised, finish_before_exit, reporting, variants
from weft.sharding.spec import PartitionSpec

if TYPE_CHECKING:
    from weft._xla.mlir import ir
    from weft.lowering.context import RuleContext
    from weft.runtime.backend import Device
    from weft.sharding.physical import SingleDeviceSharding
    from weft.typing import ArrayLike


# The op ----------------------------------------------------------------------------------------

_FALLS_SILENT = (DEBUG, ORDERED_DEBUG)


def _abstract(*avals: ShapedArray, out_avals: tuple, **params: object) -> list:
    """Mark the results of a callback as varying along the axes of its operands."""
    varying: frozenset = frozenset().union(*(a.mat.varying for a in avals))
    return [a.update(mat=Mat(varying)) for a in out_avals] if varying else list(out_avals)


def _gathered(x: ArrayLike) -> Any:
    """Return an operand of an eager call: on one device, as in a program."""
    return np.asarray(x) if isinstance(x, ArrayImpl) and x.sharding.num_devices > 1 else x


def _impl(*args: ArrayLike, callback: HostFunction, out_avals: tuple, **params: object) -> list:
    function = checked(callback, out_avals) if out_avals else callback
    try:
        outs = function(*map(_gathered, args))
    except Exception as e:
        seen = e if params["effect"] in _FALLS_SILENT else as_raised(e)
        seen.add_note(f"raised in {callback.label} of {callback.__name__} at {capture()}")
        raise seen.with_traceback(e.__traceback__) from e.__cause__
    return [device_put(o) for o in outs] if out_avals else []


def _jvp(primals: list, tangents: list, *, effect: Effect | None, **params: Any) -> tuple:
    if effect in _FALLS_SILENT:
        return _bind(*primals, effect=effect, **params), []
    name = params["callback"].__name__
    label = "pure_callback" if effect is None else "io_callback"
    raise ValueError(
        f"{label} of {name} is not differentiable: what a Python function does has no known "
        "derivative; give one with weft.custom_jvp or weft.custom_vjp around the call"
    )


def _transpose(cts: object, *args: object, **params: object) -> list:
    return [None] * len(args)


def _batch(axis: AxisData, args: list, dims: list, **params: Any) -> tuple:
    effect, method = params["effect"], params["vmap_method"]
    outs = params["out_avals"]
    if effect is ORDERED_IO:
        raise ValueError(
            "io_callback with ordered=True cannot be mapped by vmap: the order of the examples' "
            "effects is undefined; use ordered=False, or weft.lax.map"
        )
    if effect is None and method is None:
        raise NotImplementedError(
            f"pure_callback of {params['callback'].__name__} is mapped by vmap without a "
            f"vmap_method; give one of {', '.join(map(repr, VMAP_METHODS))}"
        )
    if effect is None and method in ("expand_dims", "broadcast_all", "legacy_vectorized"):
        moved = []
        for x, d in zip(args, dims, strict=True):
            if d is None and method == "expand_dims":
                moved.append(expand_dims(x, (0,)))
            elif d is None and method == "legacy_vectorized":
                moved.append(x)
            else:
                moved.append(move_dim(x, d, 0, axis))
        shapes = tuple(ShapedArray((axis.size, *a.shape), a.dtype) for a in outs)
        result = _bind(*moved, **{**params, "out_avals": shapes})
        return result, [0] * len(outs)
    # Unrolled, the calls of an eager program run at once and in order.
    if method == "sequential_unrolled" or (state.trace is EVAL and outs == ()):
        return _unrolled(axis, args, dims, params)
    return scan_rows(functools.partial(_bind, **params), axis, args, dims)


def _unrolled(axis: AxisData, args: list, dims: list, params: dict) -> tuple:
    rows = []
    for i in range(axis.size):
        full = [
            x if d is None else index_in_dim(x, i, d, keepdims=False)
            for x, d in zip(args, dims, strict=True)
        ]
        rows.append(_bind(*full, **params))
    outs = [
        concatenate([expand_dims(x, (0,)) for x in column], 0) for column in zip(*rows, strict=True)
    ]
    return outs, [0] * len(outs)


def _lower(
    ctx: RuleContext,
    *operands: ir.Value,
    callback: HostFunction,
    out_avals: tuple,
    effect: Effect | None,
    vmap_method: str | None,
    partitioned: bool,
    device: Device | None = None,
) -> list:
    module = ctx.module
    site = f"{callback.label} of {callback.__name__} at {ctx.eqn.source}"
    function = reporting(checked(callback, out_avals), site)
    finish_before_exit()
    ordered = effect is not None and effect.ordered
    index = len(module.host_callbacks)
    results = [(tuple(a.shape), np.dtype(a.dtype)) for a in out_avals]
    # Over several CPU devices a failed call must not leave the others waiting for its results.
    calls = calls_of(module) if results else None
    alone = function
    if calls is not None:
        alone = failing_together(calls, function, blank_arrays(results))
        if module.manual_axes:  # each shard calls
            calls.on_shards, function = True, alone
    # The module refers to all three by number; the partitioner picks one of them.
    _, guarded, fail = variants(function, results)
    # On several devices, a call without results is not waited for: its error comes late.
    plain = guarded if not results and module.num_partitions > 1 else alone
    if ordered:
        plain, guarded = _passing_token(plain), _passing_token(guarded)
    module.host_callbacks += [plain, guarded, fail]
    types = ctx.out_types()
    values = list(operands)
    avals = [*ctx.avals_in]
    if ordered:
        values.insert(0, ctx.function.tokens[effect])
        types.insert(0, ctx.token_type())
        avals.insert(0, None)
    # jaxlib's target finds the function by its index among the callbacks of the executable.
    attrs = {
        "call_target_name": ctx.string(target_name(module.platforms[0], partitioned=partitioned)),
        "api_version": ctx.i32(API_VERSION),
        "backend_config": ctx.attr(f"{{index = {index} : ui64}}"),
        "has_side_effect": ctx.bool(effect is not None),
        "operand_layouts": _layouts(ctx, avals),
        "result_layouts": _layouts(ctx, ([None] if ordered else []) + list(ctx.avals_out)),
    }
    if device is not None:
        mark(ctx, attrs, device, site)
    if module.manual_axes and not module.use_shardy:
        if effect is not None:
            needs_shardy(ctx, site)
        attrs["mhlo.sharding"] = manual_attr(ctx, types)
    outs = list(ctx.op("stablehlo.custom_call", values, types, attrs))
    if ordered:
        ctx.function.tokens[effect] = outs.pop(0)
    return outs


def _passing_token(function: Callable) -> Callable:
    """Wrap the function for jaxlib so that the token passes through."""
    return lambda token, *args: (token, *function(*args))


def _layouts(ctx: RuleContext, avals: Sequence[Any]) -> Any:
    """Row-major layouts, which NumPy reads and writes."""
    ranks = [0 if a is None else physical_rank(a) for a in avals]
    entries = []
    for r in ranks:
        order = ", ".join(str(i) for i in reversed(range(r)))
        values = f"dense<[{order}]>" if r else "dense<>"
        entries.append(f"{values} : tensor<{r}xindex>")
    return ctx.attr(f"[{', '.join(entries)}]")


def _primitive(name: str) -> Primitive:
    return Primitive(
        name,
        abstract=_abstract,
        effects=lambda avals, params: (
            NO_EFFECTS if params["effect"] is None else frozenset((params["effect"],))
        ),
        impl=_impl,
        jvp=_jvp,
        transpose=_transpose,
        batch=_batch,
        lower=_lower,
        multiple_results=True,
        own_types=True,
        higher_order=True,
    )


pure_callback_p = _primitive("pure_callback")
io_callback_p = _primitive("io_callback")
debug_callback_p = _primitive("debug_callback")
debug_print_p = _primitive("debug_print")
_OPS = {
    "pure_callback": pure_callback_p,
    "io_callback": io_callback_p,
    "debug.callback": debug_callback_p,
    "debug.print": debug_print_p,
}


def _bind(*args: object, **params: Any) -> list:
    """Bind the op by which programs know a call of the kind."""
    return _OPS[params["callback"].label].bind(*args, **params)


# The functions ---------------------------------------------------------------------------------


def _result_avals(api: str, result_shape_dtypes: object) -> tuple[list, Any]:
    leaves, tree = flatten(result_shape_dtypes)
    avals = []
    for i, leaf in enumerate(leaves):
        if not (hasattr(leaf, "shape") and hasattr(leaf, "dtype")) and not is_array_like(leaf):
            name = leaf_names(result_shape_dtypes, "result_shape_dtypes")[i]
            raise TypeError(
                f"{api}: {name} must have a shape and a dtype, such as weft.ShapeDtypeStruct; got "
                f"{leaf!r:.100}"
            )
        dtype = getattr(leaf, "dtype", None)
        if isinstance(dtype, np.dtype) and dtypes.canonicalize_dtype(dtype) != dtype:
            raise ValueError(
                f"{api}: result_shape_dtypes asks for {dtype.name}, which is not available without "
                "64-bit mode; use a 32-bit dtype, or weft.config.update('enable_x64', True)"
            )
        aval = aval_of_spec(leaf)
        avals.append(ShapedArray(aval.shape, aval.dtype))
    return avals, tree


@api_boundary
def pure_callback(
    callback: Callable,
    result_shape_dtypes: object,
    *args: Any,
    sharding: Any = None,
    vmap_method: str | None = None,
    **kwargs: object,
) -> Any:
    """Call a Python function without side effects when the program runs.

    Args:
      callback: takes arrays in the structure of the arguments and returns what
        result_shape_dtypes says. It may be called any number of times, or not at all.
      result_shape_dtypes: a pytree of things with shape and dtype.
      vmap_method: what vmap does. "sequential": one call for each example, in a loop;
        "sequential_unrolled": likewise, unrolled; "expand_dims": one call, arguments that are not
        mapped get a leading axis of size 1; "broadcast_all": one call, they get the full axis;
        "legacy_vectorized": one call, they stay as they are.
      sharding: the device that makes the one call of a program over many devices, as a
        SingleDeviceSharding; the first one without.

    Has no derivative (ValueError): wrap it in custom_jvp or custom_vjp.

    >>> import weft
    >>> import numpy as np
    >>> shape = weft.ShapeDtypeStruct((), "float32")
    >>> weft.jit(lambda x: weft.pure_callback(np.sin, shape, x))(0.0)
    Array(0., dtype=float32)
    """
    if not callable(callback):
        raise TypeError(f"pure_callback: callback must be a function, got {callback!r:.100}")
    if vmap_method is not None and vmap_method not in VMAP_METHODS:
        raise ValueError(
            f"pure_callback: vmap_method must be one of {', '.join(map(repr, VMAP_METHODS))}, got "
            f"{vmap_method!r}"
        )
    return _call(
        "pure_callback", callback, result_shape_dtypes, args, kwargs, None, vmap_method, sharding
    )


@api_boundary
def io_callback(
    callback: Callable,
    result_shape_dtypes: object,
    *args: Any,
    sharding: Any = None,
    ordered: bool = False,
    **kwargs: object,
) -> Any:
    """Call a Python function with side effects when the program runs, exactly once.

    ordered: keep the program's order among such calls. Other arguments as for `pure_callback`. Has
    no derivative.

    >>> import weft
    >>> seen = []
    >>> @weft.jit
    ... def f(x):
    ...     weft.io_callback(lambda v: seen.append(float(v)), None, x, ordered=True)
    ...     return x
    >>> f(2.0).block_until_ready(); weft.effects_barrier(); seen
    Array(2., dtype=float32, weak_type=True)
    [2.0]
    """
    if not callable(callback):
        raise TypeError(f"io_callback: callback must be a function, got {callback!r:.100}")
    effect = ORDERED_IO if ordered else IO
    return _call("io_callback", callback, result_shape_dtypes, args, kwargs, effect, None, sharding)


def _call(
    api: str,
    callback: Callable,
    result_shape_dtypes: object,
    args: tuple,
    kwargs: dict,
    effect: Effect | None,
    vmap_method: str | None,
    sharding: SingleDeviceSharding | None,
) -> Any:
    device = device_of(api, sharding)
    avals, tree = _result_avals(api, result_shape_dtypes)
    leaves, in_tree = flatten((args, kwargs))
    _tell_of_gathers(api, callback, leaves)
    function = HostFunction(api, callback, in_tree, tree)
    outs = _bind(
        *leaves,
        callback=function,
        out_avals=tuple(avals),
        effect=effect,
        vmap_method=vmap_method,
        partitioned=False,
        device=device,
    )
    return tree.unflatten(outs)


def _tell_of_gathers(api: str, callback: Callable, leaves: Sequence[Any]) -> None:
    """Warn of traced operands that a type says are split: the one call gets them whole."""
    for i, x in enumerate(leaves):
        aval = typeof(x)  # raises for what is no array
        if not isinstance(x, Tracer):
            continue
        spec = getattr(getattr(aval, "sharding", None), "spec", None)
        if spec is not None and spec.used_axes():
            whole = PartitionSpec(*(None,) * aval.ndim)
            name = getattr(callback, "__name__", "callback")
            warn(
                f"{api} of {name}: operand {i} of type {aval.str_short()} is split, and is "
                "gathered for the call. Gather it where the program shows it, weft.reshard(x, "
                f"{whole}), or call on each part inside weft.shard_map"
            )


def debug_callback(
    callback: Callable | None = None,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    **kwargs: Any,
) -> Any:
    """Call a Python function when the program runs, for its side effects; its result is dropped.

    Works under every transformation: derivatives pass it by, and vmap calls it for each example.
    ordered: keep the program's order among such calls. partitioned: call it for each shard with
    the shard's part of the arguments. Arguments that are no arrays reach it as they are. Without
    a callback: the function with the options given.

    >>> import weft
    >>> weft.debug.callback(lambda x: print("x is", x), 3)
    x is 3
    """
    if callback is None and not args:
        return functools.partial(debug_callback, ordered=ordered, partitioned=partitioned, **kwargs)
    if not callable(callback):
        raise TypeError(f"debug.callback: callback must be a function, got {callback!r:.100}")
    if ordered and partitioned:
        raise ValueError("debug.callback: ordered and partitioned exclude each other")
    leaves, tree = flatten((args, kwargs))
    traced = [is_array_like(x) for x in leaves]
    arrays = pick(leaves, traced)

    def call(*traced_args: object) -> None:
        inner_args, inner_kwargs = tree.unflatten(unpick(traced_args, traced, leaves_static))
        callback(*inner_args, **inner_kwargs)

    leaves_static = [None if t else x for x, t in zip(leaves, traced, strict=True)]
    call.__name__ = getattr(callback, "__name__", "callback")
    function = HostFunction("debug.callback", call, flatten((tuple(arrays), {}))[1], None)
    if isinstance(callback, _Printer):
        function.label, function.fmt = "debug.print", callback.fmt
    _bind(
        *arrays,
        callback=function,
        out_avals=(),
        effect=ORDERED_DEBUG if ordered else DEBUG,
        vmap_method=None,
        partitioned=bool(partitioned),
        device=None,
    )


def debug_print(
    fmt: str | None = None,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    skip_format_check: bool = False,
    **kwargs: Any,
) -> Any:
    """Print values when the program runs, formatted as by `fmt.format(*args, **kwargs)`.

    Works under every transformation, as `weft.debug.callback`. Raises at once if the arguments do
    not match the placeholders of `fmt`. Without a format: the function with the options given.

    >>> import weft
    >>> weft.jit(lambda x: weft.debug.print("x = {x}", x=x))(2); weft.effects_barrier()
    x = 2
    """
    options: dict[str, Any] = {"ordered": ordered, "partitioned": partitioned}
    if fmt is None:
        return functools.partial(debug_print, skip_format_check=skip_format_check, **options)
    check_format("debug.print", fmt, len(args), kwargs, skip=skip_format_check)
    debug_callback(_Printer(fmt), *args, **options, **kwargs)
    return None


class _Printer:
    """Prints a formatted line."""

    __slots__ = ("fmt",)
    __name__ = "print"

    def __init__(self, fmt: str) -> None:
        self.fmt = fmt

    def __call__(self, *args: object, **kwargs: object) -> None:
        # One write: devices print at the same time.
        print(self.fmt.format(*args, **kwargs) + "\n", end="")


def check_format(api: str, fmt: object, num_args: int, kwargs: dict, *, skip: bool) -> None:
    """Raise unless fmt is a string and, if not skipped, its placeholders match the arguments."""
    if not isinstance(fmt, str):
        raise TypeError(f"{api}: fmt must be a string, got {type(fmt).__name__}")
    if skip:
        return
    used: set = set()
    position = 0

    def visit(text: str) -> None:
        nonlocal position
        for _, field, spec, _ in string.Formatter().parse(text):
            if field is None:
                continue
            root = field.split(".")[0].split("[")[0]
            if not root:
                root, position = str(position), position + 1
            used.add(int(root) if root.isdigit() else root)
            visit(spec or "")

    visit(fmt)
    fields = {*range(num_args), *kwargs}
    missing, unused = used - fields, fields - used
    if missing:
        raise ValueError(
            f"{api}: {fmt!r} has placeholders without an argument: {sorted(map(str, missing))}"
        )
    if unused:
        raise ValueError(
            f"{api}: {fmt!r} has no placeholder for {sorted(map(str, unused))}; do not use an "
            f"f-string, which would format the traced value: {api}('x = {{x}}', x=x)"
        )
