"""`python -m benchmarks.accuracy`: errors of functions on the CPU, against quadruple precision.

Largest errors in units in the last place of a million points of each function and dtype: of its
range, of random bits, near zero, and near the points where functions bend. weft's for arrays of
100, 4,096 and 1,000,000 elements, and those of XLA's own formulas (`native_ops` off). Needs gcc.
"""

from __future__ import annotations

import argparse
import ctypes
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import weft
import weft.numpy as wnp
from weft import lax, nn
from weft.core.config import options
from weft.scipy import special

SIZES = (100, 4096, 1_000_000)


@dataclass(frozen=True, slots=True)
class Function:
    """What is computed, from where to where, and points around which others are drawn."""

    call: Callable
    low: float
    high: float
    near: tuple[float, ...] = (0.0,)
    limit: float = np.inf
    """Magnitudes beyond which no operands are drawn."""
    operands: int = 1


_ENDS = (-87.33, 88.37, 88.72, -708.4, 709.78)
TABLE = {
    "exp": Function(wnp.exp, -87, 88.7, _ENDS),
    "exp2": Function(wnp.exp2, -126, 127.9, (-126.0, 127.9, -1022.0, 1023.9)),
    "expm1": Function(wnp.expm1, -20, 88, (0.0, 0.35, -0.35, -17.0, 88.7, 709.7)),
    "log": Function(wnp.log, 0, 100, (1.0, 0.7071, 1.4142)),
    "log2": Function(wnp.log2, 0, 100, (1.0, 0.7071, 1.4142)),
    "log10": Function(wnp.log10, 0, 100, (1.0, 0.7071, 1.4142)),
    "log1p": Function(wnp.log1p, -1, 100, (0.0, -1.0, 0.4142, -0.2929)),
    "sin": Function(wnp.sin, -100, 100, (0.0, 0.7854, 3.14159265)),
    "cos": Function(wnp.cos, -100, 100, (0.0, 0.7854, 1.57079633)),
    "tan": Function(wnp.tan, -100, 100, (0.0, 0.7854, 1.57079633)),
    "sinc": Function(wnp.sinc, -10, 10, (0.0, 1.0, 2.0), 1e6),
    "arcsin": Function(wnp.arcsin, -1, 1, (0.0, 0.5, -0.5, 1.0, -1.0)),
    "arccos": Function(wnp.arccos, -1, 1, (0.0, 0.5, -0.5, 1.0, -1.0)),
    "arctan": Function(wnp.arctan, -5, 5, (0.0, 1.0, -1.0)),
    "arctan2": Function(wnp.arctan2, -5, 5, (0.0, 1.0), operands=2),
    "sinh": Function(wnp.sinh, -20, 20, (0.0, 1.0, 88.7, 89.4, 709.8)),
    "cosh": Function(wnp.cosh, -20, 20, (0.0, 1.0, 88.7, 89.4, 709.8)),
    "tanh": Function(wnp.tanh, -10, 10, (0.0, 0.35, 0.5493, 0.625, 9.0, 20.0)),
    "arcsinh": Function(wnp.arcsinh, -100, 100, (0.0, 1.0)),
    "arccosh": Function(wnp.arccosh, 1, 100, (1.0, 2.0)),
    "arctanh": Function(wnp.arctanh, -1, 1, (0.0, 0.5, 1.0, -1.0)),
    "sqrt": Function(wnp.sqrt, 0, 100, (1.0,)),
    "rsqrt": Function(lax.rsqrt, 0, 100, (1.0,)),
    "cbrt": Function(wnp.cbrt, -100, 100, (1.0,)),
    "power": Function(wnp.power, 0, 20, (1.0,), 1e3, operands=2),
    "logistic": Function(nn.sigmoid, -20, 20, (0.0, -87.0, 17.0, -708.0)),
    "logit": Function(special.logit, 0, 1, (0.5, 0.0, 1.0)),
    "silu": Function(nn.silu, -20, 20, (0.0, -87.0, -1.278), 700.0),
    "softplus": Function(nn.softplus, -20, 20, (0.0, -87.0, 17.0)),
    "log_sigmoid": Function(nn.log_sigmoid, -20, 20, (0.0, 87.0, -17.0)),
    "logaddexp": Function(wnp.logaddexp, -20, 20, (0.0,), operands=2),
    "gelu": Function(lambda x: nn.gelu(x, approximate=False), -6, 6, (0.0, -1.0, 1.0), 30.0),
    "gelu_tanh": Function(nn.gelu, -5, 5, (0.0, -1.0, 1.0), 20.0),
    "erf": Function(lax.erf, -4, 4, (0.0, 0.5, 1.0, 3.9)),
    "erfc": Function(lax.erfc, -4, 9, (0.0, 0.5, 1.0, 9.1, 26.5)),
    "erfinv": Function(lax.erf_inv, -1, 1, (0.0, 1.0, -1.0, 0.5, 0.93)),
    "ndtr": Function(special.ndtr, -12, 6, (0.0, -1.0, 1.0, -37.0)),
    "log_ndtr": Function(special.log_ndtr, -20, 6, (0.0, -1.0, 1.0), 1e10),
    "ndtri": Function(special.ndtri, 0, 1, (0.0, 0.5, 1.0, 0.02)),
    "gammaln": Function(lax.lgamma, 0, 50, (0.5, 1.0, 1.5, 2.0, 2.5, 8.0)),
    "gamma": Function(special.gamma, -10, 34, (0.5, 1.0, 2.0, 35.0, 171.6), 180.0),
    "digamma": Function(lax.digamma, 0, 50, (0.5, 1.0, 2.0, 10.0)),
}
POSITIVE = ("log", "log2", "log10", "sqrt", "rsqrt", "power", "gammaln", "digamma")
"""Functions whose first operand is drawn without a sign."""


def points(f: Function, dtype: np.dtype, rng: np.random.Generator, count: int) -> np.ndarray:
    """Draw operands: of the range, of random bits, and near points at all distances."""
    info, part = np.finfo(dtype), count // 5
    size = dtype.itemsize * 8
    random = rng.integers(0, 2**size, part, f"u{dtype.itemsize}", endpoint=False).view(dtype)
    center = rng.choice(np.array((*f.near, 0.0)), 2 * part)
    around = center + (np.abs(center) + (center == 0)) * rng.choice([-1, 1], 2 * part) * (
        10.0 ** rng.uniform(-8 if size == 32 else -17, 0, 2 * part)
    )
    small = rng.choice([-1, 1], part) * 2.0 ** rng.uniform(info.minexp, 0, part)
    rest = rng.uniform(f.low, f.high, count - 4 * part)
    with np.errstate(all="ignore"):
        x = np.concatenate([random, around.astype(dtype), small.astype(dtype), rest.astype(dtype)])
        fits = (np.abs(x) <= f.limit) & ((x == 0) | (np.abs(x) >= info.tiny))
    return np.where(fits, x, rng.uniform(f.low, f.high, count).astype(dtype))


def compute(f: Function, xs: list[np.ndarray], size: int) -> np.ndarray:
    compiled = weft.jit(f.call).lower(*(x[:size] for x in xs)).compile()
    parts = range(0, len(xs[0]) - size + 1, size)
    return np.concatenate([np.asarray(compiled(*(x[i : i + size] for x in xs))) for i in parts])


class Reference:
    """The functions of accuracy.c, compiled."""

    def __init__(self, folder: str) -> None:
        library = Path(folder) / "accuracy.so"
        source = Path(__file__).with_suffix(".c")
        command = ["gcc", "-O2", "-shared", "-fPIC", source, "-o", library, "-lquadmath", "-lm"]
        subprocess.run(command, check=True)
        self.library = ctypes.CDLL(str(library))

    def errors(self, name: str, xs: list[np.ndarray], out: np.ndarray) -> np.ndarray:
        c_name = "float" if out.dtype == np.float32 else "double"
        result = np.empty(len(out))
        arrays = (xs[0], xs[-1], out, result)
        pointers = [a.ctypes.data_as(ctypes.c_void_p) for a in map(np.ascontiguousarray, arrays)]
        getattr(self.library, f"{name}_{c_name}")(ctypes.c_size_t(len(out)), *pointers)
        return result


def measure(reference: Reference, name: str, dtype: str, count: int, seed: int, show: bool) -> dict:
    """Return the largest errors by label: an array's size, or "XLA"."""
    f, kind = TABLE[name], np.dtype(dtype)
    rng = np.random.default_rng([seed, len(name), kind.itemsize])
    xs = [points(f, kind, rng, count) for _ in range(f.operands)]
    if name in POSITIVE:
        xs[0] = np.abs(xs[0])
    worst = {}
    with options["enable_x64"](True):
        for label in (*SIZES, "XLA"):
            size = min(count, label if label != "XLA" else SIZES[-1])
            with options["native_ops"](label != "XLA"):
                out = compute(f, xs, size)
            used = [x[: len(out)] for x in xs]
            errors = reference.errors(name, used, out)
            at = int(np.argmax(errors))
            worst[label] = float(errors[at])
            if show:
                print(
                    f"    {label}: {errors[at]:.3g} at {[float(x[at]) for x in used]} "
                    f"gives {out[at]!r}; {(errors > 2).mean():.1e} above 2"
                )
    return worst


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(TABLE))
    parser.add_argument("--dtype", nargs="*", default=["float32", "float64"])
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", action="store_true", help="show where errors are largest")
    arguments = parser.parse_args()
    print("| function | dtype | 100 | 4096 | 1,000,000 | XLA's |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        reference = Reference(folder)
        for name in arguments.names:
            for dtype in arguments.dtype:
                worst = measure(
                    reference, name, dtype, arguments.count, arguments.seed, arguments.show
                )
                cells = " | ".join(f"{e:.3g}" for e in worst.values())
                print(f"| {name} | {dtype} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
