"""The only package that imports jaxlib; one thin module for each job.

jaxlib keeps one array type, one set of configuration states and one set of class patches for the
whole process, so weft and jax cannot share a process. Importing weft after jax is refused here, and
importing jax after weft is refused by a finder placed in front of the import path.
"""

from __future__ import annotations

import importlib.machinery
import os
import sys
import types

if "jax" in sys.modules:
    raise ImportError(
        "weft cannot be imported after jax: both own jaxlib's process-wide array type and state. "
        "Run weft and jax in separate processes (see 'Comparing with JAX' in the documentation). "
        "To run JAX programs on weft, call weft.as_jax() before anything imports jax, or "
        "start it with `python -m weft.as_jax script.py`."
    )

REQUIREMENT = "jaxlib>=0.10.2,<0.13"
"""The versions of jaxlib that weft is tested with."""

# XLA prints device counts at INFO on client creation; keep warnings and errors.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")


def stands_for_jax() -> bool:
    """Return whether `import jax` finds weft in this process: see weft.as_jax."""
    return "weft_as_jax_finder" in sys.modules


class _RefuseJax:
    """Import finder and loader that turns a later ``import jax`` into a clear ImportError."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name == "jax" and not stands_for_jax():
            return importlib.machinery.ModuleSpec(name, cls)
        return None

    @staticmethod
    def create_module(spec):
        raise ImportError(
            "jax cannot be imported after weft: both own jaxlib's process-wide array type and "
            "state. Run weft and jax in separate processes; or let `import jax` find weft: call "
            "weft.as_jax() first."
        )

    @staticmethod
    def exec_module(module):
        raise AssertionError("create_module always raises")


sys.meta_path.insert(0, _RefuseJax)
# quirks.JAX_CORE_LOOKUP costs a search of the path. SciPy asks a loaded `jax.core` for its Tracer.
if not stands_for_jax():
    core = types.ModuleType("jax.core")
    core.Tracer = type("Tracer", (), {})
    sys.modules.setdefault("jax.core", core)

try:
    import jaxlib
except ImportError as error:
    raise ImportError(f"weft needs jaxlib; run `pip install '{REQUIREMENT}'`.") from error

release: str = jaxlib.__version__
"""jaxlib's version as it names itself."""

version = tuple(int(part) for part in release.split(".")[:3] if part.isdigit())
"""Its first numbers: (0, 10, 2)."""

# What weft uses of jaxlib is private to it: another version may end the process.
if not (0, 10, 2) <= version < (0, 13):
    raise ImportError(f"weft cannot use jaxlib {release}; run `pip install '{REQUIREMENT}'`.")
