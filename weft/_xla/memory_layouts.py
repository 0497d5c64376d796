# Tests: tests/test_layout.py
"""Layouts in memory: of arrays, of executables' arguments and results, asked for in modules.

A layout is (major_to_minor, tiling or None, bits of elements of less than a byte or 0).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxlib import _hlo

from weft._xla.mlir import ir

if TYPE_CHECKING:
    from weft.runtime.array import Array
    from weft.sharding.memory_layout import Layout


def _fields(pjrt_layout: Any) -> tuple:
    layout = pjrt_layout._xla_layout()
    tiles = tuple(map(tuple, layout.tiling() or ()))
    return tuple(layout.minor_to_major())[::-1], tiles or None, layout.element_size_in_bits()


def of_array(array: Array) -> tuple:
    """Return the layout of each of the array's parts."""
    return _fields(array._pjrt_layout)


def is_laid_out(array: Array) -> bool:
    """Tell whether an array's memory order differs from row-major."""
    order, tiling, _ = of_array(array)
    return tiling is not None or order != tuple(range(len(order)))


def of_executable(executable: Any) -> tuple[list, list]:
    """Return the layouts of its arguments' and of its results' parts."""
    ins, outs = executable.get_parameter_layouts(), executable.get_output_layouts()
    return [_fields(x) for x in ins], [_fields(x) for x in outs]


def _xla_layout(layout: tuple) -> Any:
    order, tiling, bits = layout
    minor = order[::-1]
    return _hlo.Layout(minor) if tiling is None else _hlo.Layout(minor, tiling, bits)


def text(layout: tuple) -> str:
    """Return the layout as XLA writes it: from minor to major, then the tiles."""
    return str(_xla_layout(layout))


class ArgumentLayout:
    """The layout with which the C++ path compares an argument's; `layout` is the caller's own."""

    __slots__ = ("_made", "layout")

    def __init__(self, layout_of_array: Layout, layout: tuple) -> None:
        self.layout, self._made = layout_of_array, _xla_layout(layout)

    def _to_xla_layout(self, dtype: np.dtype) -> Any:
        return self._made


def set_modes(module: ir.Module, ins: Sequence[str | None], outs: Sequence[str | None]) -> None:
    """Ask for layouts of the module's arguments and results; None leaves one as it is."""
    main = next(
        o.operation
        for o in module.body.operations
        if o.operation.name == "func.func" and o.attributes["sym_name"].value == "main"
    )
    for name, modes in (("arg_attrs", ins), ("res_attrs", outs)):
        old = main.attributes[name] if name in main.attributes else [{}] * len(modes)
        rows = []
        for attributes, mode in zip(old, modes, strict=True):
            entries = {a.name: a.attr for a in attributes}
            if mode is not None:
                entries["mhlo.layout_mode"] = ir.StringAttr.get(mode)
            rows.append(ir.DictAttr.get(entries))
        main.attributes[name] = ir.ArrayAttr.get(rows)
