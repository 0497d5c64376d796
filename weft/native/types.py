# Tests: tests/native/test_reductions.py
"""Types and values of the language of kernels."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Type:
    """A scalar (`element` None), a pointer or a vector; kind: i, u, f or b, p for pointers."""

    name: str
    llvm: str
    kind: str
    bits: int
    element: Type | None = None


def _scalars() -> dict[str, Type]:
    table = {f"{k}{n}": Type(f"{k}{n}", f"i{n}", k, n) for k in "iu" for n in (8, 16, 32, 64)}
    kinds = (
        ("f16", "half", 16),
        ("bf16", "bfloat", 16),
        ("f32", "float", 32),
        ("f64", "double", 64),
    )
    table |= {name: Type(name, llvm, "f", bits) for name, llvm, bits in kinds}
    table["boolean"] = Type("boolean", "i1", "b", 1)
    return table


SCALARS = _scalars()
I64, BOOLEAN = SCALARS["i64"], SCALARS["boolean"]


def pointer(element: Type) -> Type:
    return Type(f"ptr[{element.name}]", "ptr", "p", 64, element)


def vector(element: Type, lanes: int) -> Type:
    llvm = f"<{lanes} x {element.llvm}>"
    return Type(f"wide[{element.name}]", llvm, element.kind, element.bits, element)


@dataclass(frozen=True, slots=True)
class Value:
    """An SSA value; without a type, a number that takes the type of what it meets."""

    type: Type | None
    text: str | int | float


class KernelError(Exception):
    """A kernel that the language does not take; names the file's function and line."""
