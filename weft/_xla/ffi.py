"""Custom-call targets: registration by platform, capsules, batch partitioning."""

from __future__ import annotations

import ctypes
from typing import Any

from jaxlib import _jax

_PLATFORM_NAMES = {"cpu": "Host", "cuda": "CUDA", "gpu": "CUDA", "host": "Host"}
_registrars: dict[str, Any] = {}
_waiting: dict[str, list[tuple[str, Any, int, int]]] = {}
_names: dict[str, set[str]] = {}  # of targets on platforms other than the CPU
_partitionable: list[str] = []
_partitioners: list[Any] = []  # of plugins: each is told of every partitionable target
_type_registrars: dict[str, Any] = {"Host": _jax.register_custom_type}

CAPSULE_NAME = b"xla._CUSTOM_CALL_TARGET"

Buffer = _jax.ffi.Buffer
ExecutionContext = _jax.ffi.ExecutionContext
ExecutionStage = _jax.ffi.ExecutionStage


def platform_name(platform: str) -> str:
    """Return XLA's name of a platform: "cpu" is "Host", "gpu" and "cuda" are "CUDA"."""
    return _PLATFORM_NAMES.get(platform.lower(), platform)


def attach(platform: str, registrar, *, types=None, partitioner=None) -> None:
    """Set a platform's registration function, and register the targets that waited for the
    platform.

    types: registers a C++ type of handler state by name. partitioner: takes the names of targets
    that may be split along their batch dimensions.
    """
    name = platform_name(platform)
    if name in _registrars:
        return
    _registrars[name] = registrar
    if types is not None:
        _type_registrars[name] = types
    if partitioner is not None:
        _partitioners.append(partitioner)
        for target in _partitionable:
            partitioner(target)
    for target, function, api_version, traits in _waiting.pop(name, ()):
        registrar(target, function, name, api_version, traits)


def register_target(
    name: str, function, platform: str = "cpu", api_version: int = 1, traits: int = 0
) -> None:
    """Register a custom-call target; one for a platform not started yet waits for it.

    ``function`` is a capsule, or a dict of capsules by stage ("prepare", "initialize", "execute").
    ``api_version`` 1 is the typed FFI, 0 the untyped one.
    """
    xla_name = platform_name(platform)
    if xla_name == "Host" and xla_name not in _registrars:
        _registrars[xla_name] = _jax.register_custom_call_target
    registrar = _registrars.get(xla_name)
    if xla_name != "Host":
        _names.setdefault(xla_name, set()).add(name)
    if registrar is None:
        _waiting.setdefault(xla_name, []).append((name, function, api_version, traits))
    else:
        registrar(name, function, xla_name, api_version, traits)


def registered_targets(platform: str = "cpu") -> set[str]:
    """Return the names of the targets registered for a platform, or waiting for its start."""
    name = platform_name(platform)
    return set(_jax.custom_call_targets(name)) | _names.get(name, set())


def register_batch_partitionable(name: str) -> None:
    """Let XLA's partitioner keep a call sharded in its leading ``num_batch_dims`` dimensions.

    The call must carry operand_layouts and result_layouts: see quirks.BATCH_CALL_LAYOUTS.
    """
    _partitionable.append(name)
    _jax.register_custom_call_as_batch_partitionable(name)
    for partitioner in _partitioners:
        partitioner(name)


def capsule(function) -> Any:
    """Return a capsule for a C function: an address, a ctypes or a ctypes foreign function."""
    if isinstance(function, int):
        address = function
    else:
        address = ctypes.cast(function, ctypes.c_void_p).value or 0
    if not address:
        raise ValueError("function has a null address; load its library first")
    new = ctypes.pythonapi.PyCapsule_New
    new.restype = ctypes.py_object
    new.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    return new(address, CAPSULE_NAME, None)


def address(capsule) -> int:
    """Return the address that a capsule holds, whatever its name."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    name = ctypes.pythonapi.PyCapsule_GetName
    name.restype, name.argtypes = ctypes.c_char_p, (ctypes.py_object,)
    return get(capsule, name(capsule))


_lapack_registered = False
_lapack_handlers: dict = {}


def lapack_handler(name: str) -> int:
    """Return the address of jaxlib's handler of a LAPACK target."""
    register_lapack_targets()
    return address(_lapack_handlers[name])


def register_lapack_targets() -> None:
    """Register jaxlib's LAPACK kernels for the CPU (``lapack_sgetrf_ffi`` and so on), once."""
    global _lapack_registered
    if _lapack_registered:
        return
    from jaxlib.cpu import _lapack

    # jaxlib finds LAPACK in scipy's bundled library on the first initialize().
    _lapack.initialize()
    _lapack_handlers.update(_lapack.registrations())
    for name, function in _lapack_handlers.items():
        register_target(name, function, "cpu", 1 if name.endswith("_ffi") else 0)
        if name.endswith("_ffi"):
            register_batch_partitionable(name)
    _lapack_registered = True


def package_dir() -> str:
    """Return the folder of the jaxlib package, whose `include` has the FFI headers."""
    import os

    import jaxlib

    return os.path.dirname(os.path.abspath(jaxlib.__file__))


def register_type(name: str, registration: dict[str, Any], platform: str = "cpu") -> None:
    """Register a C++ type of handler state: capsules `type_id` and optionally `type_info`."""
    registrar = _type_registrars.get(platform_name(platform))
    if registrar is None:
        raise ValueError(
            f"types of handler state for platform {platform!r} are registered by its PJRT plugin, "
            "which is not loaded; look at weft.devices() first"
        )
    registrar(name, registration)
