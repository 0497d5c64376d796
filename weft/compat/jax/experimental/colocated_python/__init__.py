"""jax.experimental.colocated_python: Python next to the devices. With one host, that is here."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import weft
from weft import tree

__all__ = ["colocated_cpu_devices", "colocated_python", "colocated_python_class"]


def _one_host(api: str) -> None:
    if weft.process_count() > 1:
        raise NotImplementedError(f"{api}: weft runs Python next to the devices of one host only")


def colocated_cpu_devices(devices_or_mesh: Any) -> Any:
    """Return the CPU devices of the hosts of devices, or a mesh of them."""
    _one_host("colocated_cpu_devices")
    cpus = weft.devices("cpu")
    if isinstance(devices_or_mesh, weft.Mesh):
        mesh = devices_or_mesh
        cpu_devices = colocated_cpu_devices(list(np.ravel(mesh.devices)))
        shape = np.shape(mesh.devices)
        grid = np.array(cpu_devices, object).reshape(shape)
        return weft.Mesh(grid, mesh.axis_names, axis_types=mesh.axis_types)
    devices: Sequence[Any] = devices_or_mesh
    ids = [d.id for d in devices]
    if max(ids, default=0) >= len(cpus):
        raise ValueError(
            f"colocated_cpu_devices: there are {len(cpus)} CPU devices for devices {ids}; set "
            "WEFT_NUM_CPU_DEVICES"
        )
    return type(devices)(cpus[i] for i in ids)  # type: ignore[call-arg]


class _Colocated:
    """A Python function whose results are put where its arguments are."""

    def __init__(self, fun: Callable, out_specs_fn: Callable | None = None) -> None:
        self._fun, self._out_specs_fn = fun, out_specs_fn
        functools.update_wrapper(self, fun, updated=())

    def specialize(
        self,
        in_specs: object = None,
        out_specs_fn: Callable | None = None,
        devices: object = None,
        **_: object,
    ) -> _Colocated:
        """Return the function with what is known of its arguments and results."""
        return _Colocated(self._fun, out_specs_fn or self._out_specs_fn)

    def __call__(self, *args: object, **kwargs: object) -> Any:
        _one_host("colocated_python")
        shardings = [x.sharding for x in tree.leaves((args, kwargs)) if isinstance(x, weft.Array)]
        out = self._fun(*args, **kwargs)
        if self._out_specs_fn is not None:
            specs = self._out_specs_fn(*tree.map(weft.typeof, args))
            return tree.map(lambda x, s: weft.device_put(x, s.sharding), out, specs)
        sharding = shardings[0] if shardings and len(shardings[0].device_set) == 1 else None
        put = lambda x: x if isinstance(x, weft.Array) else weft.device_put(x, sharding)
        return tree.map(put, out)


def colocated_python(fun: Callable) -> Any:
    """Return a function that runs `fun` as Python on the host of its arguments' devices."""
    return _Colocated(fun)


def colocated_python_class(cls: type) -> Any:
    """Return a class whose objects live, and whose methods run, on the host of the devices."""
    _one_host("colocated_python_class")

    def method(function: Callable) -> Callable:
        @functools.wraps(function)
        def call(self: object, *args: object, **kwargs: object) -> Any:
            return _Colocated(functools.partial(function, self))(*args, **kwargs)

        return call

    public = {n: v for n, v in vars(cls).items() if callable(v) and not n.startswith("_")}
    methods = {name: method(value) for name, value in public.items()}
    return type(cls.__name__, (cls,), {**methods, "__module__": cls.__module__})
