"""Explicit shardings of results: each op's dimensions as factors, and one rule over all of them.

A *factor* is an index that runs through dimensions of operands and results: a matrix product is
`"i k, k j -> i j"`. An op's rule only names its factors (`Primitive.sharding`: a short name of
`RULES`, or a function returning such text). What follows is the same for all ops:

* A factor takes the mesh axes of the operand dimensions that it stands for. Unsplit dimensions
  agree with anything; two different splits conflict.
* A result dimension takes the axes of its factors.
* A factor that two operands split and no result has is a sum over devices, whose result could be
  placed in several ways: the program must say how.

In the text a dimension is a factor, `(a b)` for a dimension made of several (the first outermost),
`!a` for one that must not be split, `+a` for one that a reduction removes, `*` for one that is
free, `1` for one of size 1. An operand without dimensions is empty.

Source: Shardy's documentation, "Sharding representation" and "Propagation" (op sharding rules).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.errors import PartialSumError, ShardingTypeError
from weft.core.typing import join_shardings, linear_operands
from weft.sharding.mesh import axes_text
from weft.sharding.named import NamedSharding
from weft.sharding.spec import PartitionSpec

if TYPE_CHECKING:
    from weft.core.primitive import Primitive
    from weft.ops.gather import GatherDimensionNumbers
    from weft.ops.scatter import ScatterDimensionNumbers
    from weft.sharding.mesh import AbstractMesh

Dim = tuple[str, ...]  # factors of a dimension, the first outermost; "!" first: must be whole
Factors = tuple[tuple[tuple[Dim, ...], ...], tuple[tuple[Dim, ...], ...]]  # operands, results

# The rules by name --------------------------------------------------------------------------------


def _names(prefix: str, n: int) -> list[str]:
    return [f"{prefix}{i}" for i in range(n)]


def _text(operands: Sequence[Sequence[str]], results: Sequence[Sequence[str]]) -> str:
    return " -> ".join(", ".join(" ".join(x) for x in side) for side in (operands, results))


def _elementwise(avals: Sequence[Any], outs: Sequence[Any], **_: object) -> str:
    """Equal dimensions, or scalars; a bitcast holds its narrower elements in a last dimension."""
    n = max((a.ndim for a in (*avals, *outs)), default=0)
    least = min((a.ndim for a in (*avals, *outs) if a.ndim), default=0)
    dims = [f"d{i}" if i < least else "*" for i in range(n)]
    return _text([dims[: a.ndim] for a in avals], [dims[: o.ndim] for o in outs])


def _broadcast(
    avals: list, outs: list, *, shape: tuple, broadcast_dimensions: tuple, **_: object
) -> str:
    (x, *rest), result = avals, ["*"] * len(shape)
    operand = []
    for i, d in enumerate(broadcast_dimensions):
        same = x.shape[i] == shape[d]
        operand.append(f"d{i}" if same else "1")
        if same:
            result[d] = f"d{i}"
    return _text([operand, *([] for _ in rest)], [result])


def _reshape(avals: list, outs: list, **_: object) -> str:
    """Share factors between dimensions, from the outermost, while their sizes share divisors."""
    old, new = avals[0].shape, outs[0].shape
    left, right = [["1"] if n == 1 else [] for n in old], [["1"] if n == 1 else [] for n in new]
    if 0 in old:
        return _text([["!*"] * len(old)], [["*"] * len(new)])
    i = j = count = 0
    a = b = 1  # what is left of old[i - 1] and new[j - 1]
    while True:
        while a == 1 and i < len(old):
            a, i = old[i], i + 1
        while b == 1 and j < len(new):
            b, j = new[j], j + 1
        if a == 1:
            break
        size = math.gcd(a, b)
        if size > 1:
            left[i - 1].append(f"f{count}={size}")
            right[j - 1].append(f"f{count}={size}")
            a, b, count = a // size, b // size, count + 1
        if a > 1 and b > 1:  # mixed up from here to where both products are equal again
            left[i - 1].append("!*")
            right[j - 1].append("*")
            while a != b:
                if a < b:
                    a, i = a * old[i], i + 1
                else:
                    b, j = b * new[j], j + 1
            a = b = 1
    return _text([_dims(left)], [_dims(right)])


def _dims(dims: list[list[str]]) -> list[str]:
    return [d[0] if len(d) == 1 else f"({' '.join(d)})" if d else "!*" for d in dims]


def _transpose(avals: list, outs: list, *, permutation: tuple) -> str:
    dims = _names("d", avals[0].ndim)
    return _text([dims], [[dims[p] for p in permutation]])


def _reduce(
    avals: list, outs: list, *, axes: tuple | None = None, dimensions: Any = None, **_: object
) -> str:
    axes = axes if axes is not None else dimensions
    axes = (axes,) if isinstance(axes, int) else axes
    dims = [f"+d{i}" if i in axes else f"d{i}" for i in range(max(a.ndim for a in avals))]
    kept = [d for i, d in enumerate(dims) if i not in axes]
    return _text([dims[: a.ndim] for a in avals], [kept[: o.ndim] for o in outs])


def _whole(avals: list, outs: list, whole: Sequence[int]) -> str:
    """Elementwise but in some dimensions, which must not be split; scalars are left alone."""
    n = max(a.ndim for a in avals)
    ins = [f"!d{i}" if i in whole else f"d{i}" for i in range(n)]
    dims = ["*" if i in whole else f"d{i}" for i in range(n)]
    return _text([ins[: a.ndim] for a in avals], [dims[: o.ndim] for o in outs])


def _sort(
    avals: list, outs: list, *, dimension: int | None = None, axis: int | None = None, **_: object
) -> str:
    along = dimension if axis is None else axis
    assert along is not None, "sorts name a dimension"
    return _whole(avals, outs, (along,))


def _fft(avals: list, outs: list, *, fft_lengths: tuple, **_: object) -> str:
    n = avals[0].ndim
    return _whole(avals, outs, range(n - len(fft_lengths), n))


def _batches(rank: int) -> Callable:
    """Share factors of batches of matrices or vectors (some operands have a lower rank)."""

    def rule(avals: list, outs: list, *, num_batch: int | None = None, **_: object) -> str:
        if num_batch is None:
            num_batch = max(0, max(a.ndim for a in (*avals, *outs)) - rank)
        dims = _names("b", num_batch)
        return _text(
            [[*dims, *["!*"] * (a.ndim - num_batch)][: a.ndim] for a in avals],
            [[*dims, *["*"] * (o.ndim - num_batch)][: o.ndim] for o in outs],
        )

    return rule


def _gather(
    avals: list,
    outs: list,
    *,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: tuple,
    **_: object,
) -> str:
    d = dimension_numbers
    x, indices = avals
    batch = dict(zip(d.operand_batching_dims, d.start_indices_batching_dims, strict=True))
    positions = [f"i{k}" for k in range(indices.ndim - 1)]
    dropped = {*d.collapsed_slice_dims, *batch}
    full = [slice_sizes[i] == x.shape[i] for i in range(x.ndim)]
    operand = [
        positions[batch[i]] if i in batch else f"w{i}" if full[i] and i not in dropped else "!*"
        for i in range(x.ndim)
    ]
    window = iter([f"w{i}" if full[i] else "*" for i in range(x.ndim) if i not in dropped])
    rest = iter(positions)
    result = [next(window) if k in d.offset_dims else next(rest) for k in range(outs[0].ndim)]
    return _text([operand, [*positions, "!*"]], [result])


def _scatter(
    avals: list,
    outs: list,
    *,
    dimension_numbers: ScatterDimensionNumbers,
    update_shape: tuple = (),
    **_: object,
) -> str:
    d = dimension_numbers
    n = len(outs)
    x, indices = avals[0], avals[n]
    batch = dict(zip(d.operand_batching_dims, d.scatter_indices_batching_dims, strict=True))
    positions = [f"i{k}" for k in range(indices.ndim - 1)]
    dropped = {*d.inserted_window_dims, *batch}
    rows = [i for i in range(x.ndim) if i not in dropped]
    updates_like = avals[n + 1].shape if len(avals) > n + 1 else update_shape
    sizes = dict(zip(rows, d.update_window_dims, strict=True))
    full = {i: updates_like[sizes[i]] == x.shape[i] for i in rows}
    operand = [
        positions[batch[i]] if i in batch else f"w{i}" if full.get(i) else "!*"
        for i in range(x.ndim)
    ]
    result = ["*" if name == "!*" else name for name in operand]
    window = iter([f"w{i}" if full[i] else "!*" for i in rows])
    rest = iter(positions)
    updates = [
        next(window) if k in d.update_window_dims else next(rest) for k in range(len(updates_like))
    ]
    ins = [operand] * n + [[*positions, "!*"]] + [updates] * (len(avals) - n - 1)
    return _text(ins, [result] * n)


def _dynamic_slice(avals: list, outs: list, **_: object) -> str:
    dims = _names("d", avals[0].ndim)
    return _text([dims, *([] for _ in avals[1:])], [dims])


def _dynamic_update_slice(avals: list, outs: list, **_: object) -> str:
    dims = _names("d", avals[0].ndim)
    return _text([dims, dims, *([] for _ in avals[2:])], [dims])


def _replicated(avals: Any, outs: Any, **_: object) -> str:
    return _text([["*"] * a.ndim for a in avals], [["*"] * o.ndim for o in outs])


def _unruled(avals: list, outs: list, **_: object) -> str:
    return _text([["!*"] * a.ndim for a in avals], [["*"] * o.ndim for o in outs])


RULES: dict[str, Callable[..., str]] = {
    "elementwise": _elementwise,
    "broadcast_in_dim": _broadcast,
    "reshape": _reshape,
    "transpose": _transpose,
    "reduce": _reduce,
    # These keep the dimensions' order and meaning while sizes may change.
    "concatenate": _elementwise,
    "pad": _elementwise,
    "rev": _elementwise,
    "slice": _elementwise,
    "split": _elementwise,
    "cumulative": _elementwise,
    "window": _elementwise,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "gather": _gather,
    "scatter": _scatter,
    "scatter_apply": _scatter,
    "sort": _sort,
    "fft": _fft,
    "vectors": _batches(1),
    "matrices": _batches(2),
    "batched_custom_call": _batches(2),
    "replicated": _replicated,
    "whole": _unruled,
}
"""Rules that `Primitive.sharding` names: (avals, outs, **params) -> the op's factors as text."""


@functools.lru_cache(maxsize=4096)
def parse_factors(text: str) -> tuple[Factors, dict[str, int]]:
    """Return the factors of operands and results, and the sizes of those that give one (`f=4`).

    >>> from weft.sharding.factors import parse_factors
    >>> parse_factors("i k, k j -> i j")[0][1]
    ((('i',), ('j',)),)
    """
    left, arrow, right = text.partition("->")
    if not arrow:
        raise ValueError(f"sharding rule {text!r} needs operands and results around '->'")
    sizes: dict[str, int] = {}

    def dims(part: str) -> tuple[Dim, ...]:
        result: list[Dim] = []
        group: list[str] | None = None
        for word in part.replace("(", " ( ").replace(")", " ) ").split():
            if word == "(":
                group = []
            elif word == ")":
                result.append(tuple(group or ()))
                group = None
            else:
                name, _, size = word.partition("=")
                if size:
                    sizes[name] = int(size)
                if group is None:
                    result.append((name,))
                else:
                    group.append(name)
        return tuple(result)

    sides = tuple(tuple(dims(p) for p in side.split(",")) for side in (left, right))
    return sides, sizes  # type: ignore[return-value]


# From factors to shardings ------------------------------------------------------------------------


class _Join:
    """Result shardings of one op on operands of given types."""

    def __init__(
        self, name: str, avals: Sequence[Any], mesh: AbstractMesh, factors: Factors, sizes: dict
    ):
        self.name, self.avals, self.mesh = name, avals, mesh
        self.operands, self.results = factors
        self.sizes = sizes
        self.axes: dict[str, tuple] = {}
        self.owner: dict[str, int] = {}
        self.split_by: dict[str, int] = {}

    def fail(self, problem: str, fix: str) -> ShardingTypeError:
        listing = ", ".join(a.str_short() for a in self.avals)
        return ShardingTypeError(f"{self.name} of {listing}: {problem}. {fix}")

    def take(self, i: int) -> None:
        """Assign operand i's axes to its factors, to the outermost as many as its size holds."""
        aval = self.avals[i]
        for dim, names in enumerate(self.operands[i]):
            left = aval.sharding.spec.axes_of(dim)
            if names[0] in ("1", "*"):
                continue
            for name in names:
                if not left:
                    break
                if name[0] == "!":
                    raise self.ambiguous(i, dim)
                size = self.sizes.get(name)
                if size is None:
                    self.give(name, left, i)
                    left = ()
                    break
                count = 0
                while count < len(left) and size % self.mesh.shape[left[count]] == 0:
                    size //= self.mesh.shape[left[count]]
                    count += 1
                self.give(name, left[:count], i)
                left = left[count:]
                if size > 1:
                    break
            if left:
                raise self.ambiguous(i, dim)

    def give(self, name: str, axes: tuple, i: int) -> None:
        if not axes:
            return
        old = self.axes.get(name)
        if old is None:
            self.axes[name], self.owner[name], self.split_by[name] = axes, i, 1
        elif old == axes:
            self.split_by[name] += 1
        else:
            first = self.avals[self.owner[name]].str_short()
            raise self.fail(
                f"{first} and {self.avals[i].str_short()} split dimensions that must match over "
                f"different mesh axes, {_axes(old)} and {_axes(axes)}",
                f"Move one first: weft.reshard(x, {self.avals[self.owner[name]].sharding.spec})",
            )

    def ambiguous(self, i: int, dim: int) -> ShardingTypeError:
        aval = self.avals[i]
        axes = aval.sharding.spec.axes_of(dim)
        return self.fail(
            f"dimension {dim} of {aval.str_short()} is split over {_axes(axes)} and the op needs "
            "it whole, or its result could be split in more than one way",
            f"Say which: give out_sharding=P(...), or join it first with weft.reshard(x, "
            f"{_spec(aval, dim)}), or let the partitioner choose inside weft.sharding.auto_axes",
        )

    def check_sums(self) -> None:
        kept = {name for result in self.results for names in result for name in names}
        for name, count in self.split_by.items():
            if count > 1 and name not in kept and name[0] != "+":
                raise self.fail(
                    f"both operands split the dimension that is summed over, by mesh axis "
                    f"{_axes(self.axes[name])}, so the result can be placed in more than one way",
                    "Say how: give out_sharding=P(...) (P() adds the parts up), or weft.reshard "
                    "one operand so that the dimension is whole",
                )

    def result(self, dims: tuple[Dim, ...], aval: ShapedArray) -> NamedSharding:
        entries = []
        used: dict[Any, int] = {}
        for d, names in enumerate(dims):
            axes: tuple = ()
            for position, name in enumerate(names):
                factor_axes = self.axes.get(name, ())
                if factor_axes and not all(self.axes.get(n) for n in names[:position]):
                    raise self.fail(
                        f"result dimension {d} of size {aval.shape[d]} would be split inside only, "
                        f"over {_axes(factor_axes)}",
                        "Give out_sharding=P(...), or weft.reshard the operand first",
                    )
                axes += factor_axes
            for axis in axes:
                if axis in used:
                    raise self.fail(
                        f"dimensions {used[axis]} and {d} of the result would both be split over "
                        f"mesh axis {axis!r}",
                        "Join one of them first with weft.reshard(x, P(...)), or give "
                        "out_sharding=P(...)",
                    )
                used[axis] = d
            parts = math.prod(self.mesh.shape[a] for a in axes)
            if aval.shape[d] % parts:
                raise self.fail(
                    f"result dimension {d} would have size {aval.shape[d]}, which is not divisible "
                    f"by the {parts} parts of mesh axis {_axes(axes)}",
                    "Join the operand's dimension first with weft.reshard(x, P(...)), choose a "
                    "size that divides, or index with x.at[...] and out_sharding=P(...)",
                )
            entries.append(axes or None)
        return NamedSharding(self.mesh, PartitionSpec(*entries))


def _axes(axes: Sequence[Any]) -> str:
    return ", ".join(map(repr, axes))


def _spec(aval: ShapedArray, dim: int) -> PartitionSpec:
    """Return the operand's spec with one dimension whole."""
    entries = list(aval.sharding.spec.padded(aval.ndim))
    entries[dim] = None
    return PartitionSpec(*entries)


def result_shardings(name: str, rule: Any, avals: Any, outs: Any, params: dict) -> list:
    """Return the shardings of an op's results, from its operands' types (None: replicated).

    Raises ShardingTypeError where operands conflict or the result is ambiguous; the text says
    which operands, dimensions and axes, and what to write.
    """
    mesh = None
    typed = []
    for i, a in enumerate(avals):
        if a.sharding is None:
            continue
        if mesh is None:
            mesh = a.sharding.mesh
        elif a.sharding.mesh is not mesh:
            raise ShardingTypeError(
                f"{name} of {', '.join(x.str_short() for x in avals)}: the operands are on "
                f"different meshes, {mesh!r} and {a.sharding.mesh!r}. Move one with "
                f"weft.reshard(x, NamedSharding(mesh, spec)) so that all are on ({axes_text(mesh)})"
            )
        if a.sharding.spec.axes and a.sharding.spec.used_axes():
            typed.append(i)
    if not typed:
        return [NamedSharding(mesh, PartitionSpec(*(None,) * o.ndim)) for o in outs]
    if rule is None:
        rule = _unruled
    elif isinstance(rule, str):
        rule = RULES[rule]
    text = rule(avals, outs, **params)
    if not isinstance(text, str):
        return list(text)  # shardings that the op's parameters give
    assert mesh is not None  # of the typed operands
    factors, sizes = parse_factors(text)
    join = _Join(name, avals, mesh, factors, sizes)
    for i in typed:
        join.take(i)
    join.check_sums()
    return [join.result(dims, o) for dims, o in zip(factors[1], outs, strict=True)]


def join(prim: Primitive, avals: Sequence[Any], outs: Any, params: dict[str, Any]) -> Any:
    """Return result types with explicit shardings; core/typing.py calls this for such operands."""
    many = prim.multiple_results
    results = list(outs) if many else [outs]
    unreduced, reduced = _partial_axes(prim, avals, params)
    shardings = result_shardings(prim.name, prim.sharding, avals, results, params)
    if unreduced or reduced:
        shardings = [
            s.with_spec(s.spec.update(unreduced=unreduced, reduced=reduced - s.spec.used_axes()))
            for s in shardings
        ]
    typed = [o.update(sharding=s) for o, s in zip(results, shardings, strict=True)]
    return typed if many else typed[0]


def _partial_axes(
    prim: Primitive, avals: Sequence[ShapedArray], params: dict[str, Any]
) -> tuple[frozenset, frozenset]:
    """Return the unreduced and reduced axes that pass through the op.

    A product of matrices hands on no reduced axis: the cotangents that it gives to a reduced
    operand are partial sums already, over the axis that splits the other operand.
    """
    specs = [a.sharding.spec if a.sharding is not None else None for a in avals]
    partial = [s for s in specs if s is not None and (s.unreduced or s.reduced)]
    if not partial:
        return frozenset(), frozenset()
    unreduced = frozenset().union(*(s.unreduced for s in partial))
    reduced = frozenset().union(*(s.reduced for s in partial))
    if unreduced and not _is_additive(prim, avals, unreduced, params):
        listing = ", ".join(a.str_short() for a in avals)
        raise PartialSumError(
            f"{prim.name} of {listing}: an operand is a partial sum, unreduced over mesh axis "
            f"{_axes(sorted(unreduced, key=str))}, and the op is not additive in all its operands. "
            "Add the parts up first: weft.reshard(x, P(...)) without unreduced axes"
        )
    if reduced and prim.name != "dot_general":
        _check_reduced(prim, avals, reduced)
    return unreduced, frozenset() if prim.name == "dot_general" else reduced - unreduced


def _check_reduced(prim: Primitive, avals: Sequence[ShapedArray], reduced: frozenset) -> None:
    """Raise ShardingTypeError for an operand reduced over an axis beside one replicated over it.

    The result's cotangent would be a partial sum, and so the reduced operand's; the other operand
    needs a whole one.
    """
    for a in avals:
        if a.sharding is None or not a.ndim or not dtypes.is_inexact(a.dtype):
            continue
        spec = a.sharding.spec
        missing = reduced - spec.reduced - spec.unreduced - spec.used_axes()
        if missing:
            axis = _axes(sorted(missing, key=str))
            listing = ", ".join(x.str_short() for x in avals)
            raise ShardingTypeError(
                f"{prim.name} of {listing}: one operand is reduced over mesh axis {axis} and "
                f"another, {a.str_short()}, is replicated there, so that their cotangents would "
                "not agree. Make both reduced, weft.reshard(x, P(..., reduced={...})), or split "
                "the replicated one over the axis"
            )


def _is_additive(
    prim: Primitive, avals: Sequence[ShapedArray], unreduced: frozenset, params: dict[str, Any]
) -> bool:
    """Tell whether the op of partial sums is the partial sum of what the op gives on the whole."""
    specs = [a.sharding.spec if a.sharding is not None else None for a in avals]
    partial = [i for i, s in enumerate(specs) if s is not None and s.unreduced]
    split = any(s is not None and not s.unreduced and s.used_axes() & unreduced for s in specs)
    if split:
        return False
    if len(partial) == 1 and partial[0] in prim.bilinear:
        return True
    linear = linear_operands(prim, avals, params)
    same = all(specs[i].unreduced == unreduced for i in partial)  # type: ignore[union-attr]
    whole_too = prim.mixes or all(i in partial for i in linear)
    return same and whole_too and all(i in linear for i in partial)


join_shardings[:] = [join]
