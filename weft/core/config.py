"""The configuration object: named options, thread-local overrides, environment values."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from weft._xla import config as _xla_config
from weft._xla import guards
from weft.core.errors import ArgumentError

if TYPE_CHECKING:
    from weft.runtime.backend import Device

_traced = _xla_config.traced_options

_TRUE = ("1", "true", "yes", "on")
_FALSE = ("0", "false", "no", "off", "")


def boolean(value: bool | str) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, int) and value in (0, 1):
        return bool(value)
    if isinstance(value, str) and value.lower() in _TRUE + _FALSE:
        return value.lower() in _TRUE
    raise ValueError("expected True or False")


def _one_of(*choices: str | None) -> Callable[[Any], str | None]:
    def check(value: str | None) -> str | None:
        if value == "" and None in choices:
            value = None
        if value not in choices:
            raise ValueError(f"expected one of {', '.join(map(repr, choices))}")
        return value

    return check


def _some_of(*choices: str) -> Callable[[Any], str]:
    def check(value: str) -> str:
        if not isinstance(value, str) or not set(value.split(",")) <= set(choices):
            raise ValueError(f"expected some of {', '.join(choices)}, separated by commas")
        return value

    return check


def _amount(value: int | str) -> int:
    number = int(value)
    if number < 0:
        raise ValueError("expected a number that is not negative")
    return number


def _integer(value: int | str) -> int | None:
    if value is None or value == "":
        return None
    number = int(value)
    if number < 1:
        raise ValueError("expected a positive integer or None")
    return number


def _seconds(value: bool | float) -> float:
    return float(value)


def _text(value: str | None) -> str | None:
    return None if value is None or value == "" else os.fspath(value)


def _a_device(value: str | Device | None) -> Any:
    if value is None or isinstance(value, str) or hasattr(value, "platform"):
        return value
    if hasattr(value, "device_set"):  # a sharding
        return value
    raise ValueError("expected a device, the name of a platform, or None")


_PRECISIONS = (  # then those of `weft.lax.DotAlgorithmPreset`
    None,
    "default",
    "high",
    "highest",
    "fastest",
    "bfloat16",
    "bfloat16_3x",
    "tensorfloat32",
    "float32",
    "DEFAULT",
    "ANY_F8_ANY_F8_F32",
    "ANY_F8_ANY_F8_F32_FAST_ACCUM",
    "ANY_F8_ANY_F8_ANY",
    "ANY_F8_ANY_F8_ANY_FAST_ACCUM",
    "F16_F16_F16",
    "F16_F16_F32",
    "BF16_BF16_BF16",
    "BF16_BF16_F32",
    "BF16_BF16_F32_X3",
    "BF16_BF16_F32_X6",
    "BF16_BF16_F32_X9",
    "TF32_TF32_F32",
    "TF32_TF32_F32_X3",
    "F32_F32_F32",
    "F64_F64_F64",
)


class Option:
    """One option. Calling it with a value makes a context manager that sets it on this thread.

    Example:
        >>> from weft.core.config import config, options
        >>> with options["enable_x64"](True):
        ...     config.enable_x64
        True
    """

    __slots__ = ("apply", "check", "doc", "name", "on_change", "state", "traced")

    def __init__(
        self,
        name: str,
        default: Any,
        check: Callable[[Any], Any],
        doc: str,
        *,
        traced: bool,
        state: Any = None,
        apply: Callable[[Any, bool], None] | None = None,
    ):
        self.name, self.check, self.doc, self.traced = name, check, doc, traced
        self.on_change: Callable[[Any], None] | None = None
        self.apply = apply  # tells jaxlib a value, and whether it is this thread's only
        self.state = _xla_config.state(name, default) if state is None else state
        if traced:
            _traced.add(self.state)
        variable = f"WEFT_{name.upper()}"
        if variable in os.environ:
            self._set(self.checked(os.environ[variable], f"environment {variable}"))

    @property
    def value(self) -> Any:
        return self.state.value

    @property
    def __name__(self) -> str:
        return self.name

    def checked(self, value: bool | int | str | None, label: str) -> Any:
        try:
            return self.check(value)
        except (ValueError, TypeError) as error:
            raise ArgumentError(f"{label}: invalid value {value!r} ({error})") from None

    def set_global(self, value: bool | int | str | None) -> None:
        value = self.checked(value, f"config option {self.name}")
        if self.on_change is not None:
            self.on_change(value)
        self._set(value)

    def _set(self, value: bool | int | str | None) -> None:
        self.state.set_global(value)
        if self.traced:
            _traced.publish_globals()
        if self.apply is not None:
            self.apply(value, False)

    def __call__(self, new_val: Any = True) -> contextlib.AbstractContextManager[None]:
        return self._local(self.checked(new_val, f"config option {self.name}"))

    @contextlib.contextmanager
    def _local(self, value: bool) -> Iterator[None]:
        previous = self.state.swap_local(value)
        self._publish_local(value)
        try:
            yield
        finally:
            self.state.set_local(previous)
            self._publish_local(None if previous is _xla_config.unset else previous)

    def _publish_local(self, value: bool | None) -> None:
        if self.traced:
            _traced.publish_locals()
        if self.apply is not None:
            self.apply(value, True)

    def __bool__(self) -> bool:
        return bool(self.state.value)

    def __repr__(self) -> str:
        return f"Option({self.name}={self.state.value!r})"


options: dict[str, Option] = {}
"""Every option by name."""

TRANSFERS = ("host_to_device", "device_to_device", "device_to_host")
_GUARDS = ("allow", "log", "disallow", "log_explicit", "disallow_explicit")


def _transfers(direction: str) -> Callable[[Any, bool], None]:
    def apply(level: str | None, local: bool) -> None:
        guards.guard_transfers(direction, level, local=local)

    return apply


def _all_transfers(level: str | None, local: bool) -> None:
    if not local:  # a thread's levels are set one by one, by the context manager
        for direction in TRANSFERS:
            options[f"transfer_guard_{direction}"].set_global(level)


def _collection(level: str | None, local: bool) -> None:
    guards.guard_collection(level, local=local)


def _threads(on: bool | None, local: bool) -> None:
    if local:
        guards.guard_threads(bool(on))


def _define(name: str, default: Any, check: Callable, doc: str, **kwargs: Any) -> Option:
    options[name] = Option(name, default, check, doc, **kwargs)
    return options[name]


STAGES = ("jaxpr", "stablehlo", "propagated", "collectives", "local", "hlo", "optimized")

# fmt: off
enable_x64 = _define(
    "enable_x64", False, boolean, "64-bit dtypes; off: they become 32-bit ones", traced=True,
    state=_xla_config.enable_x64)
explicit_x64_dtypes = _define(
    "explicit_x64_dtypes", "warn", _one_of("warn", "error"),
    "what to do where a 64-bit dtype is asked for while enable_x64 is off", traced=True)
disable_jit = _define(
    "disable_jit", False, boolean, "run jitted functions op by op", traced=True,
    state=_xla_config.disable_jit)
_define("use_shardy", True, boolean, "Shardy sharding attributes; off: GSPMD's", traced=True)
_define("partitioner", "auto", _one_of("auto", "weft", "xla"),
        "who localizes: weft's passes, XLA's, or weft's with XLA's as fallback", traced=True)
_define("native_ops", True, boolean,
        "on the CPU, operations that XLA is slow at are weft's own native code", traced=True)
_define("repeated_blocks", "auto", _one_of("auto", "separate", "inline"),
        "equations that a program repeats on one CPU device, such as layers: compiled once and "
        "called, or written out; auto: once where blocks are large", traced=True)
_define("overlap_gathers", False, boolean,
        "weft's partitioner: all_gather + dot become a ring that overlaps both", traced=True)
default_matmul_precision = _define(
    "default_matmul_precision", None, _one_of(*_PRECISIONS), "precision of dot and conv",
    traced=True)
_define("default_prng_impl", "threefry2x32", _one_of("threefry2x32", "rbg", "unsafe_rbg"),
        "generator of new random keys", traced=True)
_define("threefry_partitionable", True, boolean,
        "random bits that do not depend on the sharding", traced=True)
numpy_dtype_promotion = _define(
    "numpy_dtype_promotion", "standard", _one_of("standard", "strict"),
    "strict: mixing dtypes is an error", traced=True)
numpy_rank_promotion = _define(
    "numpy_rank_promotion", "allow", _one_of("allow", "warn", "raise"),
    "what to do when operands of different rank broadcast", traced=True)
_define("pprint_use_color", False, boolean, "texts of jaxprs have a terminal's colors",
        traced=False)
_define("check_static_indices", False, boolean,
        "x[i] with an int out of bounds is an IndexError; off: clamped", traced=True)
_define("varying_promotion", "implicit", _one_of("implicit", "error"),
        "operands of collectives that do not vary along the axis: promoted, or an error",
        traced=True)
_define("indivisible_constraints", "pad", _one_of("pad", "error"),
        "constraints whose axes do not divide a dimension: parts are padded, or an error",
        traced=True)
_define("debug_key_reuse", False, boolean, "raise where a random key is used twice", traced=True)
debug_nans = _define("debug_nans", False, boolean, "raise when a result holds a NaN", traced=True)
debug_infs = _define("debug_infs", False, boolean, "raise when a result holds an inf", traced=True)
check_tracer_leaks = _define(
    "check_tracer_leaks", False, boolean, "raise when a tracer outlives its trace", traced=True)
default_device = _define(
    "default_device", None, _a_device, "where uncommitted arrays are made: a device or a platform",
    traced=True)
_define("enable_checks", False, boolean, "type-check every jaxpr after it is made", traced=True)
_define("pallas_enable_debug_checks", False, boolean,
        "native kernels heed pl.debug_check, and check bounds whatever they are told", traced=True)
_define("pallas_poison_buffers", False, boolean,
        "scratch of native kernels starts as NaN", traced=True)
_define("pallas_wait_limit", 60.0, _seconds,
        "seconds without any progress after which waits of native kernels fail; 0: never",
        traced=True)
_define("explain_cache_misses", False, boolean, "log why a jitted function is traced again",
        traced=False)
_define("no_tracing", False, boolean, "raise when a jitted function is traced", traced=False)
_define("no_execution", False, boolean, "raise when a compiled program runs", traced=True)
_define("legacy_prng_key", "allow", _one_of("allow", "warn", "error"),
        "what to do when raw words are used as a random key", traced=True)
_define("enable_custom_prng", False, boolean, "random.PRNGKey makes typed keys", traced=True)
_define("random_seed_offset", 0, int, "added to every seed of random keys", traced=True)
for _direction in TRANSFERS:
    _define(f"transfer_guard_{_direction}", None, _one_of(None, *_GUARDS),
            f"what happens at transfers from {_direction.replace('_', ' ')}",
            traced=False, apply=_transfers(_direction))
_define("transfer_guard", None, _one_of(None, *_GUARDS), "what happens at all transfers",
        traced=False, apply=_all_transfers)
_define("array_garbage_collection_guard", None, _one_of(None, "allow", "log", "fatal"),
        "what happens when the garbage collector, not its last user, frees an array",
        traced=False, apply=_collection)
_define("thread_guard", False, boolean,
        "raise when programs of several processes start on another thread", traced=False,
        apply=_threads)
log_compiles = _define(
    "log_compiles", False, boolean, "log each trace and compilation", traced=False)
_define("traceback_filtering", "auto",
        _one_of("auto", "off", "quiet_remove_frames", "remove_frames", "tracebackhide"),
        "whether weft's own frames are removed from tracebacks", traced=False)
_define("platforms", None, _text, "platforms to use, by preference: 'cuda,cpu'", traced=False)
_define("num_cpu_devices", None, _integer,
        "virtual CPU devices; None: XLA_FLAGS or 1", traced=False)
_define("cpu_enable_async_dispatch", True, boolean,
        "programs on the CPU run on threads of XLA's while Python goes on; off: in the call; read "
        "when the first array is made", traced=False)
_define("host_memory_kept", 512, _amount,
        "MiB of freed host memory that the C library keeps, for arrays of up to a quarter of "
        "that; 0: what it does by itself; read when the first array is made", traced=False)
_define("cpu_collectives", "gloo", _one_of("gloo", "mpi", "none"),
        "how CPU processes exchange data", traced=False)
_define("dump_ir_to", None, _text, "folder that programs are written to when they are compiled",
        traced=False)
_define("dump_ir_modes", "stablehlo", _some_of(*STAGES), "their stages that are written there",
        traced=False)
_define("compilation_cache_dir", None, _text, "directory of compiled programs", traced=False)
_define("enable_compilation_cache", True, boolean, "use that directory, if one is set",
        traced=False)
_define("persistent_cache_min_compile_time_secs", 0.0, _seconds,
        "cache only what took at least this long to compile", traced=False)
_define("persistent_cache_min_entry_size_bytes", 0, int,
        "cache only programs of at least this size", traced=False)
# fmt: on


class UserContext:
    """A value that is part of every trace and dispatch key. See `weft.make_user_context`."""

    __slots__ = ("_state",)

    def __init__(self, default_value: float | None = None) -> None:
        hash(default_value)
        self._state = _xla_config.state("user_context", default_value)
        _traced.add(self._state)

    @property
    def value(self) -> Any:
        """The value on this thread."""
        return self._state.value

    @contextlib.contextmanager
    def __call__(self, value: object) -> Iterator[None]:
        hash(value)
        previous = self._state.swap_local(value)
        _traced.publish_locals()
        try:
            yield
        finally:
            self._state.set_local(previous)
            _traced.publish_locals()


class WeftConfig:
    """Reads are attributes (``config.enable_x64``); writes go through `update`."""

    __slots__ = ()

    def update(self, name: str, val: bool | int | str | None) -> None:
        """Set option ``name`` for the process. A ``weft_`` or ``jax_`` prefix is ignored.

        Raises:
          AttributeError: no such option (valid names are listed).
          ValueError: a value that the option does not take.

        Example:
            >>> from weft.core.config import config
            >>> config.update("debug_nans", False)
        """
        _find(name).set_global(val)

    def read(self, name: str) -> Any:
        """Return the process's value of option ``name``; a context manager may hide it."""
        return _find(name).state.get_global()

    def trace_key(self) -> tuple:
        """Return the values that change what is traced or compiled: part of every jit cache key."""
        return _xla_config.trace_context()

    @property
    def values(self) -> dict[str, Any]:
        """Every option and its value on this thread."""
        return {name: option.state.value for name, option in options.items()}

    def __getattr__(self, name: str) -> Any:
        return _find(name).state.value

    def __setattr__(self, name: str, value: bool) -> None:
        option = _find(name)
        raise AttributeError(f"set it with config.update({option.name!r}, {value!r})")

    def __repr__(self) -> str:
        lines = (f"  {name} = {value!r}" for name, value in self.values.items())
        return "config(\n" + "\n".join(lines) + "\n)"


# Names of JAX's that say the same in other words.
_ALIASES = {
    "cpu_collectives_implementation": "cpu_collectives",
    "platform_name": "platforms",
    "use_shardy_partitioner": "use_shardy",
    "x64_enabled": "enable_x64",
}


def _find(name: str) -> Option:
    option = options.get(name)
    if option is None:
        plain = name.removeprefix("weft_").removeprefix("jax_")
        option = options.get(_ALIASES.get(plain, plain))
    if option is None:
        raise AttributeError(
            f"no config option {name!r}; valid names: {', '.join(sorted(options))}"
        )
    return option


def _reader(state: Any) -> property:
    return property(lambda self: state.value)


for _option in options.values():
    setattr(WeftConfig, _option.name, _reader(_option.state))

config = WeftConfig()
