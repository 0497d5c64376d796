"""Programs that use libraries written for JAX, where a library's sources come without its tests.

Each file is run on JAX and on weft: `@case` keeps what a function returns, and the results must be
equal to rounding. `benchmarks.libraries` runs them.
"""

import json
import os
import sys

import jax
import numpy as np

_only = os.environ.get("CASES", "").split()


def case(name):
    """A decorator that runs a function now and keeps what it returns, or what it raises."""

    def decide(function):
        if _only and name not in _only:
            return function
        try:
            value = jax.tree.map(_plain, function())
        except Exception as e:
            value = f"{type(e).__name__}: {str(e)[:300]}"
        with open(sys.argv[1], "a") as f:  # at once: a run that reaches its limit keeps these
            print(json.dumps([name, value], default=str), file=f)
        return function

    return decide


def _plain(x):
    return np.asarray(x).tolist() if hasattr(x, "dtype") else x


def raises(function, words):
    """Whether the call raises an exception that says so."""
    try:
        function()
    except Exception as e:
        return words in str(e)
    return False
