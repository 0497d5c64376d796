# Tests: tests/native/test_reductions.py
"""Kernels as typed Python functions: a small subset of the language becomes LLVM IR.

Kernels import the names of types and functions below for people and tools that read them; Python
never runs a kernel. Arithmetic is that of C, with these differences: integers wrap around, an
operand of another type is an error (`i64(x)` converts), pointers of a function never overlap.

    i = 0; x: f32 = 0.0     variables have the type of their first value; i64 or f64 of a number
    for i in range(a, b)    while, if, break, continue, return
    for i in unrolled(N)    the body N times over, for a number N that is bound
    p[i], p[i] += 1, p + i  loads, stores, addresses; `stack(T, n)` is memory of the function
    a if c else b           evaluates both; `and`, `or` only what they need
    memcpy(p, q, n)         copies n elements at q to p
    parallel(f, n, x, y)    f(k, x, y) for k in range(n) on all threads
    load_wide(p), splat(x)  a vector of LANES elements; store_wide(p, v); sum_wide(v),
                            max_wide(v), min_wide(v) over its elements, none of them NaN;
                            first_equal(v, w), the first where they are equal, or LANES
    turn_wide(p, a, q, b)   q[j * b + i] = p[i * a + j] for i and j less than LANES
    sort_wide(p, q, n, k)   sorts n of up to k * LANES integers at p into q, for a number k
    split_wide(v, w, p, q)  stores v at p and at q, those elements first that are less than w's, or
                            only those at p and the others at q; counts them; for processors with
                            AVX2 and vectors of 32 bytes, or AVX-512 and 64
    split_rest(o, n, w, p, q)  the same of n < LANES elements at o, for AVX-512

Names that `Unit` binds to a type or a number stand for it, so that one function serves many dtypes.
Comparisons of such numbers are decided as the kernel is compiled.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from weft.native.parallel import PARALLEL, handler, threads
from weft.native.types import SCALARS, KernelError, Type, pointer
from weft.native.writer import Writer


class Unit:
    """The functions of a kernel file for one set of bindings, as they are compiled."""

    def __init__(self, folder: Path, file: str, bindings: Mapping[str, str | int]) -> None:
        self.functions: dict[str, ast.FunctionDef] = {}
        self.constants: dict[str, int | float] = {}
        self._read(folder, file)
        self.types = dict(SCALARS)
        for name, bound in bindings.items():
            if isinstance(bound, str):
                self.types[name] = SCALARS[bound]
            else:
                self.constants[name] = bound
        self.compiled: dict[str, str] = {}
        self.declarations: dict[str, str] = {}

    def _read(self, folder: Path, file: str) -> None:
        """Take in the functions and constants of a file, and of those that it imports."""
        for node in ast.parse((folder / f"{file}.py").read_text("utf-8")).body:
            if isinstance(node, ast.FunctionDef):
                self.functions[node.name] = node
            elif isinstance(node, ast.ImportFrom) and "native.kernels." in (node.module or ""):
                self._read(folder, (node.module or "").rpartition(".")[2])
            elif isinstance(node, ast.Assign):
                (names,), value = node.targets, ast.literal_eval(node.value)
                if isinstance(names, ast.Tuple):
                    self.constants.update(zip(map(ast.unparse, names.elts), value, strict=True))
                else:
                    self.constants[ast.unparse(names)] = value

    def signature(self, name: str) -> tuple[list[Type], Type | None]:
        node = self.functions[name]
        result = None
        if node.returns is not None and not isinstance(node.returns, ast.Constant):
            result = self.type_of(node.returns)
        return [self.type_of(a.annotation) for a in node.args.args], result

    def type_of(self, node: ast.expr | None) -> Type:
        """Return the type that an annotation names."""
        if isinstance(node, ast.Subscript):
            return pointer(self.type_of(node.slice))
        if not isinstance(node, ast.Name) or node.id not in self.types:
            raise KernelError(f"not a type: {ast.unparse(node) if node else 'nothing'}")
        return self.types[node.id]

    def require(self, name: str) -> None:
        """Compile a function and the functions it calls."""
        if name not in self.compiled:
            self.compiled[name] = ""
            self.compiled[name] = Writer(self, self.functions[name]).text()

    def text(self, entry: str) -> str:
        """Return the IR of the module whose function `handler` XLA calls."""
        types, _ = self.signature(entry)
        self.require(entry)
        parts = [*self.compiled.values(), handler(entry, len(types) - 1)]
        if any("@parallel_for" in p for p in parts):
            parts.append(PARALLEL.replace("@@THREADS@@", str(threads())))
        return "\n".join([*self.declarations.values(), *parts])


def _read_only(*_: object) -> Any:
    raise TypeError("kernels are compiled, not run by Python")


i8 = i16 = i32 = i64 = u8 = u16 = u32 = u64 = f32 = f64 = boolean = ptr = Any
bitcast = memcpy = stack = parallel = sqrt = fma = floor = absolute = rint = _read_only
load_wide = store_wide = splat = sum_wide = max_wide = min_wide = first_equal = _read_only
turn_wide = sort_wide = split_wide = split_rest = unrolled = _read_only
c_sin = c_cos = c_exp = c_fmod = c_log = c_pow = c_tan = _read_only


def reassociated(function: Callable) -> Any:
    """Mark a function whose sums of floats may be taken in another order."""
    return function


def outlined(function: Callable) -> Any:
    """Mark a function that is called rather than written into its callers."""
    return function
