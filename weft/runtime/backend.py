"""Platforms and devices: started on first use, chosen by configuration."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from weft._xla import client as _xla_client
from weft._xla import cuda
from weft.core.config import config, options
from weft.core.source import warn
from weft.runtime import transport
from weft.runtime.host_allocator import keep_freed_memory

if TYPE_CHECKING:  # jaxlib has no types
    Client: TypeAlias = Any
    Device: TypeAlias = Any
else:
    Client = _xla_client.Client
    Device = _xla_client.Device

_clients: dict[str, Client] = {}
_failures: dict[str, str] = {}
_lock = threading.RLock()
_default: Client | None = None
# Set by runtime.distributed.initialize before any client is made.
distributed_state: dict[str, Any] = {
    "client": None,
    "process_id": 0,
    "num_processes": 1,
    "visible_devices": None,
    "partition_index": None,
    "loopback": None,  # the address at which alone to listen, where all processes are on this host
}

forked = False
"""Whether this process was forked from one that had started a client."""

_ALIASES = {"gpu": "cuda"}


def _make_cpu() -> Client:
    keep_freed_memory()
    collectives = config.cpu_collectives

    def make() -> Client:
        return _xla_client.make_cpu_client(
            num_devices=config.num_cpu_devices,
            asynchronous=config.cpu_enable_async_dispatch,
            distributed_client=distributed_state["client"],
            node_id=distributed_state["process_id"],
            num_nodes=distributed_state["num_processes"],
            collectives=None if collectives == "none" else collectives,
            hostname=distributed_state["loopback"],
        )

    return make() if distributed_state["client"] is None else transport.note_ports(make)


def _make_cuda() -> Client:
    return cuda.make_client(
        distributed_client=distributed_state["client"],
        node_id=distributed_state["process_id"],
        num_nodes=distributed_state["num_processes"],
        visible_devices=distributed_state["visible_devices"],
        partition_index=distributed_state["partition_index"],
    )


_FACTORIES = {"cuda": _make_cuda, "cpu": _make_cpu}


def platforms() -> tuple[str, ...]:
    """Return the platforms that may be used, the preferred one first."""
    if config.platforms:
        return tuple(_canonical(p.strip()) for p in config.platforms.split(",") if p.strip())
    if cuda.find_plugin() is not None:
        return ("cuda", "cpu")
    return ("cpu",)


def _canonical(platform: str) -> str:
    name = _ALIASES.get(platform, platform)
    if name not in _FACTORIES:
        raise RuntimeError(
            f"Unknown backend {platform!r}: weft supports {', '.join(_FACTORIES)} and gpu"
        )
    return name


def client(platform: str | None = None) -> Client:
    """Return the client of a platform, or the default one; made on first use.

    Raises:
      RuntimeError: the platform is unknown, or fails to initialize (says why).
    """
    if platform is None:
        return _default if _default is not None else _start_default()
    name = _canonical(platform)
    started = _clients.get(name)
    return started if started is not None else _start(name)


def _start(name: str) -> Client:
    with _lock:
        if name not in _clients:
            try:
                _clients[name] = _FACTORIES[name]()
            except (RuntimeError, ValueError) as error:
                _failures[name] = str(error)
                raise RuntimeError(f"platform {name!r} failed to initialize: {error}") from error
        return _clients[name]


def _start_default() -> Client:
    global _default
    with _lock:
        wanted = platforms()
        problems = []
        for name in wanted:
            try:
                _default = _start(name)
            except RuntimeError as error:
                if config.platforms:
                    raise RuntimeError(
                        f"{error}. It is asked for by config.platforms or WEFT_PLATFORMS = "
                        f"{config.platforms!r}; unset, they leave it to what there is"
                    ) from error
                problems.append(str(error))
                continue
            if problems:
                warn(
                    f"{'; '.join(problems)}. Going on with {name}; config.platforms = {name!r} or "
                    f"WEFT_PLATFORMS={name} says that this is meant"
                )
            return _default
        raise RuntimeError("no platform could be started: " + "; ".join(problems))


def refuse_forked() -> None:
    """Raise RuntimeError in a process that was forked after its parent had started a client.

    XLA's threads are not in it: programs, large copies and the compiler would wait for ever.
    """
    if forked:
        raise RuntimeError(
            "this process was forked from one that had used weft's devices, whose threads are not "
            "here: nothing can be compiled, run or moved. Start it by "
            "multiprocessing.get_context('spawn') or 'forkserver', or fork before the first use "
            "of a device. Arrays can still be read"
        )


def _note_fork() -> None:
    global forked
    if _clients:
        forked = True
        distributed_state["client"] = None  # the parent's to shut down


os.register_at_fork(after_in_child=_note_fork)


def started() -> bool:
    """Return whether any client has been made; options such as num_cpu_devices are then fixed."""
    return bool(_clients)


def _refuse_after_start(in_force: Callable[[], tuple]) -> Callable[[int | str], None]:
    def refuse(value: int | str) -> None:
        if _clients and value not in in_force():
            raise RuntimeError(
                "the number of CPU devices and the platforms are fixed once a device has been "
                "used; set them first, at the top of the program or with WEFT_NUM_CPU_DEVICES"
            )

    return refuse


options["num_cpu_devices"].on_change = _refuse_after_start(lambda: (config.num_cpu_devices,))
options["platforms"].on_change = _refuse_after_start(
    lambda: (config.platforms, _default and _default.platform)
)


def devices(backend: str | None = None) -> list[Device]:
    """Return all devices of a platform (of the default one), over all processes, by id.

    Example:
        >>> import weft
        >>> weft.devices()[0].platform
        'cpu'
    """
    return client(backend).devices()


def local_devices(
    process_index: int | None = None, backend: str | None = None, host_id: int | None = None
) -> list[Device]:
    """List the devices of a process, by default of this one.

    >>> import weft
    >>> weft.local_devices()[0].platform
    'cpu'
    """
    chosen = client(backend)
    if process_index is None:
        process_index = host_id if host_id is not None else chosen.process_index()
    if process_index == chosen.process_index():
        return chosen.local_devices()
    local = [d for d in chosen.devices() if d.process_index == process_index]
    if not local:
        raise ValueError(
            f"no process {process_index}; there are {process_count(backend)}, counted from 0"
        )
    return local


def device_count(backend: str | None = None) -> int:
    """Return the number of devices over all processes.

    >>> import weft
    >>> weft.device_count() >= 1
    True
    """
    return client(backend).device_count()


def local_device_count(backend: str | None = None) -> int:
    """Return the number of devices of this process.

    >>> import weft
    >>> weft.local_device_count() == len(weft.local_devices())
    True
    """
    return client(backend).local_device_count()


def process_index(backend: str | None = None) -> int:
    """Return the number of this process, counted from 0.

    >>> import weft
    >>> weft.process_index()
    0
    """
    return client(backend).process_index()


def process_count(backend: str | None = None) -> int:
    """Return the number of processes.

    >>> import weft
    >>> weft.process_count()
    1
    """
    return max(d.process_index for d in client(backend).devices()) + 1


def process_indices(backend: str | None = None) -> list[int]:
    """Return the numbers of all processes.

    >>> import weft
    >>> weft.process_indices()
    [0]
    """
    return sorted({d.process_index for d in client(backend).devices()})


def default_backend() -> str:
    """Return the name of the default platform: "cpu" or "gpu".

    >>> import weft
    >>> weft.default_backend() in ("cpu", "gpu")
    True
    """
    name = client().platform
    return "gpu" if name == "cuda" else name


def default_device() -> Device:
    """Return the device where arrays without a given place are made.

    ``weft.default_device(device)`` sets it for a block, ``config.update("default_device", ...)``
    for the process; otherwise it is this process's first device.
    """
    chosen = config.default_device
    if chosen is None:
        return client().local_devices()[0]
    if isinstance(chosen, str):
        return client(chosen).local_devices()[0]
    return chosen
