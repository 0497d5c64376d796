"""Writes numpy_types.json: dtype, weak type and shape that JAX gives each case of the table.

Run it with JAX installed after changing tests/numpy/table.py:  python tests/oracle/numpy_types.py
Also writes the parameter names of every function of jax.numpy, jax.numpy.linalg and jax.numpy.fft.
"""

import inspect
import json
import sys
import types
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp

HERE = Path(__file__).parent


def describe(x):
    if isinstance(x, (list, tuple)):
        return [leaf for part in x for leaf in describe(part)]
    x = x if hasattr(x, "weak_type") else jnp.asarray(x)
    return [[str(x.dtype), bool(x.weak_type), list(x.shape)]]


def parameters(function):
    signature = inspect.signature(function)
    return [[p.name, p.kind.name] for p in signature.parameters.values()]


def main():
    warnings.simplefilter("ignore")
    sys.path.insert(0, str(HERE.parents[1]))
    from tests.numpy import table

    operands = {k: jnp.asarray(v) for k, v in table.OPERANDS.items()}
    cases, refused = {}, {}
    for text in table.EXPRESSIONS:
        try:
            cases[text] = describe(eval(text, {"xp": jnp, **operands}))
        except Exception as e:
            refused[text] = f"{type(e).__name__}: {e}"
            print(text, refused[text][:120], file=sys.stderr)
    signatures = {}
    for name, module in (("", jnp), ("linalg.", jnp.linalg), ("fft.", jnp.fft)):
        for key in dir(module):
            value = getattr(module, key)
            if key.startswith("_") or isinstance(value, (types.ModuleType, type)):
                continue
            if callable(value) and not isinstance(value, jnp.ufunc):
                try:
                    signatures[name + key] = parameters(value)
                except ValueError:
                    continue
    public = [n for n in dir(jnp) if not n.startswith("_")]
    data = {
        "jax": jax.__version__,
        "cases": cases,
        "refused_by_jax": refused,
        "signatures": signatures,
        "names": public,
    }
    (HERE / "numpy_types.json").write_text(json.dumps(data, indent=0, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
