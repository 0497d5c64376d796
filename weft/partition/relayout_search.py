# Tests: tests/partition/test_reshard.py
"""Finds the way between two layouts that sends least: the A* algorithm over layouts.

A step cuts shards further (free), gathers, exchanges two dimensions (all_to_all), or permutes whole
shards. Slicing first and gathering last often saves most of what one gather would send.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator

import numpy as np

from weft.partition.axis_layout import Atoms, AxisLayout, DeviceMesh

Dims = tuple[Atoms, ...]

_MOST = 256  # layouts that a search looks at
_ELEMENT = 256  # costs are whole numbers of this part of an element


def cheapest(
    now: AxisLayout, target: AxisLayout, below: float, step: float
) -> tuple[AxisLayout, ...]:
    """Return layouts to pass one after the other, `target` last, or () where nothing sends less.

    Args:
      now, target: layouts that divide the shape evenly.
      below: elements that the way must cost less than.
      step: what one collective costs beside the elements that it sends, in elements.
    """
    if _least(now, target) >= below:
        return ()
    return tuple(
        AxisLayout(now.mesh, now.shape, dims) for dims in _search(now, target, below, step)
    )


def _least(now: AxisLayout, target: AxisLayout) -> int:
    """Return elements that some device lacks of its shard; no way sends less."""
    both = np.ones(now.mesh.size, np.int64)
    for d in range(len(now.shape)):
        first, last = (
            layout.mesh.coordinates(layout.dims[d]) * layout.local[d] for layout in (now, target)
        )
        inside = np.minimum(first + now.local[d], last + target.local[d]) - np.maximum(first, last)
        both *= np.maximum(inside, 0)
    return math.prod(target.local) - int(both.min())


def _search(now: AxisLayout, target: AxisLayout, below: float, step: float) -> tuple[Dims, ...]:
    mesh, shape, goal = now.mesh, now.shape, target.dims
    total = math.prod(shape)
    goal_size = total // math.prod(mesh.count(a) for a in goal)
    most, each = int(below * _ELEMENT), max(1, int(step * _ELEMENT))
    best = {now.dims: 0}
    made_from: dict[Dims, Dims] = {}
    done: set[Dims] = set()
    size = total // math.prod(mesh.count(a) for a in now.dims)
    queue = [(0, 0, 0, size, now.dims)]
    number = 0
    while queue and len(done) < _MOST:
        _, cost, _, local_size, dims = heapq.heappop(queue)
        if dims in done:
            continue
        done.add(dims)
        if dims == goal:
            way = [dims]
            while way[-1] in made_from:
                way.append(made_from[way[-1]])
            return tuple(reversed(way[:-1]))
        for after, sent, size in _steps(mesh, shape, goal, dims, local_size):
            more = cost + sent * _ELEMENT + each * bool(sent)
            # Each device has yet to receive what its shard is short of that of the goal.
            least = more + max(0, goal_size - size) * _ELEMENT
            if least < most and more < best.get(after, most):
                best[after] = more
                made_from[after] = dims
                number += 1
                heapq.heappush(queue, (least, more, number, size, after))
    return ()


def _steps(
    mesh: DeviceMesh, shape: tuple[int, ...], goal: Dims, dims: Dims, local_size: int
) -> Iterator[tuple[Dims, int, int]]:
    """List the layouts one step away, with the elements that each device sends and then holds."""
    used = {i for a in dims for i in a}
    counts = [mesh.count(a) for a in dims]
    for d, atoms in enumerate(dims):
        for i in range(len(mesh.atoms)):
            if i not in used and shape[d] % (counts[d] * mesh.atoms[i].size) == 0:
                size = local_size // mesh.atoms[i].size
                yield (*dims[:d], (*atoms, i), *dims[d + 1 :]), 0, size
        for k in range(len(atoms)):
            gone = atoms[k:]
            n = mesh.count(gone)
            left = (*dims[:d], atoms[:k], *dims[d + 1 :])
            yield left, local_size * (n - 1), local_size * n
            for other in range(len(dims)):
                if other != d and shape[other] % (counts[other] * n) == 0:
                    into = (*left[:other], left[other] + gone, *left[other + 1 :])
                    yield into, local_size * (n - 1) // n, local_size
    turned = _turned(mesh, goal, dims, counts)
    if turned is not None and turned != dims:
        yield turned, local_size, local_size


def _turned(mesh: DeviceMesh, goal: Dims, dims: Dims, counts: list[int]) -> Dims | None:
    """Return a layout of as many shards in each dimension, the goal's axes first."""
    wanted = {i for a in goal for i in a}
    rest = [i for a in dims for i in a if i not in wanted]
    rest += [i for i in range(len(mesh.atoms)) if i not in wanted and i not in rest]
    out: list[Atoms] = []
    for atoms, count in zip(goal, counts, strict=True):
        take: Atoms = ()
        n = 1
        for i in (*atoms, *rest):
            size = mesh.atoms[i].size
            if n * size <= count and count % (n * size) == 0 and not any(i in a for a in out):
                take, n = (*take, i), n * size
        if n != count:
            return None
        out.append(take)
    return tuple(out)
