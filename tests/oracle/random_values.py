"""Writes random.json: what JAX's documented generators give for given keys and arguments.

Run with JAX installed, in a process of its own: `python tests/oracle/random_values.py`. A case is
`[name, impl, seed, args, kwargs]`; its values are stored as the bits of the result.
"""

import json
from pathlib import Path

import numpy as np

CASES = [
    *(["key_data", impl, seed, [], {}] for impl in ("threefry2x32", "rbg") for seed in (0, 42, -1)),
    *(["split", "threefry2x32", 7, [n], {}] for n in (1, 2, 5)),
    ["split", "threefry2x32", 7, [[2, 3]], {}],
    ["split", "rbg", 7, [3], {}],
    *(["fold_in", "threefry2x32", 3, [n], {}] for n in (0, 1, 123456)),
    ["fold_in", "rbg", 3, [9], {}],
    *(["bits", "threefry2x32", 1, [[n]], {"dtype": d}]
      for n in (1, 2, 5) for d in ("uint8", "uint16", "uint32")),
    ["bits", "threefry2x32", 1, [[3, 4]], {}],
    ["bits", "threefry2x32", 1, [[]], {}],
    ["uniform", "threefry2x32", 2, [[7]], {}],
    ["uniform", "threefry2x32", 2, [[2, 3]], {"minval": -2.0, "maxval": 5.0}],
    ["uniform", "threefry2x32", 2, [[5]], {"dtype": "bfloat16"}],
    ["uniform", "threefry2x32", 2, [[5]], {"dtype": "float16"}],
    ["normal", "threefry2x32", 3, [[9]], {}],
    ["normal", "threefry2x32", 3, [[]], {}],
    ["normal", "threefry2x32", 3, [[3]], {"dtype": "complex64"}],
    ["truncated_normal", "threefry2x32", 3, [-1.0, 2.0, [9]], {}],
    ["randint", "threefry2x32", 4, [[9], 0, 10], {}],
    ["randint", "threefry2x32", 4, [[9], -100, 2000000000], {}],
    ["randint", "threefry2x32", 4, [[9], 0, 300], {"dtype": "uint8"}],
    ["randint", "threefry2x32", 4, [[4], 5, 5], {}],
    ["bernoulli", "threefry2x32", 5, [0.3, [20]], {}],
    ["bernoulli", "threefry2x32", 5, [0.3, [20]], {"mode": "high"}],
    ["rademacher", "threefry2x32", 5, [[9]], {}],
    ["categorical", "threefry2x32", 6, [[0.1, 2.0, -1.0]], {"shape": [9]}],
    ["categorical", "threefry2x32", 6, [[[0.1, 2.0], [-1.0, 3.0]]], {"axis": 0}],
    ["categorical", "threefry2x32", 6, [[0.1, 2.0, -1.0, 0.5]], {"shape": [3], "replace": False}],
    ["permutation", "threefry2x32", 7, [10], {}],
    ["permutation", "threefry2x32", 7, [[[1, 2, 3], [4, 5, 6]]], {"axis": 1}],
    ["permutation", "threefry2x32", 7, [[[1, 2, 3], [4, 5, 6]]], {"axis": 1, "independent": True}],
    ["choice", "threefry2x32", 8, [10, [4]], {}],
    ["choice", "threefry2x32", 8, [10, [4]], {"replace": False}],
    ["choice", "threefry2x32", 8, [[5, 6, 7], [4]], {"p": [0.2, 0.3, 0.5]}],
    ["choice", "threefry2x32", 8, [[5, 6, 7], [2]], {"p": [0.2, 0.3, 0.5], "replace": False}],
    *([name, "threefry2x32", 9, [[6]], {}]
      for name in ("exponential", "gumbel", "cauchy", "laplace", "logistic", "maxwell")),
    ["gumbel", "threefry2x32", 9, [[6]], {"mode": "high"}],
    ["gumbel", "threefry2x32", 9, [[40]], {"mode": "highest"}],
    ["pareto", "threefry2x32", 9, [2.0, [6]], {}],
    ["lognormal", "threefry2x32", 9, [0.5, [6]], {}],
    ["rayleigh", "threefry2x32", 9, [[1.0, 2.0]], {}],
    ["triangular", "threefry2x32", 9, [0.0, 0.25, 2.0, [6]], {}],
    ["wald", "threefry2x32", 9, [[1.0, 2.0]], {}],
    ["weibull_min", "threefry2x32", 9, [1.5, 2.0, [6]], {}],
    ["double_sided_maxwell", "threefry2x32", 9, [1.0, 2.0, [6]], {}],
    ["geometric", "threefry2x32", 9, [0.3, [6]], {}],
    ["gamma", "threefry2x32", 10, [[0.3, 1.0, 5.0]], {}],
    ["loggamma", "threefry2x32", 10, [[0.01, 1.0, 5.0]], {}],
    ["beta", "threefry2x32", 10, [2.0, 3.0, [4]], {}],
    ["dirichlet", "threefry2x32", 10, [[1.0, 2.0, 3.0]], {}],
    ["chisquare", "threefry2x32", 10, [3.0, [4]], {}],
    ["f", "threefry2x32", 10, [3.0, 5.0, [4]], {}],
    ["t", "threefry2x32", 10, [3.0, [4]], {}],
    ["generalized_normal", "threefry2x32", 10, [1.5, [4]], {}],
    ["ball", "threefry2x32", 10, [3], {"shape": [2]}],
    ["poisson", "threefry2x32", 11, [3.0, [6]], {}],
    ["poisson", "threefry2x32", 11, [50.0, [6]], {}],
    ["binomial", "threefry2x32", 11, [10.0, 0.3, [6]], {}],
    ["binomial", "threefry2x32", 11, [1000.0, 0.7, [6]], {}],
    ["multinomial", "threefry2x32", 11, [20.0, [0.2, 0.3, 0.5]], {}],
    ["orthogonal", "threefry2x32", 12, [3], {}],
    ["multivariate_normal", "threefry2x32", 12, [[0.0, 1.0], [[2.0, 0.5], [0.5, 1.0]], [3]], {}],
]  # fmt: skip
OLD_LAYOUT = [
    ["split", "threefry2x32", 7, [3], {}],
    *(["bits", "threefry2x32", 1, [[n]], {"dtype": d}]
      for n in (2, 5) for d in ("uint8", "uint16", "uint32")),
    ["uniform", "threefry2x32", 2, [[7]], {}],
]  # fmt: skip


def argument(x):
    """A list of floats or of lists is an array; a list of ints is a shape."""
    if isinstance(x, list) and x and not all(isinstance(v, int) for v in x):
        return np.array(x, np.float32 if "." in repr(x) else np.int32)
    return tuple(x) if isinstance(x, list) else x


def call(random, case):
    """The result of a case by a module with the functions of jax.random, as a NumPy array."""
    name, impl, seed, args, kwargs = case
    key = random.key(seed, impl=impl)
    if name == "choice" and isinstance(args[0], list):
        args = [np.array(args[0], np.int32), *args[1:]]
    args = [argument(x) for x in args]
    kwargs = {k: argument(v) for k, v in kwargs.items()}
    out = getattr(random, name)(key, *args, **kwargs)
    return np.asarray(random.key_data(out) if name in ("split", "fold_in") else out)


def main():
    import jax

    def values(cases):
        rows = []
        for case in cases:
            out = call(jax.random, case)
            rows.append(
                {
                    "case": case,
                    "dtype": out.dtype.name,
                    "shape": out.shape,
                    "hex": out.tobytes().hex(),
                }
            )
        return rows

    table = {"partitionable": values(CASES)}
    with jax.threefry_partitionable(False):
        table["old_layout"] = values(OLD_LAYOUT)
    path = Path(__file__).with_name("random.json")
    path.write_text(json.dumps(table, separators=(",", ":")).replace("},{", "},\n{") + "\n")


if __name__ == "__main__":
    main()
