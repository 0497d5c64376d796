"""Kernels as typed Python functions: a small subset of the language becomes LLVM IR.

Kernels import the names of types and functions below for people and tools that read them; Python
never runs a kernel. Arithmetic is that of C, with these differences: integers wrap around, an
operand of another type is an error (`i64(x)` converts), pointers of a function never overlap.

    i = 0; x: f32 = 0.0     variables have the type of their first value; i64 or f64 of a number
    for i in range(a, b)    while, if, break, continue, return
    p[i], p[i] += 1, p + i  loads, stores, addresses; `stack(T, n)` is memory of the function
    a if c else b           evaluates both; `and`, `or` only what they need
    parallel(f, n, x, y)    f(k, x, y) for k in range(n) on all threads
    load_wide(p), splat(x)  a vector of LANES elements; store_wide(p, v), sum_wide(v)

Names that `Unit` binds to a type or a number stand for it, so that one function serves many dtypes.
Comparisons of such numbers are decided as the kernel is compiled.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weft.native.parallel import PARALLEL, handler, threads


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
    table["f32"] = Type("f32", "float", "f", 32)
    table["f64"] = Type("f64", "double", "f", 64)
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


class Unit:
    """The functions of one kernel file for one set of bindings, as they are compiled."""

    def __init__(self, source: str, bindings: Mapping[str, str | int]) -> None:
        tree = ast.parse(source)
        self.functions = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef)}
        self.constants: dict[str, int | float] = {}
        for node in tree.body:
            if isinstance(node, ast.Assign):
                (names,), value = node.targets, ast.literal_eval(node.value)
                if isinstance(names, ast.Tuple):
                    self.constants.update(zip(map(ast.unparse, names.elts), value, strict=True))
                else:
                    self.constants[ast.unparse(names)] = value
        self.types = dict(SCALARS)
        for name, bound in bindings.items():
            if isinstance(bound, str):
                self.types[name] = SCALARS[bound]
            else:
                self.constants[name] = bound
        self.compiled: dict[str, str] = {}
        self.declarations: dict[str, str] = {}

    def signature(self, name: str) -> tuple[list[Type], Type | None]:
        node = self.functions[name]
        result = None
        if node.returns is not None and not isinstance(node.returns, ast.Constant):
            result = self.type_of(node.returns)
        return [self.type_of(a.annotation) for a in node.args.args], result

    def type_of(self, node: ast.expr | None) -> Type:
        """The type that an annotation names."""
        if isinstance(node, ast.Subscript):
            return pointer(self.type_of(node.slice))
        if not isinstance(node, ast.Name) or node.id not in self.types:
            raise KernelError(f"not a type: {ast.unparse(node) if node else 'nothing'}")
        return self.types[node.id]

    def require(self, name: str) -> None:
        """Compiles a function, and those that it calls."""
        if name not in self.compiled:
            self.compiled[name] = ""
            self.compiled[name] = _Writer(self, self.functions[name]).text()

    def text(self, entry: str) -> str:
        """The IR of the module whose function `handler` XLA calls."""
        types, _ = self.signature(entry)
        self.require(entry)
        parts = [*self.compiled.values(), handler(entry, len(types) - 1)]
        if any("@parallel_for" in p for p in parts):
            parts.append(PARALLEL.replace("@@THREADS@@", str(threads())))
        return "\n".join([*self.declarations.values(), *parts])


_ARITHMETIC = {
    ast.Add: {"i": "add", "u": "add", "f": "fadd"},
    ast.Sub: {"i": "sub", "u": "sub", "f": "fsub"},
    ast.Mult: {"i": "mul", "u": "mul", "f": "fmul"},
    ast.Div: {"f": "fdiv"},
    ast.FloorDiv: {"i": "sdiv", "u": "udiv"},
    ast.Mod: {"i": "srem", "u": "urem"},
    ast.LShift: {"i": "shl", "u": "shl"},
    ast.RShift: {"i": "ashr", "u": "lshr"},
    ast.BitAnd: {"i": "and", "u": "and", "b": "and"},
    ast.BitOr: {"i": "or", "u": "or", "b": "or"},
    ast.BitXor: {"i": "xor", "u": "xor", "b": "xor"},
}
_COMPARISON = {
    ast.Lt: {"i": "icmp slt", "u": "icmp ult", "f": "fcmp olt"},
    ast.LtE: {"i": "icmp sle", "u": "icmp ule", "f": "fcmp ole"},
    ast.Gt: {"i": "icmp sgt", "u": "icmp ugt", "f": "fcmp ogt"},
    ast.GtE: {"i": "icmp sge", "u": "icmp uge", "f": "fcmp oge"},
    ast.Eq: {"i": "icmp eq", "u": "icmp eq", "f": "fcmp oeq", "b": "icmp eq"},
    ast.NotEq: {"i": "icmp ne", "u": "icmp ne", "f": "fcmp une", "b": "icmp ne"},
}
_OF_C = {"c_sin": "sin", "c_cos": "cos", "c_exp": "exp", "c_log": "log", "c_pow": "pow"}
_INTRINSICS = {"sqrt": "sqrt", "fma": "fma", "floor": "floor", "absolute": "fabs", "rint": "rint"}


class _Writer:
    """One function on its way to IR."""

    def __init__(self, unit: Unit, node: ast.FunctionDef) -> None:
        self.unit, self.node = unit, node
        self.count = 0
        self.entry: list[str] = []
        self.lines: list[str] = []
        self.variables: dict[str, tuple[Type, str]] = {}
        self.loops: list[tuple[str, str]] = []  # labels of continue and break
        self.result: Type | None = None
        # Sums of floats may be taken in the order that vectors suggest, where a function says so.
        decorators = {d.id for d in node.decorator_list if isinstance(d, ast.Name)}
        self.float_flags = "reassoc contract " if "reassociated" in decorators else "contract "
        self.inline = " noinline" if "outlined" in decorators else ""

    def text(self) -> str:
        types, self.result = self.unit.signature(self.node.name)
        arguments = ["ptr %frame"]
        for argument, type_ in zip(self.node.args.args, types, strict=True):
            noalias = " noalias" if type_.kind == "p" else ""
            arguments.append(f"{type_.llvm}{noalias} %{argument.arg}")
            self.declare(argument.arg, type_)
            self.store(argument.arg, Value(type_, f"%{argument.arg}"))
        self.block(self.node.body)
        self.do("ret void" if self.result is None else "unreachable")
        result = "void" if self.result is None else self.result.llvm
        head = f"define internal {result} @{self.node.name}({', '.join(arguments)})"
        return "\n".join([f"{head}{self.inline} #0 {{", *self.entry, *self.lines, "}\n"])

    # Instructions -----------------------------------------------------------------------------

    def fail(self, node: ast.AST, why: str) -> KernelError:
        line = getattr(node, "lineno", 0)
        return KernelError(f"{self.node.name}, line {line}: {why}: {ast.unparse(node)}")

    def fresh(self, stem: str = "v") -> str:
        self.count += 1
        return f"%{stem}.{self.count}"

    def do(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def op(self, type_: Type, text: str) -> Value:
        name = self.fresh()
        self.do(f"{name} = {text}")
        return Value(type_, name)

    def label(self, name: str) -> None:
        self.lines.append(f"{name[1:]}:")

    def jump(self, name: str) -> None:
        self.do(f"br label {name}")

    def declare(self, name: str, type_: Type) -> None:
        place = self.fresh(f"{name}.place")
        self.entry.append(f"  {place} = alloca {type_.llvm}")
        self.variables[name] = type_, place

    def store(self, name: str, value: Value) -> None:
        type_, place = self.variables[name]
        self.do(f"store {type_.llvm} {value.text}, ptr {place}")

    # Statements -------------------------------------------------------------------------------

    def block(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            method = getattr(self, f"_{type(statement).__name__}", None)
            if method is None:
                raise self.fail(statement, "not a statement of kernels")
            method(statement)

    def _Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):  # a docstring
            self.value(node.value)

    def _Pass(self, node: ast.Pass) -> None:
        pass

    def _AnnAssign(self, node: ast.AnnAssign) -> None:
        assert isinstance(node.target, ast.Name) and node.value is not None
        type_ = self.unit.type_of(node.annotation)
        self.assign(node.target, self.typed(self.value(node.value), type_, node))

    def _Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            self.assign(target, self.value(node.value))

    def _AugAssign(self, node: ast.AugAssign) -> None:
        load = ast.copy_location(ast.BinOp(node.target, node.op, node.value), node)
        self.assign(node.target, self.value(load))

    def assign(self, target: ast.expr, value: Value) -> None:
        if isinstance(target, ast.Subscript):
            element, place = self.place(target)
            value = self.typed(value, element, target)
            self.do(f"store {element.llvm} {value.text}, ptr {place}")
            return
        if not isinstance(target, ast.Name):
            raise self.fail(target, "cannot be assigned to")
        if target.id not in self.variables:
            alone = SCALARS["f64"] if isinstance(value.text, float) else I64
            value = self.typed(value, value.type or alone, target)
            assert value.type is not None
            self.declare(target.id, value.type)
        self.store(target.id, self.typed(value, self.variables[target.id][0], target))

    def _Return(self, node: ast.Return) -> None:
        if node.value is None:
            self.do("ret void")
        else:
            assert self.result is not None
            value = self.typed(self.value(node.value), self.result, node)
            self.do(f"ret {self.result.llvm} {value.text}")
        self.label(self.fresh("after"))

    def known(self, test: ast.expr) -> bool | None:
        """Evaluate a comparison of numbers known from the bindings."""
        if not isinstance(test, ast.Compare):
            return None
        names = {n.id for n in ast.walk(test) if isinstance(n, ast.Name)}
        if not names <= self.unit.constants.keys() or names & self.variables.keys():
            return None
        return bool(eval(ast.unparse(test), dict(self.unit.constants)))

    def _If(self, node: ast.If) -> None:
        known = self.known(node.test)
        if known is not None:
            return self.block(node.body if known else node.orelse)
        then, other, after = self.fresh("then"), self.fresh("else"), self.fresh("after")
        self.branch(node.test, then, other)
        self.label(then)
        self.block(node.body)
        self.jump(after)
        self.label(other)
        self.block(node.orelse)
        self.jump(after)
        self.label(after)

    def _While(self, node: ast.While) -> None:
        head, body, after = self.fresh("head"), self.fresh("body"), self.fresh("after")
        self.jump(head)
        self.label(head)
        self.branch(node.test, body, after)
        self.label(body)
        self.loops.append((head, after))
        self.block(node.body)
        self.loops.pop()
        self.jump(head)
        self.label(after)

    def _For(self, node: ast.For) -> None:
        call = node.iter
        if not isinstance(call, ast.Call) or ast.unparse(call.func) != "range":
            raise self.fail(node, "loops run over a range")
        bounds = [self.value(a) for a in call.args]
        start, stop = (Value(None, 0), bounds[0]) if len(bounds) == 1 else bounds[:2]
        step = bounds[2] if len(bounds) == 3 else Value(None, 1)
        type_ = stop.type or start.type or I64
        start, stop, step = (self.typed(v, type_, node) for v in (start, stop, step))
        assert isinstance(node.target, ast.Name)
        name = node.target.id
        if name not in self.variables:
            self.declare(name, type_)
        self.store(name, start)
        place = self.variables[name][1]
        head, body = self.fresh("head"), self.fresh("body")
        following, after = self.fresh("next"), self.fresh("after")
        down = isinstance(step.text, int) and step.text < 0
        self.jump(head)
        self.label(head)
        index = self.op(type_, f"load {type_.llvm}, ptr {place}")
        relation = ("sgt" if down else "slt") if type_.kind == "i" else "ult"
        more = self.op(BOOLEAN, f"icmp {relation} {type_.llvm} {index.text}, {stop.text}")
        self.do(f"br i1 {more.text}, label {body}, label {after}")
        self.label(body)
        self.loops.append((following, after))
        self.block(node.body)
        self.loops.pop()
        self.jump(following)
        self.label(following)
        index = self.op(type_, f"load {type_.llvm}, ptr {place}")
        wrap = "nsw " if type_.kind == "i" else ""
        self.store(name, self.op(type_, f"add {wrap}{type_.llvm} {index.text}, {step.text}"))
        self.jump(head)
        self.label(after)

    def _Break(self, node: ast.Break) -> None:
        self.jump(self.loops[-1][1])
        self.label(self.fresh("after"))

    def _Continue(self, node: ast.Continue) -> None:
        self.jump(self.loops[-1][0])
        self.label(self.fresh("after"))

    # Expressions ------------------------------------------------------------------------------

    def typed(self, value: Value, type_: Type, node: ast.AST) -> Value:
        """The value with a type; only bare numbers adapt."""
        if value.type is not None:
            if value.type != type_:
                raise self.fail(node, f"has type {value.type.name}, not {type_.name}")
            return value
        if type_.kind == "f":
            from struct import pack, unpack

            number = float(value.text)
            if type_.bits == 32:  # LLVM wants a double that a float holds exactly
                (number,) = unpack("<f", pack("<f", number))
            return Value(type_, f"0x{unpack('<Q', pack('<d', number))[0]:016X}")
        return Value(type_, int(value.text))

    def value(self, node: ast.expr) -> Value:
        method = getattr(self, f"_value_{type(node).__name__}", None)
        if method is None:
            raise self.fail(node, "not an expression of kernels")
        return method(node)

    def _value_Constant(self, node: ast.Constant) -> Value:
        if isinstance(node.value, bool):
            return Value(BOOLEAN, int(node.value))
        return Value(None, node.value)  # type: ignore[arg-type]

    def _value_Name(self, node: ast.Name) -> Value:
        if node.id in self.variables:
            type_, place = self.variables[node.id]
            return self.op(type_, f"load {type_.llvm}, ptr {place}")
        if node.id in self.unit.constants:
            return Value(None, self.unit.constants[node.id])
        raise self.fail(node, "has no value here")

    def _value_UnaryOp(self, node: ast.UnaryOp) -> Value:
        if isinstance(node.op, ast.Not):
            return self.op(BOOLEAN, f"xor i1 {self.value(node.operand).text}, 1")
        x = self.value(node.operand)
        if isinstance(node.op, ast.USub):
            if x.type is None:
                return Value(None, -x.text)  # type: ignore[operator]
            if x.type.kind == "f":
                return self.op(x.type, f"fneg {x.type.llvm} {x.text}")
            return self.op(x.type, f"sub {x.type.llvm} 0, {x.text}")
        assert isinstance(node.op, ast.Invert) and x.type is not None
        return self.op(x.type, f"xor {x.type.llvm} {x.text}, -1")

    def _value_BinOp(self, node: ast.BinOp) -> Value:
        x, y = self.value(node.left), self.value(node.right)
        if x.type is None and y.type is None:
            return Value(None, _fold(node.op, x.text, y.text))
        if x.type is not None and x.type.kind == "p":
            assert x.type.element is not None
            y = self.typed(y, I64, node)
            if isinstance(node.op, ast.Sub):
                y = self.op(I64, f"sub i64 0, {y.text}")
            elif not isinstance(node.op, ast.Add):
                raise self.fail(node, "not for pointers")
            return self.op(
                x.type, f"getelementptr {x.type.element.llvm}, ptr {x.text}, i64 {y.text}"
            )
        type_ = x.type or y.type
        assert type_ is not None
        x, y = self.typed(x, type_, node), self.typed(y, type_, node)
        name = _ARITHMETIC[type(node.op)].get(type_.kind)
        if name is None:
            raise self.fail(node, f"not for {type_.name}")
        flags = self.float_flags if type_.kind == "f" else ""
        return self.op(type_, f"{name} {flags}{type_.llvm} {x.text}, {y.text}")

    def _value_Compare(self, node: ast.Compare) -> Value:
        x, y = self.value(node.left), self.value(node.comparators[0])
        type_ = x.type or y.type
        assert type_ is not None and len(node.ops) == 1
        x, y = self.typed(x, type_, node), self.typed(y, type_, node)
        relation = _COMPARISON[type(node.ops[0])][type_.kind]
        return self.op(BOOLEAN, f"{relation} {type_.llvm} {x.text}, {y.text}")

    def branch(self, test: ast.expr, yes: str, no: str) -> None:
        """Goes to one of two labels; the second operand of `and`, `or` only where it matters."""
        known = self.known(test)
        if known is not None:
            return self.jump(yes if known else no)
        if isinstance(test, ast.BoolOp):
            for part in test.values[:-1]:
                more = self.fresh("more")
                if isinstance(test.op, ast.And):
                    self.branch(part, more, no)
                else:
                    self.branch(part, yes, more)
                self.label(more)
            return self.branch(test.values[-1], yes, no)
        self.do(f"br i1 {self.value(test).text}, label {yes}, label {no}")

    def _value_IfExp(self, node: ast.IfExp) -> Value:
        which = self.value(node.test)
        x, y = self.value(node.body), self.value(node.orelse)
        type_ = x.type or y.type or I64
        x, y = self.typed(x, type_, node), self.typed(y, type_, node)
        t = type_.llvm
        return self.op(type_, f"select i1 {which.text}, {t} {x.text}, {t} {y.text}")

    def place(self, node: ast.Subscript) -> tuple[Type, str | int | float]:
        base, index = self.value(node.value), self.value(node.slice)
        if base.type is None or base.type.element is None:
            raise self.fail(node, "is no pointer")
        element = base.type.element
        index = self.typed(index, index.type or I64, node)
        assert index.type is not None
        where = f"{index.type.llvm} {index.text}"
        if index.type.kind == "u" and index.type.bits < 64:  # indices are signed in LLVM
            where = f"i64 {self.convert(index, I64).text}"
        name = self.op(base.type, f"getelementptr {element.llvm}, ptr {base.text}, {where}")
        return element, name.text

    def _value_Subscript(self, node: ast.Subscript) -> Value:
        element, place = self.place(node)
        return self.op(element, f"load {element.llvm}, ptr {place}")

    def _value_Call(self, node: ast.Call) -> Value:
        if not isinstance(node.func, ast.Name):
            raise self.fail(node, "cannot be called")
        name = node.func.id
        if name in self.unit.types:
            value = self.value(node.args[0])
            type_ = self.unit.types[name]
            return self.typed(value, type_, node) if not value.type else self.convert(value, type_)
        if name in self.unit.functions:
            return self.call(node, name)
        method = getattr(self, f"_call_{name}", None)
        if method is not None:
            return method(*node.args)
        if name in _OF_C:
            parameters = ", ".join(["double"] * len(node.args))
            self.unit.declarations[name] = f"declare double @{_OF_C[name]}({parameters})"
            operands = [self.typed(self.value(a), SCALARS["f64"], node) for a in node.args]
            listing = ", ".join(f"double {x.text}" for x in operands)
            return self.op(SCALARS["f64"], f"call double @{_OF_C[name]}({listing})")
        if name in _INTRINSICS:
            return self.intrinsic(_INTRINSICS[name], [self.value(a) for a in node.args])
        raise self.fail(node, "no such function")

    def call(self, node: ast.Call, name: str) -> Value:
        types, result = self.unit.signature(name)
        self.unit.require(name)
        operands = ["ptr %frame"]
        for argument, type_ in zip(node.args, types, strict=True):
            operands.append(f"{type_.llvm} {self.typed(self.value(argument), type_, node).text}")
        listing = ", ".join(operands)
        if result is None:
            self.do(f"call void @{name}({listing})")
            return Value(None, 0)
        return self.op(result, f"call {result.llvm} @{name}({listing})")

    def intrinsic(self, name: str, operands: list[Value]) -> Value:
        type_ = next(x.type for x in operands if x.type is not None)
        operands = [self.typed(x, type_, self.node) for x in operands]
        full = f"llvm.{name}.f{type_.bits}"
        self.unit.declarations[full] = (
            f"declare {type_.llvm} @{full}({', '.join([type_.llvm] * len(operands))})"
        )
        listing = ", ".join(f"{type_.llvm} {x.text}" for x in operands)
        return self.op(type_, f"call {self.float_flags}{type_.llvm} @{full}({listing})")

    def convert(self, x: Value, to: Type) -> Value:
        """The number in another type, as C converts it."""
        source = x.type
        assert source is not None
        if source.llvm == to.llvm:
            return Value(to, x.text)
        if source.kind == "f" and to.kind == "f":
            name = "fpext" if to.bits > source.bits else "fptrunc"
        elif source.kind == "f":
            name = "fptosi" if to.kind == "i" else "fptoui"
        elif to.kind == "f":
            name = "sitofp" if source.kind == "i" else "uitofp"
        elif to.bits < source.bits:
            name = "trunc"
        else:
            name = "sext" if source.kind == "i" else "zext"
        return self.op(to, f"{name} {source.llvm} {x.text} to {to.llvm}")

    def _call_bitcast(self, to: ast.expr, node: ast.expr) -> Value:
        type_, x = self.unit.type_of(to), self.value(node)
        assert x.type is not None
        if type_.llvm == x.type.llvm:
            return Value(type_, x.text)
        return self.op(type_, f"bitcast {x.type.llvm} {x.text} to {type_.llvm}")

    def _call_stack(self, of: ast.expr, size: ast.expr) -> Value:
        type_, n = self.unit.type_of(of), self.value(size).text
        name = self.fresh("stack")
        self.entry.append(f"  {name} = alloca [{n} x {type_.llvm}], align 64")
        return Value(pointer(type_), name)

    def _wide(self, element: Type) -> Type:
        return vector(element, int(self.unit.constants["LANES"]))

    def _call_load_wide(self, node: ast.expr) -> Value:
        p = self.value(node)
        assert p.type is not None and p.type.element is not None
        type_ = self._wide(p.type.element)
        return self.op(type_, f"load {type_.llvm}, ptr {p.text}, align {type_.bits // 8}")

    def _call_store_wide(self, node: ast.expr, value: ast.expr) -> Value:
        p, x = self.value(node), self.value(value)
        assert x.type is not None
        self.do(f"store {x.type.llvm} {x.text}, ptr {p.text}, align {x.type.bits // 8}")
        return Value(None, 0)

    def _call_splat(self, node: ast.expr) -> Value:
        x = self.value(node)
        assert x.type is not None
        type_ = self._wide(x.type)
        first = self.op(type_, f"insertelement {type_.llvm} poison, {x.type.llvm} {x.text}, i64 0")
        lanes = type_.llvm[1:].split()[0]
        return self.op(
            type_,
            f"shufflevector {type_.llvm} {first.text}, {type_.llvm} poison, "
            f"<{lanes} x i32> zeroinitializer",
        )

    def _call_sum_wide(self, node: ast.expr) -> Value:
        x = self.value(node)
        assert x.type is not None and x.type.element is not None
        element, lanes = x.type.element, x.type.llvm[1:].split()[0]
        name = f"llvm.vector.reduce.fadd.v{lanes}f{element.bits}"
        self.unit.declarations[name] = (
            f"declare {element.llvm} @{name}({element.llvm}, {x.type.llvm})"
        )
        start = self.typed(Value(None, 0.0), element, node).text
        listing = f"{element.llvm} {start}, {x.type.llvm} {x.text}"
        return self.op(element, f"call reassoc {element.llvm} @{name}({listing})")

    def _extremum(self, a: ast.expr, b: ast.expr, relation: dict[str, str]) -> Value:
        x, y = self.value(a), self.value(b)
        type_ = x.type or y.type
        if type_ is None:
            raise self.fail(a, "has no type")
        x, y = self.typed(x, type_, a), self.typed(y, type_, b)
        t = type_.llvm
        first = self.op(BOOLEAN, f"{relation[type_.kind]} {t} {x.text}, {y.text}")
        return self.op(type_, f"select i1 {first.text}, {t} {x.text}, {t} {y.text}")

    def _call_min(self, a: ast.expr, b: ast.expr) -> Value:
        return self._extremum(a, b, _COMPARISON[ast.Lt])

    def _call_max(self, a: ast.expr, b: ast.expr) -> Value:
        return self._extremum(a, b, _COMPARISON[ast.Gt])

    def _call_parallel(self, function: ast.expr, count: ast.expr, *arguments: ast.expr) -> Value:
        assert isinstance(function, ast.Name)
        name = function.id
        self.unit.require(name)
        types, _ = self.unit.signature(name)
        n = self.typed(self.value(count), I64, count)
        slots = self.fresh("slots")
        self.entry.append(f"  {slots} = alloca [{max(len(arguments), 1)} x i64]")
        unpack, operands = [], ["ptr %frame", "i64 %index"]
        for k, (node, type_) in enumerate(zip(arguments, types[1:], strict=True)):
            x = self.typed(self.value(node), type_, node)
            slot = self.fresh("slot")
            self.do(f"{slot} = getelementptr i64, ptr {slots}, i64 {k}")
            self.do(f"store {type_.llvm} {x.text}, ptr {slot}")
            unpack.append(f"  %s{k} = getelementptr i64, ptr %slots, i64 {k}")
            unpack.append(f"  %x{k} = load {type_.llvm}, ptr %s{k}")
            operands.append(f"{type_.llvm} %x{k}")
        head = f"define internal void @{name}.of(ptr %frame, i64 %index, ptr %slots) #0 {{"
        call = f"  call void @{name}({', '.join(operands)})"
        self.unit.compiled[f"{name}.of"] = "\n".join([head, *unpack, call, "  ret void", "}\n"])
        self.do(f"call void @parallel_for(ptr %frame, ptr @{name}.of, i64 {n.text}, ptr {slots})")
        return Value(None, 0)


def _fold(operator: ast.operator, x: Any, y: Any) -> Any:
    """A number made of two, as the kernel is compiled."""
    expression = ast.Expression(ast.BinOp(ast.Constant(x), operator, ast.Constant(y)))
    return eval(compile(ast.fix_missing_locations(expression), "<kernel>", "eval"))


def _read_only(*_: object) -> Any:
    raise TypeError("kernels are compiled, not run by Python")


i8 = i16 = i32 = i64 = u8 = u16 = u32 = u64 = f32 = f64 = boolean = ptr = Any
bitcast = stack = parallel = sqrt = fma = floor = absolute = rint = _read_only
load_wide = store_wide = splat = sum_wide = _read_only
c_sin = c_cos = c_exp = c_log = c_pow = _read_only


def reassociated(function: Callable) -> Any:
    """Marks a function whose sums of floats may be taken in another order."""
    return function


def outlined(function: Callable) -> Any:
    """Marks a function that is called rather than written into its callers."""
    return function
