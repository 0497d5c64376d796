"""Bad arguments of every public function: an `except` clause written for JAX catches weft's errors.

`tests/oracle/exceptions.json` has what JAX 0.10.2 raises, a letter for each mutant of each call. Of
these the suite makes every seventh; WEFT_HYPOTHESIS_PROFILE=deep makes all.
"""

import importlib
import json
import os

import pytest

import weft
from tests.oracle.exceptions import LETTERS, RECORD, attempt, environment, mutants

TABLE = json.loads(RECORD.read_text())
STRIDE = 1 if os.environ.get("WEFT_HYPOTHESIS_PROFILE") == "deep" else 7
INSIDE = (
    *("zip() argument", "tuple index out of range", "list index out of range", "MLIRError"),
    *("incompatible function arguments", "has no attribute", "values to unpack", "std::bad_cast"),
)
"""What Python and jaxlib say of values that the user does not know."""
OWN = ("xx.grad(", "xx.scipy.optimize", "tree_util.register", "numpy.asarray(M).")
"""Calls that run functions of the user's, or whose failing values are the user's own objects."""


def room(call: str) -> str:
    return call.split("(")[0].rpartition(".")[0]


@pytest.mark.parametrize("name", sorted({room(call) for call in TABLE}))
def test_bad_arguments_raise_what_programs_catch(name):
    names = environment(weft)
    wrong, made = [], 0
    for call, letters in TABLE.items():
        if room(call) != name:
            continue
        assert letters.strip("."), call
        for text, letter in zip(mutants(call), letters, strict=True):
            made += letter != "."
            if letter == "." or made % STRIDE:
                continue
            error = attempt(text, names)
            if error is None:
                continue  # weft takes more than JAX
            if not isinstance(error, LETTERS[letter]):
                wrong.append((text, LETTERS[letter].__name__, repr(error)))
            elif not call.startswith(OWN) and any(words in str(error) for words in INSIDE):
                wrong.append((text, "no word of weft's inside", repr(error)))
    assert not wrong, "\n".join(map(str, wrong))


def test_the_table_covers_the_namespaces():
    rooms = {room(call) for call in TABLE}
    for name in (
        "numpy",
        "lax",
        "nn",
        "random",
        "tree_util",
        "scipy.special",
        "scipy.linalg",
        "xx",
    ):
        assert name in rooms
    module = importlib.import_module("weft.numpy")
    functions = {n for n in module.__all__ if type(getattr(module, n)).__name__ == "function"}
    tried = {call.split("(")[0].removeprefix("numpy.") for call in TABLE}
    assert len(functions - tried) < len(functions) / 4, sorted(functions - tried)
