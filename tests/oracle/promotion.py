"""Writes promotion.json: the dtype JAX gives for every pair of operand types.

Run where jax is installed: `python tests/oracle/promotion.py`.
"""

import itertools
import json
import os

import jax
import jax.numpy as jnp

STRONG = [
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "bfloat16",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
    "float8_e4m3fn",
    "float8_e5m2",
    "int4",
]
WEAK = {"int": 1, "float": 1.0, "complex": 1j}


def table() -> dict[str, str]:
    result = {}
    for a, b in itertools.product([*STRONG, *WEAK], repeat=2):
        x, y = (jnp.asarray(WEAK[n]) if n in WEAK else jnp.zeros((), n) for n in (a, b))
        try:
            out = jax.eval_shape(jnp.add, x, y)
            result[f"{a} {b}"] = f"{out.dtype.name}{'*' if out.weak_type else ''}"
        except Exception as e:
            result[f"{a} {b}"] = type(e).__name__
    return result


if __name__ == "__main__":
    both = {}
    for x64 in (False, True):
        jax.config.update("jax_enable_x64", x64)
        both["x64" if x64 else "x32"] = table()
    path = os.path.join(os.path.dirname(__file__), "promotion.json")
    with open(path, "w") as f:
        json.dump(both, f, indent=0, sort_keys=True)
        f.write("\n")
