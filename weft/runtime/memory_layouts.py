# Tests: tests/test_layout.py
"""Arrays and programs of other layouts than the platform's own; loaded when there are any."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from itertools import compress
from typing import TYPE_CHECKING, Any

from weft._xla import memory_layouts as _xla
from weft._xla import mlir
from weft.core.caches import clearable
from weft.runtime.array import ArrayImpl
from weft.runtime.compile import compile_module
from weft.runtime.executable import Executable
from weft.runtime.shared_buffers import describe
from weft.sharding.memory_layout import AUTO, Format, Layout

if TYPE_CHECKING:
    from weft._xla.mlir import ir
    from weft.core.aval import ShapedArray
    from weft.core.tree import PyTreeDef
    from weft.typing import ArrayLike


def layout_of(x: Any) -> Layout | None:
    """Return an array's layout; None for one that is deleted."""
    return None if x.is_deleted() else Layout(*_xla.of_array(x))


def format_of(x: Any) -> Format:
    """Return an array's layout and sharding as a Format, which `device_put` and `jit` take."""
    return Format(layout_of(x), x._sharding)


def row_major(ndim: int) -> Layout:
    return Layout(tuple(range(ndim)))


def fits(asked: Layout, have: Layout) -> bool:
    """Return whether a layout is the one asked for, whatever says that elements share bytes."""
    return (have.major_to_minor, have.tiling) == (asked.major_to_minor, asked.tiling)


def is_own(x: object) -> bool:
    """Tell whether an array has its platform's default layout."""
    return Layout(*_xla.of_array(x)).is_row_major


def held(x: Any) -> Any:
    """Return the layout that an argument is bound to: that of a committed array, or of a struct."""
    x = getattr(x, "_base", x)
    if type(x) is ArrayImpl:
        return layout_of(x) if x._committed else None
    form = getattr(x, "format", None)
    return form.layout if isinstance(form, Format) else None


def resolved(api: str, names: Any, asked: Any, have: Any, n_out: int) -> tuple | None:
    """Return the layouts of a program's arguments and results; None if all are the default.

    asked: those of arguments and of results that jit was given, or None. have: those that the
    arguments are bound to, or None. Raises ValueError where they differ. names: gives the
    arguments' names, for messages.
    """
    ins, outs = asked or ((None,) * len(have), (None,) * n_out)
    have = have or (None,) * len(ins)
    for i, (a, h) in enumerate(zip(ins, have, strict=True)):
        if a is None or h is None or (a is not AUTO and fits(a, h)):
            continue
        labels = [""] * (len(ins) - len(names())) + [f" {n}" for n in names()]
        remedy = "pass a weft.ShapeDtypeStruct to .lower(), and put arrays into its input_formats"
        if a is not AUTO:
            remedy = "move it with weft.device_put(x, Format(layout, sharding))"
        raise ValueError(
            f"{api}: argument{labels[i]} has {h!r}, but in_shardings asks for {a!r}; {remedy}"
        )
    in_layouts = [a if h is None or a is not None else h for a, h in zip(ins, have, strict=True)]
    result = tuple(_asked(a) for a in in_layouts), tuple(_asked(a) for a in outs)
    return result if any(map(any, result)) else None


def _asked(layout: Any) -> Any:
    """Return None for the platform's own layout, so that programs are shared."""
    return None if layout is not None and layout is not AUTO and layout.is_row_major else layout


def set_layouts(module: ir.Module, layouts: tuple) -> None:
    """Write the layouts of arguments and results into the module, for XLA to keep."""
    with mlir.context(), mlir.unknown_location():
        _xla.set_modes(module, *([_mode(x) for x in each] for each in layouts))


def _mode(layout: Any) -> str | None:
    if layout is None:
        return None
    return "auto" if layout is AUTO else _xla.text(_fields(layout))


def _fields(layout: Layout) -> tuple:
    return layout.major_to_minor, layout.tiling, layout.sub_byte_element_size_in_bits


def of_program(xla: object) -> tuple[list[Layout], list[Layout]]:
    """Return the layouts of a compiled program's arguments and results."""
    ins, outs = _xla.of_executable(xla)
    return [Layout(*x) for x in ins], [Layout(*x) for x in outs]


class _LaidOut:
    """An executable some of whose arguments have another layout than their platform's default."""

    __slots__ = ()

    def call(self: Any, args: Sequence[Any], noted: bool = False) -> list:
        """Act as `Executable.call`; arguments that lie otherwise are laid anew."""
        args = list(args)
        kept = compress(range(len(args)), self.kept_args or (True,) * len(args))
        places = zip(kept, self.in_shardings, self.in_layouts, strict=True)
        for k, (i, sharding, layout) in enumerate(places):
            args[i] = relaid(self._place(k, args[i], sharding), layout)
        return super().call(args, noted)  # type: ignore[misc]

    def fastpath(self: Any, *args: int | list | PyTreeDef) -> Any:
        """Act as `Executable.fastpath`; C++ leaves what it must lay anew to `shard_argument`."""
        layouts = [
            None if x.is_row_major else _xla.ArgumentLayout(x, _fields(x)) for x in self.in_layouts
        ]
        return super().fastpath(*args)._replace(in_device_local_layouts=layouts)  # type: ignore[misc]


def lay_out(executable: Any) -> None:
    """Make an executable put its arguments into the layouts that it was compiled for."""
    executable.in_layouts, _ = of_program(executable.xla)
    kind: Any = type(executable)
    executable.__class__ = _laid_out(kind)


@functools.lru_cache(maxsize=8)
def _laid_out(kind: type) -> type:
    return type(f"LaidOut{kind.__name__}", (_LaidOut, kind), {"__slots__": ()})


def relaid(x: Any, layout: Layout | None = None) -> Any:
    """Return the array, in the same place, in another layout, by default the platform's own."""
    want = row_major(len(x.aval.shape)) if layout is None else layout
    have = Layout(*_xla.of_array(x))
    if fits(want, have):
        return x
    want.check_compatible_aval(x.aval.shape)
    return _relayout(x.aval, x._sharding, have, want).call([x])[0]


@clearable
@functools.lru_cache(maxsize=512)
def _relayout(aval: ShapedArray, sharding: Any, have: Layout, want: Layout) -> Executable:
    """Return the program of every device, on its own part."""
    devices = sharding._devices_in_order
    tensor = mlir.tensor_type(sharding.shard_shape(aval.shape), aval.dtype)
    text = (
        f"module @relayout attributes {{mhlo.num_partitions = 1 : i32, "
        f"mhlo.num_replicas = {len(devices)} : i32}} {{\n"
        f'  func.func public @main(%x: {tensor} {{mhlo.layout_mode = "{_mode(have)}"}}) -> '
        f'({tensor} {{mhlo.layout_mode = "{_mode(want)}"}}) {{\n    return %x : {tensor}\n  }}\n}}'
    )
    compiled = compile_module(text, devices, num_replicas=len(devices))
    return Executable(compiled, [aval], [sharding], [aval], [sharding])


def put_formatted(x: ArrayLike, form: Format, put: Callable[[Any], Any]) -> Any:
    """Put the array in this format. put(sharding) transfers; a layout of None stays."""
    if form.layout is AUTO:
        raise ValueError(
            "device_put: Layout.AUTO is for weft.jit, which finds a layout for a program; give a "
            "Layout, or the format of an array or of compiled.input_formats"
        )
    placed = put(form.sharding)
    if form.layout is None:
        return placed
    if type(placed) is not ArrayImpl:
        raise TypeError(
            f"device_put: {x!r:.100} takes no Layout: give a layout to arrays outside of traced "
            "functions, and to their results by out_shardings"
        )
    try:
        return relaid(placed, form.layout)
    except ValueError as e:
        raise ValueError(f"device_put of {describe(placed)}: {e}") from None
