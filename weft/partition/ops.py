"""The table of operations: every fact that a pass asks about an operation by its name.

One row for each operation of StableHLO, CHLO and Shardy that the partitioner knows by name. Passes
ask `facts(op)`; an operation without a row has effects and nothing else is known about it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from weft._xla import stablehlo
from weft._xla.mlir import ir

ALL = -1  # in `linear`: every operand


def _one_each(op: ir.Operation) -> int:
    """Count one operation for each element of the largest operand or result."""
    return max(_sizes(op), default=0)


def _nothing(op: ir.Operation) -> int:
    return 0


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts about an operation.

    Attributes:
      pointwise: every element of the result is computed from the operands' elements at its place.
      moves: the result consists of elements of the operands, at other places.
      windowed: splitting a dimension takes elements from the neighbouring shards.
      pure: computes from its operands alone, and may be moved, repeated and left out.
      effects: has effects, or holds operations that may; these keep their order.
      control: its regions are run, repeated or chosen by the values of its operands.
      combines: its region is a function of scalars.
      linear: the operands in which the result is linear, taken together.
      bilinear: linear in each operand of `linear` while the others stay the same instead.
      neutral: of a combiner, the scalar that changes nothing: "zero", "one", "lowest", "highest"
        or "ones" (all bits).
      idempotent: combining a value with itself gives that value.
      rounds: the result may have fewer bits than the operand.
      flops: computes the number of operations from an operation's types and attributes.
      relayout: a change of sharding.
      cut, merged: of a collective, the attribute that names the dimension of the operand that is
        cut between devices, and of the result that their parts are merged along.
    """

    pointwise: bool = False
    moves: bool = False
    windowed: bool = False
    pure: bool = True
    effects: bool = False
    control: bool = False
    combines: bool = False
    linear: tuple[int, ...] = ()
    bilinear: bool = False
    neutral: str = ""
    idempotent: bool = False
    rounds: bool = False
    flops: Callable[[ir.Operation], int] = _one_each
    relayout: bool = False
    cut: str = ""
    merged: str = ""


def facts(op: ir.Operation) -> Facts:
    """Return the row of an operation."""
    return OPS.get(op.name, _UNKNOWN)


def calls_lapack(op: ir.Operation) -> bool:
    """Return whether an operation is a call of LAPACK, which computes from its operands alone."""
    target = op.attributes.get("call_target_name", None)
    return target is not None and target.value.startswith("lapack_")


def named(test: Callable[[Facts], object]) -> frozenset[str]:
    """Return the names of the operations whose facts pass a test.

    >>> sorted(named(lambda row: row.control))
    ['stablehlo.case', 'stablehlo.if', 'stablehlo.while']
    """
    return frozenset(name for name, row in OPS.items() if test(row))


def linear_operands(op: ir.Operation) -> tuple[int, ...]:
    """Return the operands in which an operation is linear, numbered."""
    linear = facts(op).linear
    return tuple(range(len(op.operands))) if linear == (ALL,) else linear


# -- combiners -------------------------------------------------------------------------------------

_INFINITY = {"f64": 0x7FF0000000000000, "f32": 0x7F800000, "f16": 0x7C00, "bf16": 0x7F80}


def neutral(combiner: str, element: ir.Type) -> str | None:
    """Return the neutral element of a combining operation as an MLIR scalar; None if unknown."""
    kind = OPS[combiner].neutral
    if isinstance(element, ir.IntegerType):
        if element.width == 1:
            return {"stablehlo.and": "true", "stablehlo.or": "false"}.get(combiner)
        signed = not element.is_unsigned
        highest = (1 << (element.width - signed)) - 1
        lowest = -highest - 1 if signed else 0
        values = {"zero": 0, "one": 1, "lowest": lowest, "highest": highest}
        return str(values.get(kind, -1 if signed else highest))
    if kind in ("zero", "one"):
        text = "0.0" if kind == "zero" else "1.0"
        return f"({text}, 0.0)" if isinstance(element, ir.ComplexType) else text
    infinity = _INFINITY.get(str(element))
    if infinity is None:
        return None
    return f"0x{infinity | (1 << infinity.bit_length() if kind == 'lowest' else 0):X}"


# -- operations that one execution takes -----------------------------------------------------------


def _sizes(op: ir.Operation) -> list[int]:
    """Return elements of every operand and result."""
    return [
        math.prod(v.type.shape)
        for v in (*op.operands, *op.results)
        if isinstance(v.type, ir.RankedTensorType)
    ]


def _dot_flops(op: ir.Operation) -> int:
    d = stablehlo.dot_dimensions(op.attributes["dot_dimension_numbers"])
    shape = op.operands[0].type.shape
    return 2 * _sizes(op)[-1] * math.prod(shape[i] for i in d.lhs_contract)


def _convolution_flops(op: ir.Operation) -> int:
    kernel = op.operands[1].type.shape
    d = stablehlo.conv_dimensions(op.attributes["dimension_numbers"])
    return 2 * _sizes(op)[-1] * math.prod(kernel) // max(1, kernel[d.rhs_out])


def _sort_flops(op: ir.Operation) -> int:
    """About 100 for an element in each of log2 n passes."""
    shape = op.operands[0].type.shape
    dim = op.attributes["dimension"].value if "dimension" in op.attributes else -1
    return 100 * max(shape[dim], 1).bit_length() * math.prod(shape)


def _fft_flops(op: ir.Operation) -> int:
    """5 n log2 n, as is usual for the complex transform (Van Loan, 1992)."""
    passes = sum(n.bit_length() for n in op.attributes["fft_length"])
    return 5 * passes * _sizes(op)[-1]


def _solve_flops(op: ir.Operation) -> int:
    """n for each element of a factor or a solution of n equations."""
    return op.results[0].type.shape[-1] * _sizes(op)[-1]


# -- the table -------------------------------------------------------------------------------------

_UNKNOWN = Facts(pure=False, effects=True)
_POINTWISE = Facts(pointwise=True)
_MOVES = Facts(moves=True, flops=_nothing, linear=(0,))
_COLLECTIVE = Facts(pure=False, flops=_nothing)
_CONTROL = Facts(pure=False, effects=True, control=True)
_NO_WORK = Facts(flops=_nothing)
_RELAYOUT = Facts(pure=False, flops=_nothing, relayout=True)

_ROWS: tuple[tuple[str, str, Facts], ...] = (
    # Elements one by one.
    ("stablehlo", "abs atan2 cbrt ceil clamp compare cosine count_leading_zeros", _POINTWISE),
    ("stablehlo", "exponential exponential_minus_one floor is_finite log log_plus_one", _POINTWISE),
    ("stablehlo", "logistic not popcnt power remainder round_nearest_afz", _POINTWISE),
    ("stablehlo", "round_nearest_even rsqrt shift_left shift_right_arithmetic", _POINTWISE),
    ("stablehlo", "shift_right_logical sign sine sqrt tan tanh xor", _POINTWISE),
    ("stablehlo", "divide imag negate real", replace(_POINTWISE, linear=(0,))),
    ("stablehlo", "convert reduce_precision", replace(_POINTWISE, linear=(0,), rounds=True)),
    ("stablehlo", "complex subtract", replace(_POINTWISE, linear=(ALL,))),
    ("stablehlo", "select", replace(_POINTWISE, linear=(1, 2))),
    ("chlo", "acos acosh asin asinh atan atanh bessel_i1e conj cosh digamma erf", _POINTWISE),
    ("chlo", "erf_inv erfc is_inf is_neg_inf is_pos_inf lgamma next_after", _POINTWISE),
    ("chlo", "polygamma sinh square tan zeta", _POINTWISE),
    # Those of them that combine the terms of reductions.
    ("stablehlo", "add", replace(_POINTWISE, linear=(ALL,), neutral="zero")),
    ("stablehlo", "multiply", replace(_POINTWISE, linear=(ALL,), bilinear=True, neutral="one")),
    ("stablehlo", "maximum", replace(_POINTWISE, neutral="lowest", idempotent=True)),
    ("stablehlo", "minimum", replace(_POINTWISE, neutral="highest", idempotent=True)),
    ("stablehlo", "and", replace(_POINTWISE, neutral="ones", idempotent=True)),
    ("stablehlo", "or", replace(_POINTWISE, neutral="zero", idempotent=True)),
    # Elements put elsewhere.
    ("stablehlo", "broadcast_in_dim dynamic_slice gather reshape transpose", _MOVES),
    ("stablehlo", "reverse slice", replace(_MOVES, windowed=True)),
    ("stablehlo", "concatenate", replace(_MOVES, windowed=True, linear=(ALL,))),
    ("stablehlo", "pad", replace(_MOVES, windowed=True, linear=(0, 1))),
    ("stablehlo", "dynamic_update_slice", replace(_MOVES, linear=(0, 1))),
    ("stablehlo", "bitcast_convert constant iota partition_id replica_id", _NO_WORK),
    ("sdy", "constant", _NO_WORK),
    # Elements put together.
    ("stablehlo", "dot_general", Facts(linear=(0, 1), bilinear=True, flops=_dot_flops)),
    ("stablehlo", "convolution", Facts(windowed=True, flops=_convolution_flops)),
    ("stablehlo", "reduce", Facts(combines=True, linear=(0,))),
    ("stablehlo", "reduce_window select_and_scatter", Facts(combines=True, windowed=True)),
    ("stablehlo", "scatter", Facts(combines=True)),
    ("stablehlo", "sort", Facts(combines=True, flops=_sort_flops)),
    ("stablehlo", "fft", Facts(flops=_fft_flops)),
    ("stablehlo", "cholesky triangular_solve", Facts(flops=_solve_flops)),
    ("stablehlo", "rng_bit_generator", Facts()),
    ("chlo", "top_k", Facts()),
    # Effects, control flow, and what shields others from moving.
    ("stablehlo", "create_token custom_call infeed outfeed recv rng send", _UNKNOWN),
    ("stablehlo", "after_all async_done async_start", replace(_UNKNOWN, flops=_nothing)),
    ("stablehlo", "case if while", _CONTROL),
    ("stablehlo", "optimization_barrier return", Facts(pure=False, flops=_nothing)),
    ("func", "return", Facts(pure=False, flops=_nothing)),
    # Communication.
    ("stablehlo", "all_reduce", replace(_COLLECTIVE, combines=True)),
    ("stablehlo", "collective_broadcast collective_permute", _COLLECTIVE),
    ("stablehlo", "all_gather", replace(_COLLECTIVE, merged="all_gather_dim")),
    ("stablehlo", "reduce_scatter", replace(_COLLECTIVE, combines=True, cut="scatter_dimension")),
    (
        "stablehlo",
        "all_to_all",
        replace(_COLLECTIVE, cut="split_dimension", merged="concat_dimension"),
    ),
    ("sdy", "all_gather all_slice all_to_all collective_permute", _RELAYOUT),
    ("sdy", "reshard sharding_constraint", _RELAYOUT),
)

OPS: dict[str, Facts] = {
    f"{dialect}.{name}": row for dialect, names, row in _ROWS for name in names.split()
}
"""Operation → its facts."""
