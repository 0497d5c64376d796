# Tests: tests/partition/test_localize.py
"""Reads StableHLO's dimension numbers: of dot, gather, scatter, convolution."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from jaxlib.mlir._mlir_libs import _stablehlo

if TYPE_CHECKING:
    from weft._xla.mlir import ir


def _read(numbers: Any, names: Iterable[str]) -> Iterator[Any]:
    values = (getattr(numbers, name) for name in names)
    return (v if isinstance(v, int) else tuple(v) for v in values)


class DotDimensions(NamedTuple):
    """Dimension numbers of dot_general."""

    lhs_batch: tuple[int, ...]
    rhs_batch: tuple[int, ...]
    lhs_contract: tuple[int, ...]
    rhs_contract: tuple[int, ...]


_DOT = (
    *("lhs_batching_dimensions", "rhs_batching_dimensions"),
    *("lhs_contracting_dimensions", "rhs_contracting_dimensions"),
)


def dot_dimensions(attribute: ir.Attribute) -> DotDimensions:
    return DotDimensions(*_read(_stablehlo.DotDimensionNumbers(attribute), _DOT))


class GatherDimensions(NamedTuple):
    """Dimension numbers of gather."""

    offset_dims: tuple[int, ...]
    collapsed_slice_dims: tuple[int, ...]
    operand_batching_dims: tuple[int, ...]
    indices_batching_dims: tuple[int, ...]
    start_index_map: tuple[int, ...]
    index_vector_dim: int


_OF_GATHER = {"indices_batching_dims": "start_indices_batching_dims"}
_GATHER = [_OF_GATHER.get(n, n) for n in GatherDimensions._fields]


def gather_dimensions(attribute: ir.Attribute) -> GatherDimensions:
    return GatherDimensions(*_read(_stablehlo.GatherDimensionNumbers(attribute), _GATHER))


def _plain(numbers: Any) -> Any:
    return numbers if isinstance(numbers, int) else list(numbers)


class ScatterDimensions(NamedTuple):
    """Dimension numbers of scatter."""

    update_window_dims: tuple[int, ...]
    inserted_window_dims: tuple[int, ...]
    operand_batching_dims: tuple[int, ...]
    indices_batching_dims: tuple[int, ...]
    scatter_dims_to_operand_dims: tuple[int, ...]
    index_vector_dim: int


_OF_SCATTER = {
    "operand_batching_dims": "input_batching_dims",
    "indices_batching_dims": "scatter_indices_batching_dims",
    "scatter_dims_to_operand_dims": "scattered_dims_to_operand_dims",
}
_SCATTER = [_OF_SCATTER.get(n, n) for n in ScatterDimensions._fields]


def scatter_dimensions(attribute: ir.Attribute) -> ScatterDimensions:
    return ScatterDimensions(*_read(_stablehlo.ScatterDimensionNumbers(attribute), _SCATTER))


def scatter_attribute(dimensions: ScatterDimensions) -> Any:
    """Return the attribute of a scatter with these dimension numbers."""
    return _stablehlo.ScatterDimensionNumbers.get(*map(_plain, dimensions))


class ConvDimensions(NamedTuple):
    """Dimension numbers of convolution."""

    lhs_batch: int
    lhs_feature: int
    lhs_spatial: tuple[int, ...]
    rhs_in: int
    rhs_out: int
    rhs_spatial: tuple[int, ...]
    out_batch: int
    out_feature: int
    out_spatial: tuple[int, ...]


_CONV = (
    *("input_batch_dimension", "input_feature_dimension", "input_spatial_dimensions"),
    *("kernel_input_feature_dimension", "kernel_output_feature_dimension"),
    "kernel_spatial_dimensions",
    *("output_batch_dimension", "output_feature_dimension", "output_spatial_dimensions"),
)


def conv_dimensions(attribute: ir.Attribute) -> ConvDimensions:
    return ConvDimensions(*_read(_stablehlo.ConvDimensionNumbers(attribute), _CONV))
