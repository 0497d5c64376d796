# Tests: tests/compat/test_as_jax.py
"""Finds `jax` and the modules below it in weft.

The file uses the standard library alone: processes that inherit the hook run it when they start,
and load weft only when they import jax.
"""

from __future__ import annotations

import importlib.metadata
import os
import sys
from collections.abc import Iterator
from typing import Any

REFERENCE = "0.10.2"
"""The version of JAX whose public names weft has."""

# A release of its own after the reference, so that versions compare as users expect.
VERSION = f"{REFERENCE}.post0+weft"

_MODULE = "weft_as_jax_finder"
"""The name under which the running process keeps this file, however it was loaded."""


class _Distribution(importlib.metadata.Distribution):
    """The metadata of jax: the reference's version, which packages read as three numbers."""

    def read_text(self, filename: str) -> str | None:
        if filename != "METADATA":
            return None
        return f"Metadata-Version: 2.1\nName: jax\nVersion: {REFERENCE}\n"

    def locate_file(self, path: Any) -> Any:
        return os.path.join(os.path.dirname(os.path.abspath(__file__)), path)


class JaxFinder:
    """Import finder of `jax` and `jax.*`."""

    @classmethod
    def find_spec(cls, name: str, path: object = None, target: object = None) -> Any:
        if name != "jax" and not name.startswith("jax."):
            return None
        if name == "jax":
            adopt_environment()  # variables that the program has set for its `import jax`
        from weft.compat.modules import find_spec

        return find_spec(name)

    @classmethod
    def find_distributions(
        cls, context: object = None
    ) -> Iterator[importlib.metadata.Distribution]:
        name = getattr(context, "name", None)
        if name is None or name == "jax":
            yield _Distribution()


def installed() -> bool:
    """Return whether imports of jax are found in weft in this process."""
    return _MODULE in sys.modules


_adopted: dict[str, str] = {}
"""The variables of JAX's options that have been read."""


def adopt_environment() -> None:
    """Give weft's options the values of JAX's variables that are new since the last call."""
    config = sys.modules.get("weft.core.config")
    for name, value in list(os.environ.items()):
        before = _adopted.get(name)
        if not name.startswith("JAX_") or value == before:
            continue
        _adopted[name] = value
        option = name.removeprefix("JAX_")
        if os.environ.get(f"WEFT_{option}") != before:
            continue  # weft's own variable says otherwise
        os.environ[f"WEFT_{option}"] = value
        if config is not None and option.lower() in config.options:
            config.config.update(option.lower(), value)


def install() -> None:
    """Put the finder in front of the import path, once."""
    if installed():
        return
    adopt_environment()
    sys.modules[_MODULE] = sys.modules.get(__name__)  # type: ignore[assignment]
    sys.meta_path.insert(0, JaxFinder)  # type: ignore[arg-type]
