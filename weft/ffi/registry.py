"""Registration of native targets by platform, and the headers to build them with."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import weft.ffi.native_errors as native_errors
from weft._xla import ffi as _xla
from weft._xla.client import Device, XlaRuntimeError, platform_of
from weft.runtime.cpu_joint_failure import FailingCalls

if TYPE_CHECKING:
    from weft.core.source import Source

_FUNCTION = type(ctypes.pythonapi.Py_IncRef).__mro__[1]  # of all ctypes functions
STAGES = ("instantiate", "prepare", "initialize", "execute")
_batch_partitionable: set[str] = set()
_partitioned: set[str] = set()  # those that XLA's partitioner has been told about
_platforms: dict[str, set[str]] = {}
_handlers: dict[str, tuple[Any, int]] = {}  # of the CPU, as the user gave them
_TOGETHER = ".together"
_together: set[str] = set()


def register_ffi_target(
    name: str, fn: object, platform: str = "cpu", api_version: int = 1, **kwargs: Any
) -> None:
    """Make native code callable as `ffi_call(name, …)` on one platform.

    fn: a capsule (see `pycapsule`), or a dict of capsules by stage ('instantiate', 'prepare',
    'initialize', 'execute'). platform: 'cpu', 'cuda', 'rocm'. api_version: 1 for XLA's typed FFI,
    0 for the untyped calls of old.

    Raises TypeError for what is not a capsule, ValueError for an unknown stage or version.

    Source: XLA, "Foreign function interface" (xla/ffi/api/ffi.h).

    >>> import weft
    >>> weft.ffi.register_ffi_target("scale", lambda x: x)
    Traceback (most recent call last):
        ...
    TypeError: register_ffi_target: fn for 'scale' must be a capsule...
    """
    if not isinstance(name, str) or not name:
        raise TypeError(f"register_ffi_target: name must be a non-empty string, got {name!r}")
    if not isinstance(platform, str):
        raise TypeError(f"register_ffi_target: platform must be a string, got {platform!r}")
    for key in kwargs:
        if key != "traits":
            raise TypeError(f"register_ffi_target: there is no argument {key!r}")
    if api_version not in (0, 1):
        raise ValueError(
            f"register_ffi_target: api_version must be 1 (typed FFI) or 0 (untyped), got "
            f"{api_version!r}"
        )
    if isinstance(fn, dict):
        unknown = sorted(set(fn) - set(STAGES))
        if unknown:
            raise ValueError(
                f"register_ffi_target: {unknown[0]!r} is not a stage of a handler; the stages are "
                f"{', '.join(STAGES)}"
            )
        if "execute" not in fn:
            raise ValueError(
                f"register_ffi_target: {name!r} has no 'execute' stage; "
                "the handler that computes the results is required"
            )
        for stage, capsule in fn.items():
            _check_capsule(name, capsule, f"the {stage!r} stage of ")
    else:
        _check_capsule(name, fn, "")
    # A function of the other kind would end the process at its first call: ask it now.
    on_host = _xla.platform_name(platform) == "Host"
    said = [native_errors.answers(capsule) for capsule in _capsules(fn)]
    if api_version == 0 and True in said:
        raise ValueError(
            f"register_ffi_target: {name!r} answers as handlers of XLA's typed FFI do, and "
            "api_version=0 is for untyped functions; leave api_version out"
        )
    if api_version == 1 and False in said:
        raise ValueError(
            f"register_ffi_target: {name!r} does not answer as handlers of XLA's typed FFI do; "
            "define it with XLA_FFI_DEFINE_HANDLER_SYMBOL, or register it with api_version=0"
        )
    try:
        _xla.register_target(name, fn, platform, api_version, **kwargs)
    except (XlaRuntimeError, ValueError) as e:
        raise ValueError(f"register_ffi_target: XLA refuses {name!r}: {_advice(str(e))}") from e
    _platforms.setdefault(name, set()).add(_xla.platform_name(platform))
    # Host handlers can be called from Python again, for programs that must fail together.
    if api_version == 1 and on_host:
        _handlers.setdefault(name, (fn, kwargs.get("traits", 0)))


def register_kernel(name: str, capsule: object) -> None:
    """Register machine code of weft's own for the CPU, whose errors name themselves."""
    _xla.register_target(name, capsule, "cpu", 1)
    _platforms.setdefault(name, set()).add(_xla.platform_name("cpu"))
    _handlers.setdefault(name, (capsule, 0))


def _capsules(fn: object) -> list:
    """Return those of a handler's stages."""
    return list(fn.values()) if isinstance(fn, dict) else [fn]


def name_for(calls: FailingCalls | None, name: str) -> str:
    """Return the name a program calls a target by: another where it is to fail as a whole."""
    if calls is None or name not in _handlers:
        return name
    other = name + _TOGETHER
    if name not in _together:
        fn, traits = _handlers[name]
        wrap = lambda capsule: native_errors.failing_together(name, capsule)
        fn = {stage: wrap(c) for stage, c in fn.items()} if isinstance(fn, dict) else wrap(fn)
        _xla.register_target(other, fn, "cpu", 1, traits)
        _together.add(name)
    if name in _partitioned:
        let_partition(other)
    calls.targets.add(name)
    calls.on_shards = True
    return other


def _advice(text: str) -> str:
    if "Types used by" in text:
        return f"{text}. Call weft.ffi.register_ffi_type for the handler's state first"
    if "Duplicate" in text or "already" in text:
        return f"{text}. A name keeps its handler for the life of the process; choose another name"
    return text


def _check_capsule(name: str, fn: object, prefix: str) -> None:
    if type(fn).__name__ != "PyCapsule":
        raise TypeError(
            f"register_ffi_target: {prefix}fn for {name!r} must be a capsule, got "
            f"{type(fn).__name__}; wrap a ctypes function with weft.ffi.pycapsule"
        )


def register_ffi_target_as_batch_partitionable(name: str) -> None:
    """Declare that a target treats its leading batch dimensions independently.

    Calls of it stay sharded in the dimensions that vmap added or `num_batch_dims` names, with no
    communication before or behind them. A sharding_rule of the call says more than this.

    >>> import weft
    >>> weft.ffi.register_ffi_target_as_batch_partitionable("my_library.rows")
    """
    if not isinstance(name, str) or not name:
        raise TypeError(f"a target's name must be a non-empty string, got {name!r}")
    _batch_partitionable.add(name)
    let_partition(name)


def let_partition(name: str) -> None:
    """Let XLA's partitioner keep calls sharded that carry the attribute num_batch_dims."""
    if name not in _partitioned:
        _xla.register_batch_partitionable(name)
        _partitioned.add(name)


def is_batch_partitionable(name: str) -> bool:
    return name in _batch_partitionable


def register_ffi_type_id(name: str, obj: object, platform: str = "cpu") -> None:
    """Register the id of a C++ type that handlers keep as state or user data.

    obj: a capsule of the `XLA_FFI_TypeId`.

    >>> import ctypes, weft
    >>> type_id = ctypes.c_int64(0)  # a static XLA_FFI_TypeId in C++
    >>> capsule = weft.ffi.pycapsule(ctypes.addressof(type_id))
    >>> weft.ffi.register_ffi_type_id("my_library.State", capsule)
    """
    register_ffi_type(name, {"type_id": obj}, platform)


def register_ffi_type(name: str, type_registration: dict[str, Any], platform: str = "cpu") -> None:
    """Register a C++ type for handler state: capsules 'type_id' and optionally 'type_info'.

    >>> import ctypes, weft
    >>> type_id = ctypes.c_int64(0)
    >>> capsule = weft.ffi.pycapsule(ctypes.addressof(type_id))
    >>> weft.ffi.register_ffi_type("my_library.Plan", {"type_id": capsule})
    """
    if not isinstance(type_registration, dict):
        raise TypeError(
            f"register_ffi_type: type_registration of {name!r} must be a dict of capsules such as "
            f"{{'type_id': capsule}}, got {type(type_registration).__name__}"
        )
    for key, capsule in type_registration.items():
        if key not in ("type_id", "type_info"):
            raise ValueError(
                f"register_ffi_type: {key!r} is not a part of a type's registration; give "
                "'type_id' and, where the state has a destructor, 'type_info'"
            )
        if type(capsule).__name__ != "PyCapsule":
            raise TypeError(
                f"register_ffi_type: {key!r} of {name!r} must be a capsule, got "
                f"{type(capsule).__name__}; export it from C++ as an nb::capsule or use "
                "weft.ffi.pycapsule"
            )
    _xla.register_type(name, type_registration, platform)


def pycapsule(funcptr: object) -> Any:
    """Return a capsule around a native function: a ctypes function pointer or an address.

    Raises TypeError or ValueError for anything else. The library must stay loaded.

    >>> import ctypes, weft
    >>> type(weft.ffi.pycapsule(ctypes.pythonapi.Py_IncRef)).__name__
    'PyCapsule'
    """
    if not isinstance(funcptr, int) and not isinstance(funcptr, _FUNCTION):
        raise TypeError(
            f"pycapsule: expected a ctypes function pointer or an address, got "
            f"{type(funcptr).__name__}"
        )
    return _xla.capsule(funcptr)


def include_dir() -> str:
    """Return the folder of XLA's FFI headers: `#include "xla/ffi/api/ffi.h"`.

    >>> import os, weft
    >>> os.path.exists(os.path.join(weft.ffi.include_dir(), "xla", "ffi", "api", "ffi.h"))
    True
    """
    return os.path.join(_xla.package_dir(), "include")


def registered_targets(platform: str = "cpu") -> list[str]:
    """Return the names of the targets that calls on the platform can use.

    >>> import weft
    >>> "xla_ffi_python_cpu_callback" in weft.ffi.registered_targets()
    True
    """
    registered = _xla.registered_targets(platform) - {n + _TOGETHER for n in _together}
    return sorted(n for n in registered if not n.startswith(native_errors.PROBE))


class UnregisteredTargetError(XlaRuntimeError, ValueError):
    """A program calls a native target that its devices do not have."""


def check_registered(name: str, source: Source, devices: Sequence[Device]) -> None:
    """Raise UnregisteredTargetError, which lists the registered targets, if a platform lacks this
    one.

    Asked for when a program is compiled: it may be lowered where the target is not known.
    """
    platform = platform_of(devices[0])
    if name in _xla.registered_targets(platform):
        return
    registered = registered_targets(platform)
    elsewhere = sorted(_platforms.get(name, set()) - {_xla.platform_name(platform)})
    user_targets = [t for t in registered if t in _platforms]
    hint = (
        f"it is registered for {', '.join(elsewhere)} only"
        if elsewhere
        else f"registered there: {', '.join(user_targets) or 'none of yours'}"
    )
    import difflib

    close = difflib.get_close_matches(name, registered, n=1)
    raise UnregisteredTargetError(
        f"ffi_call ({source}): target {name!r} is not registered for platform {platform!r}; "
        f"{hint}. "
        + (f"Did you mean {close[0]!r}? " if close else "")
        + "Register it with weft.ffi.register_ffi_target(name, capsule, platform=...)"
    )
