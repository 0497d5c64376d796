"""Symbolic dimensions: polynomials of unknown sizes, compared where every size gives one answer."""

from __future__ import annotations

import ast
import math
import random
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from weft import tree
from weft.core import dtypes, trace
from weft.core.errors import ArgumentError, InconclusiveDimensionOperation
from weft.core.trace import typeof
from weft.core.tree import broadcast_prefix
from weft.driver.staging import ShapeDtypeStruct
from weft.export.polynomials import (
    OPERATIONS,
    Poly,
    add,
    bounds,
    constant,
    evaluate,
    multiply,
    operate,
    polynomial,
    rewrite,
    show,
    value_of,
    variables,
)

# Scopes -------------------------------------------------------------------------------------------


class SymbolicScope:
    """The variables of symbolic dimensions that may occur in one program, and their constraints.

    constraints: like 'a >= 2', 'a <= b', 'a == 2*b', 'mod(a, 8) == 0'. Variables are at
    least 1.

    Raises ValueError for constraints that cannot be read, or that no sizes satisfy.

    >>> from weft import export
    >>> scope = export.SymbolicScope(["a >= 4"])
    >>> a, b = export.symbolic_shape("a, b", scope=scope)
    >>> a >= 3, a + b > b
    (True, True)
    """

    def __init__(self, constraints_str: Sequence[str] = ()) -> None:
        if isinstance(constraints_str, str):
            raise ValueError(
                f"SymbolicScope: constraints must be a sequence of strings, got {constraints_str!r}"
            )
        self.constraints = tuple(constraints_str)
        self.sizes: dict[str, int] = {}
        self.seen: set[Poly] = set()
        read = [_constraint(c) for c in self.constraints]
        self._rules = [rule for rule, _ in read]
        self.equalities = [sides for _, sides in read if sides is not None]
        names = set().union(*(variables(p) for _, p in self._rules))
        if names:
            self.sizes = self.samples(1, sorted(names))[0]

    def add(self, name: str) -> None:
        """Note a variable."""
        if name not in self.sizes:
            self.sizes[name] = self.samples(1, [*self.sizes, name])[0][name]

    def holds(self, sizes: dict[str, int]) -> bool:
        """Return whether sizes satisfy the constraints."""
        return self.broken(sizes) is None

    def broken(self, sizes: dict[str, int]) -> str | None:
        """Return the first constraint that sizes do not satisfy."""
        for name, size in sizes.items():
            if size < 1:
                return f"{name} >= 1"
        for text, (kind, p) in zip(self.constraints, self._rules, strict=True):
            if variables(p) <= set(sizes):
                value = evaluate(p, sizes)
                if (value != 0) if kind == "==" else (value < 0):
                    return text
        return None

    def samples(self, count: int, names: Sequence[str]) -> list[dict[str, int]]:
        """Find sizes that satisfy the constraints and differ from each other, always the same."""
        draw = random.Random(len(names))
        accepted: list[dict[str, int]] = []
        used: set[int] = set()
        for attempt in range(40_000):
            sizes = {}
            for name in names:
                # Large sizes are mistaken for nothing else; others are for constraints.
                easy = attempt < 4_000 or draw.random() < 0.3
                small = draw.choice([draw.randint(1, 12), 8 * draw.randint(1, 64)])
                sizes[name] = draw.choice(_LARGE) if easy else small
            for kind, p in self._rules:
                _solve_equality(kind, p, sizes)
            fresh = len(set(sizes.values())) == len(sizes) and not used & set(sizes.values())
            if self.holds(sizes) and sizes not in accepted and (fresh or attempt > 8_000):
                accepted.append(sizes)
                used |= set(sizes.values())
                if len(accepted) == count:
                    return accepted
        if accepted:
            return accepted
        raise ValueError(
            f"SymbolicScope: no sizes were found that satisfy the constraints {self.constraints}"
        )

    def at_least_zero(self, p: Poly) -> bool | None:
        """Tell whether p >= 0 for all sizes (True), for none (False), or neither (None)."""
        for q in self._combined(p):
            if bounds(q, self._limits())[0] >= 0:
                return True
        for q in self._combined(add((), add(p, constant(1)), -1)):
            if bounds(q, self._limits())[0] >= 0:  # -p - 1 >= 0
                return False
        return None

    def _combined(self, p: Poly) -> Iterable[Poly]:
        """p, and p less multiples of what is known to be at least zero."""
        yield p
        for kind, rule in self._rules:
            for k in (1, -1) if kind == "==" else (1,):
                for scale in {abs(c) for m, c in p if m} | {1}:
                    yield add(p, rule, -k * scale)

    def _limits(self) -> dict[str, tuple[float, float]]:
        limits: dict[str, tuple[float, float]] = dict.fromkeys(self.sizes, (1, math.inf))
        for kind, p in self._rules:
            terms = [(m[0], c) for m, c in p if m]
            if len(terms) == 1 and isinstance(terms[0][0], str) and len(p) <= 2:
                name, c = terms[0]
                rest = -dict(p).get((), 0) / c
                low, high = limits.get(name, (1, math.inf))
                low = max(low, math.ceil(rest)) if c > 0 or kind == "==" else low
                high = min(high, math.floor(rest)) if c < 0 or kind == "==" else high
                limits[name] = (low, high)
        return limits

    def __repr__(self) -> str:
        return f"SymbolicScope({list(self.constraints)})"


_LARGE = range(101, 1000)


def _solve_equality(kind: str, p: Poly, sizes: dict[str, int]) -> None:
    """Solve an equality for a variable that it is linear in."""
    if kind != "==":
        return
    for m, c in p:
        if len(m) == 1 and isinstance(m[0], str) and abs(c) == 1:
            rest = polynomial({n: d for n, d in p if n != m})
            if m[0] not in variables(rest):
                sizes[m[0]] = -c * evaluate(rest, sizes)
                return


# Dimensions ---------------------------------------------------------------------------------------


class SymbolicDim(int):
    """A dimension of unknown size, an expression of variables.

    It is also an int: the size it has in a sample with which programs are traced.
    """

    poly: Poly
    scope: SymbolicScope
    sizes: dict[str, int]

    def __new__(cls, poly: Poly, scope: SymbolicScope, sizes: dict[str, int]) -> Any:
        if scope.equalities:
            poly = rewrite(poly, scope.equalities)
        constant = value_of(poly)
        if constant is not None:
            return constant
        self = super().__new__(cls, evaluate(poly, sizes))
        self.poly, self.scope, self.sizes = poly, scope, sizes
        scope.seen.add(poly)
        return self

    def at(self, sizes: dict[str, int]) -> SymbolicDim:
        """Return the same dimension in another sample."""
        return SymbolicDim(self.poly, self.scope, sizes)

    def _with(self, other: object, combine: Callable[[Poly, Poly], Poly]) -> Any:
        if isinstance(other, bool) or not isinstance(other, int):
            return NotImplemented
        if isinstance(other, SymbolicDim) and other.scope is not self.scope:
            raise ValueError(
                f"symbolic dimensions {self} and {other} are of different scopes; give both "
                "symbolic_shape calls the same scope="
            )
        return SymbolicDim(combine(self.poly, poly_of(other)), self.scope, self.sizes)

    def _compare(self, other: object, name: str, plain: Callable, sign: int, strict: int) -> Any:
        if isinstance(other, bool) or not isinstance(other, int):
            return plain(int(self), other) if isinstance(other, float) else NotImplemented
        difference = add(self.poly, poly_of(other), -1)
        difference = add((), difference, sign) if sign < 0 else difference
        answer = self.scope.at_least_zero(add(difference, constant(-strict)))
        if answer is not None:
            return answer
        if sys._getframe(2).f_globals.get("__name__", "").startswith(("weft.", "numpy")):
            return plain(evaluate(self.poly, self.sizes), int.__add__(other, 0))
        raise InconclusiveDimensionOperation(
            f"Symbolic dimension comparison '{self}' {name} '{other}' is inconclusive: it depends "
            f"on the sizes. Add a constraint to symbolic_shape that decides it, like "
            f"constraints=['{self} {name} {other}']"
        )

    def __eq__(self, other: object) -> bool:
        if isinstance(other, SymbolicDim):
            return self.poly == other.poly and int.__eq__(self, other)
        return int.__eq__(self, other) if isinstance(other, int) else False

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(("symbolic dimension", self.poly))

    def __bool__(self) -> bool:
        answers = self.scope.at_least_zero(add(self.poly, constant(-1)))
        if answers or self.scope.at_least_zero(add((), add(self.poly, constant(1)), -1)):
            return True
        if sys._getframe(1).f_globals.get("__name__", "").startswith(("weft.", "numpy")):
            return int.__bool__(self)
        raise InconclusiveDimensionOperation(
            f"whether symbolic dimension '{self}' is zero depends on the sizes; add a constraint "
            f"to symbolic_shape that decides it, like constraints=['{self} == 0']"
        )

    def __str__(self) -> str:
        return show(self.poly)

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        return format(str(self), spec) if not spec else int.__format__(self, spec)

    def __reduce__(self) -> tuple:
        return int, (evaluate(self.poly, self.sizes),)

    def __neg__(self) -> Any:
        return self._with(-1, multiply)

    def __pow__(self, n: Any, mod: object = None) -> Any:
        if type(n) is not int or n < 0:
            return int.__pow__(int.__add__(self, 0), n)
        out: Any = 1
        for _ in range(n):
            out = self * out
        return out

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self


def poly_of(x: Any) -> Poly:
    """Return the polynomial of a dimension."""
    return x.poly if isinstance(x, SymbolicDim) else constant(int(x))


def _arithmetic() -> None:
    subtract = lambda a, b: add(a, b, -1)
    ops: dict[str, Callable] = {"add": add, "sub": subtract, "mul": multiply}
    for name in ("floordiv", "mod"):
        ops[name] = lambda a, b, name=name: operate(name, a, b)
    for name, op in ops.items():
        setattr(SymbolicDim, f"__{name}__", lambda x, y, op=op: x._with(y, op))
        swapped = lambda x, y, op=op: x._with(y, lambda a, b: op(b, a))
        setattr(SymbolicDim, f"__r{name}__", swapped)
    comparisons = {
        "ge": (">=", int.__ge__, 1, 0),
        "gt": (">", int.__gt__, 1, 1),
        "le": ("<=", int.__le__, -1, 0),
        "lt": ("<", int.__lt__, -1, 1),
    }
    for name, args in comparisons.items():
        compare = lambda x, y, args=args: x._compare(y, *args)
        setattr(SymbolicDim, f"__{name}__", compare)


_arithmetic()
dtypes._WEAK_DTYPE[SymbolicDim] = dtypes.int64
trace.aval_of[SymbolicDim] = trace.aval_of[int]


def is_symbolic_dim(p: object) -> bool:
    """Return whether p is a dimension of unknown size.

    >>> from weft import export
    >>> [export.is_symbolic_dim(d) for d in export.symbolic_shape("a, 3")]
    [True, False]
    """
    return isinstance(p, SymbolicDim)


# Reading ------------------------------------------------------------------------------------------


def _parse(text: str, label: str) -> ast.expr:
    try:
        return ast.parse(text.strip(), mode="eval").body
    except SyntaxError as e:
        raise ValueError(f"{label} {text!r} cannot be read: {e.msg}") from None


def _read(node: ast.expr, text: str) -> Poly:
    binary = {ast.Add: add, ast.Sub: lambda a, b: add(a, b, -1), ast.Mult: multiply}
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return constant(node.value)
    if isinstance(node, ast.Name):
        return (((node.id,), 1),)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return add((), _read(node.operand, text), -1)
    if isinstance(node, ast.BinOp):
        a = _read(node.left, text)
        if isinstance(node.op, ast.Pow) and isinstance(node.right, ast.Constant):
            out = constant(1)
            for _ in range(int(node.right.value)):  # type: ignore[arg-type]
                out = multiply(out, a)
            return out
        b = _read(node.right, text)
        if type(node.op) in binary:
            return binary[type(node.op)](a, b)  # type: ignore[index]
        if isinstance(node.op, ast.FloorDiv | ast.Mod):
            return operate("mod" if isinstance(node.op, ast.Mod) else "floordiv", a, b)
    is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    if is_call and node.func.id in OPERATIONS and len(node.args) == 2:  # type: ignore[attr-defined]
        a, b = (_read(x, text) for x in node.args)  # type: ignore[attr-defined]
        return operate(node.func.id, a, b)  # type: ignore[attr-defined]
    raise ValueError(
        f"symbolic dimension {text!r} cannot be read at {ast.unparse(node)!r}: it may have "
        "integers, names, +, -, *, floordiv, mod, max and min"
    )


def _constraint(text: str) -> tuple[tuple[str, Poly], tuple[Poly, Poly] | None]:
    """('>=' or '==', p), which says that p >= 0 or p == 0; and, where the left side of an equality
    is one product, its sides."""
    node = _parse(text, "constraint")
    signs = {ast.GtE: (">=", 1, 0), ast.LtE: (">=", -1, 0), ast.Eq: ("==", 1, 0)}
    signs |= {ast.Gt: (">=", 1, 1), ast.Lt: (">=", -1, 1)}
    if not isinstance(node, ast.Compare) or len(node.ops) != 1 or type(node.ops[0]) not in signs:
        raise ValueError(f"constraint {text!r} must be of the form e1 >= e2, e1 <= e2 or e1 == e2")
    kind, sign, strict = signs[type(node.ops[0])]  # type: ignore[index]
    left, right = _read(node.left, text), _read(node.comparators[0], text)
    difference = add(add((), left, sign), right, -sign)
    is_product = kind == "==" and len(left) == 1 and left[0][0]
    return (kind, add(difference, constant(-strict))), (left, right) if is_product else None


def symbolic_shape(
    shape_spec: str | None,
    *,
    constraints: Sequence[str] = (),
    scope: SymbolicScope | None = None,
    like: Sequence[int | None] | None = None,
) -> tuple:
    """Return the shape that a text describes, with dimensions of unknown size.

    shape_spec: dimensions with commas between them: integers, names, and expressions of them with
    +, -, *, floordiv, mod, max, min; '_' and a last '...' stand for those of `like`. None: '...'.
    constraints: what is known of the names, as of a `SymbolicScope`; scope: one to use instead.

    Raises ValueError for a text that cannot be read, and for constraints beside a scope.

    >>> from weft import export
    >>> export.symbolic_shape("b, 2*b + 1, 3")
    (b, 2*b + 1, 3)
    """
    if scope is not None and constraints:
        raise ValueError("symbolic_shape: constraints belong to a new scope; leave scope out")
    if shape_spec is not None and not isinstance(shape_spec, str):
        raise ArgumentError(f"symbolic_shape: shape_spec must be a text, got {shape_spec!r:.60}")
    scope = SymbolicScope(constraints) if scope is None else scope
    text = "..." if shape_spec is None else str(shape_spec).strip()
    body = text.removeprefix("(").removesuffix(")") if text.startswith("(") else text
    body = body.strip().removesuffix(",")
    node: Any = _parse(f"({body},)" if body else "()", "shape_spec")
    parts = list(node.elts)
    is_rest = lambda n: isinstance(n, ast.Constant) and n.value is ...
    if parts and is_rest(parts[-1]):
        if like is None:
            raise ValueError(f"symbolic_shape: shape_spec {text!r} has '...' but there is no like")
        parts = [*parts[:-1], *[ast.Name("_")] * (len(like) - len(parts) + 1)]
    if like is not None and len(parts) != len(like):
        raise ValueError(
            f"symbolic_shape: shape_spec {text!r} has {len(parts)} dimensions, like has {len(like)}"
        )
    shape = []
    for i, part in enumerate(parts):
        if isinstance(part, ast.Name) and part.id == "_":
            like_size = None if like is None else like[i]
            if like_size is None:
                raise ValueError(
                    f"symbolic_shape: shape_spec {text!r} has '_' where like has no dimension"
                )
            shape.append(like_size)
            continue
        poly = _read(part, text)
        for name in sorted(variables(poly)):
            scope.add(name)
        number = value_of(poly)
        shape.append(SymbolicDim(poly, scope, scope.sizes) if number is None else number)
    return tuple(shape)


def symbolic_args_specs(
    args: object,
    shapes_specs: object,
    constraints: Sequence[str] = (),
    scope: SymbolicScope | None = None,
) -> Any:
    """Return the arguments as types, with the shapes that texts describe.

    args: a pytree of arrays or types. shapes_specs: a text for `symbolic_shape`, None for the
    shapes as they are, or a pytree of these that is a prefix of args. constraints, scope: as of
    `symbolic_shape`.

    Raises ValueError where a text cannot be read, or is for another rank.

    >>> import weft
    >>> weft.export.symbolic_args_specs((weft.numpy.ones((3, 4)),), "b, ...")
    (ShapeDtypeStruct(shape=(b, 4), dtype=float32),)
    """
    if scope is not None and constraints:
        raise ValueError("symbolic_args_specs: constraints belong to a new scope; leave scope out")
    scope = SymbolicScope(constraints) if scope is None else scope
    leaves, structure = tree.flatten(args)
    is_text = lambda x: x is None or isinstance(x, str)
    texts = broadcast_prefix(shapes_specs, structure, "symbolic_args_specs: shapes_specs", is_text)
    specs = []
    for x, text in zip(leaves, texts, strict=True):
        aval = x if isinstance(x, ShapeDtypeStruct) else typeof(x)
        shape = symbolic_shape(text, scope=scope, like=aval.shape)
        specs.append(ShapeDtypeStruct(shape, aval.dtype))
    return tree.unflatten(structure, specs)
