"""Public namespaces: what they list, and functions that raise with the user's frames only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache, lru_cache
from importlib import import_module
from types import CodeType, FunctionType
from typing import Any

from weft.core.boundary import api_boundary, show_user_frames
from weft.core.source import GENERATED

Refusal = Callable[[str, tuple[str, ...], tuple, dict[str, Any]], None]
"""`refuse(function, parameters, surplus, unknown)`: raises for arguments that do not exist."""

_BOUNDARY = api_boundary(lambda: None).__code__
_VARARGS, _VARKEYWORDS = 4, 8  # inspect.CO_VARARGS, CO_VARKEYWORDS
_public: dict[tuple[str, Callable], Callable] = {}
_made: set[Callable] = set()
_entered: set[type] = set()
_ENTRANCES = ("__new__", "__init__", "__call__", "__getitem__")


@dataclass(frozen=True, slots=True)
class EagerPrograms:
    """How functions of several ops run outside of transformations: each as one program.

    names: those functions. options: the parameters that are static, of any of them.
    operands: those that are none, though their defaults are numbers.
    integers: those among options for which 1.0 and True, though equal to 1, are mistakes.
    arrays: classes of which the first argument must be one (or a list or tuple, of functions in
    `joining`). compile: jits a function with these static parameters, by position and by name.
    state: where the current trace stands, which is `eager` outside of transformations.
    """

    names: frozenset[str]
    options: frozenset[str]
    operands: frozenset[str]
    integers: frozenset[str]
    joining: frozenset[str]
    arrays: tuple[type, ...]
    compile: Callable[[Callable, list[int], list[str]], Callable]
    state: object
    eager: object


def missing(module: str, name: str, instead: str | None = None) -> AttributeError:
    """Describe a name that a module has not; printing it, Python adds one that is alike."""
    text = f"module {module!r} has no attribute {name!r}"
    if instead is not None:
        return AttributeError(f"{text}; write {instead}")
    return AttributeError(text, name=name, obj=sys.modules[module])


def public(
    value: object,
    module: str,
    name: str | None = None,
    *,
    refuse: Refusal | None = None,
    example: str | None = None,
    programs: EagerPrograms | None = None,
) -> Any:
    """Return a function as `module` offers it: what it raises shows only frames outside weft.

    The function has the parameters of the original written out, so that a call costs 15 to 40 ns
    more and no tuple or dict is made. Other values, and functions that are boundaries already, are
    given back as they are; what constructs and calls classes of weft becomes a boundary in place.

    name: what the module calls it, if that is not the function's own name.
    refuse: is called with arguments that the function does not take.
    example: lines that the docstring is extended by.
    programs: which functions run as one program outside of transformations.
    """
    if type(value) is not FunctionType:
        for cls in (value, type(value)):
            for base in cls.__mro__ if isinstance(cls, type) else ():
                _bound_class(base)
        return value
    if value in _made or value.__code__ is _BOUNDARY:
        return value
    cached = _public.get((module, value))
    if cached is None:
        cached = _public[module, value] = bounded(value, module, name, refuse, example, programs)
        _made.add(cached)
    return cached


def _bound_class(cls: type) -> None:
    """Make a class's own entrances boundaries, once; exceptions, enums and protocols have none."""
    if cls in _entered or not cls.__module__.startswith("weft."):
        return
    _entered.add(cls)
    if issubclass(cls, BaseException | Enum) or getattr(cls, "_is_protocol", False):
        return
    for name in _ENTRANCES:
        method = cls.__dict__.get(name)
        function = method.__func__ if isinstance(method, staticmethod) else method
        if type(function) is FunctionType and function.__code__ is not _BOUNDARY:
            wrapped = bounded(function, function.__module__, function.__qualname__)
            setattr(cls, name, staticmethod(wrapped) if function is not method else wrapped)


def bounded(
    fun: FunctionType,
    module: str,
    name: str | None,
    refuse: Refusal | None = None,
    example: str | None = None,
    programs: EagerPrograms | None = None,
) -> Callable:
    """Wrap a function that returns functions: each result is public in the sense of `public`."""
    code = fun.__code__
    names = code.co_varnames
    positional, keywords = code.co_argcount, code.co_kwonlyargcount
    end = positional + keywords
    varargs = names[end] if code.co_flags & _VARARGS else None
    varkeywords = names[end + bool(varargs)] if code.co_flags & _VARKEYWORDS else None
    unknown = refuse is not None and varkeywords is None
    surplus = unknown and varargs is None and not (keywords or fun.__defaults__)
    qualname = name or fun.__qualname__
    eager: tuple = ()
    if programs is not None and qualname in programs.names:
        eager = _eager_call(fun, programs, qualname in programs.joining, varargs)
    make = _maker(
        names[: code.co_posonlyargcount],
        names[code.co_posonlyargcount : positional],
        names[positional:end],
        "_surplus_" if surplus else varargs,
        "_unknown_" if unknown else varkeywords,
        (surplus, unknown),
        eager[0] if eager else None,
    )
    refusal = None
    if refuse is not None:
        full, parameters = f"{module}.{qualname}", names[:end]

        def refusal(surplus: tuple, unknown: dict[str, Any]) -> None:
            refuse(full, parameters, surplus, unknown)

    label = _label(module, qualname)

    def explained(e: Exception) -> None:
        from weft.core.argument_errors import explain  # where nothing fails it is not needed

        if label is not None:
            explain(label, e, fun)
        show_user_frames(e)

    inner = make(fun, explained, show_user_frames, refusal, *eager[1:])
    renamed: CodeType = inner.__code__.replace(co_name=qualname, co_qualname=qualname)
    # The globals are those of the original, by which doctest finds the module it belongs to.
    result: Any = FunctionType(
        renamed, fun.__globals__, name or fun.__name__, fun.__defaults__, inner.__closure__
    )
    result.__kwdefaults__ = fun.__kwdefaults__
    result.__annotations__ = fun.__annotations__
    result.__doc__ = with_example(fun.__doc__, example)
    result.__dict__.update(fun.__dict__)
    result.__module__, result.__qualname__, result.__wrapped__ = module, qualname, fun
    return result


_INTEGERS = frozenset((int, tuple, type(None)))
MISTAKES = (TypeError, ValueError, LookupError, AttributeError, OverflowError)
"""What a program raises of bad arguments, unhashable options and operands whose values it needs.
The function then runs op by op and says it in its own terms; other exceptions are of the run."""


def _eager_call(
    fun: FunctionType, programs: EagerPrograms, joins: bool, varargs: str | None
) -> tuple[Any, ...]:
    """Write the condition under which a call runs as one eager program, and its values."""
    code = fun.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    first = names[0] if code.co_argcount else f"{varargs}[0]"
    condition = f"{first}.__class__ in _arrays_"
    if not code.co_argcount:
        condition = f"{varargs} and {condition}"
    condition += "".join(
        f" and {n}.__class__ in _integers_" for n in names if n in programs.integers and n != first
    )
    # A number that was left out costs nothing as a part of the program. The first is an array.
    options = {*programs.options} - {first}
    defaults: list[float] = []
    for n, value in _defaults(fun).items():
        if n not in options | programs.operands and isinstance(value, bool | int | float):
            condition += f" and {n} is _default{len(defaults)}_"
            options.add(n)
            defaults.append(value)
    numbers = [i for i, n in enumerate(names[: code.co_argcount]) if n in options]
    keywords = [n for n in names[code.co_argcount :] if n in options]
    classes = (*programs.arrays, list, tuple) if joins else programs.arrays

    def compile_program() -> Callable:
        return programs.compile(fun, numbers, keywords)

    values = programs.state, programs.eager, classes, _INTEGERS, MISTAKES, compile_program
    return condition, *values, *defaults


def _defaults(fun: FunctionType) -> dict[str, Any]:
    """Return the defaults of a function's parameters by name."""
    code, values = fun.__code__, fun.__defaults__ or ()
    names = code.co_varnames[code.co_argcount - len(values) : code.co_argcount]
    return {**dict(zip(names, values, strict=True)), **(fun.__kwdefaults__ or {})}


def _label(module: str, qualname: str) -> str | None:
    """Return the name of a public function in messages; operators have none."""
    owner, _, method = qualname.rpartition(".")
    if method.startswith("__") and not owner:
        return None
    if owner:
        return owner if method in _ENTRANCES[:2] else f"{owner}.{method}"
    return f"Array.{qualname}" if module == "weft.numpy.methods" else f"{module}.{qualname}"


@cache
def _maker(
    positional_only: tuple[str, ...],
    positional: tuple[str, ...],
    keywords: tuple[str, ...],
    varargs: str | None,
    varkeywords: str | None,
    refuses: tuple[bool, bool],
    eager: str | None,
) -> Callable:
    """Make functions of one signature, from the text a person would write."""
    parameters = [*positional_only, *(["/"] if positional_only else []), *positional]
    arguments = [*positional_only, *positional]
    if varargs or keywords:
        parameters.append(f"*{varargs or ''}")
    if varargs and not refuses[0]:
        arguments.append(f"*{varargs}")
    parameters += keywords
    arguments += [f"{k}={k}" for k in keywords]
    if varkeywords:
        parameters.append(f"**{varkeywords}")
        if not refuses[1]:
            arguments.append(f"**{varkeywords}")
    pairs = zip((varargs, varkeywords), refuses, strict=True)
    extra = [name for name, is_extra in pairs if is_extra and name]
    surplus = f"{varargs if refuses[0] else '()'}, {varkeywords}"
    call = ", ".join(arguments)
    # Traced calls go the ordinary way; so do mistakes, of which the function itself tells.
    program = [
        f"   if {eager} and _state_.trace is _eval_{''.join(f' and not {n}' for n in extra)}:",
        "    if _program_ is None: _program_ = _compile_()",
        f"    try: return _program_({call})",
        "    except _mistakes_: pass",
    ]
    count = eager.count(" is _default") if eager else 0
    needed = ", _state_, _eval_, _arrays_, _integers_, _mistakes_, _compile_"
    needed += "".join(f", _default{i}_" for i in range(count))
    lines = [
        f"def make(_fun_, _explain_, _show_, _refuse_{needed if eager else ''}):",
        *([" _program_ = None"] if eager else []),
        f" def function({', '.join(parameters)}):",
        *(["  nonlocal _program_"] if eager else []),
        "  try:",
        *(program if eager else []),
        *([f"   if {' or '.join(extra)}: _refuse_({surplus})"] if extra else []),
        f"   return _fun_({call})",
        "  except Exception as _error_:",
        "   try: _explain_(_error_)",
        "   except Exception as _other_:",
        "    _show_(_other_)",
        "    raise",
        "   raise",
        " return function",
    ]
    # From text: only a real signature costs a call nothing and shows in `help`.
    scope: dict[str, Any] = {}
    exec(compile("\n".join(lines), GENERATED, "exec"), scope)
    return scope["make"]


def with_example(doc: str | None, example: str | None) -> str | None:
    """Return a docstring that ends with an example."""
    if not example:
        return doc
    text = (doc or "").rstrip()
    # Python 3.13 takes the margin out of docstrings.
    margin = "" if any(line[:1].strip() for line in text.splitlines()[1:]) else "    "
    lines = "\n".join(f"{margin}{line}".rstrip() for line in example.splitlines())
    return f"{text}\n\n{lines}\n{margin}"


def examples_of(preamble: str, text: str) -> dict[str, str]:
    """Return a table of examples: paragraphs, each a name and the lines that follow it.

    preamble: the statement that all examples begin with.
    """
    examples = {}
    for paragraph in text.strip().split("\n\n"):
        name, _, lines = paragraph.partition("\n")
        examples[name] = f">>> {preamble}\n{lines}"
    return examples


def load_on_use(
    scope: dict[str, Any],
    homes: Mapping[str, str],
    programs: Callable[[], EagerPrograms] | None = None,
    *,
    modules: Iterable[str] = (),
    aliases: Mapping[str, str] | None = None,
    examples: Mapping[str, str] | None = None,
    home: str | None = None,
) -> tuple[Callable[[str], Any], dict[str, str]]:
    """Give a package public names whose modules are loaded when one of them is first used.

    Of two threads one may begin with the package and one with a module of it. If the package loads
    modules, each waits for what the other holds, and Python gives one of them half a module.

    scope: the package's `globals()`, of whose `__all__` other names are kept. homes: module of the
    package, or of another by its whole name → the names it defines. modules: those that are public
    names themselves. aliases: what a name is called in its module, if that is another. examples,
    home: as `seal` has them. Return its `__getattr__`, and the module of each name.
    """
    package = scope["__name__"]
    home_of = {
        name: module if module.startswith("weft.") else f"{package}.{module}"
        for module, names in homes.items()
        for name in names.split()
    }
    programs_once = lru_cache(maxsize=1)(programs or (lambda: None))
    listed = scope["__all__"] = sorted({*home_of, *modules, *scope.get("__all__", ())})

    def load(name: str) -> Any:
        if name in modules:
            return import_module(f"{package}.{name}")
        if name not in home_of:
            raise missing(package, name)
        value = getattr(import_module(home_of[name]), (aliases or {}).get(name, name))
        value_name = getattr(value, "__name__", None)
        scope[name] = value = public(
            value,
            home or package,
            None if value_name in listed else name,
            example=(examples or {}).get(name),
            programs=programs_once(),
        )
        return value

    scope["__dir__"] = lambda: listed
    return load, home_of


def seal(
    scope: dict[str, Any],
    *,
    refuse: Refusal | None = None,
    examples: Mapping[str, str] | None = None,
    prefix: str = "",
    hidden: Iterable[str] = (),
    home: str | None = None,
    programs: EagerPrograms | None = None,
) -> None:
    """Make the functions of a module's `__all__` public, and its directory list these names.

    scope: the module's `globals()`. hidden: names of `__all__` that load on first use.
    examples: by name, with the prefix before it, what docstrings are extended by.
    home: the module that users know the functions of, if it is another.
    """
    listed = scope["__all__"]
    module = home or scope["__name__"]
    for name in listed:
        if name in hidden:
            continue
        value = scope[name]
        value_name = getattr(value, "__name__", None)
        scope[name] = public(
            value,
            module,
            None if value_name in listed else name,
            refuse=refuse,
            example=(examples or {}).get(prefix + name),
            programs=programs,
        )
    scope["__dir__"] = lambda: sorted(listed)
