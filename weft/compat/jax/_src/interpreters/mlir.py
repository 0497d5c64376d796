# Tests: tests/compat/test_other_modules.py
"""jax._src.interpreters.mlir, for pybamm and veros, whose lowering rules call native code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from weft._xla.mlir import dialect, ir
from weft.compat.lowering import i32_attr


def custom_call(
    call_target_name: str | bytes,
    *,
    result_types: Sequence[ir.Type],
    operands: Sequence[ir.Value],
    backend_config: str | bytes | dict[str, ir.Attribute] | None = "",
    has_side_effect: bool = False,
    result_shapes: Sequence[ir.Value] | None = None,
    called_computations: Sequence[str] = (),
    api_version: int = 2,
    operand_output_aliases: Mapping[int, int] | None = None,
    operand_layouts: Sequence[Sequence[int]] | None = None,
    result_layouts: Sequence[Sequence[int]] | None = None,
    extra_attributes: Mapping[str, ir.Attribute] | None = None,
) -> Any:
    """Return the operation that calls native code by its name, at the insertion point.

    backend_config: what the code is given besides its operands. result_shapes: operands that
    give the shapes of results where types do not. operand_output_aliases: operand -> the result
    that takes its memory. Layouts list dimensions, the fastest first.
    """
    hlo = dialect("stablehlo")
    operands = list(operands)
    text = backend_config if isinstance(backend_config, str | bytes) else ""
    attributes = {
        "call_target_name": ir.StringAttr.get(call_target_name),
        "has_side_effect": ir.BoolAttr.get(has_side_effect),
        "backend_config": ir.StringAttr.get(text),
        "api_version": i32_attr(1 if isinstance(backend_config, dict) else api_version),
        "called_computations": ir.ArrayAttr.get(
            [ir.FlatSymbolRefAttr.get(name) for name in called_computations]
        ),
        **(extra_attributes or {}),
    }
    if operand_output_aliases is not None:
        several = len(result_types) > 1
        attributes["output_operand_aliases"] = ir.ArrayAttr.get(
            [
                hlo.OutputOperandAlias.get([out] if several else [], operand, [])
                for operand, out in operand_output_aliases.items()
            ]
        )
    if result_shapes is not None:
        last = len(operands) + len(result_shapes)
        attributes["indices_of_shape_operands"] = ir.DenseIntElementsAttr.get(
            np.arange(len(operands), last, dtype=np.int64)
        )
        operands += result_shapes
        if operand_layouts is not None:
            operand_layouts = [*operand_layouts, *[(0,)] * len(result_shapes)]
    for name, layouts in (("operand_layouts", operand_layouts), ("result_layouts", result_layouts)):
        if layouts is not None:
            attributes[name] = ir.ArrayAttr.get([_layout(order) for order in layouts])
    op = hlo.CustomCallOp.build_generic(
        results=list(result_types), operands=operands, attributes=attributes
    )
    if isinstance(backend_config, dict):  # as the operation's own attribute is a string
        op.operation.attributes["mhlo.backend_config"] = ir.DictAttr.get(backend_config)
    return op


def _layout(order: Sequence[int]) -> ir.Attribute:
    return ir.DenseIntElementsAttr.get(
        np.atleast_1d(np.asarray(order, np.int64)), type=ir.IndexType.get()
    )
