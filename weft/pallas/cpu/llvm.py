# Tests: tests/pallas/test_cpu.py
"""LLVM IR as text: modules, functions, structured loops and branches.

An SSA value is its operand text (``"%v3"``, ``"1.0"``). Index arithmetic also takes Python ints,
which fold, so that static shapes leave no code behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

Index = int | str
SHORT = 8
"""Turns below which a loop is left as it is: vectors gain little there and take long to compile."""


class Module:
    """Functions, globals and metadata of one compilation unit."""

    def __init__(self) -> None:
        self.functions: dict[str, str] = {}
        self.globals: dict[str, str] = {}
        self.declarations: dict[str, str] = {}
        self.named: dict[str, str] = {}
        self.metadata: list[str] = ["!0 = distinct !{}"]  # the group of accesses of parallel loops

    def declare(self, name: str, result: str, arguments: str) -> None:
        self.declarations.setdefault(name, f"declare {result} @{name}({arguments})")

    def string(self, text: str) -> str:
        """Return the address of a constant string."""
        data = text.encode() + b"\0"
        body = "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:02X}" for b in data)
        line = f'private unnamed_addr constant [{len(data)} x i8] c"{body}"'
        for name, known in self.globals.items():
            if known == line:
                return name
        name = f"@str{len(self.globals)}"
        self.globals[name] = line
        return name

    def node(self, text: str) -> str:
        """Return a metadata node, which may refer to itself as ``SELF``."""
        name = f"!{len(self.metadata)}"
        self.metadata.append(f"{name} = {text.replace('SELF', name)}")
        return name

    def once(self, name: str, text: str) -> str:
        """Return the one metadata node of a name."""
        return self.named.get(name) or self.named.setdefault(name, self.node(text))

    def text(self) -> str:
        return "\n".join(
            [
                *(f"{name} = {line}" for name, line in self.globals.items()),
                *(d for name, d in self.declarations.items() if name not in self.functions),
                *self.functions.values(),
                *self.metadata,
                "",
            ]
        )


class Loop:
    """A loop being written: its index, the values it carries, and those of the next iteration."""

    __slots__ = ("carried", "following", "index", "results")

    def __init__(self, index: str, carried: list[str]) -> None:
        self.index = index
        self.carried = carried
        self.following = list(carried)
        self.results: list[str] = []


class Function:
    """A function being written, block by block."""

    def __init__(
        self,
        module: Module,
        name: str,
        arguments: Sequence[tuple[str, str]],
        result: str = "void",
        attributes: str = "",
        linkage: str = "internal",
    ) -> None:
        self.module = module
        self.name = name
        self.arguments = [f"%{n}" for _, n in arguments]
        listing = ", ".join(f"{t} %{n}" for t, n in arguments)
        self.head = f"define {linkage} {result} @{name}({listing}) {attributes} #0 {{"
        self.entry: list[str] = []
        self.lines: list[str] = []
        self.block = "entry"
        self.count = 0
        self.streams = False
        """Whether it stores past the caches."""
        self.ahead: list = []
        """Buffers of what is read next, one tile after the other."""
        self.exact = False
        """Whether sums and products are rounded each, as those of formulas are."""
        self.greatest: dict[tuple[int, str, int], str] = {}
        """Where the greatest of some positions is, by message, type and bound."""
        self.memo: dict = {}
        """Cache of array elements computed in this block or one that dominates it."""

    def finish(self) -> None:
        body = "\n".join(["entry:", *self.entry, *self.lines, "}"])
        self.module.functions[self.name] = f"{self.head}\n{body}\n"

    # Instructions ------------------------------------------------------------------------------

    def name_of(self, stem: str = "v") -> str:
        self.count += 1
        return f"%{stem}{self.count}"

    def op(self, text: str) -> str:
        """Return an instruction with a result."""
        self.count += 1
        name = f"%v{self.count}"
        self.lines.append(f"  {name} = {text}")
        return name

    def do(self, text: str) -> None:
        """Return an instruction without one."""
        self.lines.append(f"  {text}")

    def alloca(self, type_: str, align: int = 64) -> str:
        name = self.name_of("a")
        self.entry.append(f"  {name} = alloca {type_}, align {align}")
        return name

    def intrinsic(self, name: str, result: str, *operands: tuple[str, str]) -> str:
        """Return a call of an intrinsic or C function with typed operands (type, value)."""
        self.module.declare(name, result, ", ".join(t for t, _ in operands))
        listing = ", ".join(f"{t} {v}" for t, v in operands)
        if result == "void":
            self.do(f"call void @{name}({listing})")
            return ""
        return self.op(f"call {result} @{name}({listing})")

    def load(self, type_: str, pointer: str, parallel: bool = True, align: int = 0) -> str:
        tail = f", align {align}" if align else ""
        return self.op(
            f"load {type_}, ptr {pointer}{tail}" + (", !llvm.access.group !0" if parallel else "")
        )

    def store(
        self, type_: str, value: str, pointer: str, parallel: bool = True, align: int = 0
    ) -> None:
        tail = f", align {align}" if align else ""
        self.do(
            f"store {type_} {value}, ptr {pointer}{tail}"
            + (", !llvm.access.group !0" if parallel else "")
        )

    # Indices -----------------------------------------------------------------------------------

    def add(self, a: Index, b: Index) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if a == 0:
            return b
        return a if b == 0 else self.op(f"add nsw i64 {a}, {b}")

    def sub(self, a: Index, b: Index) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return a - b
        return a if b == 0 else self.op(f"sub nsw i64 {a}, {b}")

    def mul(self, a: Index, b: Index) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        if a == 1:
            return b
        if a == 0 or b == 0:
            return 0
        return a if b == 1 else self.op(f"mul nsw i64 {a}, {b}")

    def div(self, a: Index, b: Index) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return a // b
        return a if b == 1 else self.op(f"udiv i64 {a}, {b}")

    def rem(self, a: Index, b: Index) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return a % b
        return 0 if b == 1 else self.op(f"urem i64 {a}, {b}")

    def minimum(self, a: Index, b: Index) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return min(a, b)
        return self.intrinsic("llvm.smin.i64", "i64", ("i64", str(a)), ("i64", str(b)))

    def maximum(self, a: Index, b: Index) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return max(a, b)
        return self.intrinsic("llvm.smax.i64", "i64", ("i64", str(a)), ("i64", str(b)))

    def dot(self, indices: Sequence[Index], strides: Sequence[Index]) -> Index:
        """Return the sum of indices times strides: constant parts fold and stand last."""
        total: Index = 0
        constant = 0
        for i, s in zip(indices, strides, strict=True):
            term = self.mul(i, s)
            if isinstance(term, int):
                constant += term
            else:
                total = self.add(total, term)
        return self.add(total, constant)

    def address(self, type_: str, pointer: str, index: Index) -> str:
        if index == 0:
            return pointer
        return self.op(f"getelementptr inbounds {type_}, ptr {pointer}, i64 {index}")

    # Structure ---------------------------------------------------------------------------------

    def label(self, name: str) -> None:
        self.lines.append(f"{name[1:]}:")
        self.block = name[1:]

    def goto(self, label: str) -> None:
        self.do(f"br label {label}")

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Forget elements computed inside after it: they do not dominate what follows."""
        before = self.memo
        self.memo = dict(before)
        try:
            yield
        finally:
            self.memo = before

    @contextmanager
    def loop(
        self,
        low: Index,
        high: Index,
        carry: Sequence[tuple[str, str]] = (),
        *,
        step: int = 1,
        parallel: bool = False,
        hints: str = "",
    ) -> Iterator[Loop]:
        """for index in range(low, high, step), carrying SSA values given as (type, first value).

        parallel: iterations touch no memory that another one writes. The body sets
        ``loop.following``; ``loop.results`` hold the carried values after the loop.
        """
        if isinstance(low, int) and isinstance(high, int) and 0 < high - low <= step:
            once = Loop(str(low), [first for _, first in carry])
            with self.scope():
                yield once
            once.results = once.following
            return
        head, body, exit_ = self.name_of("head"), self.name_of("body"), self.name_of("exit")
        index = self.name_of("i")
        before = self.block
        self.goto(head)
        self.label(head)
        # The phis need the values of the latch, which the body has yet to write: room for them.
        line = len(self.lines)
        self.lines.append("")
        carried = []
        for _ in carry:
            carried.append(self.name_of("c"))
            self.lines.append("")
        more = self.op(f"icmp slt i64 {index}, {high}")
        self.do(f"br i1 {more}, label {body}, label {exit_}")
        self.label(body)
        loop = Loop(index, carried)
        with self.scope():
            yield loop
        following = self.op(f"add nuw nsw i64 {index}, {step}")
        latch = self.block
        tail = hints
        if parallel:
            tail += ", !{!" + '"llvm.loop.parallel_accesses", !0}'
            # See SHORT.
            if isinstance(low, int) and isinstance(high, int) and high - low < SHORT * step:
                tail += ", !{!" + '"llvm.loop.vectorize.enable", i1 false}'
        note = ""
        if tail:
            note = ", !llvm.loop " + self.module.node("distinct !{SELF" + tail + "}")
        self.do(f"br label {head}{note}")
        self.lines[line] = f"  {index} = phi i64 [ {low}, %{before} ], [ {following}, %{latch} ]"
        for k, ((type_, first), name, then) in enumerate(
            zip(carry, carried, loop.following, strict=True)
        ):
            self.lines[line + 1 + k] = (
                f"  {name} = phi {type_} [ {first}, %{before} ], [ {then}, %{latch} ]"
            )
        self.label(exit_)
        loop.results = carried

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """Emit the code inside so that it runs only where the condition (i1) holds."""
        inside, after = self.name_of("then"), self.name_of("after")
        self.do(f"br i1 {condition}, label {inside}, label {after}")
        self.label(inside)
        with self.scope():
            yield
        self.goto(after)
        self.label(after)

    def choose(self, condition: str, type_: str, inside: Callable[[], str], otherwise: str) -> str:
        """inside() where the condition holds, which runs only then; else the other value."""
        then, after = self.name_of("then"), self.name_of("after")
        before = self.block
        self.do(f"br i1 {condition}, label {then}, label {after}")
        self.label(then)
        with self.scope():
            value = inside()
        last = self.block
        self.goto(after)
        self.label(after)
        return self.op(f"phi {type_} [ {value}, %{last} ], [ {otherwise}, %{before} ]")
