# ruff: noqa: E501 - lines of MLIR text read better whole
"""Random chains of StableHLO operations with random shardings, and their values by NumPy.

Values are small integers held in f32, so every result is exact whatever the order of a sum.
"""

from __future__ import annotations

import math

import numpy as np

MESHES = (
    {"x": 4, "y": 2},
    {"x": 2, "y": 2, "z": 2},
    {"x": 8},
    {"x": 2, "y": 3},
    {"x": 3},
)


class Program:
    """A module under construction: its text, and the NumPy value of every SSA value."""

    def __init__(self, rng: np.random.Generator, mesh: dict[str, int]):
        self.rng, self.mesh = rng, mesh
        self.lines: list[str] = []
        self.values: list[tuple[str, np.ndarray]] = []
        self.arguments: list[tuple[str, np.ndarray, str]] = []
        self.count = 0

    # -- text ----------------------------------------------------------------------------------

    def name(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def emit(self, line: str, value: np.ndarray) -> tuple[str, np.ndarray]:
        name = self.name()
        self.lines.append(f"{name} = {line}")
        self.values.append((name, value))
        return name, value

    def argument(self, shape: tuple[int, ...]) -> None:
        value = self.rng.integers(-4, 5, shape).astype(np.float32)
        name = f"%a{len(self.arguments)}"
        self.arguments.append((name, value, self.sharding(shape, divisible=True)))
        self.values.append((name, value))

    def sharding(self, shape: tuple[int, ...], divisible: bool = False) -> str:
        """A random sharding: each axis (or half of one) lands on some dimension or none."""
        dims: list[list[str]] = [[] for _ in shape]
        left = list(shape)
        for axis, size in self.rng.permutation(list(self.mesh.items())).tolist():
            size = int(size)
            pieces = [(f'"{axis}"', size)]
            if size % 2 == 0 and size > 2 and self.rng.random() < 0.3:
                pieces = [(f'"{axis}":(1)2', 2), (f'"{axis}":(2){size // 2}', size // 2)]
            for text, count in pieces:
                if not shape or self.rng.random() < 0.35:
                    continue
                d = int(self.rng.integers(len(shape)))
                if divisible and left[d] % count:
                    continue
                if left[d] < 1 or dims[d] and dims[d][-1].startswith(f'"{axis}":'):
                    continue
                dims[d].append(text)
                left[d] //= count
        inner = ", ".join("{" + ", ".join(d) + "}" for d in dims)
        return f"<@mesh, [{inner}]>"

    def constrain(self, item: tuple[str, np.ndarray]) -> tuple[str, np.ndarray]:
        name, value = item
        if not value.shape or 0 in value.shape or self.rng.random() < 0.4:
            return item
        text = self.sharding(value.shape)
        return self.emit(f"sdy.sharding_constraint {name} {text} : {kind(value)}", value)

    def text(self) -> str:
        axes = ", ".join(f'"{k}"={v}' for k, v in self.mesh.items())
        arguments = ", ".join(
            f"{n}: {kind(v)} {{sdy.sharding = #sdy.sharding{s}}}" for n, v, s in self.arguments
        )
        out, value = self.values[-1]
        lines = "\n    ".join(self.lines)
        return f"""module {{
  sdy.mesh @mesh = <[{axes}]>
  func.func public @main({arguments}) -> ({kind(value)}) {{
    {lines}
    return {out} : {kind(value)}
  }}
}}"""


def kind(value: np.ndarray) -> str:
    element = {"f": "f32", "i": "i32", "b": "i1"}[value.dtype.kind]
    return "tensor<" + "x".join([*map(str, value.shape), element]) + ">"


def ints(values) -> str:
    return "[" + ", ".join(str(int(v)) for v in values) + "]"


# Each step takes the program and a value and emits one operation on it (or returns None).


def unary(p: Program, x):
    op, f = [("negate", np.negative), ("abs", np.abs), ("sign", np.sign)][p.rng.integers(3)]
    return p.emit(f"stablehlo.{op} {x[0]} : {kind(x[1])}", f(x[1]))


def binary(p: Program, x):
    same = [v for v in p.values if v[1].shape == x[1].shape]
    y = same[p.rng.integers(len(same))]
    op, f = [
        ("add", np.add),
        ("subtract", np.subtract),
        ("maximum", np.maximum),
        ("minimum", np.minimum),
    ][p.rng.integers(4)]
    return p.emit(f"stablehlo.{op} {x[0]}, {y[0]} : {kind(x[1])}", f(x[1], y[1]))


def clip(p: Program, x):
    low = p.emit("stablehlo.constant dense<-4.0> : tensor<f32>", np.float32(-4))
    high = p.emit("stablehlo.constant dense<4.0> : tensor<f32>", np.float32(4))
    t = kind(x[1])
    text = f"stablehlo.clamp {low[0]}, {x[0]}, {high[0]} : (tensor<f32>, {t}, tensor<f32>) -> {t}"
    return p.emit(text, np.clip(x[1], -4, 4))


def transpose(p: Program, x):
    order = p.rng.permutation(x[1].ndim)
    y = np.transpose(x[1], order)
    text = f"stablehlo.transpose {x[0]}, dims = {ints(order)} : ({kind(x[1])}) -> {kind(y)}"
    return p.emit(text, y)


def reshape(p: Program, x):
    sizes, left = [], x[1].size
    while left > 1 and len(sizes) < 3:
        divisors = [d for d in range(1, left + 1) if left % d == 0]
        d = divisors[p.rng.integers(len(divisors))]
        sizes.append(d)
        left //= d
    sizes.append(left)
    y = x[1].reshape(sizes)
    return p.emit(f"stablehlo.reshape {x[0]} : ({kind(x[1])}) -> {kind(y)}", y)


def broadcast(p: Program, x):
    if x[1].ndim > 3:
        return None
    new = int(p.rng.integers(1, 6))
    at = int(p.rng.integers(x[1].ndim + 1))
    dims = [i if i < at else i + 1 for i in range(x[1].ndim)]
    y = np.broadcast_to(np.expand_dims(x[1], at), x[1].shape[:at] + (new,) + x[1].shape[at:])
    text = f"stablehlo.broadcast_in_dim {x[0]}, dims = {ints(dims)}"
    return p.emit(f"{text} : ({kind(x[1])}) -> {kind(y)}", y)


def iota(p: Program, x):
    if not x[1].ndim:
        return None
    d = int(p.rng.integers(x[1].ndim))
    i = np.broadcast_to(
        np.arange(x[1].shape[d], dtype=np.float32).reshape(
            [-1 if k == d else 1 for k in range(x[1].ndim)]
        ),
        x[1].shape,
    )
    i = p.emit(f"stablehlo.iota dim = {d} : {kind(x[1])}", i)
    return p.emit(f"stablehlo.add {x[0]}, {i[0]} : {kind(x[1])}", x[1] + i[1])


def dense(p: Program, x):
    value = p.rng.integers(-3, 4, x[1].shape).astype(np.float32)
    if value.size > 200 or not value.size:
        return None
    text = (
        np.array2string(value, separator=",", threshold=10**6).replace("\n", "").replace(".", ".0")
    )
    c = p.emit(f"stablehlo.constant dense<{text}> : {kind(value)}", value)
    return p.emit(f"stablehlo.add {x[0]}, {c[0]} : {kind(value)}", x[1] + value)


def reduce(p: Program, x):
    if not x[1].ndim:
        return None
    n = int(p.rng.integers(1, x[1].ndim + 1))
    dims = sorted(p.rng.choice(x[1].ndim, n, replace=False).tolist())
    op, init, f = [
        ("add", "0.0", np.sum),
        ("maximum", "0xFF800000", np.max),
        ("minimum", "0x7F800000", np.min),
    ][p.rng.integers(3)]
    if 0 in x[1].shape:
        return None
    start = p.emit(f"stablehlo.constant dense<{init}> : tensor<f32>", np.float32(0))
    p.values.pop()
    y = np.asarray(f(x[1], axis=tuple(dims)), np.float32)
    text = f"stablehlo.reduce({x[0]} init: {start[0]}) applies stablehlo.{op} across dimensions = {ints(dims)}"
    return p.emit(f"{text} : ({kind(x[1])}, tensor<f32>) -> {kind(y)}", y)


def argmax(p: Program, x):
    if not x[1].ndim or 0 in x[1].shape:
        return None
    d = int(p.rng.integers(x[1].ndim))
    y = np.argmax(x[1], axis=d).astype(np.float32)
    a, b = p.name(), p.name()
    t, r = kind(x[1]), kind(y)
    ti = t.replace("f32", "i32")
    i, out = p.name(), p.name()
    p.lines += [
        f"{a} = stablehlo.constant dense<0xFF800000> : tensor<f32>",
        f"{b} = stablehlo.constant dense<0> : tensor<i32>",
        f"{i} = stablehlo.iota dim = {d} : {ti}",
        f"""{out}:2 = stablehlo.reduce({x[0]} init: {a}), ({i} init: {b}) across dimensions = [{d}] : ({t}, {ti}, tensor<f32>, tensor<i32>) -> ({r}, {r.replace("f32", "i32")})
     reducer(%l: tensor<f32>, %r: tensor<f32>) (%li: tensor<i32>, %ri: tensor<i32>) {{
      %gt = stablehlo.compare GT, %l, %r : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %eq = stablehlo.compare EQ, %l, %r : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %lt = stablehlo.compare LT, %li, %ri : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %tie = stablehlo.and %eq, %lt : tensor<i1>
      %first = stablehlo.or %gt, %tie : tensor<i1>
      %v = stablehlo.select %gt, %l, %r : tensor<i1>, tensor<f32>
      %w = stablehlo.select %first, %li, %ri : tensor<i1>, tensor<i32>
      stablehlo.return %v, %w : tensor<f32>, tensor<i32>
    }}""",
    ]
    return p.emit(f"stablehlo.convert {out}#1 : ({r.replace('f32', 'i32')}) -> {r}", y)


def dot(p: Program, x):
    others = [v for v in p.values if v[1].ndim and v[1].size < 2000]
    if not x[1].ndim or not others or x[1].size > 2000:
        return None
    y = others[p.rng.integers(len(others))]
    pairs = [(i, j) for i, m in enumerate(x[1].shape) for j, n in enumerate(y[1].shape) if m == n]
    if not pairs:
        return None
    p.rng.shuffle(pairs)
    i, j = pairs[0]
    batch = [q for q in pairs[1:] if q[0] != i and q[1] != j][: int(p.rng.integers(2))]
    letters = "abcdefghijklmnop"
    left = list(letters[: x[1].ndim])
    right = list(letters[x[1].ndim : x[1].ndim + y[1].ndim])
    right[j] = left[i]
    for a, b in batch:
        right[b] = left[a]
    lead = [left[a] for a, _ in batch]
    out = lead + [c for c in left if c not in lead and c != left[i]]
    out += [c for c in right if c not in lead and c != left[i]]
    z = np.einsum(f"{''.join(left)},{''.join(right)}->{''.join(out)}", x[1], y[1])
    if z.size > 4000 or np.abs(z).max(initial=0) > 1e5:
        return None
    batching = f"batching_dims = {ints(a for a, _ in batch)} x {ints(b for _, b in batch)}, "
    text = f"stablehlo.dot_general {x[0]}, {y[0]}, {batching if batch else ''}contracting_dims = [{i}] x [{j}]"
    z = p.emit(f"{text} : ({kind(x[1])}, {kind(y[1])}) -> {kind(z)}", z.astype(np.float32))
    return clip(p, z)


def slice_(p: Program, x):
    if not x[1].ndim or 0 in x[1].shape:
        return None
    spans = []
    for n in x[1].shape:
        a = int(p.rng.integers(0, n)) if p.rng.random() < 0.6 else 0
        b = int(p.rng.integers(a + 1, n + 1)) if p.rng.random() < 0.6 else n
        spans.append((a, b, int(p.rng.integers(1, 4)) if p.rng.random() < 0.4 else 1))
    y = x[1][tuple(slice(*s) for s in spans)]
    text = ", ".join(f"{a}:{b}:{s}" for a, b, s in spans)
    return p.emit(f"stablehlo.slice {x[0]} [{text}] : ({kind(x[1])}) -> {kind(y)}", y)


def pad(p: Program, x):
    if not x[1].ndim or x[1].size > 500 or 0 in x[1].shape:
        return None
    low, high, interior = (
        p.rng.integers(lo, hi, x[1].ndim) for lo, hi in ((-1, 4), (-1, 4), (0, 3))
    )
    interior = interior * (p.rng.random(x[1].ndim) < 0.4)
    shape = [
        n + a + b + i * (n - 1) for n, a, b, i in zip(x[1].shape, low, high, interior, strict=False)
    ]
    if min(shape) < 1:
        return None
    full = np.full(
        [n + i * (n - 1) for n, i in zip(x[1].shape, interior, strict=False)], 7, np.float32
    )
    full[tuple(slice(None, None, i + 1) for i in interior)] = x[1]
    y = np.pad(
        full, [(max(a, 0), max(b, 0)) for a, b in zip(low, high, strict=False)], constant_values=7
    )
    y = y[
        tuple(
            slice(max(-a, 0), y.shape[d] - max(-b, 0))
            for d, (a, b) in enumerate(zip(low, high, strict=False))
        )
    ]
    c = p.emit("stablehlo.constant dense<7.0> : tensor<f32>", np.float32(7))
    text = f"stablehlo.pad {x[0]}, {c[0]}, low = {ints(low)}, high = {ints(high)}, interior = {ints(interior)}"
    return p.emit(f"{text} : ({kind(x[1])}, tensor<f32>) -> {kind(y)}", y)


def concatenate(p: Program, x):
    if not x[1].ndim:
        return None
    d = int(p.rng.integers(x[1].ndim))

    def rest(v):
        return v.shape[:d] + v.shape[d + 1 :]

    fits = [v for v in p.values if v[1].ndim == x[1].ndim and rest(v[1]) == rest(x[1])]
    parts = [x, *(fits[p.rng.integers(len(fits))] for _ in range(p.rng.integers(1, 3)))]
    y = np.concatenate([v for _, v in parts], axis=d)
    names = ", ".join(n for n, _ in parts)
    types = ", ".join(kind(v) for _, v in parts)
    return p.emit(f"stablehlo.concatenate {names}, dim = {d} : ({types}) -> {kind(y)}", y)


def reverse(p: Program, x):
    if not x[1].ndim:
        return None
    dims = [d for d in range(x[1].ndim) if p.rng.random() < 0.6]
    return p.emit(
        f"stablehlo.reverse {x[0]}, dims = {ints(dims)} : {kind(x[1])}", np.flip(x[1], dims)
    )


def index_scalars(p: Program, highs) -> tuple[list[str], list[int]]:
    names, values = [], []
    for high in highs:
        v = int(p.rng.integers(-2, high + 2))
        n = p.name()
        p.lines.append(f"{n} = stablehlo.constant dense<{v}> : tensor<i32>")
        names.append(n)
        values.append(v)
    return names, values


def dynamic_slice(p: Program, x):
    if not x[1].ndim or 0 in x[1].shape:
        return None
    sizes = [int(p.rng.choice([1, n, p.rng.integers(1, n + 1)])) for n in x[1].shape]
    names, at = index_scalars(p, x[1].shape)
    at = [min(max(a, 0), n - s) for a, n, s in zip(at, x[1].shape, sizes, strict=False)]
    y = x[1][tuple(slice(a, a + s) for a, s in zip(at, sizes, strict=False))]
    index = ", ".join(["tensor<i32>"] * len(at))
    text = f"stablehlo.dynamic_slice {x[0]}, {', '.join(names)}, sizes = {ints(sizes)}"
    return p.emit(f"{text} : ({kind(x[1])}, {index}) -> {kind(y)}", y)


def dynamic_update(p: Program, x):
    fits = [
        v
        for v in p.values
        if v[1].ndim == x[1].ndim
        and all(a <= b for a, b in zip(v[1].shape, x[1].shape, strict=False))
    ]
    if not x[1].ndim or 0 in x[1].shape or not fits:
        return None
    u = fits[p.rng.integers(len(fits))]
    names, at = index_scalars(p, x[1].shape)
    at = [min(max(a, 0), n - s) for a, n, s in zip(at, x[1].shape, u[1].shape, strict=False)]
    y = x[1].copy()
    y[tuple(slice(a, a + s) for a, s in zip(at, u[1].shape, strict=False))] = u[1]
    index = ", ".join(["tensor<i32>"] * len(at))
    text = f"stablehlo.dynamic_update_slice {x[0]}, {u[0]}, {', '.join(names)}"
    return p.emit(f"{text} : ({kind(x[1])}, {kind(u[1])}, {index}) -> {kind(y)}", y)


def sharded_indices(p: Program, count: int, high: int, low: int = -2) -> tuple[str, np.ndarray]:
    value = p.rng.integers(low, high + 2, count).astype(np.int32)
    n = p.name()
    p.lines.append(f"{n} = stablehlo.constant dense<{ints(value)}> : {kind(value)}")
    m = p.name()
    p.lines.append(f"{m} = sdy.sharding_constraint {n} {p.sharding(value.shape)} : {kind(value)}")
    r = p.name()
    p.lines.append(f"{r} = stablehlo.reshape {m} : ({kind(value)}) -> {kind(value[:, None])}")
    return r, value


def gather(p: Program, x):
    if not x[1].ndim or 0 in x[1].shape or x[1].size > 500:
        return None
    d = int(p.rng.integers(x[1].ndim))
    n = x[1].shape[d]
    name, index = sharded_indices(p, int(p.rng.integers(2, 9)), n)
    y = np.moveaxis(np.take(x[1], np.clip(index, 0, n - 1), axis=d), d, 0)
    sizes = [1 if i == d else s for i, s in enumerate(x[1].shape)]
    text = (
        f'"stablehlo.gather"({x[0]}, {name}) <{{dimension_numbers = #stablehlo.gather<offset_dims = '
        f"{ints(range(1, x[1].ndim))}, collapsed_slice_dims = [{d}], start_index_map = [{d}], "
        f"index_vector_dim = 1>, slice_sizes = array<i64: {ints(sizes)[1:-1]}>}}>"
    )
    return p.emit(f"{text} : ({kind(x[1])}, {kind(index[:, None])}) -> {kind(y)}", y)


def scatter(p: Program, x):
    if not x[1].ndim or 0 in x[1].shape or x[1].size > 500:
        return None
    d = int(p.rng.integers(x[1].ndim))
    n = x[1].shape[d]
    name, index = sharded_indices(p, int(p.rng.integers(2, 9)), n)
    rest = x[1].shape[:d] + x[1].shape[d + 1 :]
    u = p.rng.integers(-3, 4, (len(index), *rest)).astype(np.float32)
    if u.size > 200:
        return None
    dense_text = (
        np.array2string(u, separator=",", threshold=10**6).replace("\n", "").replace(".", ".0")
    )
    un = p.emit(f"stablehlo.constant dense<{dense_text}> : {kind(u)}", u)
    un = p.constrain(un)
    combine, f = [("add", np.add), ("maximum", np.maximum), ("set", None)][p.rng.integers(3)]
    y = np.moveaxis(x[1], d, 0).copy()
    for i, row in zip(index, u, strict=False):
        if 0 <= i < n:
            y[i] = row if f is None else f(y[i], row)
    y = np.moveaxis(y, 0, d)
    body = (
        "stablehlo.return %r : tensor<f32>"
        if f is None
        else f"%s = stablehlo.{combine} %l, %r : tensor<f32>\n stablehlo.return %s : tensor<f32>"
    )
    t = kind(x[1])
    text = (
        f'"stablehlo.scatter"({x[0]}, {name}, {un[0]}) <{{scatter_dimension_numbers = #stablehlo.scatter<'
        f"update_window_dims = {ints(range(1, x[1].ndim))}, inserted_window_dims = [{d}], "
        f"scatter_dims_to_operand_dims = [{d}], index_vector_dim = 1>}}> ({{\n"
        f"^bb0(%l: tensor<f32>, %r: tensor<f32>):\n {body}\n}})"
    )
    return p.emit(f"{text} : ({t}, {kind(index[:, None])}, {kind(u)}) -> {t}", y)


def sort(p: Program, x):
    if not x[1].ndim:
        return None
    d = int(p.rng.integers(x[1].ndim))
    text = (
        f'"stablehlo.sort"({x[0]}) <{{dimension = {d} : i64, is_stable = true}}> ({{\n'
        "^bb0(%l: tensor<f32>, %r: tensor<f32>):\n"
        " %c = stablehlo.compare LT, %l, %r : (tensor<f32>, tensor<f32>) -> tensor<i1>\n"
        " stablehlo.return %c : tensor<i1>\n})"
    )
    return p.emit(f"{text} : ({kind(x[1])}) -> {kind(x[1])}", np.sort(x[1], axis=d))


def reduce_window(p: Program, x):
    if not x[1].ndim or 0 in x[1].shape or x[1].size > 600:
        return None
    d = int(p.rng.integers(x[1].ndim))
    n = x[1].shape[d]
    rank = x[1].ndim
    if p.rng.random() < 0.4:  # cumulative
        size, stride, dilation, low, high = n, 1, 1, n - 1, 0
        if p.rng.random() < 0.5:
            low, high = high, low
    else:
        size, stride, dilation = (int(p.rng.integers(1, k)) for k in (4, 4, 3))
        low, high = int(p.rng.integers(0, 3)), int(p.rng.integers(0, 3))
    base = int(p.rng.integers(1, 3)) if p.rng.random() < 0.2 else 1
    op, init, f = [("add", 0.0, np.sum), ("maximum", -np.inf, np.max)][p.rng.integers(2)]
    spread = np.full(x[1].shape[:d] + ((n - 1) * base + 1,) + x[1].shape[d + 1 :], init, np.float32)
    spread[tuple(slice(None, None, base if i == d else 1) for i in range(rank))] = x[1]
    full = np.pad(
        spread, [(low, high) if i == d else (0, 0) for i in range(rank)], constant_values=init
    )
    count = (full.shape[d] - ((size - 1) * dilation + 1)) // stride + 1
    if count < 1:
        return None
    y = np.stack(
        [
            f(np.take(full, [k * stride + j * dilation for j in range(size)], axis=d), axis=d)
            for k in range(count)
        ],
        axis=d,
    )
    y = np.where(np.isinf(y), -4, y).astype(np.float32)
    one = lambda v, other=1: ints(v if i == d else other for i in range(rank))[1:-1]
    pads = "[" + ", ".join(f"[{low}, {high}]" if i == d else "[0, 0]" for i in range(rank)) + "]"
    c = p.name()
    p.lines.append(
        f"{c} = stablehlo.constant dense<{'0.0' if init == 0 else '0xFF800000'}> : tensor<f32>"
    )
    r = p.name()
    p.lines.append(
        f'{r} = "stablehlo.reduce_window"({x[0]}, {c}) <{{window_dimensions = array<i64: {one(size)}>, '
        f"window_strides = array<i64: {one(stride)}>, window_dilations = array<i64: {one(dilation)}>, "
        f"base_dilations = array<i64: {one(base)}>, padding = dense<{pads}> : tensor<{rank}x2xi64>}}> ({{\n"
        f"^bb0(%l: tensor<f32>, %r: tensor<f32>):\n %s = stablehlo.{op} %l, %r : tensor<f32>\n"
        f" stablehlo.return %s : tensor<f32>\n}}) : ({kind(x[1])}, tensor<f32>) -> {kind(y)}"
    )
    low4 = p.emit("stablehlo.constant dense<-4.0> : tensor<f32>", np.float32(-4))
    b = p.emit(
        f"stablehlo.broadcast_in_dim {low4[0]}, dims = [] : (tensor<f32>) -> {kind(y)}",
        np.full(y.shape, -4, np.float32),
    )
    if op == "add":
        p.values.append((r, y))
        return r, y
    out = p.emit(f"stablehlo.maximum {r}, {b[0]} : {kind(y)}", np.maximum(y, -4))
    return out


def convolve(p: Program, x):
    """One spatial dimension on the value seen as batch × features × space."""
    if x[1].ndim != 3 or 0 in x[1].shape or x[1].size > 800:
        return None
    b, f, n = x[1].shape
    groups = int(p.rng.choice([g for g in (1, 2, 4) if f % g == 0]))
    out_f = groups * int(p.rng.integers(1, 4))
    size = int(p.rng.integers(1, 4))
    stride, base, dilation = int(p.rng.integers(1, 3)), 1, int(p.rng.integers(1, 3))
    if p.rng.random() < 0.25:
        base = 2
    low, high = int(p.rng.integers(0, 3)), int(p.rng.integers(0, 3))
    k = p.rng.integers(-2, 3, (out_f, f // groups, size)).astype(np.float32)
    spread = np.zeros((b, f, (n - 1) * base + 1), np.float32)
    spread[:, :, ::base] = x[1]
    full = np.pad(spread, [(0, 0), (0, 0), (low, high)])
    count = (full.shape[2] - ((size - 1) * dilation + 1)) // stride + 1
    if count < 1:
        return None
    y = np.zeros((b, out_f, count), np.float32)
    per_in, per_out = f // groups, out_f // groups
    for o in range(out_f):
        g = o // per_out
        for t in range(count):
            patch = full[
                :,
                g * per_in : (g + 1) * per_in,
                t * stride : t * stride + (size - 1) * dilation + 1 : dilation,
            ]
            y[:, o, t] = np.einsum("bis,is->b", patch, k[o])
    dense_text = (
        np.array2string(k, separator=",", threshold=10**6).replace("\n", "").replace(".", ".0")
    )
    kn = p.constrain(p.emit(f"stablehlo.constant dense<{dense_text}> : {kind(k)}", k))
    text = (
        f"stablehlo.convolution({x[0]}, {kn[0]}) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0], "
        f"window = {{stride = [{stride}], pad = [[{low}, {high}]], lhs_dilate = [{base}], rhs_dilate = [{dilation}]}} "
        f"{{batch_group_count = 1 : i64, feature_group_count = {groups} : i64}}"
    )
    z = p.emit(f"{text} : ({kind(x[1])}, {kind(k)}) -> {kind(y)}", y)
    return clip(p, z)


def loop(p: Program, x):
    """A while loop that adds a rotated copy of the carry, three times."""
    if not x[1].ndim or 0 in x[1].shape:
        return None
    t = kind(x[1])
    d = int(p.rng.integers(x[1].ndim))
    n = x[1].shape[d]
    zero, one, three = (p.name() for _ in range(3))
    for name, v in ((zero, 0), (one, 1), (three, 3)):
        p.lines.append(f"{name} = stablehlo.constant dense<{v}> : tensor<i32>")
    y = x[1]
    for _ in range(3):
        y = np.maximum(y, np.roll(y, 1, axis=d))
    head = ", ".join(f"{n - 1}:{n}" if i == d else f"0:{s}" for i, s in enumerate(x[1].shape))
    tail = ", ".join(f"0:{n - 1}" if i == d else f"0:{s}" for i, s in enumerate(x[1].shape))
    th = kind(np.take(x[1], [0], axis=d))
    tt = kind(np.take(x[1], range(n - 1), axis=d))
    out = p.name()
    constraint = f"%e = sdy.sharding_constraint %c {p.sharding(x[1].shape)} : {t}"
    p.lines.append(
        f"""{out}:2 = stablehlo.while(%i = {zero}, %z = {x[0]}) : tensor<i32>, {t}
    cond {{
      %q = stablehlo.compare LT, %i, {three} : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %q : tensor<i1>
    }} do {{
      %j = stablehlo.add %i, {one} : tensor<i32>
      %a = stablehlo.slice %z [{head}] : ({t}) -> {th}
      %b = stablehlo.slice %z [{tail}] : ({t}) -> {tt}
      %c = stablehlo.concatenate %a, %b, dim = {d} : ({th}, {tt}) -> {t}
      {constraint}
      %m = stablehlo.maximum %z, %e : {t}
      stablehlo.return %j, %m : tensor<i32>, {t}
    }}"""
    )
    p.values.append((f"{out}#1", y))
    return f"{out}#1", y


def branch(p: Program, x):
    if not x[1].ndim:
        return None
    t = kind(x[1])
    which = int(p.rng.integers(2))
    i, out = p.name(), p.name()
    p.lines.append(f"{i} = stablehlo.constant dense<{which}> : tensor<i32>")
    p.lines.append(
        f"""{out} = "stablehlo.case"({i}) ({{
      %n = stablehlo.negate {x[0]} : {t}
      stablehlo.return %n : {t}
    }}, {{
      %n = stablehlo.abs {x[0]} : {t}
      %m = sdy.sharding_constraint %n {p.sharding(x[1].shape)} : {t}
      stablehlo.return %m : {t}
    }}) : (tensor<i32>) -> {t}"""
    )
    y = np.abs(x[1]) if which else -x[1]
    p.values.append((out, y))
    return out, y


STEPS = (
    unary, binary, binary, clip, transpose, reshape, reshape, broadcast, iota, dense, reduce, reduce, argmax,
    dot, dot, slice_, slice_, pad, pad, concatenate, reverse, dynamic_slice, dynamic_update, gather, scatter,
    sort, reduce_window, reduce_window, convolve, convolve, loop, branch,
)  # fmt: skip


def random_program(
    rng: np.random.Generator, steps: int = 6, table=STEPS
) -> tuple[str, list[np.ndarray], np.ndarray]:
    """A module's text, its arguments, and the expected result."""
    mesh = MESHES[rng.integers(len(MESHES))]
    p = Program(rng, mesh)
    for _ in range(2):
        rank = int(rng.integers(1, 4))
        p.argument(tuple(int(n) for n in rng.choice([1, 2, 3, 4, 5, 6, 8, 12, 16], rank)))
    x = p.values[0]
    done = 0
    for _ in range(200):
        if done == steps:
            break
        if rng.random() < 0.2:
            x = p.values[rng.integers(len(p.values))]
        if x[1].size > 3000 or not math.prod(x[1].shape):
            x = p.values[0]
        y = table[rng.integers(len(table))](p, x)
        if y is None:
            continue
        done += 1
        x = p.constrain(y)
        if np.abs(x[1]).max(initial=0) > 1e4:
            x = clip(p, x)
    p.values.append(x)
    return p.text(), [v for _, v, _ in p.arguments], np.asarray(x[1], np.float32)
