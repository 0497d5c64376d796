# Tests: tests/compat/test_other_modules.py
"""jax.experimental.array_serialization.serialization: arrays of one process in TensorStore.

Programs of several processes save with `weft.checkpoints`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import weft

__all__ = [
    "AsyncManager",
    "BarrierTimeoutError",
    "GlobalAsyncCheckpointManager",
    "GlobalAsyncCheckpointManagerBase",
    "get_tensorstore_spec",
    "is_remote_storage",
]


class BarrierTimeoutError(Exception):
    """Another process did not finish its part in time."""


def is_remote_storage(tspec: dict[str, Any] | str) -> bool:
    """Return whether a path, or the innermost one of a spec, is in a bucket."""
    while not isinstance(tspec, str):
        inner: Any = tspec.get("kvstore") or tspec.get("base") or tspec.get("path", "")
        if tspec.get("driver") in ("gcs", "s3"):
            return True
        tspec = inner
    return tspec.startswith(("gs://", "s3://"))


def get_tensorstore_spec(ckpt_path: str, ocdbt: bool = False) -> dict[str, Any]:
    """Return the spec of an array in a folder, or with `ocdbt` in a database of the folder above.

    Raises ValueError if the path is not absolute.
    """
    path = os.path.normpath(ckpt_path).replace("gs:/", "gs://")
    if not is_remote_storage(path) and not os.path.isabs(path):
        raise ValueError(f"get_tensorstore_spec: the path must be absolute, got {ckpt_path!r}")
    if ocdbt:
        base, key = os.path.split(path)
        where = base if is_remote_storage(base) else f"file://{base}"
        return {"driver": "zarr", "kvstore": {"driver": "ocdbt", "base": where, "path": key}}
    if is_remote_storage(path):
        driver, _, rest = path.partition("://")
        bucket, _, key = rest.partition("/")
        kind = {"gs": "gcs"}.get(driver, driver)
        return {"driver": "zarr", "kvstore": {"driver": kind, "bucket": bucket, "path": key}}
    return {"driver": "zarr", "kvstore": {"driver": "file", "path": path}}


def _tensorstore() -> Any:
    try:
        import tensorstore
    except ModuleNotFoundError as e:
        raise ModuleNotFoundError(
            "array_serialization needs the package tensorstore: pip install tensorstore"
        ) from e
    return tensorstore


def _write(arrays: Sequence[Any], specs: Sequence[dict[str, Any]]) -> None:
    ts, writes = _tensorstore(), []
    for x, spec in zip(arrays, specs, strict=True):
        shards = [s for s in x.addressable_shards if s.replica_id == 0]
        chunks = [max(1, n) for n in shards[0].data.shape]
        metadata = {"compressor": {"id": "gzip"}, "shape": list(x.shape), "chunks": chunks}
        full = {**spec, "metadata": {**metadata, **spec.get("metadata", {})}}
        dtype = ts.dtype(x.dtype)
        store = ts.open(full, dtype=dtype, create=True, delete_existing=True).result()
        writes += [store[s.index].write(np.asarray(s.data)) for s in shards]
    for write in writes:
        write.result()


def _read(sharding: object, spec: dict[str, Any], shape: Sequence[int], dtype: Any) -> Any:
    ts = _tensorstore()
    store = ts.open(spec, open=True).result()
    shape = tuple(store.shape if shape is None else shape)
    kind = np.dtype(store.dtype.numpy_dtype if dtype is None else dtype)

    def part(index: tuple) -> np.ndarray:
        spans = [s.indices(n)[:2] for s, n in zip(index, shape, strict=True)]
        stored = [(min(a, n), min(b, n)) for (a, b), n in zip(spans, store.shape, strict=True)]
        block = store[tuple(slice(*s) for s in stored)].read().result()
        out = np.zeros([b - a for a, b in spans], kind)  # a larger shape is filled with zeros
        out[tuple(slice(0, n) for n in block.shape)] = block
        return out

    return weft.make_array_from_callback(shape, sharding, part, dtype=kind)


class AsyncManager:
    """Work in a thread, until the program waits for it or asks for its exception."""

    def __init__(self, timeout_secs: int = 300) -> None:
        self._timeout = timeout_secs
        self._thread: threading.Thread | None = None
        self._fault: BaseException | None = None

    def _start(self, work: Callable[[], None]) -> None:
        if weft.process_count() > 1:
            raise NotImplementedError(
                "array_serialization saves arrays of one process; use weft.checkpoints in several"
            )

        def run() -> None:
            try:
                work()
            except BaseException as e:
                self._fault = e

        self._thread = threading.Thread(target=run, name="array_serialization")
        self._thread.start()

    def check_for_errors(self) -> None:
        """Raise what the thread raised, once."""
        fault, self._fault = self._fault, None
        if fault is not None:
            raise fault

    def wait_until_finished(self) -> None:
        """Wait for the thread and raise what it raised."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self.check_for_errors()


class GlobalAsyncCheckpointManagerBase:
    """The kind of managers that save arrays in a thread."""


class GlobalAsyncCheckpointManager(AsyncManager, GlobalAsyncCheckpointManagerBase):
    """Saves arrays to TensorStore in a thread, and restores them with shardings."""

    def serialize(
        self,
        arrays: Sequence[Any],
        tensorstore_specs: Sequence[dict[str, Any]],
        *,
        on_commit_callback: Callable[[], None] | None = None,
        **_: object,
    ) -> None:
        """Start to save arrays; the callback runs when all are written."""
        self.wait_until_finished()
        weft.block_until_ready(list(arrays))

        def work() -> None:
            _write(arrays, tensorstore_specs)
            if on_commit_callback is not None:
                on_commit_callback()

        self._start(work)

    def serialize_with_paths(self, arrays: object, paths: Sequence[str], **options: object) -> None:
        """Start to save arrays in folders."""
        self.serialize(arrays, list(map(get_tensorstore_spec, paths)), **options)  # type: ignore[arg-type]

    def deserialize(
        self,
        shardings: Sequence[Any],
        tensorstore_specs: Sequence[dict[str, Any]],
        global_shapes: Sequence[Any] | None = None,
        dtypes: Sequence[Any] | None = None,
        concurrent_gb: int = 32,
    ) -> list:
        """Return saved arrays, split as the shardings say."""
        self.wait_until_finished()
        count = len(tensorstore_specs)
        shapes, kinds = global_shapes or [None] * count, dtypes or [None] * count
        requests = zip(shardings, tensorstore_specs, shapes, kinds, strict=True)
        return [_read(*one) for one in requests]

    def deserialize_with_paths(
        self, shardings: Sequence[Any], paths: Sequence[str], *args: object, **options: object
    ) -> list:
        """Return arrays saved in folders."""
        specs = list(map(get_tensorstore_spec, paths))
        return self.deserialize(shardings, specs, *args, **options)  # type: ignore[arg-type]
