# Tests: tests/native/test_elementwise.py, tests/native/test_reductions.py
"""Expressions of kernels as LLVM IR, one instruction after another."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from weft.native.types import BOOLEAN, I64, SCALARS, KernelError, Type, Value, pointer

if TYPE_CHECKING:
    from weft.native.language import Unit

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
COMPARISON = {
    ast.Lt: {"i": "icmp slt", "u": "icmp ult", "f": "fcmp olt"},
    ast.LtE: {"i": "icmp sle", "u": "icmp ule", "f": "fcmp ole"},
    ast.Gt: {"i": "icmp sgt", "u": "icmp ugt", "f": "fcmp ogt"},
    ast.GtE: {"i": "icmp sge", "u": "icmp uge", "f": "fcmp oge"},
    ast.Eq: {"i": "icmp eq", "u": "icmp eq", "f": "fcmp oeq", "b": "icmp eq"},
    ast.NotEq: {"i": "icmp ne", "u": "icmp ne", "f": "fcmp une", "b": "icmp ne"},
}
_OF_C = {f"c_{name}": name for name in ("sin", "cos", "exp", "fmod", "log", "pow", "tan")}
_INTRINSICS = {"sqrt": "sqrt", "fma": "fma", "floor": "floor", "absolute": "fabs", "rint": "rint"}


class Expressions:
    """Writes the LLVM instructions of the expressions of one function."""

    def __init__(self, unit: Unit, node: ast.FunctionDef) -> None:
        self.unit, self.node = unit, node
        self.count = 0
        self.entry: list[str] = []
        self.lines: list[str] = []
        self.variables: dict[str, tuple[Type, str]] = {}
        self.indices: dict[str, int] = {}  # of the unrolled loops around an expression
        self.loops: list[tuple[str, str]] = []  # labels of continue and break
        self.result: Type | None = None
        # Sums of floats may be taken in the order that vectors suggest, where a function says so.
        decorators = {d.id for d in node.decorator_list if isinstance(d, ast.Name)}
        self.float_flags = "reassoc contract " if "reassociated" in decorators else "contract "
        self.inline = " noinline" if "outlined" in decorators else ""

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
        slot = self.fresh(f"{name}.slot")
        self.entry.append(f"  {slot} = alloca {type_.llvm}")
        self.variables[name] = type_, slot

    def store(self, name: str, value: Value) -> None:
        type_, slot = self.variables[name]
        self.do(f"store {type_.llvm} {value.text}, ptr {slot}")

    def known(self, test: ast.expr) -> bool | None:
        """Evaluate a comparison of numbers known from the bindings."""
        if not isinstance(test, ast.Compare):
            return None
        names = {n.id for n in ast.walk(test) if isinstance(n, ast.Name)}
        if not names <= self.unit.constants.keys() or names & self.variables.keys():
            return None
        return bool(eval(ast.unparse(test), dict(self.unit.constants)))

    # Expressions ------------------------------------------------------------------------------

    def typed(self, value: Value, type_: Type, node: ast.AST) -> Value:
        """Return the value with a type; only bare numbers adapt."""
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
        if node.id in self.indices:
            return Value(None, self.indices[node.id])
        if node.id in self.variables:
            type_, slot = self.variables[node.id]
            return self.op(type_, f"load {type_.llvm}, ptr {slot}")
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
        relation = COMPARISON[type(node.ops[0])][type_.kind]
        return self.op(BOOLEAN, f"{relation} {type_.llvm} {x.text}, {y.text}")

    def branch(self, test: ast.expr, yes: str, no: str) -> None:
        """Go to one of two labels; the second operand of `and`, `or` only where it matters."""
        outcome = self.known(test)
        if outcome is not None:
            return self.jump(yes if outcome else no)
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
        element, address = self.place(node)
        return self.op(element, f"load {element.llvm}, ptr {address}")

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
        """Return the number in another type, as C converts it."""
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

    def _call_memcpy(self, to: ast.expr, of: ast.expr, count: ast.expr) -> Value:
        p, q, n = (self.value(node) for node in (to, of, count))
        assert p.type is not None and p.type.element is not None
        size = self.op(I64, f"mul i64 {n.text}, {p.type.element.bits // 8}").text
        name = "@llvm.memcpy.p0.p0.i64"
        self.unit.declarations[name] = f"declare void {name}(ptr, ptr, i64, i1)"
        self.do(f"call void {name}(ptr {p.text}, ptr {q.text}, i64 {size}, i1 false)")
        return Value(None, 0)

    def _call_stack(self, of: ast.expr, size: ast.expr) -> Value:
        type_, n = self.unit.type_of(of), self.value(size).text
        name = self.fresh("stack")
        self.entry.append(f"  {name} = alloca [{n} x {type_.llvm}], align 64")
        return Value(pointer(type_), name)

    def _extremum(self, a: ast.expr, b: ast.expr, relation: dict[str, str]) -> Value:
        x, y = self.value(a), self.value(b)
        type_ = x.type or y.type
        if type_ is None:
            raise self.fail(a, "has no type")
        x, y = self.typed(x, type_, a), self.typed(y, type_, b)
        t = type_.llvm
        mask = t.replace(type_.element.llvm, "i1") if type_.element else "i1"
        first = self.op(BOOLEAN, f"{relation[type_.kind]} {t} {x.text}, {y.text}")
        return self.op(type_, f"select {mask} {first.text}, {t} {x.text}, {t} {y.text}")

    def _call_min(self, a: ast.expr, b: ast.expr) -> Value:
        return self._extremum(a, b, COMPARISON[ast.Lt])

    def _call_max(self, a: ast.expr, b: ast.expr) -> Value:
        return self._extremum(a, b, COMPARISON[ast.Gt])

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
    """Return a number made of two, as the kernel is compiled."""
    expression = ast.Expression(ast.BinOp(ast.Constant(x), operator, ast.Constant(y)))
    return eval(compile(ast.fix_missing_locations(expression), "<kernel>", "eval"))
