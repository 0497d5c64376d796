"""Writes names.json: JAX's public names, and the parameters of its functions, module by module.

Run it with JAX installed:  python tests/oracle/names.py
"""

import importlib
import inspect
import json
import types
import warnings
from pathlib import Path

import jax

MODULES = [
    *["numpy", "numpy.linalg", "numpy.fft", "lax", "lax.linalg", "nn", "nn.initializers"],
    *["random", "tree", "tree_util", "dlpack", "ops"],
]


def parameters(value):
    """[name, kind] of each parameter; None for what is no function or hides its signature."""
    if isinstance(value, type) or not callable(value):
        return None
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return None
    return [[p.name, p.kind.name] for p in signature.parameters.values()]


def main():
    warnings.simplefilter("ignore")
    found = {}
    for name in MODULES:
        module = importlib.import_module(f"jax.{name}")
        values = {k: getattr(module, k) for k in dir(module) if not k.startswith("_")}
        found[name] = {
            k: parameters(v) for k, v in values.items() if not isinstance(v, types.ModuleType)
        }
    data = {"jax": jax.__version__, "modules": found}
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    # A line for each name, so that a new version's changes can be read.
    text = text.replace(',"', ',\n"').replace(',\n"VAR', ',"VAR').replace(',\n"POS', ',"POS')
    text = text.replace(',\n"KEYWORD', ',"KEYWORD')
    Path(__file__).with_suffix(".json").write_text(text + "\n")


if __name__ == "__main__":
    main()
