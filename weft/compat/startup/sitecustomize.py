# Tests: tests/compat/test_as_jax.py
"""Python runs this when it starts, where its folder is in PYTHONPATH: see weft.as_jax."""

import importlib.util
import os
import sys

_folder = os.path.dirname(os.path.abspath(__file__))


def _install_finder():
    path = os.path.join(os.path.dirname(_folder), "finder.py")
    spec = importlib.util.spec_from_file_location("weft_as_jax_finder", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.install()


def _run_next():
    """Run the sitecustomize that this one hides, if there is one."""
    rest = [p for p in sys.path if os.path.abspath(p or os.getcwd()) != _folder]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", rest)
    if spec is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


if os.environ.get("WEFT_AS_JAX", "0") not in ("", "0"):
    _install_finder()
_run_next()
