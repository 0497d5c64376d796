# Tests: tests/ops/test_dot.py
"""How exactly products are computed: precisions and algorithms of dot and convolution."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from weft.core import dtypes
from weft.core.config import config
from weft.core.errors import UnsupportedArgumentError

if TYPE_CHECKING:
    from weft.core.aval import ShapedArray
    from weft.lowering.context import RuleContext
    from weft.typing import ArrayLike


class Precision(enum.Enum):
    """How many bits of the factors a matrix unit uses; means nothing on CPUs.

    DEFAULT is the fastest, HIGH takes several passes, HIGHEST computes in the operands' format.
    """

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2

    @classmethod
    def _missing_(cls, value: object) -> Precision | None:
        """Return the precision of a word for it, like "high"."""
        return _NAMES.get("default" if value is None else str(value))

    def __str__(self) -> str:
        return self.name


class DotAlgorithm(NamedTuple):
    """The exact algorithm of a product: formats of the factors and of the sum.

    Source: StableHLO specification, `dot_algorithm`.
    """

    lhs_precision_type: Any
    rhs_precision_type: Any
    accumulation_type: Any
    lhs_component_count: int = 1
    rhs_component_count: int = 1
    num_primitive_operations: int = 1
    allow_imprecise_accumulation: bool = False

    def attr_text(self) -> str:
        """Return the StableHLO attribute."""
        kinds = [
            k if k == "tf32" else _ir_name(dtypes.canonicalize_dtype(k))
            for k in (self.lhs_precision_type, self.rhs_precision_type, self.accumulation_type)
        ]
        return (
            f"#stablehlo.dot_algorithm<lhs_precision_type = {kinds[0]}, "
            f"rhs_precision_type = {kinds[1]}, accumulation_type = {kinds[2]}, "
            f"lhs_component_count = {self.lhs_component_count}, "
            f"rhs_component_count = {self.rhs_component_count}, "
            f"num_primitive_operations = {self.num_primitive_operations}, "
            f"allow_imprecise_accumulation = {str(self.allow_imprecise_accumulation).lower()}>"
        )

    def operand_dtype(self) -> Any:
        """Return the dtype the operands are given in."""
        if self.lhs_precision_type == "tf32" or self.lhs_component_count > 1:
            return dtypes.float32
        return dtypes.canonicalize_dtype(self.lhs_precision_type)

    def result_dtype(self) -> Any:
        return dtypes.canonicalize_dtype(self.accumulation_type)


def _ir_name(dtype: np.dtype) -> str:
    if dtype == dtypes.bfloat16:
        return "bf16"
    if dtype.itemsize > 1:
        return dtype.name.replace("float", "f")
    return "f8" + dtype.name.removeprefix("float8_").upper()


class DotAlgorithmPreset(enum.Enum):
    """Algorithms of products of floats: the names give the formats of lhs, rhs and sum."""

    DEFAULT = 1
    ANY_F8_ANY_F8_F32 = 2
    ANY_F8_ANY_F8_F32_FAST_ACCUM = 3
    ANY_F8_ANY_F8_ANY = 4
    ANY_F8_ANY_F8_ANY_FAST_ACCUM = 5
    F16_F16_F16 = 6
    F16_F16_F32 = 7
    BF16_BF16_BF16 = 8
    BF16_BF16_F32 = 9
    BF16_BF16_F32_X3 = 10
    BF16_BF16_F32_X6 = 11
    BF16_BF16_F32_X9 = 12
    TF32_TF32_F32 = 13
    TF32_TF32_F32_X3 = 14
    F32_F32_F32 = 15
    F64_F64_F64 = 16

    def algorithm(self, lhs: object, rhs: object, out: object) -> DotAlgorithm | None:
        """Return the algorithm for operands and a result of these dtypes; None leaves it to XLA.

        Integers and complex numbers have none: they would not survive the format.
        """
        if self is DotAlgorithmPreset.DEFAULT or not (
            dtypes.is_float(lhs) and dtypes.is_float(rhs)
        ):
            return None
        if "F8" in self.name:
            total = dtypes.float32 if "F32" in self.name else out
            return DotAlgorithm(
                lhs, rhs, total, allow_imprecise_accumulation=self.name.endswith("FAST_ACCUM")
            )
        left, _, total, *passes = self.name.split("_")
        n = int(passes[0][1:]) if passes else 1
        # Each factor is a sum of parts of the short format, three of them for 6 and 9 products.
        parts = 1 if left == "TF32" else {1: 1, 3: 2, 6: 3, 9: 3}[n]
        kind = "tf32" if left == "TF32" else _FORMATS[left]
        return DotAlgorithm(kind, kind, _FORMATS[total], parts, parts, n)


_FORMATS = {
    "F16": dtypes.float16,
    "BF16": dtypes.bfloat16,
    "F32": dtypes.float32,
    "F64": dtypes.float64,
}

_NAMES = {
    "default": Precision.DEFAULT,
    "fastest": Precision.DEFAULT,
    "bfloat16": Precision.DEFAULT,
    "high": Precision.HIGH,
    "bfloat16_3x": Precision.HIGH,
    "tensorfloat32": Precision.HIGH,
    "highest": Precision.HIGHEST,
    "float32": Precision.HIGHEST,
}

CanonicalPrecision = None | tuple[Precision, Precision] | DotAlgorithm | DotAlgorithmPreset


PrecisionLike = str | Precision | tuple[Any, Any] | DotAlgorithm | DotAlgorithmPreset | None


class AccuracyMode(enum.Enum):
    """How exact a function like exp is: HIGHEST asks for the most exact implementation."""

    HIGHEST = 1
    DEFAULT = 2

    def attr_text(self) -> str:
        """Return the StableHLO attribute."""
        return _accuracy_text(self.name)


@dataclass(frozen=True)
class Tolerance:
    """An error a function like exp may have: absolute, relative, or in units in the last place.

    Source: StableHLO specification, `result_accuracy`.
    """

    atol: float = 0.0
    rtol: float = 0.0
    ulps: int = 0

    def __post_init__(self) -> None:
        tolerances = (self.atol, self.rtol, self.ulps)
        if min(tolerances) < 0:
            raise ValueError(
                f"Tolerance: atol, rtol and ulps must not be negative, got {tolerances}"
            )
        if not any(tolerances):
            raise ValueError("Tolerance: give atol, rtol or ulps")

    def attr_text(self) -> str:
        """Return the StableHLO attribute."""
        return _accuracy_text("TOLERANCE", self.atol, self.rtol, self.ulps)


def _accuracy_text(mode: str, atol: float = 0.0, rtol: float = 0.0, ulps: int = 0) -> str:
    return (
        f"#stablehlo.result_accuracy<atol = {atol:e}, rtol = {rtol:e}, ulps = {ulps}, "
        f"mode = #stablehlo.result_accuracy_mode<{mode}>>"
    )


def canonical_accuracy(name: str, accuracy: ArrayLike) -> AccuracyMode | Tolerance | None:
    """Return the accuracy that was asked for; None for the default."""
    if accuracy is AccuracyMode.DEFAULT:
        return None
    if not isinstance(accuracy, AccuracyMode | Tolerance):
        raise UnsupportedArgumentError(
            f"{name}: accuracy must be None, a lax.Tolerance or a lax.AccuracyMode, got "
            f"{accuracy!r}"
        )
    return accuracy


def canonical_precision(name: str, precision: object) -> CanonicalPrecision:
    """Normalize the argument `precision`: None, a pair (lhs, rhs), or an algorithm."""
    if precision is None:
        precision = config.default_matmul_precision
        if precision is None:
            return None
    if isinstance(precision, DotAlgorithm | DotAlgorithmPreset):
        return precision
    if isinstance(precision, str) and precision in DotAlgorithmPreset.__members__:
        return DotAlgorithmPreset[precision]
    pair = tuple(precision) if isinstance(precision, tuple | list) else (precision, precision)
    if len(pair) == 2:
        sides = tuple(
            p
            if isinstance(p, Precision)
            else _NAMES.get(p)
            if isinstance(p, str)
            else Precision.DEFAULT
            if p is None
            else None
            for p in pair
        )
        if None not in sides:
            return sides  # type: ignore[return-value]
    raise ValueError(
        f"{name}: precision must be None, a lax.Precision, one of {', '.join(_NAMES)}, a pair of "
        f"them for lhs and rhs, or a lax.DotAlgorithmPreset, got {precision!r}"
    )


def swapped(precision: CanonicalPrecision) -> CanonicalPrecision:
    """Return the precision with the roles of lhs and rhs exchanged."""
    if isinstance(precision, DotAlgorithm):
        p = precision
        return p._replace(
            lhs_precision_type=p.rhs_precision_type,
            rhs_precision_type=p.lhs_precision_type,
            lhs_component_count=p.rhs_component_count,
            rhs_component_count=p.lhs_component_count,
        )
    return precision[::-1] if isinstance(precision, tuple) else precision


def precision_attrs(ctx: RuleContext, precision: CanonicalPrecision) -> dict:
    """Return the attribute precision_config of dot_general and convolution."""
    if not isinstance(precision, tuple) or isinstance(precision, DotAlgorithm):
        return {}
    names = ", ".join(f"#stablehlo<precision {p.name}>" for p in precision)
    return {"precision_config": ctx.attr(f"[{names}]")}


def product_dtype(name: str, lhs: ShapedArray, rhs: ShapedArray, preferred: np.dtype | None) -> Any:
    """Return the result dtype of a product: `preferred`, or the wider of the operands' dtypes."""
    a, b = lhs.dtype, rhs.dtype
    if dtypes.is_extended(a) or dtypes.is_extended(b):
        raise TypeError(f"{name} takes arrays of numbers, got {lhs.str_short()}, {rhs.str_short()}")
    out = _wider(a, b)
    if preferred is None or preferred == out:
        return out
    kinds = [
        0 if dtypes.is_bool(d) or dtypes.is_integer(d) else 2 if dtypes.is_complex(d) else 1
        for d in (out, preferred)
    ]
    narrower = kinds[0] == 0 and _bits(preferred) < _bits(out)
    if kinds[0] > kinds[1] or narrower:
        raise TypeError(
            f"{name}: preferred_element_type {dtypes.short_name(preferred)} cannot hold products "
            f"of {lhs.str_short()} and {rhs.str_short()}; name a dtype "
            + ("at least as wide, and convert the result" if narrower else "of the same kind")
        )
    return preferred


def _wider(a: np.dtype, b: np.dtype) -> Any:
    """Return the dtype of products of two: floats of 8 bits, never promoted, give way to longer
    ones and to those that reach further."""
    if a != b and dtypes.is_float(a) and dtypes.is_float(b) and 1 in (a.itemsize, b.itemsize):
        return max(a, b, key=lambda d: (d.itemsize, float(dtypes.finfo(d).max)))
    return a if a == b else dtypes.join_types([(a, False), (b, False)])[0]


def _bits(dtype: np.dtype) -> int:
    if dtypes.is_bool(dtype):
        return 1
    return dtypes.iinfo(dtype).bits if dtypes.is_integer(dtype) else 8 * dtype.itemsize
