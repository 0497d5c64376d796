# Tests: tests/compat/test_other_modules.py
"""jax.experimental.compute_on: which processor computes. On CPUs the host is the device."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import weft

__all__ = ["compute_on", "compute_on2"]

_TYPES = ("device_host", "device", "tpu_sparsecore")


def _check(api: str, compute_type: str) -> None:
    if compute_type not in _TYPES and not compute_type.startswith("gpu_stream:"):
        raise ValueError(
            f"{api}: compute_type must be one of {', '.join(_TYPES)} or 'gpu_stream:#', got "
            f"{compute_type!r}"
        )
    if compute_type != "device" and weft.default_backend() != "cpu":
        raise NotImplementedError(
            f"{api}: weft computes on {weft.default_backend()} devices only; for the host use "
            "weft.pure_callback, or put the arrays on a CPU device"
        )
    if compute_type not in ("device", "device_host"):
        raise ValueError(f"{api}: {compute_type!r} is no processor of a CPU")


@contextlib.contextmanager
def compute_on(compute_type: str) -> Iterator[None]:
    """Return a context, or a decorator, in which operations run on the host or on the device.

    Raises ValueError for a processor that the platform has not, NotImplementedError for the host of
    a GPU or TPU.
    """
    _check("compute_on", compute_type)
    with weft.named_scope(f"compute_on_{compute_type}"):
        yield


def compute_on2(
    f: Callable | None = None,
    *,
    compute_type: str,
    out_memory_spaces: object,
    compiler_options: object = None,
) -> Any:
    """Return a function that runs on the host or on the device; see `compute_on`."""
    if f is None:
        return functools.partial(
            compute_on2, compute_type=compute_type, out_memory_spaces=out_memory_spaces
        )
    return compute_on(compute_type)(f)
