"""Draws how an array of rank 1 or 2 is split over devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from weft.sharding.mesh import AbstractMesh, Mesh, context_mesh
from weft.sharding.named import concrete_meshes
from weft.sharding.physical import as_sharding

if TYPE_CHECKING:
    from weft.sharding.named import NamedSharding

_COLORS = ("red", "green", "yellow", "blue", "magenta", "cyan", "bright_black", "bright_red")


def placement(caller: str, value: Any) -> Any:
    """Return an array's sharding; for a traced value, its type's, over real devices."""
    sharding = value.sharding
    if sharding is None:
        raise ValueError(
            f"{caller}: where a traced value of type {value.aval.str_short()} is placed is not "
            "known while tracing. After partitioning it stands in "
            "weft.jit(f).lower(...).stages.propagated; weft.lax.with_sharding_constraint fixes it; "
            "and over a mesh of Explicit axes it is part of the type"
        )
    mesh = getattr(sharding, "mesh", None)
    if isinstance(mesh, AbstractMesh):
        meshes = [context_mesh(), *concrete_meshes(mesh)]
        for real in meshes:
            if isinstance(real, Mesh) and real.shape == mesh.shape:
                return sharding.update(mesh=real.update(axis_types=mesh.axis_types))
    return sharding


def visualize_sharding(
    shape: Sequence[int],
    sharding: object,
    *,
    use_color: bool = True,
    scale: float = 1.0,
    min_width: int = 9,
    max_width: int = 80,
    color_map: Any = None,
) -> None:
    """Print which device holds which part of an array of this shape.

    Args:
      shape: the global shape, of rank 1 or 2.
      sharding: a sharding, a device, or a `P` over the mesh in context.
      use_color: color the parts, where rich is installed and the output is a terminal.
      scale: stretches cells: 2.0 makes them twice as wide.
      min_width, max_width: of a cell and of the drawing, in characters.
      color_map: the colors of the parts, a function of numbers from 0 to 1 that returns red, green,
        blue (and alpha), each from 0 to 1: a color map of matplotlib is one.

    Raises:
      ValueError: the rank is not 1 or 2, or the shape cannot be split that way.

    >>> import weft
    >>> mesh = weft.make_mesh((1,), ("x",))
    >>> sharding = weft.NamedSharding(mesh, weft.P("x"))
    >>> weft.debug.visualize_sharding((4,), sharding, use_color=False)
    ┌─────────┐
    │  CPU 0  │
    └─────────┘
    """
    if not scale > 0:
        raise ValueError(f"visualize_sharding: scale must be positive, got {scale}")
    grid = device_grid(shape, sharding)
    min_width = min(round(min_width * scale), max_width)
    if use_color and _print_colored(grid, min_width, max_width, color_map):
        return
    print(_draw(grid, min_width, max_width, lambda text, cell: text))


def sharding_text(
    shape: Sequence[int], sharding: NamedSharding, *, min_width: int = 9, max_width: int = 80
) -> str:
    """Draw the table that `visualize_sharding` prints, without color."""
    return _draw(device_grid(shape, sharding), min_width, max_width, lambda text, cell: text)


def device_grid(shape: Sequence[int], sharding: object) -> list[list[tuple[str, tuple[int, ...]]]]:
    """Return the parts as rows of cells: (platform, ids of the devices that hold the part)."""
    shape = tuple(shape)
    if len(shape) not in (1, 2):
        raise ValueError(
            f"only arrays of rank 1 or 2 can be drawn, got shape {shape}; draw a slice of it, or "
            "read sharding.devices_indices_map(shape)"
        )
    holders: dict[tuple[int, ...], list[Any]] = {}
    places = as_sharding(sharding).devices_indices_map(shape)
    for device, index in places.items():
        start = tuple(s.start or 0 for s in index)
        holders.setdefault((0,) * (2 - len(start)) + start, []).append(device)
    rows = sorted({row for row, _ in holders})
    columns = sorted({column for _, column in holders})
    return [[_cell(holders[row, column]) for column in columns] for row in rows]


def _cell(devices: list) -> tuple[str, tuple[int, ...]]:
    return devices[0].platform.upper(), tuple(sorted(d.id for d in devices))


def _draw(grid: list, min_width: int, max_width: int, paint: Callable) -> str:
    labels = [[f"{name} {','.join(map(str, ids))}" for name, ids in row] for row in grid]
    columns = len(grid[0])
    widest = max(len(text) for row in labels for text in row) + 2
    width = max(min_width, widest)
    if (width + 1) * columns + 1 > max_width:
        width = max(3, (max_width - 1) // columns - 1)
    edge = ["─" * width] * columns
    lines = ["┌" + "┬".join(edge) + "┐"]
    for i, row in enumerate(labels):
        if i:
            lines.append("├" + "┼".join(edge) + "┤")
        cells = []
        for text, cell in zip(row, grid[i], strict=True):
            shown = text if len(text) <= width else text[: width - 1] + "…"
            cells.append(paint(shown.center(width), cell))
        lines.append("│" + "│".join(cells) + "│")
    lines.append("└" + "┴".join(edge) + "┘")
    return "\n".join(lines)


def _print_colored(grid: list, min_width: int, max_width: int, color_map: Callable | None) -> bool:
    try:
        from rich.console import Console
    except ImportError:
        return False
    console = Console()
    if not console.is_terminal:
        return False
    distinct = sorted({ids for row in grid for _, ids in row})
    colors = {ids: _COLORS[i % len(_COLORS)] for i, ids in enumerate(distinct)}
    if color_map is not None:
        colors = {
            ids: _rgb_text(color_map(i / max(len(distinct) - 1, 1)))
            for i, ids in enumerate(distinct)
        }

    def paint(text: str, cell: tuple) -> str:
        return f"[white on {colors[cell[1]]}]{text}[/]"

    console.print(_draw(grid, min_width, max_width, paint), highlight=False, soft_wrap=True)
    return True


def _rgb_text(color: Sequence[float]) -> str:
    """Return a color of numbers from 0 to 1 as rich takes it."""
    return f"rgb({','.join(str(round(255 * float(c))) for c in color[:3])})"
