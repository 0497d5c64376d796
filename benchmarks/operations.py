"""`python -m benchmarks.operations`: common operations on the CPU, weft beside JAX, NumPy, PyTorch.

Every operation is one row of the table below, for three sizes and a held-out one. The libraries run
in a process each and take turns; the ratio is weft's median to the best of the others.
`--torch PYTHON` names the interpreter of an environment with PyTorch.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

SIZES = ("small", "medium", "large", "held out")
VECTOR = ((1000,), (50_000,), (1 << 20,), (777_777,))
LONG = ((1000,), (200_000,), (10_000_000,), (3_333_333,))
MATRIX = ((30, 32), (256, 256), (4096, 1024), (1500, 700))
SQUARE = ((32, 32), (256, 256), (1024, 1024), (700, 700))
IMAGE = ((1, 8, 8, 8), (2, 16, 28, 28), (8, 64, 56, 56), (5, 48, 33, 33))
HEADS = ((1, 2, 16, 16), (2, 4, 128, 32), (8, 8, 512, 64), (3, 6, 300, 48))


@dataclass(frozen=True, slots=True)
class Operation:
    """One row: its inputs of a shape, and the same computation in each library that has it.

    xx: of the module weft or jax, under jit. others: of numpy and torch.
    """

    name: str
    shapes: tuple
    inputs: Callable[[np.random.Generator, tuple], tuple]
    xx: Callable[..., Any]
    numpy: Callable[..., Any] | None = None
    torch: Callable[..., Any] | None = None


TABLE: dict[str, Operation] = {}


def row(name: str, shapes: tuple, inputs: Callable, xx: Callable, numpy=None, torch=None) -> None:
    TABLE[name] = Operation(name, shapes, inputs, xx, numpy, torch)


def floats(count: int = 1) -> Callable:
    return lambda rng, shape: tuple(
        rng.standard_normal(shape).astype(np.float32) for _ in range(count)
    )


def positive(rng: np.random.Generator, shape: tuple) -> tuple:
    return (rng.random(shape).astype(np.float32) + 0.5,)


def unit_doubles(rng: np.random.Generator, shape: tuple) -> tuple:
    return (rng.random(shape),)


def integers(high: int) -> Callable:
    return lambda rng, shape: (rng.integers(0, high, shape).astype(np.int32),)


def complexes(rng: np.random.Generator, shape: tuple) -> tuple:
    return ((rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(np.complex64),)


def product(rng: np.random.Generator, shape: tuple) -> tuple:
    return (*floats()(rng, shape), *floats()(rng, shape[::-1]))


def with_vector(rng: np.random.Generator, shape: tuple) -> tuple:
    return (*floats()(rng, shape), *floats()(rng, shape[1:]))


def filters(groups: bool, size: int = 3) -> Callable:
    def make(rng: np.random.Generator, shape: tuple) -> tuple:
        window = (shape[1], 1 if groups else shape[1], size, size)
        return (*floats()(rng, shape), *floats()(rng, window))

    return make


def indexed(rng: np.random.Generator, shape: tuple) -> tuple:
    n = shape[0]
    return (*floats()(rng, shape), rng.integers(0, n, n).astype(np.int32))


def definite(rng: np.random.Generator, shape: tuple) -> tuple:
    x = rng.standard_normal(shape).astype(np.float32)
    return (x @ x.T + shape[0] * np.eye(shape[0], dtype=np.float32),)


def one(
    name: str, shapes: tuple, inputs: Callable, xx: str, numpy: str = "", torch: str = ""
) -> None:
    """A row whose computations are expressions of x (and y) with jnp, lax, np or torch."""

    def function(text: str, names: str) -> Callable | None:
        return eval(f"lambda {names}: lambda x, y=None, z=None: {text}") if text else None

    of_xx = function(xx, "xx, jnp, lax, nn")
    row(
        name, shapes, inputs,
        lambda module: of_xx(module, module.numpy, module.lax, module.nn),
        function(numpy, "np"), function(torch, "torch, F"),
    )  # fmt: skip


def same(name: str, shapes: tuple, inputs: Callable, call: str) -> None:
    """A row that reads alike in all libraries: `{}.sum(x)`."""
    one(name, shapes, inputs, call.format("jnp"), call.format("np"), call.format("torch"))


# Sorts and searches
one("sort", VECTOR, floats(), "jnp.sort(x)", "np.sort(x)", "torch.sort(x).values")
one("sort int32", VECTOR, integers(1 << 30), "jnp.sort(x)", "np.sort(x)", "torch.sort(x).values")
one("sort rows", SQUARE, floats(), "jnp.sort(x, 1)", "np.sort(x, 1)", "torch.sort(x, 1).values")
one("sort columns", SQUARE, floats(), "jnp.sort(x, 0)", "np.sort(x, 0)", "torch.sort(x, 0).values")
same("argsort", VECTOR, floats(), "{}.argsort(x)")
one(
    "argsort rows", SQUARE, floats(), "jnp.argsort(x, 1)", "np.argsort(x, 1)", "torch.argsort(x, 1)"
)
one("top_k 10", SQUARE, floats(), "lax.top_k(x, 10)", "", "torch.topk(x, 10)")
one("lexsort", VECTOR, integers(1000), "jnp.lexsort((x, x & 7))", "np.lexsort((x, x & 7))")
one("median", VECTOR, floats(), "jnp.median(x)", "np.median(x)", "torch.median(x)")
one("quantile", VECTOR, floats(), "jnp.quantile(x, 0.3)", "np.quantile(x, 0.3)")
one("unique", VECTOR, integers(1000), "jnp.unique(x, size=1000)", "np.unique(x)", "torch.unique(x)")
one("searchsorted", VECTOR, floats(), "jnp.searchsorted(jnp.arange(1000.0), x)",
    "np.searchsorted(np.arange(1000.0, dtype=np.float32), x)",
    "torch.searchsorted(torch.arange(1000.0), x)")  # fmt: skip
one("permutation", VECTOR, floats(), "xx.random.permutation(xx.random.key(0), x.size)",
    "np.random.default_rng(0).permutation(x.size)", "torch.randperm(x.numel())")  # fmt: skip

# Scans
for _name, _np, _torch in (
    ("cumsum", "np.cumsum(x, {})", "torch.cumsum(x, {})"),
    ("cumprod", "np.cumprod(x, {})", "torch.cumprod(x, {})"),
    ("cummax", "np.maximum.accumulate(x, {})", "torch.cummax(x, {}).values"),
    ("cumlogsumexp", "np.logaddexp.accumulate(x, {})", "torch.logcumsumexp(x, {})"),
):
    one(_name, VECTOR, floats(), f"lax.{_name}(x, 0)", _np.format(0), _torch.format(0))
for _axis in (0, 1):
    one(f"cumsum axis {_axis}", MATRIX, floats(), f"jnp.cumsum(x, {_axis})",
        f"np.cumsum(x, {_axis})", f"torch.cumsum(x, {_axis})")  # fmt: skip

# Reductions
for _axis in (0, 1, None):
    _where = "" if _axis is None else f", {_axis}"
    for _name in ("sum", "argmax", "mean", "std"):
        same(f"{_name}{_where.replace(',', ' axis')}", MATRIX, floats(), f"{{}}.{_name}(x{_where})")
one("max axis 1", MATRIX, floats(), "jnp.max(x, 1)", "np.max(x, 1)", "torch.amax(x, 1)")
one("logsumexp axis 1", MATRIX, floats(), "nn.logsumexp(x, 1)", "", "torch.logsumexp(x, 1)")

# Elementwise
for _name in ("exp", "sin", "cos", "tanh", "sqrt"):
    same(_name, LONG, floats() if _name != "sqrt" else positive, f"{{}}.{_name}(x)")
for _name in ("arctan", "cbrt", "expm1", "log1p", "sinh"):
    _torch = f"torch.{_name}(abs(x))" if _name != "cbrt" else ""
    one(_name, LONG, floats(), f"jnp.{_name}(abs(x))", f"np.{_name}(abs(x))", _torch)
same("arctan2", LONG, floats(2), "{}.arctan2(x, y)")
same("remainder", LONG, floats(2), "{}.remainder(x, y)")
same("log", LONG, positive, "{}.log(x)")
for _name in ("log", "tan", "arcsin"):
    same(f"{_name} f64", LONG, unit_doubles, f"{{}}.{_name}(x)")
one("power f64", LONG, unit_doubles, "x ** 1.7", "x ** 1.7", "x ** 1.7")
one("floor_divide i32", LONG, integers(1 << 30), "x // (x & 255 | 1)", "x // (x & 255 | 1)",
    "x // (x & 255 | 1)")  # fmt: skip
one("erf", LONG, floats(), "lax.erf(x)", "", "torch.erf(x)")
one("power", LONG, positive, "x ** 1.7", "x ** np.float32(1.7)", "x ** 1.7")
one("x * y + x", LONG, floats(2), "x * y + x", "x * y + x", "x * y + x")
one("where", LONG, floats(2), "jnp.where(x > 0, x, y)", "np.where(x > 0, x, y)",
    "torch.where(x > 0, x, y)")  # fmt: skip

# Moving elements
one("transpose", SQUARE, floats(), "x.T.copy()", "x.T.copy()", "x.T.contiguous()")
one("gather", VECTOR, indexed, "x[y]", "x[y]", "x[y]")
one("scatter add", VECTOR, indexed, "jnp.zeros_like(x).at[y].add(x)",
    "np.bincount(y, x, x.size)", "torch.zeros_like(x).index_add(0, y, x)")  # fmt: skip
one("bincount", VECTOR, integers(1000), "jnp.bincount(x, length=1000)", "np.bincount(x)",
    "torch.bincount(x)")  # fmt: skip
one("histogram", VECTOR, floats(), "jnp.histogram(x, 100, (-4, 4))[0]",
    "np.histogram(x, 100, (-4, 4))[0]", "torch.histc(x, 100, -4, 4)")  # fmt: skip
one("one_hot", VECTOR, integers(16), "nn.one_hot(x, 16)", "np.eye(16, dtype=np.float32)[x]",
    "F.one_hot(x.long(), 16).float()")  # fmt: skip

# Fourier transforms and convolutions
one("fft", VECTOR, complexes, "jnp.fft.fft(x)", "np.fft.fft(x)", "torch.fft.fft(x)")
one("fft rows", SQUARE, complexes, "jnp.fft.fft(x)", "np.fft.fft(x)", "torch.fft.fft(x)")
one("fft2", SQUARE, complexes, "jnp.fft.fft2(x)", "np.fft.fft2(x)", "torch.fft.fft2(x)")
one("rfft rows", SQUARE, floats(), "jnp.fft.rfft(x)", "np.fft.rfft(x)", "torch.fft.rfft(x)")
_CONV = "lax.conv_general_dilated({}, {}, (1, 1), 'SAME'{})"
one("conv 3×3", IMAGE, filters(False), _CONV.format("x", "y", ""), "", "F.conv2d(x, y, padding=1)")
one("conv 1×1", IMAGE, filters(False, 1), _CONV.format("x", "y", ""), "", "F.conv2d(x, y)")
_GROUPS = ", feature_group_count=x.shape[1]"
one("depthwise conv 3×3", IMAGE, filters(True), _CONV.format("x", "y", _GROUPS), "",
    "F.conv2d(x, y, padding=1, groups=x.shape[1])")  # fmt: skip
_SQUARES = f"lambda x, y: ({_CONV.format('x', 'y', _GROUPS)} ** 2).sum()"
one("depthwise conv gradient", IMAGE, filters(True), f"xx.grad({_SQUARES}, (0, 1))(x, y)")
_SUM = f"({_CONV.format('x', 'y', '')} ** 2).sum()"
one("conv 3×3 gradient", IMAGE, filters(False), f"xx.grad(lambda x, y: {_SUM}, (0, 1))(x, y)", "",
    "torch.ops.aten.convolution_backward(2 * F.conv2d(x, y, padding=1), x, y, None, [1, 1], "
    "[1, 1], [1, 1], False, [0, 0], 1, [True, True, False])[:2]")  # fmt: skip
one("max pool 2×2", IMAGE, floats(),
    "lax.reduce_window(x, -float('inf'), lax.max, (1, 1, 2, 2), (1, 1, 2, 2), 'VALID')", "",
    "F.max_pool2d(x, 2)")  # fmt: skip

# Products and decompositions
one("matmul", SQUARE, product, "x @ y", "x @ y", "x @ y")
one("matvec", MATRIX, with_vector, "x @ y", "x @ y", "x @ y")
one("vecmat", MATRIX, with_vector, "x @ y[:, None]", "x @ y[:, None]", "x @ y[:, None]")
one("batched matmul", HEADS, floats(2), "jnp.einsum('abij,abkj->abik', x, y)",
    "x @ y.swapaxes(2, 3)", "x @ y.transpose(2, 3)")  # fmt: skip
_SOLVES = (*SQUARE[:2], (512, 512), (300, 300))
for _name in ("cholesky", "inv", "qr"):
    same(_name, _SOLVES, definite, f"{{}}.linalg.{_name}(x)")

# Neural networks
one("softmax", MATRIX, floats(), "nn.softmax(x)", "", "torch.softmax(x, 1)")
one("layer norm", MATRIX, floats(), "nn.standardize(x)", "", "F.layer_norm(x, x.shape[1:])")
one("gelu", LONG, floats(), "nn.gelu(x)", "", "F.gelu(x, approximate='tanh')")
one("attention", HEADS, floats(3),
    "nn.softmax(jnp.einsum('abij,abkj->abik', x, y) * x.shape[-1] ** -0.5) @ z", "",
    "F.scaled_dot_product_attention(x, y, z)")  # fmt: skip
one("random normal", LONG, floats(), "xx.random.normal(xx.random.key(0), x.shape)",
    "np.random.default_rng(0).standard_normal(x.shape, np.float32)",
    "torch.randn(x.shape)")  # fmt: skip

if "--held-out" in sys.argv:
    from benchmarks import held_out

    TABLE.clear()
    held_out.rows(one, integers, floats)


# One library in a process of its own -------------------------------------------------------------


def prepared(library: str, operation: Operation, size: str) -> Callable[[], Any] | None:
    """A call of the operation that waits for its result; None if the library lacks it."""
    shape = operation.shapes[SIZES.index(size)]
    arrays = operation.inputs(np.random.default_rng(0), shape)
    if library in ("weft", "jax"):
        import importlib

        xx = importlib.import_module(library)
        xx.config.update("jax_enable_x64", any(a.dtype == np.float64 for a in arrays))
        function = xx.jit(operation.xx(xx))
        placed = [xx.device_put(a) for a in arrays]
        return lambda: xx.block_until_ready(function(*placed))
    if library == "numpy":
        if operation.numpy is None:
            return None
        function = operation.numpy(np)
        return lambda: function(*arrays)
    if operation.torch is None:
        return None
    import torch

    function = operation.torch(torch, torch.nn.functional)
    tensors = [
        torch.from_numpy(a.view(np.int16)).view(torch.bfloat16)
        if a.dtype.name == "bfloat16"
        else torch.from_numpy(a)
        for a in arrays
    ]

    def call() -> Any:
        with torch.no_grad():
            return function(*tensors)

    return call


def child(library: str, clock: str) -> None:
    """Answers lines of standard input: a case to set up, or an empty line for a sample."""
    now = time.process_time if clock == "cpu" else time.perf_counter
    run: Callable[[], Any] | None = None
    calls = 1

    def sample() -> float:
        start = now()
        for _ in range(calls):
            run()
        return (now() - start) / calls

    for line in sys.stdin:
        try:
            if line.strip():
                name, size = json.loads(line)
                run, calls = prepared(library, TABLE[name], size), 1
                value: float | None = None
                if run is not None:
                    run()
                    value = sample()
                    calls = max(1, int(0.01 / max(value, 1e-7)))
                    sample()
            else:
                value = sample()
            answer: Any = {"value": value}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"[:200]}
        print(json.dumps({"answer": answer}), flush=True)


# The parent --------------------------------------------------------------------------------------


class Side:
    """The process of a library."""

    def __init__(self, library: str, python: str, clock: str) -> None:
        self.library = library
        command = [python, "-m", "benchmarks.operations", "--child", library, "--clock", clock]
        command += [a for a in sys.argv if a == "--held-out"]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def ask(self, line: str) -> float | None:
        """Seconds of a sample; None where the library has no answer."""
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return None
        for said in self.process.stdout:
            if said.startswith('{"answer"'):
                return json.loads(said)["answer"].get("value")
        return None


def measure(sides: list[Side], name: str, size: str, samples: int) -> dict[str, float]:
    """The median seconds of a call in each library that has the operation."""
    ready = [s for s in sides if s.ask(json.dumps([name, size])) is not None]
    values: dict[str, list[float]] = {s.library: [] for s in ready}
    for _ in range(samples):
        for side in ready:
            value = side.ask("")
            if value is not None:
                values[side.library].append(value)
        ready.reverse()
    return {library: statistics.median(v) for library, v in values.items() if v}


def as_markdown(rows: list[tuple[str, str, dict[str, float]]], libraries: list[str]) -> str:
    from benchmarks.table import format_value

    lines = []
    for name, size, values in rows:
        others = [v for library, v in values.items() if library != "weft"]
        ratio = values["weft"] / min(others) if "weft" in values and others else math.nan
        cells = [format_value(values.get(library), "s") for library in libraries]
        lines.append(f"| {name} | {size} | {' | '.join(cells)} | {ratio:.2f}× |")
    return with_mean(f"| operation | size | {' | '.join(libraries)} | weft ÷ best |", lines)


def with_mean(head: str, lines: list[str]) -> str:
    """The table of these lines, and the mean of their ratios."""
    ratios = [float(line.split("|")[-2].strip(" ×")) for line in lines]
    known = [r for r in ratios if not math.isnan(r)]
    text = "\n".join([head, "|---" * (head.count("|") - 1) + "|", *lines])
    if known:
        mean = math.exp(sum(map(math.log, known)) / len(known))
        within = sum(r <= 1.1 for r in known)
        text += f"\n\nGeometric mean {mean:.2f}×; {within} of {len(known)} are ≤ 1.1×."
    return text


def with_rows(page: str, text: str) -> str:
    """A page's table with the rows of another in the place of those of the same operations."""
    head, _, *new = (line for line in text.splitlines() if line.startswith("|"))
    by_name = {tuple(line.split("|")[1:3]): line for line in new}
    lines = page[page.index(head) :].splitlines()[2:]
    old = itertools.takewhile(lambda line: line.startswith("|"), lines)
    return with_mean(head, [by_name.get(tuple(line.split("|")[1:3]), line) for line in old])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.operations", description=__doc__)
    parser.add_argument("pattern", nargs="*", help="parts of names of operations; default: all")
    parser.add_argument(
        "--sizes", default="large", help="some of: " + ", ".join(SIZES) + "; or all"
    )
    parser.add_argument("--torch", help="the Python of an environment with PyTorch")
    parser.add_argument("--samples", type=int, default=9)
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    parser.add_argument("--write", type=Path, help="also write the rows into this page")
    parser.add_argument("--held-out", action="store_true", help="the rows of `held_out`")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child, options.clock)
        return 0
    names = [n for n in TABLE if not options.pattern or any(p in n for p in options.pattern)]
    sizes = SIZES if options.sizes == "all" else [s.strip() for s in options.sizes.split(",")]
    pythons = {"weft": sys.executable, "jax": sys.executable, "numpy": sys.executable}
    if options.torch:
        pythons["torch"] = options.torch
    sides = [Side(library, python, options.clock) for library, python in pythons.items()]
    rows = []
    for name in names:
        for size in sizes:
            values = measure(sides, name, size, options.samples)
            rows.append((name, size, values))
            print(as_markdown(rows[-1:], list(pythons)).splitlines()[2], file=sys.stderr)
    text = as_markdown(rows, list(pythons))
    print(text)
    if options.write and not options.held_out:
        from benchmarks.table import write_between_markers

        if options.pattern:
            text = with_rows(options.write.read_text("utf-8"), text)
        write_between_markers(options.write, text)
    for side in sides:
        side.process.stdin.close()
        side.process.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
