# ruff: noqa: E501 - lines of HTML read better whole
"""Drawings of meshes and of values cut into shards, as HTML for notebooks and reports."""

from __future__ import annotations

import html
import itertools
import math
from typing import TYPE_CHECKING, Any

from weft.core.errors import NoMeshError

if TYPE_CHECKING:
    from weft.sharding.mesh import AbstractMesh, Mesh
    from weft.sharding.spec import PartitionSpec


def color(index: int, count: int) -> str:
    return f"hsl({round(360 * index / max(count, 1))} 65% 70%)"


def mesh_svg(mesh: dict[str, int]) -> str:
    """Draw devices in a grid: the last axis runs across, the others down; at most 512 are drawn."""
    if not mesh:
        return "<p>one device</p>"
    sizes = list(mesh.values())
    across = sizes[-1]
    down = math.prod(sizes[:-1])
    shown_across, shown_down = min(across, 32), min(down, 16)
    cells = []
    for r, c in itertools.product(range(shown_down), range(shown_across)):
        x, y = c * 34, r * 24
        number = r * across + c
        cells.append(
            f'<rect x="{x}" y="{y}" width="32" height="22" rx="3" fill="{color(number, down * across)}"/>'
            f'<text x="{x + 16}" y="{y + 15}" text-anchor="middle">{number}</text>'
        )
    label = html.escape(_axes_text(mesh))
    shown = f" (those of {shown_down} rows and {shown_across} columns shown)"
    note = "" if (shown_across, shown_down) == (across, down) else shown
    return (
        f'<p>{label}: {down * across} devices{note}</p><div class="wide"><svg class="mesh" width="{shown_across * 34}"'
        f' height="{shown_down * 24}" role="img" aria-label="device mesh">{"".join(cells)}</svg></div>'
    )


def value_html(
    value: tuple[tuple[int, ...] | None, tuple[tuple[str, ...], ...]],
    mesh: dict[str, int],
    names: list[str],
) -> str:
    """Draw values of one shape and layout, cut into their shards (its last split dimension across,
    the one before it down), and the mesh with who holds which.

    A shard has one colour in both drawings; devices of one colour hold copies.
    """
    shape, dims = value
    counts = [math.prod(_axis_size(a, mesh) for a in axes) for axes in dims]
    total = math.prod(counts)
    down, across = _drawn(counts)
    steps = [math.prod(counts[d + 1 :]) for d in range(len(counts))] + [0]
    rows, columns = (min(counts[d], 32) if d < len(counts) else 1 for d in (down, across))
    width, height = 96, 64
    cells = "".join(
        f'<rect x="{c * width / columns:.1f}" y="{r * height / rows:.1f}" width="{width / columns:.1f}"'
        f' height="{height / rows:.1f}" stroke="#fff" fill="{color(r * steps[down] + c * steps[across], total)}"/>'
        for r, c in itertools.product(range(rows), range(columns))
    )
    spec = ", ".join("·".join(a) if a else "–" for a in dims)
    kind = f"{list(shape)} ({spec})" if shape else "a number"
    if shape is None:  # of a sharding by itself
        kind = f"({spec})"
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return (
        f'<div class="value" title="{html.escape(", ".join(names))}"><b>{html.escape(names[0])}</b>{more}<br>{html.escape(kind)}<br>'
        f'<svg width="{width}" height="{height}" role="img" aria-label="shards">{cells}</svg> '
        f"{_holders_svg(dims, counts, mesh)}</div>"
    )


def mesh_html(mesh: AbstractMesh | Mesh) -> str:
    """Draw a mesh for notebooks."""
    return mesh_svg(_sizes(mesh))


def sharding_html(sharding: Any) -> str | None:
    """Draw the parts of any array under a `NamedSharding`; other shardings have no drawing."""
    spec = getattr(sharding, "spec", None)
    if spec is None:
        return None
    return value_html((None, _axes(spec, len(spec))), _sizes(sharding.mesh), [repr(spec)])


def placed_html(value: Any) -> str | None:
    """Draw an array, or the type of one, that is placed over several devices of a mesh."""
    try:
        sharding = value.sharding
    except NoMeshError:  # a type whose `P` waits for the mesh in context
        return None
    spec = getattr(sharding, "spec", None)
    if spec is None or sharding.mesh.size == 1:
        return None
    sizes = _sizes(sharding.mesh)
    name = f"{value.dtype} over {_axes_text(sizes)}"
    drawn = value_html((tuple(value.shape), _axes(spec, len(value.shape))), sizes, [name])
    return f'<pre style="font-family:monospace">{html.escape(repr(value))}</pre>{drawn}'


def _sizes(mesh: AbstractMesh | Mesh) -> dict[str, int]:
    return {str(name): size for name, size in mesh.shape.items()}


def _axes_text(sizes: dict[str, int]) -> str:
    return " × ".join(f"{name} = {size}" for name, size in sizes.items())


def _axes(spec: PartitionSpec, ndim: int) -> tuple[tuple[str, ...], ...]:
    """Return the mesh axes of each dimension."""
    padded = spec.padded(ndim)
    return tuple(tuple(map(str, padded.axes_of(d))) for d in range(ndim))


def _drawn(counts: list[int]) -> tuple[int, int]:
    """Return the dimensions that run down and across; split ones first, rank is none."""
    split = [d for d, count in enumerate(counts) if count > 1]
    none = len(counts)
    if len(split) > 1:
        return split[-2], split[-1]
    if not split:
        return none, none
    return (0, none) if split == [0] else (none, split[0])


def _holders_svg(dims, counts: list[int], mesh: dict[str, int]) -> str:
    """Return the mesh, each device in the colour of the shard that it holds."""
    sizes = list(mesh.values()) or [1]
    across, down = sizes[-1], math.prod(sizes[:-1])
    shown_across, shown_down = min(across, 16), min(down, 16)
    side = max(4, min(16, 64 // max(shown_across, shown_down)))
    cells = []
    for r, c in itertools.product(range(shown_down), range(shown_across)):
        tile = 0
        for axes, count in zip(dims, counts, strict=True):
            tile = tile * count + _coordinate(r * across + c, axes, mesh)
        cells.append(
            f'<rect x="{c * side}" y="{r * side}" width="{side - 1}" height="{side - 1}"'
            f' fill="{color(tile, math.prod(counts))}"/>'
        )
    return (
        f'<svg class="holders" width="{shown_across * side}" height="{shown_down * side}" role="img"'
        f' aria-label="devices by shard">{"".join(cells)}</svg>'
    )


def _coordinate(device: int, axes, mesh: dict[str, int]) -> int:
    """Return which shard of a dimension split over `axes` a mesh position holds."""
    total = 0
    for axis in axes:
        name, _, piece = axis.partition(":(")
        names = list(mesh)
        inner = math.prod(mesh[n] for n in names[names.index(name) + 1 :])
        at = device // inner % mesh[name]
        size = _axis_size(axis, mesh)
        if piece:
            at = at // (mesh[name] // (int(piece.split(")")[0]) * size)) % size
        total = total * size + at
    return total


def _axis_size(name: str, mesh: dict[str, int]) -> int:
    if ":(" in name:
        return int(name.rsplit(")", 1)[1])
    return mesh[name]
