"""The persistent compilation cache: an entry a compiled program, named by what decided it."""

from __future__ import annotations

import hashlib
import os
import re
from typing import TYPE_CHECKING, Any

from weft._xla import compile as _xla_compile
from weft._xla import mlir, passes, release
from weft.core.config import config
from weft.core.source import warn
from weft.runtime.store import Store, host_cpu

if TYPE_CHECKING:
    from weft._xla.mlir import ir


class Entry:
    """One program in the cache's folder; `key` is what `cache_key` gave."""

    __slots__ = ("name", "store")

    def __init__(self, directory: str, name: str, key: str) -> None:
        readable = re.sub(r"[^A-Za-z0-9_.-]", "_", name)[:80]
        self.name = f"{readable}-{key}.xla"
        self.store = Store(directory, "compilation cache")

    def read(self, client: object, devices: object, options: object) -> Any | None:
        """Return the program, loaded; None if there is none, with a warning if it is damaged."""
        # jaxlib aborts on some malformed executables, so only intact entries reach it.
        body = self.store.read(self.name)
        if body is None:
            return None
        try:
            return _xla_compile.deserialize(client, body, devices, options)
        except _xla_compile.XlaRuntimeError as error:
            self.store.reject(self.name, error)
            return None

    def write(self, client: object, loaded: object) -> None:
        """Keep a program; what prevents that is a warning."""
        try:
            body = _xla_compile.serialize(client, loaded)
            if len(body) >= config.persistent_cache_min_entry_size_bytes:
                self.store.write(self.name, body)
        except (OSError, _xla_compile.XlaRuntimeError) as error:
            path = self.store.path(self.name)
            warn(f"cannot write the compilation cache entry {path}: {error}")


def cache_key(module: ir.Module, options: Any, devices: tuple) -> str:
    """Return a digest of all that decides the compiled program; source locations do not count."""
    digest = hashlib.sha256()
    stripped = mlir.parse(mlir.bytecode(module))
    passes.run(stripped, "strip-debuginfo")
    client = devices[0].client
    for part in (
        mlir.bytecode(stripped),
        options.SerializeAsString(),
        release.encode(),
        client.platform_version.encode(),
        "|".join(f"{d.platform}:{d.device_kind}:{d.id}" for d in devices).encode(),
        os.environ.get("XLA_FLAGS", "").encode(),
        os.environ.get("LIBTPU_INIT_ARGS", "").encode(),
        # CPU programs hold machine code for the host's features: another host is another key.
        host_cpu().encode() if client.platform == "cpu" else b"",
    ):
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()[:40]
