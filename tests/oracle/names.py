"""Writes names.json: JAX's public names, and the parameters of its functions, module by module.

Run it with JAX installed:  python tests/oracle/names.py
With --check it writes nothing, and fails if the file is not what JAX has, where the version of JAX
that it was made with is installed.
"""

import enum
import importlib
import inspect
import json
import sys
import types
import warnings
from pathlib import Path

import jax
from instances import instances, members

MODULES = [
    *["", "numpy", "numpy.linalg", "numpy.fft", "lax", "lax.linalg", "nn", "nn.initializers"],
    *["random", "tree", "tree_util", "dlpack", "ops", "sharding", "debug", "errors", "dtypes"],
    *["stages", "ref", "flatten_util", "typing", "ad_checkpoint", "custom_batching", "ffi"],
    *["custom_derivatives", "distributed", "monitoring", "profiler"],
    *["scipy.special", "scipy.linalg", "scipy.stats", "scipy.signal", "scipy.ndimage", "scipy.fft"],
    *["scipy.optimize", "scipy.cluster.vq", "scipy.integrate", "scipy.interpolate", "image"],
    *["scipy.sparse.linalg"],
    *[
        f"scipy.stats.{name}"
        for name in """
            bernoulli beta betabinom binom cauchy chi2 dirichlet expon gamma gennorm geom gumbel_l
            gumbel_r laplace logistic multinomial multivariate_normal nbinom norm pareto poisson t
            truncnorm uniform vonmises wrapcauchy
        """.split()  # noqa: SIM905
    ],
]


def parameters(value):
    """[name, kind, default] of each parameter; None for what is not called or hides them.

    The default is its repr, "" where there is none, and "?" where it is no plain value.
    """
    kinds = (BaseException, enum.Enum)
    if not callable(value) or (isinstance(value, type) and issubclass(value, kinds)):
        return None
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return None
    return [[p.name, p.kind.name, default(p.default)] for p in signature.parameters.values()]


def default(value):
    if value is inspect.Parameter.empty:
        return ""
    plain = value is None or isinstance(value, bool | int | float | complex | str)
    empty = isinstance(value, tuple | list | dict | frozenset) and not value
    return repr(value) if type(value).__module__ == "builtins" and (plain or empty) else "?"


def main():
    warnings.simplefilter("ignore")
    found = {}
    for name in MODULES:
        module = importlib.import_module(f"jax.{name}".rstrip("."))
        values = {k: getattr(module, k) for k in dir(module) if not k.startswith("_")}
        found[name] = {
            k: parameters(v) for k, v in values.items() if not isinstance(v, types.ModuleType)
        }
    own = {name: members(value, parameters) for name, value in instances(jax).items()}
    # A line for each name, so that a new version's changes can be read.
    lines = [
        json.dumps([group, owner, name, value], separators=(",", ":"))
        for group, owners in (("modules", found), ("members", own))
        for owner, names in sorted(owners.items())
        for name, value in sorted(names.items())
    ]
    text = ",\n".join(lines)
    text = f'{{"jax":"{jax.__version__}","names":[\n{text}\n]}}\n'
    path = Path(__file__).with_suffix(".json")
    if "--check" in sys.argv:
        recorded = path.read_text()
        same_version = json.loads(recorded)["jax"] == jax.__version__
        wrong = f"{path.name} is not what JAX {jax.__version__} has"
        sys.exit(same_version and recorded != text and wrong)
    path.write_text(text)


if __name__ == "__main__":
    main()
