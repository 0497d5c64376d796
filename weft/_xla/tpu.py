# Tests: tests/test_topologies.py, tests/ops/test_tpu.py
"""XLA's compiler for TPUs: libtpu, found and loaded once, for TPUs that are not there."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Iterator
from typing import Any

from jaxlib import _jax

from weft._xla import release

XlaRuntimeError = _jax.JaxRuntimeError

# Without these, libtpu asks a server of Google's cloud for minutes what machine it is on, and loads
# in one process of the machine at a time.
_ALONE = {
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_ACCELERATOR_TYPE": "v5litepod-8",
    "TPU_WORKER_HOSTNAMES": "localhost",
}


def find_library() -> str | None:
    """Return the path of libtpu.so: TPU_LIBRARY_PATH or the package libtpu. Imports nothing."""
    explicit = os.environ.get("TPU_LIBRARY_PATH")
    if explicit:
        return explicit
    files = (os.path.join(root, "libtpu", "libtpu.so") for root in sys.path)
    return next(filter(os.path.isfile, files), None)


@functools.cache
def _load() -> Any:
    path = find_library()
    remedy = (
        "run `pip install 'libtpu==0.0.42.*'` for jaxlib 0.10, or the one that jax[tpu]=="
        f"{release} asks for "
        "(no TPU is needed to compile), or set TPU_LIBRARY_PATH to the path of its libtpu.so"
    )
    if path is None:
        raise RuntimeError(f"XLA's compiler for TPUs, libtpu, is not installed; {remedy}")
    try:
        with _alone():
            api = _jax.load_pjrt_plugin("tpu", path, None)
            if not _jax.pjrt_plugin_initialized("tpu"):
                _jax.initialize_pjrt_plugin("tpu")
    except (RuntimeError, ValueError, OSError) as error:
        raise RuntimeError(f"libtpu, {path}, cannot be loaded: {error}; {remedy}") from error
    return api


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    added = [name for name in _ALONE if name not in os.environ]
    os.environ.update({name: _ALONE[name] for name in added})
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]


def described_devices(name: str, options: dict[str, Any]) -> list[_jax.Device]:
    """Describe TPUs by a topology such as "v5e:2x4": programs compile for them and cannot run.

    Raises:
      RuntimeError: libtpu is not installed, or cannot be loaded (says what to do).
      XlaRuntimeError: no such TPUs.
    """
    return _jax.get_c_api_topology(_load(), name, options)._make_compile_only_devices()
