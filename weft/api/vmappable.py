# Tests: tests/autodiff/test_vmap.py
"""Types that vmap maps as wholes: how their arrays are taken out and put back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from weft.core.trace import typeof
from weft.core.tree import OutTree, broadcast_prefix, flatten, tree_map

if TYPE_CHECKING:
    from weft.core.tree import PyTreeDef

VMAPPABLES: dict[type, Vmappable] = {}
"""Type -> how it is mapped. Few types are: vmap looks for them only once there is one."""

_specs: set[type] = set()


class Vmappable(NamedTuple):
    """to_elt(part, size, x, axis): x without the axis, its arrays replaced by part(array, axis).

    from_elt(whole, size, x, axis): x with the axis put in, its arrays whole(size, array, axis).
    """

    to_elt: Callable
    from_elt: Callable


def register_vmappable(
    data_type: type,
    spec_type: type,
    axis_size_type: type,
    to_elt: Callable,
    from_elt: Callable,
    make_iota: Callable | None = None,
) -> None:
    """Tell vmap how it maps values of a type; entries of in_axes and out_axes are of spec_type."""
    VMAPPABLES[data_type] = Vmappable(to_elt, from_elt)
    _specs.add(spec_type)


def unregister_vmappable(data_type: type) -> None:
    """Forget how vmap maps values of a type."""
    VMAPPABLES.pop(data_type, None)


def is_vmappable(x: object) -> bool:
    """Return whether vmap maps x as a whole."""
    return type(x) in VMAPPABLES


class Opened:
    """The arguments of a mapped function as arrays, each with its axis, and the results again."""

    def __init__(self, args: tuple, kwargs: dict, in_axes: Any) -> None:
        self.leaves, self.tree = flatten((args, kwargs), is_vmappable)
        arg_tree = flatten(args, is_vmappable)[1]
        self.specs = broadcast_prefix(in_axes, arg_tree, "vmap: in_axes", is_spec)
        self.specs += [0] * (len(self.leaves) - len(self.specs))
        self.arrays: list = []
        self.axes: list = []

        def part(array: object, axis: object) -> Any:
            self.arrays.append(array)
            self.axes.append(axis)
            return array

        self._elements(part, None)
        full = flatten((args, kwargs))[1]
        # What names the arrays in messages.
        fits = full.num_leaves == len(self.arrays)
        self.names: PyTreeDef = full if fits else flatten((tuple(self.arrays), {}))[1]

    def _elements(self, part: Callable, size: int | None) -> list:
        return [
            x
            if d is None and is_vmappable(x)
            else VMAPPABLES[type(x)].to_elt(part, size, x, d)
            if is_vmappable(x)
            else part(x, d)
            for x, d in zip(self.leaves, self.specs, strict=True)
        ]

    def flat_fun(self, fun: Callable, out_axes: object, size: int) -> tuple[Callable, OutTree]:
        """Return the function of arrays, and where it leaves the tree of its results."""
        out = OutTree()
        self.wanted: list = []

        def flat(*tracers: object) -> list:
            rest = iter(tracers)
            args, kwargs = self.tree.unflatten(self._elements(lambda *_: next(rest), size))
            self.results, self.out_tree = flatten(fun(*args, **kwargs), is_vmappable)
            self.out_specs = broadcast_prefix(out_axes, self.out_tree, "vmap: out_axes", is_spec)
            arrays: list = []

            def whole(_: object, array: object, axis: object) -> Any:
                arrays.append(array)
                self.wanted.append(axis)
                return array

            self._wholes(whole, size)
            as_they_are = not any(map(is_vmappable, self.results))  # messages name parts by it
            out.tree = self.out_tree if as_they_are else flatten(arrays)[1]
            # Types say enough of them later; traced values must not outlive the trace.
            typed = lambda v: v if is_vmappable(v) else typeof(v)
            skeleton = lambda x: tree_map(typed, x) if is_vmappable(x) else None
            self.results = list(map(skeleton, self.results))
            return arrays

        return flat, out

    def _wholes(self, whole: Callable, size: int) -> list:
        return [
            VMAPPABLES[type(x)].from_elt(whole, size, x, d)
            if is_vmappable(x)
            else whole(size, x, d)
            for x, d in zip(self.results, self.out_specs, strict=True)
        ]

    def close(self, arrays: Sequence[Any], size: int) -> Any:
        """Return the results, as the function gave them, of their arrays."""
        rest: Iterator = iter(arrays)
        return self.out_tree.unflatten(self._wholes(lambda *_: next(rest), size))


def is_spec(x: object) -> bool:
    """Return whether x is an axis, not a container of axes."""
    return type(x) in _specs
