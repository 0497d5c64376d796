# Tests: tests/native/test_reductions.py, tests/native/test_sorting.py
"""Expressions of kernels on vectors as LLVM IR."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from weft.native.expressions import COMPARISON, Expressions
from weft.native.types import BOOLEAN, I64, Type, Value, vector


class Vectors(Expressions):
    """Writes the LLVM instructions of expressions on vectors of LANES elements."""

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
        return self._spread(self._wide(x.type), x)

    def _spread(self, type_: Type, x: Value) -> Value:
        """Put the scalar into every lane."""
        assert x.type is not None
        first = self.op(type_, f"insertelement {type_.llvm} poison, {x.type.llvm} {x.text}, i64 0")
        lanes = type_.llvm[1:].split()[0]
        return self.op(
            type_,
            f"shufflevector {type_.llvm} {first.text}, {type_.llvm} poison, "
            f"<{lanes} x i32> zeroinitializer",
        )

    def _over_lanes(self, node: ast.expr, operation: str) -> Value:
        x = self.value(node)
        assert x.type is not None and x.type.element is not None
        element, kind = x.type.element, x.type.kind
        start, flags, sign = "", "nnan " if kind == "f" else "", {"i": "s"}.get(kind, kind)
        if operation == "add":
            zero = self.typed(Value(None, 0.0), element, node).text
            start, flags = f"{element.llvm} {zero}, ", "reassoc "
        lanes = x.type.llvm[1:].split()[0]
        suffix = f"v{lanes}{'f' if kind == 'f' else 'i'}{element.bits}"
        name = f"llvm.vector.reduce.{sign}{operation}.{suffix}"
        types = f"{element.llvm}, {x.type.llvm}" if start else x.type.llvm
        self.unit.declarations[name] = f"declare {element.llvm} @{name}({types})"
        listing = f"{start}{x.type.llvm} {x.text}"
        return self.op(element, f"call {flags}{element.llvm} @{name}({listing})")

    def _call_sum_wide(self, node: ast.expr) -> Value:
        return self._over_lanes(node, "add")

    def _call_max_wide(self, node: ast.expr) -> Value:
        return self._over_lanes(node, "max")

    def _call_min_wide(self, node: ast.expr) -> Value:
        return self._over_lanes(node, "min")

    def _call_first_equal(self, a: ast.expr, b: ast.expr) -> Value:
        x, y = self.value(a), self.value(b)
        assert x.type is not None and x.type == y.type
        lanes = int(self.unit.constants["LANES"])
        relation = COMPARISON[ast.Eq][x.type.kind]
        same = self.op(BOOLEAN, f"{relation} {x.type.llvm} {x.text}, {y.text}").text
        mask = Type(f"u{lanes}", f"i{lanes}", "u", lanes)
        bits = self.op(mask, f"bitcast <{lanes} x i1> {same} to {mask.llvm}").text
        name = f"llvm.cttz.{mask.llvm}"
        self.unit.declarations[name] = f"declare {mask.llvm} @{name}({mask.llvm}, i1)"
        first = self.op(mask, f"call {mask.llvm} @{name}({mask.llvm} {bits}, i1 false)")
        return self.convert(first, I64) if lanes != 64 else Value(I64, first.text)

    def _call_turn_wide(
        self, source: ast.expr, apart: ast.expr, target: ast.expr, pitch: ast.expr
    ) -> Value:
        """Exchange bit after bit of the numbers of rows and lanes."""
        p, a, q, b = (self.value(node) for node in (source, apart, target, pitch))
        assert p.type is not None and p.type.element is not None
        type_, lanes = self._wide(p.type.element), int(self.unit.constants["LANES"])
        t, element, align = type_.llvm, p.type.element.llvm, type_.bits // 8

        def at(base: Value, distance: Value, k: int) -> object:
            offset = self.op(I64, f"mul i64 {distance.text}, {k}").text
            return self.op(I64, f"getelementptr {element}, ptr {base.text}, i64 {offset}").text

        rows = [self.op(type_, f"load {t}, ptr {at(p, a, k)}, align {align}") for k in range(lanes)]
        bit = 1
        while bit < lanes:
            for k in range(lanes):
                if k & bit == 0:
                    x, y = rows[k].text, rows[k + bit].text
                    shuffle = f"shufflevector {t} {x}, {t} {y}, "
                    low = (n - bit + lanes if n & bit else n for n in range(lanes))
                    high = (n + lanes if n & bit else n + bit for n in range(lanes))
                    rows[k], rows[k + bit] = (
                        self.op(type_, shuffle + _indices(order)) for order in (low, high)
                    )
            bit *= 2
        for k, row in enumerate(rows):
            self.do(f"store {t} {row.text}, ptr {at(q, b, k)}, align {align}")
        return Value(None, 0)

    def _is_compressed(self, type_: Type) -> bool:
        return int(self.unit.constants["LANES"]) * type_.bits == 512

    def _masked(self, operation: str, type_: Type) -> str:
        """Declare LLVM's masked load, store or compression of vectors."""
        lanes, t = int(self.unit.constants["LANES"]), type_.llvm
        kind = f"v{lanes}{'i' if type_.kind != 'f' else 'f'}{type_.bits}"
        name, mask = f"@llvm.{operation}.{kind}", f"<{lanes} x i1>"
        if operation == "masked.load":
            name, text = f"{name}.p0", f"{t} {name}.p0(ptr, i32, {mask}, {t})"
        elif operation == "masked.store":
            name, text = f"{name}.p0", f"void {name}.p0({t}, ptr, i32, {mask})"
        else:
            text = f"{t} {name}({t}, {mask}, {t})"
        self.unit.declarations[name] = f"declare {text}"
        return name

    def _first_lanes(self, type_: Type, count: str | int | float, start: int = 0) -> str:
        """Return the mask of the lanes whose number and `start` are less than an i64."""
        lanes, t = int(self.unit.constants["LANES"]), type_.llvm
        assert type_.element is not None
        numbers = ", ".join(f"{type_.element.llvm} {start + lane}" for lane in range(lanes))
        end = self.convert(Value(I64, count), type_.element)
        ends = self._spread(type_, end).text
        return str(self.op(BOOLEAN, f"icmp slt {t} <{numbers}>, {ends}").text)

    def _call_split_wide(
        self, values: ast.expr, pivots: ast.expr, left: ast.expr, right: ast.expr
    ) -> Value:
        """Compress vectors of AVX-512 to both sides; reorder those of AVX2 by a table."""
        x, y, p, end = (self.value(node) for node in (values, pivots, left, right))
        assert x.type is not None and x.type == y.type
        t, lanes, align = x.type.llvm, int(self.unit.constants["LANES"]), x.type.bits // 8
        less = self.op(BOOLEAN, f"icmp slt {t} {x.text}, {y.text}").text
        index, count = self._count_lanes(less)
        if self._is_compressed(x.type):
            mask, name = f"<{lanes} x i1>", self._masked("experimental.vector.compress", x.type)
            low = self.op(x.type, f"call {t} {name}({t} {x.text}, {mask} {less}, {t} poison)").text
            self.do(f"store {t} {low}, ptr {p.text}, align {align}")
            others = self.op(BOOLEAN, f"icmp sge {t} {x.text}, {y.text}").text
            self._store_last(x, others, end, count, lanes)
            return count
        table, permute, words = f"@places{lanes}", "@llvm.x86.avx2.permd", 8 // lanes
        orders = []
        for bits in range(1 << lanes):
            sources = sorted(range(lanes), key=lambda lane: not bits >> lane & 1)
            places = [lane * words + word for lane in sources for word in range(words)]
            orders.append(f"i64 {sum(word << 8 * k for k, word in enumerate(places))}")
        entries = ", ".join(orders)
        self.unit.declarations[table] = (
            f"{table} = internal constant [{1 << lanes} x i64] [{entries}]"
        )
        wide = Type("", "<8 x i32>", "i", 32)
        self.unit.declarations[permute] = f"declare <8 x i32> {permute}(<8 x i32>, <8 x i32>)"
        at = self.op(I64, f"getelementptr i64, ptr {table}, i64 {index}").text
        order = self.op(I64, f"load <8 x i8>, ptr {at}").text
        order = self.op(wide, f"zext <8 x i8> {order} to <8 x i32>").text
        old = self.op(wide, f"bitcast {t} {x.text} to <8 x i32>").text
        new = self.op(wide, f"call <8 x i32> {permute}(<8 x i32> {old}, <8 x i32> {order})").text
        for target in (end, p):
            self.do(f"store <8 x i32> {new}, ptr {target.text}, align {align}")
        return count

    def _count_lanes(self, mask: str | int | float) -> tuple[str | int | float, Value]:
        """Give the lanes of a mask as the bits of a number, and count them."""
        lanes = int(self.unit.constants["LANES"])
        bits = self.op(BOOLEAN, f"bitcast <{lanes} x i1> {mask} to i{lanes}").text
        index = self.op(I64, f"zext i{lanes} {bits} to i64").text
        self.unit.declarations["ctpop"] = "declare i64 @llvm.ctpop.i64(i64)"
        return index, self.op(I64, f"call i64 @llvm.ctpop.i64(i64 {index})")

    def _store_last(self, x: Value, mask: object, end: Value, free: Value, lanes: int) -> None:
        """Store some lanes behind the `free` elements that they leave of a vector at `end`."""
        assert x.type is not None and x.type.element is not None
        t, kind, align = x.type.llvm, f"<{lanes} x i1>", x.type.bits // 8
        name, store = (
            self._masked("experimental.vector.compress", x.type),
            self._masked("masked.store", x.type),
        )
        some = self.op(x.type, f"call {t} {name}({t} {x.text}, {kind} {mask}, {t} poison)").text
        element = x.type.element.llvm
        at = self.op(I64, f"getelementptr {element}, ptr {end.text}, i64 {free.text}").text
        ones = self.op(I64, f"lshr i64 {(1 << lanes) - 1}, {free.text}").text
        ones = self.op(I64, f"trunc i64 {ones} to i{lanes}").text
        first = self.op(BOOLEAN, f"bitcast i{lanes} {ones} to {kind}").text
        self.do(f"call void {store}({t} {some}, ptr {at}, i32 {align}, {kind} {first})")

    def _call_split_rest(
        self, source: ast.expr, count: ast.expr, pivots: ast.expr, left: ast.expr, right: ast.expr
    ) -> Value:
        """Do as `split_wide` for fewer elements than a vector has."""
        q, n, y, p, end = (self.value(node) for node in (source, count, pivots, left, right))
        assert y.type is not None
        t, lanes, align = y.type.llvm, int(self.unit.constants["LANES"]), y.type.bits // 8
        kind, mask = f"<{lanes} x i1>", self._first_lanes(y.type, n.text)
        load, store = self._masked("masked.load", y.type), self._masked("masked.store", y.type)
        name = self._masked("experimental.vector.compress", y.type)
        x = self.op(
            y.type, f"call {t} {load}(ptr {q.text}, i32 {align}, {kind} {mask}, {t} poison)"
        )
        less = self.op(BOOLEAN, f"icmp slt {t} {x.text}, {y.text}").text
        more = self.op(BOOLEAN, f"icmp sge {t} {x.text}, {y.text}").text
        less, more = (
            self.op(BOOLEAN, f"select {kind} {mask}, {kind} {which}, {kind} zeroinitializer").text
            for which in (less, more)
        )
        _, low = self._count_lanes(less)
        _, high = self._count_lanes(more)
        some = self.op(y.type, f"call {t} {name}({t} {x.text}, {kind} {less}, {t} poison)").text
        first = self._first_lanes(y.type, low.text)
        self.do(f"call void {store}({t} {some}, ptr {p.text}, i32 {align}, {kind} {first})")
        free = self.op(I64, f"sub i64 {lanes}, {high.text}")
        self._store_last(x, more, end, free, lanes)
        return low

    def _call_sort_wide(
        self, source: ast.expr, target: ast.expr, count: ast.expr, vectors: ast.expr
    ) -> Value:
        """Batcher's bitonic sorter (Knuth, "The Art of Computer Programming" 3, 5.3.4)."""
        p, q, n = (self.value(node) for node in (source, target, count))
        assert p.type is not None and p.type.element is not None
        type_, many = self._wide(p.type.element), int(self.value(vectors).text)
        t, lanes, align = type_.llvm, int(self.unit.constants["LANES"]), type_.bits // 8
        greatest = self._spread(type_, Value(type_.element, self.unit.constants["GREATEST"])).text
        load, store = self._masked("masked.load", type_), self._masked("masked.store", type_)
        masks = [self._first_lanes(type_, n.text, k * lanes) for k in range(many)]
        both, kind, call = ("smin", "smax"), f"i32 {align}, <{lanes} x i1>", f"call {t} {load}"

        def at(base: Value, k: int) -> object:
            return self.op(I64, f"getelementptr {t}, ptr {base.text}, i64 {k}").text

        # Lanes past the end hold the greatest value, which sorts behind everything.
        keys = [
            self.op(type_, f"{call}(ptr {at(p, k)}, {kind} {mask}, {t} {greatest})").text
            for k, mask in enumerate(masks)
        ]

        def exchange(x: object, y: object) -> list:
            names = [f"llvm.{which}.v{lanes}i{type_.bits}" for which in both]
            self.unit.declarations |= {n: f"declare {t} @{n}({t}, {t})" for n in names}
            return [self.op(type_, f"call {t} @{n}({t} {x}, {t} {y})").text for n in names]

        def step(run: int, apart: int) -> None:
            """Compare elements that are `apart`; runs turn up and down."""
            for k in range(many):
                ups = [(k * lanes + lane) & run == 0 for lane in range(lanes)]
                # Partners in two vectors are compared as they are, in one by a shuffle.
                if apart >= lanes:
                    other = k ^ (apart // lanes)
                    if other > k:
                        ends = exchange(keys[k], keys[other])
                        keys[k], keys[other] = ends if ups[0] else ends[::-1]
                    continue
                shuffle = f"shufflevector {t} {keys[k]}, {t} poison, "
                partner = self.op(type_, shuffle + _indices(i ^ apart for i in range(lanes))).text
                low, high = exchange(keys[k], partner)
                picks = (i + lanes * ((i & apart == 0) != ups[i]) for i in range(lanes))
                shuffle = f"shufflevector {t} {low}, {t} {high}, "
                keys[k] = self.op(type_, shuffle + _indices(picks)).text

        # Runs of 2, 4, … elements that turn up and down become runs twice as long.
        for k in range(1, (many * lanes).bit_length()):
            for j in range(k - 1, -1, -1):
                step(1 << k, 1 << j)
        for k, (mask, key) in enumerate(zip(masks, keys, strict=True)):
            self.do(f"call void {store}({t} {key}, ptr {at(q, k)}, {kind} {mask})")
        return Value(None, 0)


def _indices(lanes: Iterable[int]) -> str:
    """Return the operand of a shuffle that says where each lane comes from."""
    texts = [f"i32 {lane}" for lane in lanes]
    return f"<{len(texts)} x i32> <{', '.join(texts)}>"
