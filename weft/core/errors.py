"""The exceptions of tracing, and the wording that all error messages share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from weft.typing import ArrayLike

_E = TypeVar("_E", bound=type[BaseException])
_LINK = re.compile(r"\n?\[docs/errors\.md#\w+\]")
"""The last line of an error's text, the name of its section."""


def has_page(module: str = "weft.errors", section: str = "") -> Callable[[_E], _E]:
    """Decorate an error class: its text ends with the name of its section in docs/errors.md.

    ``module`` is where users find the class. Subclasses without a section name that of their base.
    """

    def decorate(cls: _E) -> _E:
        link = f"[docs/errors.md#{section or cls.__name__.lower()}]"

        def __str__(self: BaseException) -> str:
            text = f"{self}"
            return f"{text}\n{link}" if text else link

        def __format__(self: BaseException, spec: str) -> str:
            """Format the text for another message, which names a section of its own."""
            # Not super's, which may end with its section; another error's text may be in this one.
            return format(_LINK.sub("", BaseException.__str__(self)), spec)

        cls.__str__, cls.__format__ = __str__, __format__  # type: ignore[method-assign, assignment]
        cls.__module__ = module
        return cls

    return decorate


@has_page()
class JAXTypeError(TypeError):
    """The kind of errors about how traced values and keys are used."""


@has_page()
class JAXIndexError(IndexError):
    """The kind of errors about traced values as indices."""


@has_page()
class UnexpectedTracerError(JAXTypeError):
    """A traced value was used after its trace had ended (a leak)."""


@has_page()
class ConcretizationTypeError(JAXTypeError):
    """A Python value was needed where only a traced one exists."""


@has_page()
class TracerBoolConversionError(ConcretizationTypeError):
    """`bool()` of a traced array."""


@has_page()
class TracerIntegerConversionError(ConcretizationTypeError):
    """A traced array was used as a Python integer, such as a size or an axis."""


@has_page()
class TracerArrayConversionError(JAXTypeError):
    """`np.array()` of a traced array."""


@has_page()
class NonConcreteBooleanIndexError(JAXIndexError):
    """A traced boolean mask was used as an index: the result's shape would depend on it."""


@has_page()
class InconclusiveDimensionOperation(ValueError):
    """Raised where a comparison of symbolic dimensions has another answer for other sizes."""


@has_page()
class KeyReuseError(JAXTypeError):
    """A random key was used twice."""


@has_page()
class ShapeError(TypeError, ValueError):
    """Shapes of operands do not fit: a TypeError as in JAX, and a ValueError as in NumPy."""


@has_page()
class ArgumentError(TypeError, ValueError):
    """An argument does not fit: a TypeError or a ValueError of JAX, by where it is found out."""


@has_page()
class UnsupportedArgumentError(ArgumentError, NotImplementedError):
    """An argument asks for a mode or feature that does not exist: a NotImplementedError or a
    RuntimeError of JAX.
    """


@has_page()
class MissingRuleError(TypeError, NotImplementedError):
    """An operation lacks the rule by which a transformation treats it, such as its derivative."""


@has_page()
class BadIndexError(ArgumentError, IndexError):
    """Brackets hold no index, or none of the array: an IndexError as NumPy's."""


@has_page()
class AxisError(BadIndexError):
    """An axis that an array does not have: as in NumPy, whoever catches either error catches it."""


@has_page()
class BucketError(ValueError):
    """A function that is jitted with bucket= has no exact result on padded arguments."""


@has_page()
class AxisKindError(BadIndexError, NotImplementedError):
    """An axis is no integer, such as a name: by the function, each of these errors in JAX."""


@has_page()
class AxisNameError(ArgumentError, NameError):
    """A named axis is no name, or none in scope: a NameError of JAX, or by the name one of the
    others."""


@has_page()
class NoMeshError(ValueError, RuntimeError):
    """A PartitionSpec is given where no mesh is in context: a RuntimeError or ValueError of JAX."""


@has_page()
class DistributedError(RuntimeError):
    """Processes of one group do not act together: one is missing, or runs another program."""


@has_page()
class ShardingTypeError(TypeError):
    """Explicit shardings of operands conflict, or leave the result's sharding open."""


@has_page()
class PartialSumError(ShardingTypeError, NotImplementedError):
    """An op would use partial sums as if they were values: by the op, either error in JAX."""


def kind_of(value: ArrayLike | dict | list) -> str:
    """Return the type of a value as messages say it."""
    name = type(value).__name__
    return {"ArrayImpl": "an array"}.get(
        name, "a traced array" if hasattr(value, "_trace") else name
    )


def made_at(tracer: Any) -> str:
    """Return where a traced value comes from, for messages."""
    source = tracer.source()
    if source is not None:
        return f"made at {source}"
    name = getattr(tracer._trace, "name", "the traced function")
    return f"an argument of {name}"


def leaked(tracer: Any) -> UnexpectedTracerError:
    if not tracer._trace.finished:
        return UnexpectedTracerError(
            f"a traced value of type {tracer.aval.str_short()}, {made_at(tracer)}, was used "
            "outside of the transformation it belongs to, for example by a custom derivative rule "
            "that closes over a differentiated value; pass it as an argument. Inside "
            "weft.ensure_compile_time_eval ops take values that are known while tracing only."
        )
    return UnexpectedTracerError(
        f"a traced value of type {tracer.aval.str_short()} was used after its trace had ended; "
        f"it was {made_at(tracer)}. Return it from the transformed function instead of storing it "
        "in a global, an attribute or a closure."
    )


def still_alive(tracers: list[Any], name: str) -> UnexpectedTracerError:
    """Describe leaked tracers for check_tracer_leaks."""
    import gc
    import itertools

    lines = []
    for t in itertools.islice(tracers, 8):  # a slice would be one more holder
        holders = {type(h).__name__ for h in gc.get_referrers(t) if h is not tracers} - {"frame"}
        held_by = f", held by: {', '.join(sorted(holders))}" if holders else ""
        lines.append(f"  {t.aval.str_short()}, {made_at(t)}{held_by}")
    return UnexpectedTracerError(
        f"check_tracer_leaks: after tracing {name}, {plural(len(tracers), 'traced value')} can "
        "still be reached:\n" + "\n".join(lines) + "\nReturn such values from the function "
        "instead of storing them in a global, an attribute or a closure."
    )


def plural(n: int, noun: str) -> str:
    return f"{n} {noun}" + ("" if n == 1 else "s")


def names_text(names: Iterable[Any]) -> str:
    """Return axis names as the user writes them: one name, or a tuple; those of a set in order."""
    ordered = sorted(names, key=str) if isinstance(names, set | frozenset) else list(names)
    return repr(ordered[0]) if len(ordered) == 1 else repr(tuple(ordered))


def mark_difference(expected: str, got: str) -> str:
    """Print two types one above the other, with ^ under the parts of the second that differ."""
    width = max(len(expected), len(got))
    a, b = expected.ljust(width), got.ljust(width)
    marks = "".join("^" if x != y else " " for x, y in zip(a, b, strict=True)).rstrip()
    return f"  expected {expected}\n  got      {got}\n           {marks}"


def mark_dimensions(*rows: tuple[str, Any, Iterable[int]]) -> str:
    """Print types one above the other, given as (label, aval, dimensions), with ^ under these."""
    width = max(len(label) for label, _, _ in rows)
    lines = []
    for label, aval, dims in rows:
        text = f"  {label.ljust(width)} {aval.str_short()}"
        marks = [" "] * len(text)
        for d in dims:
            start, end = _dimension_span(text, d)
            marks[start:end] = "^" * (end - start)
        lines += [text, "".join(marks).rstrip()]
    return "\n".join(lines)


def _dimension_span(text: str, dim: int) -> tuple[int, int]:
    """Return where a type's text, such as `f32[8@(x,y),4]`, shows one dimension."""
    start = end = text.index("[") + 1
    depth = 0
    while depth or text[end] != "]":
        c = text[end]
        if c == "," and not depth:
            if not dim:
                break
            dim, start = dim - 1, end + 1
        depth += (c in "([") - (c in ")]")
        end += 1
    return start, end
