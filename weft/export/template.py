# Tests: tests/export/test_symbolic.py
"""Programs for dimensions of unknown size: what stays the same over samples, and what is fitted.

A function is exported once for each of several samples of sizes. The programs must agree in all but
numbers; each number that differs becomes an expression of the dimensions, found from some samples
and checked with the others. A call fills in its sizes.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from weft._xla import mlir, portable
from weft.core import dtypes
from weft.core.errors import ArgumentError
from weft.core.tree import names_in
from weft.export.polynomials import (
    Poly,
    add,
    constant,
    evaluate,
    multiply,
    operate,
    show,
    variables,
)
from weft.export.symbolic import SymbolicDim, SymbolicScope, _solve_equality, poly_of

if TYPE_CHECKING:
    from weft.core.aval import ShapedArray
    from weft.export.exported import Exported

SAMPLES = 8

# A number that is no part of a name, as of %arg0 or f32; that of 7x3xf32 is one.
_NUMBER = re.compile(r"(?:(?<![\w%#@.])|(?<=\dx))(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)(?=x|\b)")

# Functions of an integer that floats in programs are: of a mean's divisor, of a scale.
_FLOATS: dict[str, tuple[Callable[[float], float], Callable[[float], float]]] = {
    "float": (lambda v: v, lambda v: v),
    "reciprocal": (lambda v: 1 / v, lambda v: 1 / v),
    "sqrt": (math.sqrt, lambda v: v * v),
    "rsqrt": (lambda v: v**-0.5, lambda v: v**-2),
}


@dataclass(frozen=True)
class Template:
    """Text between numbers, and the numbers: (function of an integer, numerators, denominator)."""

    texts: tuple[str, ...]
    slots: tuple[tuple[str, Poly, int], ...]

    def fill(self, sizes: dict[str, int]) -> str:
        """Return the program for given sizes."""
        words = [self.texts[0]]
        for (kind, p, divisor), text in zip(self.slots, self.texts[1:], strict=True):
            value = evaluate(p, sizes) // divisor
            words.append(str(value) if kind == "int" else f"{_FLOATS[kind][0](value):.17e}")
            words.append(text)
        return "".join(words)

    def show(self) -> str:
        """Return the text, with expressions in braces."""
        words = [self.texts[0]]
        for (kind, p, divisor), text in zip(self.slots, self.texts[1:], strict=True):
            value = show(p) if divisor == 1 else f"({show(p)}) / {divisor}"
            words += ["{" + (value if kind == "int" else f"{kind}({value})") + "}", text]
        return "".join(words)


class Fit:
    """Finds expressions of the dimensions that have given values in all samples."""

    def __init__(self, api: str, scope: SymbolicScope, samples: Sequence[dict[str, int]]) -> None:
        self.api, self.samples = api, samples
        names = sorted(scope.sizes)
        single: list[Poly] = [(((n,), 1),) for n in names]
        atoms = {m for p in scope.seen for m, _ in p if m}
        terms = [*single, *(((m, 1),) for m in sorted(atoms, key=repr))]
        terms += [multiply(a, b) for a, b in itertools.combinations_with_replacement(single, 2)]
        terms += [multiply(multiply(a, b), c) for a, b, c in itertools.combinations(single, 3)]
        self.terms = list(dict.fromkeys(terms))
        self.columns = [[evaluate(t, s) for s in samples] for t in self.terms]
        self.known: dict[tuple, tuple[Poly, int]] = {}

    def integer(self, values: Sequence[int]) -> tuple[Poly, int] | None:
        """(p, divisor) with p / divisor = values, or None."""
        key = tuple(values)
        if key not in self.known:
            quotient = self._search(key)
            if quotient is None:
                return None
            self.known[key] = quotient
        return self.known[key]

    def _search(self, values: tuple[int, ...]) -> tuple[Poly, int] | None:
        if len(set(values)) == 1:
            return constant(values[0]), 1
        return self._linear(values) or self._divided(values) or self._remainder(values)

    def _remainder(self, values: tuple[int, ...]) -> tuple[Poly, int] | None:
        """mod(t + d, k) or mod(d - t, k), as of what padding adds."""
        for t, column in zip(self.terms, self.columns, strict=True):
            for k, sign in itertools.product((2, 3, 4, 5, 6, 7, 8, 16, 32, 64, 128, 256), (1, -1)):
                d = (values[0] - sign * column[0]) % k
                pairs = zip(values, column, strict=True)
                if all(v == (sign * c + d) % k for v, c in pairs):
                    shifted = add(constant(d), t, sign)
                    return operate("mod", shifted, constant(k)), 1
        return None

    def _divided(self, values: tuple[int, ...]) -> tuple[Poly, int] | None:
        """floordiv(t + d, k), and multiples of it, as of strides and of padding."""
        for t, column in zip(self.terms, self.columns, strict=True):
            for k in (2, 3, 4, 5, 6, 7, 8, 16, 32, 64, 128, 256):
                for scale, more in ((1, 0), (k, 0), (k, 1)):
                    if any((v - more) % scale for v in values):
                        continue
                    pairs = [((v - more) // scale, c) for v, c in zip(values, column, strict=True)]
                    low = max(k * v - c for v, c in pairs)
                    high = min(k * v + k - 1 - c for v, c in pairs)
                    if low > high:
                        continue
                    # Rounding down, up, or the only offset that there is.
                    likely = [d for d in (0, k - 1, -1, k - 2) if low <= d <= high]
                    if not likely and low < high:
                        continue
                    shifted = add(t, constant((likely or [low])[0]))
                    quotient = operate("floordiv", shifted, constant(k))
                    return add(constant(more), quotient, scale), 1
        return None

    def _linear(self, values: tuple[int, ...]) -> tuple[Poly, int] | None:
        for count in (1, 2, 3):
            if count + 1 >= len(self.samples):
                break
            for chosen in itertools.combinations(range(len(self.terms)), count):
                rows = [
                    [Fraction(self.columns[i][s]) for i in chosen] + [Fraction(1)]
                    for s in range(len(self.samples))
                ]
                solution = _solve(rows, [Fraction(v) for v in values])
                if solution is not None:
                    divisor = math.lcm(*(f.denominator for f in solution))
                    p = constant(int(solution[-1] * divisor))
                    for i, f in zip(chosen, solution, strict=False):
                        p = add(p, self.terms[i], int(f * divisor))
                    return p, divisor
        return None

    def number(self, words: Sequence[str]) -> tuple[str, Poly, int] | None:
        """Return the slot for a number as the samples' programs write it."""
        if all(re.fullmatch(r"-?\d+", w) for w in words):
            quotient = self.integer([int(w) for w in words])
            return quotient and ("int", *quotient)
        values = [float(w) for w in words]
        if not all(v and math.isfinite(v) for v in values):
            return None
        for kind, (_, inverse) in _FLOATS.items():
            if kind in ("sqrt", "rsqrt") and min(values) < 0:
                continue
            inverted = [inverse(v) for v in values]
            whole = [round(v) for v in inverted]
            close = [abs(a - b) <= 2e-6 * abs(a) for a, b in zip(inverted, whole, strict=True)]
            quotient = self.integer(whole) if all(close) else None
            if quotient is not None:
                return kind, *quotient
        return None

    def dimension(self, values: Sequence[int], scope: SymbolicScope) -> Any:
        """Return a dimension of a result."""
        quotient = self.integer(list(map(int, values)))
        if quotient is None:
            raise self.error(f"a result has sizes {list(values)} in samples {self.samples}")
        whole = operate("floordiv", quotient[0], constant(quotient[1]))
        return SymbolicDim(whole, scope, dict(scope.sizes))

    def error(self, problem: str) -> Exception:
        return NotImplementedError(
            f"{self.api}: its program is not one for all sizes of the symbolic dimensions: "
            f"{problem}. Arrays of such a size, made by NumPy, and Python loops over it are fixed; "
            "use weft.numpy and weft.lax, or export it for given sizes"
        )

    def template(self, programs: Sequence[str]) -> Template:
        """Return the one template of the samples' programs."""
        parts = [_NUMBER.split(p) for p in programs]
        if len({len(p) for p in parts}) > 1:
            raise self.error("programs have other operations at other sizes")
        texts, slots = [parts[0][0]], []
        for i in range(1, len(parts[0]), 2):
            after = {p[i + 1] for p in parts} | set()
            if len(after) > 1:
                raise self.error("programs have other operations at other sizes")
            words = [p[i] for p in parts]
            if len(set(words)) == 1:
                texts[-1] += words[0] + parts[0][i + 1]
                continue
            slot = self.number(words)
            if slot is None:
                around = (texts[-1][-60:] + "…" + parts[0][i + 1][:30]).replace("\n", " ")
                raise self.error(f"no expression of them has the values {words} in {around!r}")
            slots.append(slot)
            texts.append(parts[0][i + 1])
        return Template(tuple(texts), tuple(slots))


def _solve(rows: list[list[Fraction]], values: list[Fraction]) -> list[Fraction] | None:
    """Solve all equations for the sizes, if the first ones determine the solution."""
    n = len(rows[0])
    a = [[*row, v] for row, v in zip(rows[:n], values, strict=False)]
    for i in range(n):
        pivot = next((r for r in range(i, n) if a[r][i]), None)
        if pivot is None:
            return None
        a[i], a[pivot] = a[pivot], a[i]
        a[i] = [x / a[i][i] for x in a[i]]
        for r in range(n):
            if r != i and a[r][i]:
                a[r] = [x - a[r][i] * y for x, y in zip(a[r], a[i], strict=True)]
    solution = [row[-1] for row in a]
    fits = all(
        sum(x * y for x, y in zip(row, solution, strict=True)) == v
        for row, v in zip(rows, values, strict=True)
    )
    return solution if fits else None


def text_of(artifact: bytes) -> str:
    """Return a program as text."""
    return mlir.text(portable.deserialize(artifact), large_constants=True)


class Symbolic:
    """Templates of programs, which an `Exported` of unknown sizes has instead of programs."""

    def __init__(
        self, scope: SymbolicScope, templates: dict[str, Template], in_types: Any, out_types: Any
    ) -> None:
        self.scope, self.templates = scope, templates
        self.in_types, self.out_types = tuple(in_types), tuple(out_types)
        self.filled: dict[tuple, Any] = {}

    def sizes(self, exported: Exported, types: Sequence[ShapedArray]) -> dict[str, int]:
        """Return the variables' sizes for arguments of given types; raise where they do not fit."""
        api, names = f"exported {exported.fun_name}", names_in(exported.in_tree, "")
        names = names if len(names) == len(types) else [str(i) for i in range(len(types))]
        sizes: dict[str, int] = {}
        pairs = []
        for name, got, want in zip(names, types, self.in_types, strict=True):
            if len(got.shape) != len(want.shape) or got.dtype != want.dtype:
                raise ValueError(
                    f"{api}: argument {name} has type {got.str_short()}; it was exported for "
                    f"{dtypes.short_name(want.dtype)}{list(want.shape)}"
                )
            pairs += [(name, int(g), w) for g, w in zip(got.shape, want.shape, strict=True)]
        for _ in range(len(self.scope.sizes) + 1):  # one unknown at a time
            for _name, size, want in pairs:
                self._solve(sizes, size, poly_of(want))
        for rule in self.scope._rules:
            if variables(rule[1]) - set(sizes) and len(variables(rule[1]) - set(sizes)) == 1:
                _solve_equality(*rule, sizes)
        for name, size, want in pairs:
            p = poly_of(want)
            unknown = variables(p) - set(sizes)
            if unknown:
                raise ValueError(
                    f"{api}: the sizes of {', '.join(sorted(unknown))} do not follow from the "
                    f"arguments' shapes; dimension {want} of argument {name} is {size}"
                )
            if evaluate(p, sizes) != size:
                raise ValueError(
                    f"{api}: Input shapes do not match the polymorphic shapes specification: "
                    f"argument {name} has a dimension of size {size} where it was exported for "
                    f"{want}, which is {evaluate(p, sizes)} with {sizes}"
                )
        broken = self.scope.broken(sizes)
        if broken is not None:
            raise ValueError(
                f"{api}: Input shapes do not match the symbolic shape constraints: {broken} does "
                f"not hold with {sizes}"
            )
        return sizes

    @staticmethod
    def _solve(sizes: dict[str, int], size: int, p: Poly) -> None:
        rest: dict[tuple, int] = {}
        unknown = []
        for m, c in p:
            free = [x for x in m if not isinstance(x, str) or x not in sizes]
            (unknown.append((m, c)) if free else rest.__setitem__(m, c))
        if len(unknown) == 1 and len(unknown[0][0]) == 1 and isinstance(unknown[0][0][0], str):
            (name,), c = unknown[0]
            left = size - evaluate(tuple(rest.items()), sizes)
            if left % c == 0:
                sizes[name] = left // c

    def program(self, platform: str, sizes: dict[str, int], shardings: bool) -> bytes:
        """Return the artifact for given sizes."""
        try:
            module = mlir.parse(self.templates[platform].fill(sizes))
        except mlir.ir.MLIRError as e:
            _, _, reason = str(e).partition("error: ")
            reason = reason.partition("\n")[0].partition(": ")[2]
            said = ", ".join(f"{name} = {size}" for name, size in sizes.items())
            name, size = min(sizes.items(), key=lambda pair: pair[1])
            raise ValueError(
                f"the exported program does not exist for {said}, as it was traced for larger "
                f"sizes: {reason}. Export it with a constraint that says for which sizes it is, "
                f"like symbolic_shape(..., constraints=['{name} >= {size + 1}']), or without what "
                "depends on the size, as x[:n] with n a number does"
            ) from None
        return portable.serialize(module, portable.target_version(), shardings=shardings)

    def types(self, which: Sequence[ShapedArray], sizes: dict[str, int]) -> list[ShapedArray]:
        """Return types with their sizes filled in."""
        return [a.update(shape=tuple(evaluate(poly_of(d), sizes) for d in a.shape)) for a in which]

    def as_json(self) -> bytes:
        """Return the templates as bytes."""
        parts = {p: [t.texts, t.slots] for p, t in self.templates.items()}
        return json.dumps([self.scope.constraints, sorted(self.scope.sizes), parts]).encode()


def read(blob: bytes) -> tuple[SymbolicScope, dict[str, Template]]:
    """Read the text that `Symbolic.as_json` wrote."""
    constraints, names, parts = json.loads(blob)
    scope = SymbolicScope(constraints)
    for name in names:
        scope.add(name)
    as_tuple = lambda x: tuple(map(as_tuple, x)) if isinstance(x, list) else x
    templates = {p: Template(tuple(t), as_tuple(s)) for p, (t, s) in parts.items()}
    return scope, templates


def resized(x: Any, sizes: dict[str, int]) -> Any:
    """Return a type with the sizes of a sample."""
    if not any(isinstance(d, SymbolicDim) for d in getattr(x, "shape", ())):
        return x
    return x.update(shape=[d.at(sizes) if isinstance(d, SymbolicDim) else d for d in x.shape])


def scope_of(leaves: Sequence[Any]) -> SymbolicScope | None:
    """Return the scope of the symbolic dimensions of types, None where there are none."""
    dims = [d for x in leaves for d in getattr(x, "shape", ()) if isinstance(d, SymbolicDim)]
    scopes = {id(d.scope): d.scope for d in dims}
    if len(scopes) > 1:
        raise ArgumentError(
            "export: symbolic dimensions are of different scopes; give every symbolic_shape call "
            "the same scope="
        )
    return next(iter(scopes.values()), None)


def joined(
    make: Callable[..., Exported],
    exported: Sequence[Exported],
    scope: SymbolicScope,
    samples: Sequence[dict[str, int]],
) -> Exported:
    """Return one export for all sizes of those of the samples."""
    first = exported[0]
    fit = Fit(f"export of {first.fun_name}", scope, samples)
    if len({e._kept for e in exported}) > 1:
        raise fit.error("it reads other arguments at other sizes")
    templates = {
        p: fit.template([text_of(e._modules[p]) for e in exported]) for p in first.platforms
    }

    def types(which: str) -> list[ShapedArray]:
        columns = zip(*(getattr(e, which) for e in exported), strict=True)
        return [
            c[0].update(
                shape=tuple(
                    fit.dimension(sizes, scope) for sizes in zip(*(a.shape for a in c), strict=True)
                )
            )
            for c in columns
        ]

    symbolic = Symbolic(scope, templates, types("_in_types"), types("_out_types"))

    def vjp() -> Exported:
        return joined(make, [e.vjp() for e in exported], scope, samples)

    return make(first, symbolic, functools.cache(vjp) if first.has_vjp() else None)
