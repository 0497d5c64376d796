"""Compiles MLIR modules to loaded executables, through the persistent cache where one is set."""

from __future__ import annotations

import enum
import itertools
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft._xla import compile as _xla_compile
from weft._xla.client import DeviceList, is_compile_only
from weft.core.config import config
from weft.core.errors import has_page
from weft.core.events import (
    CACHE_ASKED,
    CACHE_HIT,
    CACHE_MISS,
    COMPILED,
    DURATIONS,
    EVENTS,
    SPANS,
    UNMEASURED,
    measured,
    tell,
)
from weft.runtime import backend
from weft.runtime.cpu_run_limit import called_together
from weft.runtime.host_allocator import COMPILED_LONG, return_freed_memory
from weft.runtime.own_threads import OwnThread

if TYPE_CHECKING:
    from weft._xla.mlir import ir


@has_page()
class CompileError(_xla_compile.XlaRuntimeError):
    """XLA rejected a module; the message holds XLA's own and the module's name."""


class LoadedExecutable:
    """A compiled module on its devices.

    ``xla`` is jaxlib's executable, which does not run where the devices are only described;
    ``devices`` are in device-assignment order; ``seconds`` is what compilation took; ``from_cache``
    tells whether the persistent cache gave it.
    """

    __slots__ = ("devices", "from_cache", "keep_alive", "name", "seconds", "xla")

    def __init__(
        self,
        xla: Any,
        devices: tuple,
        name: str,
        seconds: float,
        from_cache: bool,
        keep: list | None,
    ):
        self.xla, self.devices, self.name = xla, devices, name
        self.seconds, self.from_cache, self.keep_alive = seconds, from_cache, keep

    @property
    def runs(self) -> bool:
        """Tell whether programs can run on the devices; those of `weft.topologies` only compile."""
        return isinstance(self.xla, _xla_compile.LoadedExecutable)

    def as_text(self) -> str:
        """Return the optimized HLO of the program that each device runs."""
        return "\n\n".join(m.to_string() for m in self.xla.hlo_modules())

    def cost_analysis(self) -> dict[str, float]:
        """Return XLA's estimates for one device: flops, bytes accessed and so on, by name."""
        if self.runs:
            return self.xla.cost_analysis()
        return _xla_compile.cost_analysis(self.xla.hlo_modules(), backend.client("cpu"))

    def memory_analysis(self) -> Any:
        """Return bytes of arguments, outputs, temporaries and code on each device."""
        return self.xla.get_compiled_memory_stats()

    def output_shardings(self) -> list | None:
        """Return the shardings XLA chose for the results, as OpSharding messages."""
        return self.xla.get_output_shardings()

    def parameter_shardings(self) -> list | None:
        """Return the shardings XLA chose for the parameters, as OpSharding messages."""
        return self.xla.get_parameter_shardings()


def estimate_costs(module: ir.Module) -> dict[str, float]:
    """Return XLA's estimates of flops, bytes accessed and so on, by name, of a module as it is."""
    from weft._xla import mlir

    hlo = mlir.to_hlo(module).get_hlo_module()
    return _xla_compile.cost_analysis([hlo], backend.client("cpu"))


def compile_module(
    module: str | ir.Module,
    devices: tuple | np.ndarray,
    *,
    use_shardy: bool = True,
    num_replicas: int = 1,
    name: str | None = None,
    host_callbacks: Sequence[Any] = (),
    compiler_options: Mapping[str, str | bool | int | float] | None = None,
    propagate_to_outputs: Sequence[bool] = (False,),
    propagate_to_parameters: Sequence[bool] = (False,),
    keep_alive: list | None = None,
    trusted: bool = False,
) -> LoadedExecutable:
    """Compile an MLIR module and load it.

    Args:
      module: an ``ir.Module``, or MLIR text or bytecode.
      devices: the devices in device-assignment order (an array or sequence; its length over
        ``num_replicas`` is the number of partitions).
      use_shardy: the module carries ``sdy`` attributes; otherwise ``mhlo.sharding`` ones.
      host_callbacks: Python functions that the module's callback custom calls refer to by index.
      compiler_options: XLA flags by name, such as ``{"xla_cpu_enable_fast_math": False}``.
      propagate_to_outputs, propagate_to_parameters: for each result or parameter, whether the
        partitioner chooses its sharding (one entry stands for all).
      keep_alive: objects that must live as long as the executable.
      trusted: the module is weft's own and need not be checked.

    Raises:
      ValueError: the module does not fit the devices, or would crash XLA (says what to change).
      CompileError: XLA rejects the module.

    Example:
        >>> from weft.runtime import backend, compile
        >>> text = '''module @double {
        ...   func.func public @main(%x: tensor<2xf32>) -> tensor<2xf32> {
        ...     %0 = stablehlo.add %x, %x : tensor<2xf32>
        ...     return %0 : tensor<2xf32>
        ...   }
        ... }'''
        >>> compile.compile_module(text, backend.devices()[:1]).name
        'double'
    """
    if backend.forked:
        backend.refuse_forked()
    flat = tuple(devices.flat) if isinstance(devices, np.ndarray) else tuple(devices)
    module = _as_module(module)
    name = name or module_name(module)
    if not trusted:
        check_module(module, len(flat), num_replicas)
    own_client = _client_of(flat)
    if own_client.platform != "cpu":
        from weft.partition.gpu import for_gpu

        module = for_gpu(module)
    partitions = len(flat) // num_replicas
    ids = np.array([d.id for d in flat], np.int32).reshape(num_replicas, partitions)
    options = _xla_compile.options(
        ids,
        emitter="tiled" if own_client.platform != "cpu" else _xla_compile.emitter_for(module),
        use_spmd=True,
        use_shardy=use_shardy,
        overrides=_overrides(compiler_options),
        propagate_to_outputs=propagate_to_outputs,
        propagate_to_parameters=propagate_to_parameters,
    )
    # Callbacks of such programs must not hold all threads of the pool: quirks.SHARED_POOL.
    if len(flat) > 1 and flat[0].platform == "cpu":
        host_callbacks = [called_together(f) for f in host_callbacks]
    device_list = DeviceList(flat)
    start = time.perf_counter()
    # The disk cache holds programs by text and options; callbacks have no text.
    directory = config.compilation_cache_dir if config.enable_compilation_cache else None
    entry = None
    if directory is not None and not host_callbacks and not is_compile_only(own_client):
        from weft.runtime import disk_cache

        entry = disk_cache.Entry(directory, name, disk_cache.cache_key(module, options, flat))
        loaded = entry.read(own_client, device_list, options)
        tell(EVENTS, CACHE_ASKED)
        tell(EVENTS, CACHE_MISS if loaded is None else CACHE_HIT)
        if loaded is not None:
            _log(name, start, "read from the cache")
            return LoadedExecutable(
                loaded, flat, name, time.perf_counter() - start, True, keep_alive
            )
    running = _begin(name)
    try:
        with measured(COMPILED, name) if DURATIONS or SPANS else UNMEASURED:
            loaded = _xla_compile.compile_and_load(
                own_client, module, device_list, options, host_callbacks
            )
    except _xla_compile.XlaRuntimeError as error:
        raise CompileError(f"XLA cannot compile {name}: {error}{_remedy(error, module)}") from error
    finally:
        _end(running)
    seconds = time.perf_counter() - start
    _log(name, start, "compiled")
    # LLVM leaves large free blocks behind, which the allocator would keep.
    if seconds > COMPILED_LONG:
        return_freed_memory()
    if entry is not None and seconds >= config.persistent_cache_min_compile_time_secs:
        entry.write(own_client, loaded)
    return LoadedExecutable(loaded, flat, name, seconds, False, keep_alive)


def _remedy(error: Exception, module: ir.Module) -> str:
    text = str(error)
    if "Shared memory size limit" in text:
        kernels = sorted({*re.findall(r'name = "(\w+)", num_stages', str(module))})
        return (
            f". A kernel ({', '.join(kernels)}) needs more of a processor's shared memory than "
            "there is: products and sums of large blocks pass through it, and so do num_stages "
            "blocks that loops load ahead. Use smaller blocks, or fewer num_stages"
        )
    if "libdevice" in text or "ptxas" in text:
        return (
            ". XLA needs NVIDIA's ptxas and libdevice to compile for GPUs: run `pip install "
            "nvidia-cuda-nvcc-cu12` where the plugin jax-cuda12-pjrt is installed"
        )
    return ""


def _as_module(module: str | ir.Module) -> Any:
    if isinstance(module, str | bytes):
        from weft._xla import mlir  # loads with the first program, not with the runtime

        return mlir.parse(module)
    return module


def module_name(module: ir.Module) -> str:
    """Return the symbol name of a module, "main" if it has none."""
    attributes = module.operation.attributes
    return attributes["sym_name"].value if "sym_name" in attributes else "main"


def _log(name: str, start: float, stage: str) -> None:
    if config.log_compiles:
        import logging

        ms = (time.perf_counter() - start) * 1e3
        logging.getLogger("weft").warning("%s %s in %.1f ms", name, stage, ms)


LONG = 30.0
"""Seconds after which, and from then on every so many, a compilation is told of."""

# One thread looks at all compilations, and ends once there are none: starting one for each takes
# 0.1 ms.
_lock = threading.Lock()
_running: dict[int, tuple[str, float]] = {}
_watcher: OwnThread | None = None
_numbers = itertools.count()


def _begin(name: str) -> int:
    """Note that a compilation begins; return its number, for `_end`."""
    global _watcher
    number = next(_numbers)
    with _lock:
        _running[number] = name, time.monotonic()
        if _watcher is None:
            _watcher = OwnThread(_watch, "weft compilations")
            _watcher.start()
    return number


def _end(number: int) -> None:
    """Note that the compilation of this number has ended."""
    _running.pop(number, None)


def _watch() -> None:
    global _watcher
    told: dict[int, float] = {}
    while True:
        with _lock:
            running = dict(_running)
            if not running:
                _watcher = None
                return
        now = time.monotonic()
        told = {number: told.get(number, start) for number, (_, start) in running.items()}
        for number, last in told.items():
            if now >= last + LONG:
                told[number] = now
                _tell(*running[number])
        # What begins meanwhile is due later than all of these.
        time.sleep(min(told.values()) + LONG - now)


def _tell(name: str, start: float) -> None:
    import logging

    seconds = time.monotonic() - start
    logging.getLogger("weft").warning("XLA is compiling %s, %.0f s so far", name, seconds)


def _client_of(devices: tuple) -> Any:
    if not devices:
        raise ValueError("devices is empty; a program needs at least one")
    clients = {d.client.platform for d in devices}
    if len(clients) > 1:
        raise ValueError(
            f"one program cannot run on several platforms, got devices of {sorted(clients)}"
        )
    if len(set(devices)) != len(devices):
        raise ValueError(f"a device appears twice among the program's devices {list(devices)}")
    return devices[0].client


def check_module(module: ir.Module, num_devices: int, num_replicas: int = 1) -> None:
    """Raise ValueError for what would end the process (quirks.MALFORMED_MODULES).

    That is: a count of partitions other than the devices', no public @main, a dynamic shape in
    its signature, a function without a body or one that calls itself, a batch-partitionable custom
    call without layouts.
    """
    attributes = module.operation.attributes
    if num_replicas < 1 or num_devices % num_replicas:
        raise ValueError(f"{num_devices} devices cannot form {num_replicas} replicas")
    for attribute, actual in (
        ("mhlo.num_partitions", num_devices // num_replicas),
        ("mhlo.num_replicas", num_replicas),
    ):
        if attribute in attributes and attributes[attribute].value != actual:
            raise ValueError(
                f"module {module_name(module)} has {attribute} = {attributes[attribute].value}, "
                f"but is compiled for {actual}; compile it for the devices of its mesh"
            )
    functions = {
        o.operation.attributes["sym_name"].value: o.operation
        for o in module.body.operations
        if o.operation.name == "func.func"
    }
    main = functions.get("main")
    if main is None:
        raise ValueError(
            f"module {module_name(module)} has no function @main; the entry point must be "
            "`func.func public @main`"
        )
    signature = str(main.attributes["function_type"])
    if re.search(r"\?x|x\?", signature):
        raise ValueError(
            f"module {module_name(module)}: @main has dynamic shapes {signature}; refine them "
            "to static ones before compiling"
        )
    _check_calls(module_name(module), functions)
    _check_custom_calls(module)


def _check_calls(name: str, functions: Mapping[str, Any]) -> None:
    """Check that every function has a body and none calls itself."""
    callees = {}
    for symbol, function in functions.items():
        if not len(function.regions[0].blocks):
            raise ValueError(
                f"module {name}: the function @{symbol} has no body; define it, or call native "
                "code by stablehlo.custom_call"
            )
        callees[symbol] = {
            str(op.attributes["callee"]).removeprefix("@")
            for op in _inside(function)
            if op.name == "func.call"
        }
    for symbol in functions:
        seen: set[str] = set()
        left = list(callees[symbol])
        while left:
            callee = left.pop()
            if callee not in seen:
                seen.add(callee)
                left += callees.get(callee, ())
        if symbol in seen:
            raise ValueError(
                f"module {name}: the function @{symbol} calls itself; XLA has no recursion, write "
                "a stablehlo.while"
            )


def _inside(operation: ir.Operation) -> Iterator[Any]:
    """Return the operation and all in its regions."""
    stack = [operation]
    while stack:
        op = stack.pop()
        yield op
        for region in op.regions:
            for block in region.blocks:
                stack.extend(o.operation for o in block.operations)


def _check_custom_calls(module: ir.Module) -> None:
    for op in _inside(module.operation):
        if op.name == "stablehlo.custom_call":
            attributes = op.attributes
            frontend = (
                str(attributes["mhlo.frontend_attributes"])
                if "mhlo.frontend_attributes" in attributes
                else ""
            )
            has_layouts = "operand_layouts" in attributes and "result_layouts" in attributes
            if "num_batch_dims" in frontend and not has_layouts:
                target = attributes["call_target_name"].value
                raise ValueError(
                    f"custom call {target!r} has num_batch_dims but no operand_layouts and "
                    "result_layouts, which makes XLA's partitioner abort; give it layouts"
                )


_COUNTS = {"xla_cpu_parallel_codegen_split_count": 2**16}
"""Options outside whose range, from 1 on, XLA ends or hangs the process (quirks.SPLIT_COUNT)."""


class CompilerEffortLevel(enum.Enum):
    """How much XLA tries, as optimization_level and memory_fitting_level of compiler_options.

    >>> import weft
    >>> level = weft.CompilerEffortLevel.O3
    >>> weft.jit(lambda x: x + 1, compiler_options={"optimization_level": level})(1)
    Array(2, dtype=int32, weak_type=True)
    """

    UNKNOWN = 0
    O0 = 9
    O1 = 19
    O2 = 29
    O3 = 39


def check_options(options: object) -> None:
    """Raise TypeError or ValueError for compiler_options that XLA cannot take or refuse."""
    if not isinstance(options, Mapping):
        raise TypeError(
            "compiler_options must be a dict of XLA's options by name, such as "
            f"{{'xla_cpu_enable_fast_math': True}}, got {options!r:.100}"
        )
    for key, value in options.items():
        if key in _xla_compile.EFFORTS:
            _level(key, value)
            continue
        if not isinstance(key, str) or not isinstance(value, str | bool | int | float):
            raise TypeError(
                f"compiler_options must map XLA flag names to str, bool, int or float; got "
                f"{key!r}: {value!r}"
            )
        most = _COUNTS.get(key)
        number = re.fullmatch(r"\s*([+-]?\d+)\s*", str(value))
        if most is not None and number is not None and not 1 <= int(number[1]) <= most:
            raise ValueError(f"compiler_options: {key} must be from 1 to {most}, got {value!r}")


def _overrides(options: Mapping[str, Any] | None) -> list[tuple[str, Any]]:
    if options is None:
        return []
    check_options(options)
    pairs = sorted(options.items())
    return [(k, _level(k, v) if k in _xla_compile.EFFORTS else v) for k, v in pairs]


def _level(key: str, value: str | CompilerEffortLevel) -> int:
    names = CompilerEffortLevel.__members__
    if isinstance(value, CompilerEffortLevel):
        return value.value
    if isinstance(value, str) and value in names:
        return names[value].value
    raise ValueError(
        f"compiler_options: {key} must be a weft.CompilerEffortLevel or one of "
        f"{', '.join(names)}, got {value!r}"
    )
