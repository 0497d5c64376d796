"""Exceptions that a bad argument causes inside of weft, said with the function and the argument.

A public function checks what it can say best. What it does not check ends in an exception of Python
or NumPy somewhere below: `'str' object cannot be interpreted as an integer`. Such an exception gets
the function's name and the argument in front: the innermost of weft's frames whose failing
expression holds one of the arguments tells which. Nothing here runs until something is raised.
"""

from __future__ import annotations

import ast
import linecache
import os
import sysconfig
from collections.abc import Callable
from itertools import islice
from opcode import opmap
from types import FrameType, TracebackType
from typing import Any

from weft.core.boundary import reword
from weft.core.errors import ArgumentError, JAXIndexError, JAXTypeError, kind_of
from weft.core.source import GENERATED, is_internal_file

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
    """Says in an exception which function of weft, and which argument, was to blame.

    Raises an ArgumentError in place of exceptions that only tell of weft's inside.
    Exceptions of the user's own functions, and those that name the function, stay as they are.
    """
    tb = e.__traceback__
    if tb is None or hasattr(e, "_weft_explained") or not _is_plain(e):
        return
    caller = tb.tb_frame.f_back
    if caller is not None and is_internal_file(caller.f_code.co_filename):
        return  # an outer function of weft is the one that the user called
    found = _frames_of_weft(tb)
    if found is None:
        return
    reword(e)
    frames, raised = found
    e._weft_explained = True  # type: ignore[attr-defined]
    raised = raised or getattr(e, "_weft_raised", False)
    short = function.rpartition(".")[2]
    text = str(e.args[0]) if e.args else ""
    if raised and (short.startswith("_") or short in text or "weft." in text):
        return  # which says it by itself, or is raised by what has no name of its own
    arguments = _arguments(tb.tb_frame, original)
    blamed = _blamed(frames, arguments)
    where = f"{function}: "
    if blamed is not None and not (raised and _mentions(text, blamed)):
        where += f"argument {blamed}={_shown(arguments[blamed])}: "
    elif blamed is None and not raised and arguments:
        left_out = _defaults(original)
        given = [
            f"{name}={_shown(value)}"
            for name, value in arguments.items()
            if name not in left_out or value is not left_out[name]
        ]
        where += f"called with {', '.join(given)}: " if given else ""
    if not raised and not isinstance(e, OverflowError | JAXTypeError | JAXIndexError):
        if isinstance(e, _UNFIT) or any(words in text for words in _INSIDE):
            one = blamed is not None
            text = f"{_NEEDED}, got {kind_of(arguments[blamed])}" if one else "these do not fit"
        raise ArgumentError(where + text) from None
    e.args = (where + text, *e.args[1:])


def _is_plain(e: Exception) -> bool:
    """Whether the exception is one of Python's or weft's own, whose text is its argument."""
    kind = type(e)
    if kind is RuntimeError:
        return e.args == (_NO_CAST,)
    if kind is AssertionError and e.args:  # a check that says what it found, as weft.testing's do
        return False
    own = kind in _KNOWN or kind.__module__ in ("weft.errors", "numpy._core._exceptions")
    return own and len(e.args) <= 1 or kind is AttributeError


def _frames_of_weft(tb: TracebackType) -> tuple[list[TracebackType], bool] | None:
    """The frames below the public function, and whether weft raised on purpose.

    None if frames of the user are among them.
    """
    frames: list[TracebackType] = []
    library = False
    below = tb.tb_next
    while below is not None:
        file = below.tb_frame.f_code.co_filename
        if is_internal_file(file):
            frames.append(below)
            library = False
        elif not _is_library(file):
            return None
        else:
            library = True
        below = below.tb_next
    raised = not library
    for i, frame in enumerate(frames):
        if i and frame.tb_frame.f_code.co_name in _CONVERSIONS:
            del frames[i:]  # what a value answers to a conversion is not about the function
            raised = False
            break
    if not frames:
        return None
    last = frames[-1]
    raised = raised and is_raise(last)
    return frames, raised


def is_raise(tb: TracebackType) -> bool:
    """Whether a frame ended in a `raise` that tells of a function, not of a converted value."""
    code = tb.tb_frame.f_code
    return code.co_code[tb.tb_lasti] in _RAISES and code.co_name not in _CONVERSIONS


def _is_library(file: str) -> bool:
    if file.startswith("<"):
        return file.startswith("<__array_function__")
    return any(part in file for part in _DEPENDENCIES) or (
        file.startswith(_STDLIB) and _SITE not in file
    )


def _arguments(frame: FrameType, original: Callable) -> dict[str, Any]:
    """The arguments of the public function, from the frame of its boundary."""
    code, values = frame.f_code, frame.f_locals
    if code.co_name == "wrapped":  # of an `api_boundary`
        given = dict(zip(_parameters(original), values["args"], strict=False))
        return {**given, **values["kwargs"]}
    count = code.co_argcount + code.co_kwonlyargcount
    arguments = {name: values[name] for name in code.co_varnames[:count] if name in values}
    rest = values.get(code.co_varnames[count]) if code.co_flags & _VARARGS else None
    for i, value in enumerate(rest if isinstance(rest, tuple) else ()):
        arguments[f"{code.co_varnames[count]}[{i}]"] = value
    return arguments


def _parameters(function: Callable) -> tuple[str, ...]:
    """The names of the parameters that are given by position."""
    code = getattr(function, "__code__", None)
    return code.co_varnames[: code.co_argcount] if code else ()


def _defaults(function: Callable) -> dict[str, Any]:
    values = getattr(function, "__defaults__", None) or ()
    names = _parameters(function)
    pairs = zip(names[len(names) - len(values) :], values, strict=False)
    return {**dict(pairs), **(getattr(function, "__kwdefaults__", None) or {})}


def _blamed(frames: list[TracebackType], arguments: dict[str, Any]) -> str | None:
    """The argument that the innermost failing expression with an argument in it holds."""
    for tb in reversed(frames):
        if tb.tb_frame.f_code.co_filename == GENERATED:
            continue
        values = tb.tb_frame.f_locals
        found = []
        for name in _names(tb):
            if name not in values:  # an attribute that holds the argument
                found += [name] if name in arguments else []
                continue
            same = [a for a, v in arguments.items() if v is values[name]]
            if name in same:
                found.append(name)
            elif len(same) == 1:
                found.append(same[0])
        found = list(dict.fromkeys(found))
        if len(found) == 1:
            return found[0]
        if found:
            return None
    return None


def _names(tb: TracebackType) -> list[str]:
    """The variables and attributes of the expression that failed in a frame."""
    code = tb.tb_frame.f_code
    line, last, start, end = next(islice(code.co_positions(), tb.tb_lasti // 2, None))
    if line is None or last is None:
        return []
    lines = [linecache.getline(code.co_filename, n).encode() for n in range(line, last + 1)]
    if not all(lines):
        return []
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][start:]
    try:
        tree = ast.parse(f"({b''.join(lines).decode()})")
    except SyntaxError:
        return []
    names = [
        n.id if isinstance(n, ast.Name) else n.attr
        for n in ast.walk(tree)
        if isinstance(n, ast.Name | ast.Attribute)
    ]
    return list(dict.fromkeys(names))


def _mentions(text: str, name: str) -> bool:
    return name.partition("[")[0] in text


def _shown(value: object) -> str:
    """A value as a message shows it: arrays by type, others by a short repr."""
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
