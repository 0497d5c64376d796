# Tests: tests/native/test_reductions.py
"""One function of a kernel as LLVM IR: its statements."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from weft.native.types import BOOLEAN, I64, SCALARS, Value
from weft.native.vectors import Vectors


class Writer(Vectors):
    """One function on its way to IR."""

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
            element, address = self.place(target)
            value = self.typed(value, element, target)
            self.do(f"store {element.llvm} {value.text}, ptr {address}")
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

    def _If(self, node: ast.If) -> None:
        outcome = self.known(node.test)
        if outcome is not None:
            return self.block(node.body if outcome else node.orelse)
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
        if not isinstance(call, ast.Call) or ast.unparse(call.func) not in ("range", "unrolled"):
            raise self.fail(node, "loops run over a range")
        bounds = [self.value(a) for a in call.args]
        if ast.unparse(call.func) == "unrolled":
            return self._unrolled(node, bounds[0])
        start, stop = (Value(None, 0), bounds[0]) if len(bounds) == 1 else bounds[:2]
        step = bounds[2] if len(bounds) == 3 else Value(None, 1)
        type_ = stop.type or start.type or I64
        start, stop, step = (self.typed(v, type_, node) for v in (start, stop, step))
        assert isinstance(node.target, ast.Name)
        name = node.target.id
        if name not in self.variables:
            self.declare(name, type_)
        self.store(name, start)
        slot = self.variables[name][1]
        head, body = self.fresh("head"), self.fresh("body")
        following, after = self.fresh("next"), self.fresh("after")
        down = isinstance(step.text, int) and step.text < 0
        self.jump(head)
        self.label(head)
        index = self.op(type_, f"load {type_.llvm}, ptr {slot}")
        relation = ("sgt" if down else "slt") if type_.kind == "i" else "ult"
        more = self.op(BOOLEAN, f"icmp {relation} {type_.llvm} {index.text}, {stop.text}")
        self.do(f"br i1 {more.text}, label {body}, label {after}")
        self.label(body)
        self.loops.append((following, after))
        self.block(node.body)
        self.loops.pop()
        self.jump(following)
        self.label(following)
        index = self.op(type_, f"load {type_.llvm}, ptr {slot}")
        wrap = "nsw " if type_.kind == "i" else ""
        self.store(name, self.op(type_, f"add {wrap}{type_.llvm} {index.text}, {step.text}"))
        self.jump(head)
        self.label(after)

    def _unrolled(self, node: ast.For, count: Value) -> None:
        """Write the body once for each index, which is a number known as the kernel is compiled."""
        if not isinstance(node.target, ast.Name) or not isinstance(count.text, int):
            raise self.fail(node, "the number of turns is not known")
        for index in range(count.text):
            self.indices[node.target.id] = index
            self.block(node.body)
        self.indices.pop(node.target.id, None)

    def _Break(self, node: ast.Break) -> None:
        self.jump(self.loops[-1][1])
        self.label(self.fresh("after"))

    def _Continue(self, node: ast.Continue) -> None:
        self.jump(self.loops[-1][0])
        self.label(self.fresh("after"))
