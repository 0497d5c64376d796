"""Long Fourier transforms of c64 whose lengths are powers of two as calls of kernels.

XLA:CPU transforms a row one element at a time, on one thread.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from weft._xla.mlir import ir
from weft.lowering.limits import TRANSFORMS
from weft.native.calls import call, has_compiler, target
from weft.native.parallel import threads
from weft.partition.emit import Emitter

LANES = 16


def fft(e: Emitter, op: ir.Operation, _: int) -> Sequence[ir.Value] | None:
    """Replace a complex transform, there or back, of long rows."""
    (x,) = op.operands
    shape = list(x.type.shape)
    lengths = [int(n) for n in op.attributes["fft_length"]]
    kind = re.search(r"(I?R?FFT)", str(op.attributes["fft_type"]))
    size = math.prod(shape)
    if str(x.type.element_type) != "complex<f32>" or not has_compiler():
        return None
    if kind is None or kind[1] not in ("FFT", "IFFT") or len(lengths) != 1:
        return None
    (n,) = lengths
    if n & (n - 1) or not TRANSFORMS[0] <= n <= TRANSFORMS[1]:
        return None
    inverse, outer = int(kind[1] == "IFFT"), size // n
    down = 1 << (n.bit_length() - 1) // 2
    across = n // down
    x = _pass(e, x, [outer, down, across], n, 0, inverse, 1)
    return [_pass(e, x, [outer * down, across, 1], 0, down, inverse, n if inverse else 1)]


def _pass(
    e: Emitter, x: ir.Value, sizes: list[int], whole: int, turned: int, inverse: int, scale: int
) -> ir.Value:
    """One pass over the elements: transforms along the middle of three sizes."""
    outer, n, inner = sizes
    groups = outer * inner // LANES
    parts = min(groups, 4 * threads())
    f32 = ir.F32Type.get(e.context)
    memory = [e.type([4 * parts * n * LANES], f32), e.type([2 * n], f32)]
    parameters = [*sizes, whole, turned, inverse, scale, parts]
    return call(e, target("fourier", "fourier", {}), [x], [x.type, *memory], parameters)[0]
