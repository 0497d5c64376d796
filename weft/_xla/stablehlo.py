# Tests: tests/partition/test_localize.py
"""Reads StableHLO's dimension numbers: of dot, gather, scatter, convolution."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from jaxlib.mlir._mlir_libs import _stablehlo

if TYPE_CHECKING:
    from weft._xla.mlir import ir


class DotDimensions(NamedTuple):
    """Dimension numbers of dot_general."""

    lhs_batch: tuple[int, ...]
    rhs_batch: tuple[int, ...]
    lhs_contract: tuple[int, ...]
    rhs_contract: tuple[int, ...]


def dot_dimensions(attribute: ir.Attribute) -> DotDimensions:
    d = _stablehlo.DotDimensionNumbers(attribute)
    return DotDimensions(
        tuple(d.lhs_batching_dimensions),
        tuple(d.rhs_batching_dimensions),
        tuple(d.lhs_contracting_dimensions),
        tuple(d.rhs_contracting_dimensions),
    )


class GatherDimensions(NamedTuple):
    """Dimension numbers of gather."""

    offset_dims: tuple[int, ...]
    collapsed_slice_dims: tuple[int, ...]
    operand_batching_dims: tuple[int, ...]
    indices_batching_dims: tuple[int, ...]
    start_index_map: tuple[int, ...]
    index_vector_dim: int


def gather_dimensions(attribute: ir.Attribute) -> GatherDimensions:
    d = _stablehlo.GatherDimensionNumbers(attribute)
    return GatherDimensions(
        tuple(d.offset_dims),
        tuple(d.collapsed_slice_dims),
        tuple(d.operand_batching_dims),
        tuple(d.start_indices_batching_dims),
        tuple(d.start_index_map),
        d.index_vector_dim,
    )


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


def scatter_dimensions(attribute: ir.Attribute) -> ScatterDimensions:
    d = _stablehlo.ScatterDimensionNumbers(attribute)
    return ScatterDimensions(
        tuple(d.update_window_dims),
        tuple(d.inserted_window_dims),
        tuple(d.input_batching_dims),
        tuple(d.scatter_indices_batching_dims),
        tuple(d.scattered_dims_to_operand_dims),
        d.index_vector_dim,
    )


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


def conv_dimensions(attribute: ir.Attribute) -> ConvDimensions:
    d = _stablehlo.ConvDimensionNumbers(attribute)
    return ConvDimensions(
        d.input_batch_dimension,
        d.input_feature_dimension,
        tuple(d.input_spatial_dimensions),
        d.kernel_input_feature_dimension,
        d.kernel_output_feature_dimension,
        tuple(d.kernel_spatial_dimensions),
        d.output_batch_dimension,
        d.output_feature_dimension,
        tuple(d.output_spatial_dimensions),
    )
