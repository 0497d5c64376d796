"""No message of Python's, NumPy's or jaxlib's about values inside of weft reaches a user.

Every public function that `tests/oracle/exceptions.json` calls is called with each argument
replaced by bad ones (of another kind, rank, dtype or size, out of range, none at all) and with too
many. Of these the suite makes every 31st; WEFT_HYPOTHESIS_PROFILE=deep makes all.
"""

import ast
import json
import os
import re

import pytest

import weft
from tests.oracle.exceptions import RECORD, attempt, environment, mutants

CALLS = sorted(json.loads(RECORD.read_text()))
STRIDE = 1 if os.environ.get("WEFT_HYPOTHESIS_PROFILE") == "deep" else 31
RAW = re.compile(
    r"zip\(\) argument|(tuple|list|string) index out of range|MLIRError|std::bad_cast|"
    r"incompatible function arguments|has no attribute|values to unpack|cannot unpack|"
    r"object is not iterable|has no len\(\)|not subscriptable|object is not callable|"
    r"object does not support|bad operand type|not supported between|"
    r"unsupported operand type(?!.*convert it with)|"
    r"unhashable type|can only concatenate|as an integer|only integer scalar arrays|"
    r"truth value of an array|inhomogeneous|did not contain a loop|invalid literal for int|"
    r"could not convert string|remapped shapes|iteration over a 0-d|as a data type|"
    r"argument must be a string|argument of type '"
)
INSIDE = (
    *(AttributeError, AssertionError, KeyError, RecursionError, UnboundLocalError),
    *(ZeroDivisionError, StopIteration, SystemError),
)
NUMPYS = {"numpy.array_repr", "numpy.array_str", "numpy.can_cast"}
"""NumPy's own functions, which weft hands on."""
USERS = ("lax.while_loop(", "xx.grad(", "xx.hessian(", "xx.scipy.optimize", "tree_util.register")
"""Calls whose functions are the user's, and fail for themselves."""


def with_too_many(call: str) -> str:
    """The call with 40 arguments more than it has."""
    tree = ast.parse(call, mode="eval").body
    assert isinstance(tree, ast.Call)
    tree.args += [ast.Constant(None)] * 40
    return ast.unparse(tree)


def room(call: str) -> str:
    return call.split("(")[0].rpartition(".")[0] or call.split("(")[0]


def problem(text: str, error: Exception | None) -> str:
    """What is wrong with an exception, "" if nothing is."""
    if error is None:
        return ""
    if type(error) in INSIDE or type(error).__module__.startswith(("jaxlib", "numpy")):
        return f"{text}: {error!r:.200}"
    return f"{text}: {error!r:.200}" if RAW.search(str(error)) else ""


@pytest.mark.parametrize("name", sorted({room(call) for call in CALLS}))
def test_bad_arguments_are_told_in_words_of_the_call(name):
    names = environment(weft)
    wrong, made, seen = [], 0, 0
    for call in CALLS:
        if room(call) != name or call.startswith(USERS) or call.split("(")[0] in NUMPYS:
            continue
        for text in (with_too_many(call), *mutants(call)):
            seen += 1
            if seen % STRIDE == 0:
                made += 1
                wrong.append(problem(text, attempt(text, names)))
    wrong = [text for text in wrong if text]
    assert not wrong, f"{len(wrong)} of {made}\n" + "\n".join(wrong)


def test_the_check_sees_raw_texts():
    for bad in (lambda: None + 1, lambda: len(3), lambda: [].x, lambda: (lambda a: a)[0]):
        with pytest.raises(Exception) as caught:
            bad()
        assert problem("", caught.value)
    assert not problem("", ValueError("weft.numpy.sum: axis must be an integer, got 'a'"))
