"""Exceptions that a bad argument causes inside of weft, said with the function and the argument.

A public function checks what it can say best. What it does not check ends in an exception of Python
or NumPy somewhere below: `'str' object cannot be interpreted as an integer`. The boundary then
compares the arguments with the function's annotations, and the exception gets the function's name
and the argument that does not fit in front. Nothing here runs until something is raised.
"""

from __future__ import annotations

import operator
import os
import re
import sysconfig
from collections.abc import Callable, Mapping
from opcode import opmap
from types import FrameType, TracebackType
from typing import Any

import numpy as np

from weft.core.boundary import reword
from weft.core.errors import ArgumentError, JAXIndexError, JAXTypeError, kind_of
from weft.core.source import is_internal_file

# Raised by Python for a value of another kind than the code below expects.
_UNFIT = (AttributeError, KeyError, AssertionError, NameError, StopIteration, ZeroDivisionError)
_KNOWN = (TypeError, ValueError, IndexError, OverflowError, *_UNFIT)
_NO_CAST = "std::bad_cast"  # what jaxlib says of an argument of another kind, at times
_INSIDE = (
    *(_NO_CAST, "incompatible function arguments", "MLIRError", "zip() argument", "to unpack"),
    *("tuple index out of range", "list index out of range", "has no attribute", "unhashable"),
    *("unsupported operand", "not supported between", "can only concatenate", "cannot unpack"),
)
"""Texts of Python and jaxlib about values inside of weft that the user does not know."""
_NEEDED = "a value of another kind or size is needed"
_A_DTYPE = "a dtype is needed, such as 'float32' or numpy.int8"
_PLAIN = (
    (" is not iterable", "a sequence is needed"),
    (" has no len()", "a sequence is needed"),
    ("len() of unsized", "a sequence is needed"),
    ("iteration over a 0-d array", "a sequence or an integer is needed"),
    (" not subscriptable", "a sequence is needed"),
    (" as an integer", "an integer is needed"),
    ("only integer scalar arrays", "an integer is needed"),
    ("invalid literal for int()", "an integer is needed"),
    ("int() argument must be", "an integer is needed"),
    ("float() argument must be", "a real number is needed"),
    ("must be real number", "a real number is needed"),
    ("could not convert string", "a number is needed"),
    ("bad operand type for", "a number is needed"),
    ("truth value of a", "one value is needed, not an array of several"),
    (" object is not callable", "a function is needed"),
    ("inhomogeneous shape", "numbers are needed, nested to equal lengths"),
    ("setting an array element", "numbers are needed, nested to equal lengths"),
    ("ufunc '", "numbers are needed"),
    ("as a data type", _A_DTYPE),
    (" not understood", _A_DTYPE),
    ("could not be broadcast", "these shapes do not broadcast"),
)
"""Texts of Python and NumPy about a value, and what they ask for."""
_RAISES = frozenset((opmap["RAISE_VARARGS"], opmap["RERAISE"]))
_CONVERSIONS = frozenset(
    f"__{name}__"
    for name in (
        "index",
        "bool",
        "int",
        "float",
        "complex",
        "len",
        "iter",
        "hash",
        "array",
        "getattr",
    )
)
_STDLIB = os.path.join(sysconfig.get_path("stdlib"), "")
_SITE = f"{os.sep}site-packages{os.sep}"
# What weft calls itself; other packages' exceptions are their own, as users' are.
_DEPENDENCIES = tuple(
    f"{_SITE}{name}{os.sep}" for name in ("numpy", "jaxlib", "ml_dtypes", "llvmlite")
)
_VARARGS = 4  # inspect.CO_VARARGS
_SHOWN = 60


def explain(function: str, e: Exception, original: Callable) -> None:
    """Say in an exception which function of weft, and which argument, was to blame.

    Raises an ArgumentError in place of exceptions that only tell of weft's inside.
    Exceptions of the user's own functions, and those that name the function, stay as they are.
    """
    tb = e.__traceback__
    if tb is None or hasattr(e, "_weft_explained") or not _is_plain(e):
        return
    caller = tb.tb_frame.f_back
    if caller is not None and is_internal_file(caller.f_code.co_filename):
        return  # an outer function of weft is the one that the user called
    raised = _is_deliberate(tb, hasattr(e, "_weft_raised"))
    if raised is None:
        return
    reword(e)
    e._weft_explained = True  # type: ignore[attr-defined]
    raised = raised or getattr(e, "_weft_raised", False)
    short = function.rpartition(".")[2]
    text = str(e.args[0]) if len(e.args) == 1 else str(e)
    # Names of primitives have hyphens where those of functions have underscores.
    named = short in text or short.replace("_", "-") in text or "weft." in text
    if raised and (short.startswith("_") or named):
        return  # which says it by itself, or is raised by what has no name of its own
    arguments = _arguments(tb.tb_frame, original)
    blamed = unfit_argument(getattr(original, "__annotations__", {}), arguments)
    where = f"{function}: "
    if blamed is not None and not (raised and _mentions(text, blamed)):
        where += f"argument {blamed}={_shown(arguments[blamed])}: "
    elif blamed is None and not raised and arguments:
        left_out = _defaults(original)
        shown = [
            f"{name}={_shown(value)}"
            for name, value in arguments.items()
            if name not in left_out or value is not left_out[name]
        ]
        where += f"called with {', '.join(shown)}: " if shown else ""
    if not raised and not isinstance(e, OverflowError | JAXTypeError | JAXIndexError):
        text = _in_plain_words(e, text, blamed, arguments)
        raise ArgumentError(where + text) from None
    e.args = (where + text, *e.args[1:])


def _in_plain_words(e: Exception, text: str, blamed: str | None, arguments: dict) -> str:
    """Reword an exception of Python's or NumPy's, without the values of weft's inside."""
    needed = next((needed for words, needed in _PLAIN if words in text), None)
    if needed is None:
        if not (isinstance(e, _UNFIT) or any(words in text for words in _INSIDE)):
            return text
        needed = _NEEDED
    if blamed is None:
        return "these do not fit" if needed is _NEEDED else needed
    if blamed.endswith("dtype"):
        needed = _A_DTYPE
    return f"{needed}, got {kind_of(arguments[blamed])}"


def _is_plain(e: Exception) -> bool:
    """Return whether the exception is one of Python's or weft's own, whose text is its argument."""
    kind = type(e)
    if kind is RuntimeError:
        return e.args == (_NO_CAST,)
    if kind is AssertionError and e.args:  # a check that says what it found, as weft.testing's do
        return False
    if kind.__module__ == "numpy._core._exceptions":
        return True
    of_python_or_weft = kind in _KNOWN or kind.__module__ == "weft.errors"
    return of_python_or_weft and len(e.args) <= 1 or kind is AttributeError


def _is_deliberate(tb: TracebackType, noted: bool) -> bool | None:
    """Return whether weft raised on purpose, and not Python or a library below it.

    None if frames of the user are among those below the public function. noted: an inner boundary
    took weft's frames out, and kept what it was.
    """
    last: TracebackType | None = None
    library = False
    below = tb.tb_next
    while below is not None:
        frame = below.tb_frame.f_code
        library = not is_internal_file(frame.co_filename)
        if library and not is_library(frame.co_filename):
            return None
        if not library:
            if last is not None and frame.co_name in _CONVERSIONS:
                return False  # what a value answers to a conversion is not about the function
            last = below
        below = below.tb_next
    if last is None:
        return False if noted else None
    return not library and is_raise(last)


def is_raise(tb: TracebackType) -> bool:
    """Tell whether a frame ended in a `raise` about a function, not of a converted value."""
    code = tb.tb_frame.f_code
    return code.co_code[tb.tb_lasti] in _RAISES and code.co_name not in _CONVERSIONS


def is_library(file: str) -> bool:
    """Return whether a file is of NumPy, jaxlib and their like, or of Python's own library."""
    if file.startswith("<"):
        return file.startswith("<__array_function__")
    return any(part in file for part in _DEPENDENCIES) or (
        file.startswith(_STDLIB) and _SITE not in file
    )


def _arguments(frame: FrameType, original: Callable) -> dict[str, Any]:
    """Return the arguments of the public function, from the frame of its boundary."""
    code, values = frame.f_code, frame.f_locals
    if code.co_name == "wrapped":  # of an `api_boundary`, or a method that is a function
        args = (values["self"], *values["args"]) if "self" in values else values["args"]
        positional = dict(zip(_parameters(original), args, strict=False))
        return {**positional, **values["kwargs"]}
    count = code.co_argcount + code.co_kwonlyargcount
    arguments = {name: values[name] for name in code.co_varnames[:count] if name in values}
    rest = values.get(code.co_varnames[count]) if code.co_flags & _VARARGS else None
    for i, value in enumerate(rest if isinstance(rest, tuple) else ()):
        arguments[f"{code.co_varnames[count]}[{i}]"] = value
    return arguments


def _parameters(function: Callable) -> tuple[str, ...]:
    """Return the names of the parameters that are given by position."""
    code = getattr(function, "__code__", None)
    return code.co_varnames[: code.co_argcount] if code else ()


def _defaults(function: Callable) -> dict[str, Any]:
    values = getattr(function, "__defaults__", None) or ()
    names = _parameters(function)
    pairs = zip(names[len(names) - len(values) :], values, strict=False)
    return {**dict(pairs), **(getattr(function, "__kwdefaults__", None) or {})}


def unfit_argument(annotations: Mapping[str, str], arguments: Mapping[str, object]) -> str | None:
    """Return the one argument that its annotation does not admit; None if none or several.

    >>> unfit_argument({"shape": "Shape", "axis": "int | None"}, {"shape": (2,), "axis": "0"})
    'axis'
    """
    unfit = [n for n, x in arguments.items() if n in annotations and not _fits(annotations[n], x)]
    return unfit[0] if len(unfit) == 1 else None


def _fits(annotation: str, value: object) -> bool:
    """Tell whether an annotation admits a value; those that name other classes admit everything."""
    kinds = re.sub(r"\[.*?\]+", "", str(annotation)).split(" | ")
    if not _KINDS.keys() >= set(kinds):
        return True
    return any(_admits(_KINDS[kind], value) for kind in kinds)


def _admits(test: Callable[[Any], object], value: object) -> bool:
    try:
        return bool(test(value))
    except Exception:  # what a conversion raises, of a class that its value chooses
        return False


def _is_array_like(x: object) -> bool:
    is_number = isinstance(x, bool | int | float | complex)
    return is_number or hasattr(x, "dtype") and hasattr(x, "shape")


def _is_sequence(x: object) -> bool:
    return hasattr(x, "__len__") and hasattr(x, "__getitem__") and not isinstance(x, str)


_KINDS: dict[str, Callable[[Any], object]] = {
    "None": lambda x: x is None,
    "int": lambda x: operator.index(x) is not None,
    "bool": lambda x: not isinstance(x, str) and bool(x) in (True, False),
    "float": lambda x: not isinstance(x, str) and float(x) is not None,
    "str": lambda x: isinstance(x, str),
    "Callable": callable,
    "Array": _is_array_like,
    "ArrayLike": _is_array_like,
    "Sequence": _is_sequence,
    "tuple": lambda x: isinstance(x, tuple),
    "list": lambda x: isinstance(x, list),
    "dict": lambda x: isinstance(x, dict),
    "Shape": lambda x: _is_sequence(x) or operator.index(x) is not None,
    "DTypeLike": lambda x: np.dtype(x) is not None,
}
"""What an annotation names, and which values it admits."""


def _mentions(text: str, name: str) -> bool:
    return name.partition("[")[0] in text


def _shown(value: object) -> str:
    """Return a value as a message shows it: arrays by type, others by a short repr."""
    try:
        aval = getattr(value, "aval", None)
        if aval is not None:
            return str(aval.str_short())
        if hasattr(value, "dtype") and hasattr(value, "shape"):
            return f"{value.dtype}{list(value.shape)}"
        text = repr(value)
    except Exception:
        text = type(value).__name__
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({type(value).__name__})"


__all__ = ["explain"]
