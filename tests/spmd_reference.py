"""A NumPy model of an N-device machine: what every collective means.

A machine has named axes; a device is a tuple of coordinates. A value is a dict from device to that
device's array. Each function takes a value and returns one. Named axes of a mesh and of vmap are
the same here: a device is then one example on one device.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np

Value = dict[tuple[int, ...], np.ndarray]


class Machine:
    """Devices in a grid of named axes: Machine(x=4, y=2) has eight."""

    def __init__(self, **sizes: int) -> None:
        self.sizes = sizes
        self.names = tuple(sizes)
        self.devices = list(itertools.product(*(range(n) for n in sizes.values())))

    def index(self, device: tuple, axes: Sequence[str]) -> int:
        """The row-major index of a device along some axes."""
        result = 0
        for a in axes:
            result = result * self.sizes[a] + device[self.names.index(a)]
        return result

    def size(self, axes: Sequence[str]) -> int:
        return int(np.prod([self.sizes[a] for a in axes], dtype=int))

    def groups(self, axes: Sequence[str], groups: Sequence | None = None) -> list[list[tuple]]:
        """Lists of the devices that communicate, in rank order."""
        rest = [a for a in self.names if a not in axes]
        rows: dict[int, dict[int, tuple]] = {}
        for d in self.devices:
            rows.setdefault(self.index(d, rest), {})[self.index(d, axes)] = d
        groups = [range(self.size(axes))] if groups is None else groups
        return [[row[i] for i in g] for row in rows.values() for g in groups]

    def stack(self, value: Value) -> np.ndarray:
        """All devices' arrays as one, the axes in front."""
        first = next(iter(value.values()))
        out = np.empty((*self.sizes.values(), *first.shape), first.dtype)
        for d, x in value.items():
            out[d] = x
        return out

    def unstack(self, array: np.ndarray) -> Value:
        return {d: array[d] for d in self.devices}


def axes_of(axis: str | Sequence[str]) -> tuple[str, ...]:
    return (axis,) if isinstance(axis, str) else tuple(axis)


def _all(machine: Machine, value: Value, axis, groups, result: Callable) -> Value:
    """result(list of a group's arrays) is a list of what each member gets."""
    out: Value = {}
    for group in machine.groups(axes_of(axis), groups):
        for d, x in zip(group, result([value[d] for d in group]), strict=True):
            out[d] = np.asarray(x)
    return out


def _counted(xs: list[np.ndarray]) -> list[np.ndarray]:
    return [x.astype(np.int32) if x.dtype == bool else x for x in xs]


def psum(machine: Machine, value: Value, axis, groups=None) -> Value:
    def add(xs):
        xs = _counted(xs)
        return [np.sum(xs, axis=0, dtype=xs[0].dtype)] * len(xs)

    return _all(machine, value, axis, groups, add)


def pmean(machine: Machine, value: Value, axis, groups=None) -> Value:
    return _all(machine, value, axis, groups, lambda xs: [np.mean(xs, axis=0)] * len(xs))


def pmax(machine: Machine, value: Value, axis, groups=None) -> Value:
    return _all(machine, value, axis, groups, lambda xs: [np.max(xs, axis=0)] * len(xs))


def pmin(machine: Machine, value: Value, axis, groups=None) -> Value:
    return _all(machine, value, axis, groups, lambda xs: [np.min(xs, axis=0)] * len(xs))


def pargmax(machine: Machine, value: Value, axis) -> Value:
    return _all(machine, value, axis, None, lambda xs: [np.argmax(xs, axis=0)] * len(xs))


def pargmin(machine: Machine, value: Value, axis) -> Value:
    return _all(machine, value, axis, None, lambda xs: [np.argmin(xs, axis=0)] * len(xs))


def all_gather(machine: Machine, value: Value, axis, groups=None, dim=0, tiled=False) -> Value:
    join = np.concatenate if tiled else np.stack
    return _all(machine, value, axis, groups, lambda xs: [join(xs, dim)] * len(xs))


def psum_scatter(machine: Machine, value: Value, axis, groups=None, dim=0, tiled=False) -> Value:
    def scatter(xs):
        xs = _counted(xs)
        parts = np.split(np.sum(xs, axis=0, dtype=xs[0].dtype), len(xs), dim)
        return parts if tiled else [np.squeeze(p, dim) for p in parts]

    return _all(machine, value, axis, groups, scatter)


def all_to_all(machine: Machine, value: Value, axis, split, concat, groups=None, tiled=False):
    def exchange(xs):
        blocks = [np.split(x, len(xs), split) for x in xs]
        if tiled:
            return [np.concatenate([b[r] for b in blocks], concat) for r in range(len(xs))]
        return [np.stack([np.squeeze(b[r], split) for b in blocks], concat) for r in range(len(xs))]

    return _all(machine, value, axis, groups, exchange)


def pswapaxes(machine: Machine, value: Value, axis, dim, groups=None) -> Value:
    return all_to_all(machine, value, axis, dim, dim, groups)


def ppermute(machine: Machine, value: Value, axis, perm) -> Value:
    def permute(xs):
        out = [np.zeros_like(x) for x in xs]
        for source, target in perm:
            out[target] = xs[source]
        return out

    return _all(machine, value, axis, None, permute)


def pbroadcast(machine: Machine, value: Value, axis, source) -> Value:
    return _all(machine, value, axis, None, lambda xs: [xs[source]] * len(xs))


def axis_index(machine: Machine, value: Value, axis) -> Value:
    axes = axes_of(axis)
    return {d: np.int32(machine.index(d, axes)) for d in value}


def ragged_all_to_all(
    machine: Machine,
    operand: Value,
    output: Value,
    input_offsets: Value,
    send_sizes: Value,
    output_offsets: Value,
    recv_sizes: Value,
    axis,
    groups=None,
) -> Value:
    """Rows input_offsets[r] … + send_sizes[r] go to rank r, at output_offsets[r] there."""
    out = {d: x.copy() for d, x in output.items()}
    for group in machine.groups(axes_of(axis), groups):
        for sender in group:
            for r, receiver in enumerate(group):
                start, n = input_offsets[sender][r], send_sizes[sender][r]
                to = output_offsets[sender][r]
                out[receiver][to : to + n] = operand[sender][start : start + n]
    return out
