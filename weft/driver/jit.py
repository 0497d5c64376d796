"""jit: traces a function once for each signature and runs it compiled.

A call goes through jaxlib's compiled dispatch; only a new signature, or a call among tracers,
reaches Python, in jit_info.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from weft._xla.dispatch import PjitFunction as PjitFunctionType
from weft.core.boundary import api_boundary
from weft.core.provided import bucketed
from weft.driver.jit_info import UNSPECIFIED, JitInfo, _Unspecified
from weft.driver.logged_jit import GuardedJit, LoggedJit
from weft.driver.staging import check_callable
from weft.driver.static_arguments import named_arguments
from weft.runtime.backend import devices, distributed_state
from weft.runtime.dispatch import cached_call
from weft.sharding.physical import SingleDeviceSharding

if TYPE_CHECKING:
    from weft.runtime.backend import Device


def _on_device(device: Device, backend: str | None, in_shardings: _Unspecified) -> Any:
    """Turn jit's arguments `device` and `backend` into in_shardings."""
    if in_shardings is not UNSPECIFIED:
        raise ValueError("jit: give either device/backend or in_shardings, not both")
    return SingleDeviceSharding(device if device is not None else devices(backend)[0])


def jit(
    fun: Callable | None = None,
    *,
    in_shardings: Any = UNSPECIFIED,
    out_shardings: object = UNSPECIFIED,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Sequence[str] | None = None,
    keep_unused: bool = False,
    device: object = None,
    backend: str | None = None,
    inline: bool = False,
    compiler_options: dict[str, Any] | None = None,
    partitioner: str | None = None,
    bucket: dict[str, Any] | None = None,
    bucket_shapes: object = None,
) -> Any:
    """Compile a function with XLA, once for each signature of its arguments.

    in_shardings, out_shardings: pytree prefixes of the positional arguments and of the result,
    with Shardings, `weft.layout.Format`s, or `P`s of the mesh in context, or None where placement
    is free.
    static_argnums, static_argnames: arguments that are hashable Python values; a new value
    traces anew. donate_argnums, donate_argnames: arguments whose buffers the results may take.
    device, backend: where it runs; arguments committed to other devices are moved there.
    keep_unused: pass arguments the function does not read. inline: inside another jit, no
    function boundary. compiler_options: XLA flags by name, of the outermost jit. partitioner:
    'auto', 'weft' or 'xla' instead of `weft.config.partitioner`.
    bucket: {'n': weft.powers_of_two}, or {'n': (128, 512)}: arguments are padded to these sizes,
    masked where it matters, and results are cut, so that one program serves many sizes.
    bucket_shapes: which dimensions 'n' are, a pytree prefix of the positional arguments or a dict
    by argument name with strings like 'n, _' or 'n, ...'; without it, the parameters' annotations
    `Annotated[Array, 'n, _']`, or jaxtyping's. Raises BucketError where padding cannot be exact.

    The jitted function has `.trace(*args)`, `.lower(*args)` and `.eval_shape(*args)`.

    >>> import weft
    >>> weft.jit(lambda x: x + 1)(2)
    Array(3, dtype=int32, weak_type=True)
    """
    if fun is None:
        options = {name: value for name, value in locals().items() if name != "fun"}
        return functools.partial(jit, **options)
    check_callable(fun, "jit")
    if partitioner not in (None, "auto", "weft", "xla"):
        raise ValueError(f"jit: partitioner must be 'auto', 'weft' or 'xla', got {partitioner!r}")
    if device is not None or backend is not None:
        in_shardings = _on_device(device, backend, in_shardings)
    numbers, names = named_arguments(fun, static_argnums, static_argnames, "static")
    donate_numbers, donate_names = named_arguments(fun, donate_argnums, donate_argnames, "donate")
    # A static argument has no buffer to give up.
    both = set(numbers) & set(donate_numbers)
    if both:
        raise ValueError(f"jit: arguments {sorted(both)} are both static and donated")
    if bucket_shapes is not None and bucket is None:
        raise ValueError("jit: bucket_shapes names dimensions of bucket, which is not given")
    if bucket is not None and (device is not None or backend is not None):
        raise ValueError("jit: bucket cannot be combined with device or backend")
    info = JitInfo(
        fun=fun,
        in_shardings=None if in_shardings is UNSPECIFIED else in_shardings,
        out_shardings=None if out_shardings is UNSPECIFIED else out_shardings,
        static_argnums=numbers,
        static_argnames=names,
        donate_argnums=donate_numbers,
        donate_argnames=donate_names,
        keep_unused=keep_unused,
        inline=inline,
        options=compiler_options,
        partitioner=partitioner,
        device_sharding=in_shardings if device is not None or backend is not None else None,
    )
    compiled = cached_call(
        fun,
        info.answer,
        static_argnums=numbers,
        static_argnames=names,
        cache_key=info.dispatch_key,
        name=info.name,
    )
    compiled._jit_info = info
    # Without static or donated arguments, or other processes, C++ answers known calls by itself.
    in_group = distributed_state["client"] is not None
    function: Any = compiled
    if numbers or names or donate_numbers or donate_names or in_group:
        explain = info.explain_unhashable if numbers or names else None
        guard = LoggedJit if in_group else GuardedJit
        function = guard(compiled, info.name, donate_numbers, donate_names, explain)
        info.logged = function if in_group else None
        functools.update_wrapper(function, fun)
        function._jit_info = info
    return function if bucket is None else bucketed(function, info, bucket, bucket_shapes)


def unguarded(function: Any) -> Any:
    """Return the compiled dispatch of a jitted function that donates nothing.

    Its callers tell by themselves of static arguments that are not hashable.
    """
    return function._call if type(function) is GuardedJit else function


def _trace(function: Any, *args: object, **kwargs: object) -> Any:
    """Trace the function for these arguments (arrays or `ShapeDtypeStruct`s), to be lowered."""
    from weft.driver.ahead_of_time import Traced

    info: JitInfo = function._jit_info
    entry, leaves = info.traced(args, kwargs, specs=True)
    return Traced(info, entry, leaves)


def _lower(function: Callable | GuardedJit, *args: object, **kwargs: object) -> Any:
    """Return the function lowered to StableHLO for these arguments."""
    return _trace(function, *args, **kwargs).lower()


def _eval_shape(function: Callable | GuardedJit, *args: object, **kwargs: object) -> Any:
    """Return the result's tree of `ShapeDtypeStruct`s."""
    return _trace(function, *args, **kwargs).out_info


def _clear_cache(function: Any) -> None:
    """Forget the function's traces and programs: its next call traces and compiles anew."""
    function._jit_info.entries.clear()
    function._clear_cache()


for _name, _method in (("trace", _trace), ("lower", _lower), ("eval_shape", _eval_shape)):
    _method.__qualname__ = f"<jit>.{_name}"  # no public function: errors are those of the call
    for _class in (PjitFunctionType, GuardedJit):  # LoggedJit has them of the latter
        setattr(_class, _name, api_boundary(_method))
for _class in (PjitFunctionType, GuardedJit):
    setattr(_class, "clear_cache", _clear_cache)  # noqa: B010 - neither is known to have it
