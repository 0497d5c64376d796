"""Fourier transforms of c64 and f32 of several rows, or of long ones, as calls of kernels.

XLA:CPU transforms long rows on one thread, and shares shorter ones among threads, one by one. Those
of f64 are as fast there.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from weft._xla.mlir import ir
from weft.lowering.limits import ROW_TRANSFORMS, TRANSFORMED, TRANSFORMS
from weft.native.calls import call, has_compiler, target
from weft.native.engine import host
from weft.native.parallel import threads
from weft.partition.emit import Emitter

_LINE = 64
_RADICES = 2, 3, 5


def fft(e: Emitter, op: ir.Operation, _: int) -> Sequence[ir.Value] | None:
    """Replace a transform by one pass for each dimension, or by two for long rows."""
    (x,), out = op.operands, op.results[0].type
    lengths = [int(n) for n in op.attributes["fft_length"]]
    kind = re.search(r"(I?)(R?)FFT", str(op.attributes["fft_type"]))
    if kind is None or str(out.element_type) not in ("f32", "complex<f32>") or not has_compiler():
        return None
    emit = _Passes(e, inverse=bool(kind[1]))
    if not kind[2] and len(lengths) == 1:
        last = _long(emit, x, lengths[0])
        if last is not None:
            return [last]
    return _short(emit, x, out, lengths, bool(kind[2]))


class _Passes:
    """Emits passes over the elements: transforms along the middle of three sizes."""

    def __init__(self, e: Emitter, inverse: bool) -> None:
        self.e, self.inverse = e, inverse
        self.lanes = host().vector_bytes // 4

    def __call__(
        self, x: ir.Value, out: ir.Type, sizes: list[int], *,
        real: bool = False, whole: int = 0, turned: int = 0, scale: int = 1, in_place: bool = False,
    ) -> ir.Value:  # fmt: skip
        outer, n, inner = sizes
        groups = -(-inner // self.lanes) * outer if inner > 1 else -(-outer // self.lanes)
        parts = min(groups, 4 * threads())
        f32 = ir.F32Type.get(self.e.context)
        memory = [
            self.e.type([4 * parts * (n + _rows(n) + 1) * self.lanes], f32),
            self.e.type([4 * n if real else 2 * n], f32),
        ]
        read = 2 * n if not (real and self.inverse) else 2 * n + 2
        written = 2 * n + 2 if real and not self.inverse else 2 * n
        inputs, outputs = [*sizes, _rows(n), read], [written, int(real), whole, turned]
        parameters = [*inputs, *outputs, int(self.inverse), scale, parts]
        kernel = target("fourier", "fourier", {"T": "f32", "LANES": self.lanes})
        return call(self.e, kernel, [x], [out, *memory], parameters, in_place=in_place)[0]


def _long(emit: _Passes, x: ir.Value, n: int) -> ir.Value | None:
    """Transform complex rows whose lengths are great powers of two in two passes."""
    if n & (n - 1) or not TRANSFORMS[0] <= n <= TRANSFORMS[1]:
        return None
    outer = math.prod(x.type.shape) // n
    down = 1 << (n.bit_length() - 1) // 2
    across = n // down
    x = emit(x, x.type, [outer, down, across], whole=n)
    scale = n if emit.inverse else 1
    return emit(x, x.type, [outer * down, across, 1], turned=down, scale=scale)


def _short(
    emit: _Passes, x: ir.Value, out: ir.Type, lengths: list[int], real: bool
) -> list[ir.Value] | None:
    """Transform rows that fit a cache, dimension by dimension."""
    spectrum = x.type if real and emit.inverse else out  # the complex side
    shape, dims = list(spectrum.shape), len(lengths)
    inner = [math.prod(shape[len(shape) - dims + d + 1 :]) for d in range(dims)]
    rows = math.prod(shape[:-1])
    if math.prod(shape) < TRANSFORMED or min(rows, *inner[:-1], emit.lanes) < emit.lanes:
        return None
    if not all(1 < n <= ROW_TRANSFORMS and _is_smooth(n) for n in lengths):
        return None
    last = lengths[-1] // 2 if real else lengths[-1]
    if last == 1 or real and lengths[-1] % 2:
        return None
    scale = math.prod(lengths) if emit.inverse else 1
    computed = not (real and emit.inverse)
    if computed:
        x = emit(x, out, [rows, last, 1], real=real, scale=scale)
    for n, behind in zip(lengths[:-1], inner[:-1], strict=True):
        x = emit(x, spectrum, [math.prod(shape) // (n * behind), n, behind], in_place=computed)
        computed = True
    if real and emit.inverse:
        x = emit(x, out, [rows, last, 1], real=real, scale=scale)
    return [x]


def _is_smooth(n: int) -> bool:
    for radix in _RADICES:
        while n % radix == 0:
            n //= radix
    return n == 1


def _rows(n: int) -> int:
    """Return how many rows a transform is cut into, so that columns fit a first-level cache."""
    return 1 if n <= _LINE else next(k for k in range(math.isqrt(n), 0, -1) if n % k == 0)
