"""Which exceptions JAX raises for bad arguments: good calls, each argument replaced by bad ones.

`calls.json` has good calls as text. `outcomes(xx)` makes them with a library, with every argument
replaced by every value of BAD, and returns a letter for each: see LETTERS. Run by hand in a process
that has JAX: `python -m tests.oracle.exceptions` writes what JAX 0.10.2 raises beside the calls.
"""

import ast
import importlib
import json
import linecache
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

RECORD = Path(__file__).with_name("exceptions.json")

VALUES: dict[str, Any] = {
    "V": np.array([1.0, 2.0, 3.0], np.float32),
    "M": np.array([[4.0, 1.0, 0.0], [1.0, 3.0, 1.0], [0.0, 1.0, 2.0]], np.float32),
    "I": np.array([0, 2, 1], np.int32),
    "J": np.array([[0, 2, 1], [1, 1, 0]], np.int32),
    "B": np.array([True, False, True]),
    "C": np.array([1 + 2j, 2, 3], np.complex64),
    "T": np.ones((2, 3, 4), np.float32),
    "W": np.ones((1, 1, 8, 8), np.float32),
    "np": np,
}

BAD = (
    "None",
    "OBJECT",
    "'bad'",
    "1.5",
    "-7",
    "9",
    "(0, 0)",
    "(5,)",
    "(1.5,)",
    "[]",
    "{'a': 1}",
    "KEY",
    "np.ones((2, 5, 7), np.float32)",
    "np.ones(7, np.int32)",
    "np.array(['a'])",
    "[1, [2, 3]]",
    "C",
    "B",
    "len",
)

LETTERS = {
    "T": TypeError,
    "V": ValueError,
    "N": NotImplementedError,
    "I": IndexError,
    "K": KeyError,
    "R": RuntimeError,
    "O": OverflowError,
    "Z": ZeroDivisionError,
}
"""The exception of each letter; "." is none, or none that JAX raises on purpose."""


MODULES = (
    *("numpy", "lax", "nn", "random", "tree_util", "sharding", "ops", "ffi", "image", "dlpack"),
    *("flatten_util", "scipy", "scipy.special", "scipy.stats", "scipy.linalg", "scipy.signal"),
    *("scipy.ndimage", "scipy.fft", "scipy.integrate", "scipy.cluster.vq", "scipy.interpolate"),
    *("scipy.optimize", "scipy.sparse.linalg"),
)


def environment(xx: Any) -> dict[str, Any]:
    """What the text of calls can name: values, and the library's own."""
    modules = {}
    for name in MODULES:
        module = importlib.import_module(f"{xx.__name__}.{name}")
        if "." not in name:
            modules[name] = module
    pallas = "pallas" if xx.__name__ == "weft" else "experimental.pallas"
    modules["pl"] = importlib.import_module(f"{xx.__name__}.{pallas}")
    mesh = xx.make_mesh((1,), ("x",), devices=xx.devices()[:1])
    own = {"KEY": xx.random.key(0), "OBJECT": object(), "P": xx.P, "MESH": mesh, "xx": xx}
    return {**modules, **VALUES, **own}


def mutants(call: str) -> Iterator[str]:
    """The call's texts with one argument replaced by a bad one."""
    tree = ast.parse(call, mode="eval").body
    assert isinstance(tree, ast.Call)
    slots: list[tuple[list[Any], int]] = [(tree.args, i) for i in range(len(tree.args))]
    for slot, i in slots:
        kept = slot[i]
        for bad in BAD:
            slot[i] = ast.parse(bad, mode="eval").body
            yield ast.unparse(tree)
        slot[i] = kept
    for keyword in tree.keywords:
        kept = keyword.value
        for bad in BAD:
            keyword.value = ast.parse(bad, mode="eval").body
            yield ast.unparse(tree)
        keyword.value = kept


def attempt(text: str, names: dict[str, Any]) -> BaseException | None:
    """Make a call; what it raised."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = eval(text, names)
            for leaf in result if isinstance(result, (list, tuple)) else [result]:
                if hasattr(leaf, "block_until_ready"):
                    leaf.block_until_ready()
    except Exception as error:
        return error
    return None


def is_deliberate(error: BaseException, package: str) -> bool:
    """Whether a `raise` in the package's own code, or a conversion by NumPy or Python, made it."""
    if isinstance(error, (AttributeError, AssertionError, RecursionError, UnboundLocalError)):
        return False
    frame = traceback.extract_tb(error.__traceback__)[-1]
    if f"/{package}/" not in frame.filename and f"/{package}lib/" not in frame.filename:
        return "/numpy/" in frame.filename
    if is_raise(frame.filename, frame.lineno or 0):
        return True
    text = str(error)
    return any(words in text for words in CONVERSIONS)


CONVERSIONS = ("cannot be interpreted as an integer", "data type", "missing 1 required")


_raises: dict[str, list[tuple[int, int]]] = {}


def is_raise(filename: str, line: int) -> bool:
    """Whether the line is part of a raise statement."""
    if filename not in _raises:
        source = "".join(linecache.getlines(filename))
        nodes = ast.walk(ast.parse(source)) if source else ()
        _raises[filename] = [
            (n.lineno, n.end_lineno or n.lineno) for n in nodes if isinstance(n, ast.Raise)
        ]
    return any(a <= line <= b for a, b in _raises[filename])


def letter(error: BaseException | None, package: str) -> str:
    """The letter of what JAX raised."""
    if error is None or not is_deliberate(error, package):
        return "."
    return next((k for k, kind in LETTERS.items() if type(error) is kind), "") or next(
        (k for k, kind in LETTERS.items() if isinstance(error, kind)), "."
    )


def record(calls: list[str], xx: Any, note: Callable[[str], None] = print) -> dict[str, str]:
    """Call -> a letter for each of its mutants."""
    names = environment(xx)
    letters = {}
    for call in calls:
        letters[call] = "".join(letter(attempt(m, names), xx.__name__) for m in mutants(call))
        note(call)
    return letters


if __name__ == "__main__":
    calls = sorted(json.loads(RECORD.read_text()))
    result = record(calls, importlib.import_module("jax"), lambda call: None)
    RECORD.write_text(json.dumps(result, indent=0) + "\n")
