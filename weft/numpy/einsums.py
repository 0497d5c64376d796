"""einsum: the subscripts are compiled once per shapes to a list of dot_generals."""

from __future__ import annotations

import functools
import string
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from weft.autodiff import shape as ops
from weft.core import dtypes
from weft.core.errors import ArgumentError
from weft.core.trace import typeof
from weft.numpy.common import canonical, cast, check_array, refuse_out, to_array
from weft.numpy.selection import diagonal
from weft.numpy.shaping import moveaxis
from weft.ops import reduce as reductions
from weft.ops.dot import dot_general, sharding_in_parts
from weft.ops.promote import promote
from weft.sharding.explicit import in_parts, placed, reshard

if TYPE_CHECKING:
    from weft.typing import ArrayLike, DTypeLike

Labels = tuple[str, ...]


class Single(NamedTuple):
    """Steps on one operand: drop size-1 dimensions, take diagonals, sum labels."""

    position: int
    labels: Labels  # before
    dropped: tuple[int, ...]
    summed: Labels
    result: Labels


class Pair(NamedTuple):
    """A dot_general of two operands, which leave the list; the product joins its end."""

    left: int
    right: int
    numbers: tuple
    result: Labels


class Plan(NamedTuple):
    steps: tuple[Single | Pair, ...]
    final: tuple[int, ...]  # permutation of the last result's dimensions
    shape: tuple[int, ...]


def _split_terms(subscripts: str, ranks: Sequence[int]) -> tuple[list[list[str]], list[str]]:
    """Return the labels of every operand and of the result; an ellipsis becomes numbered labels."""
    text = subscripts.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise ArgumentError(
            f"weft.numpy.einsum: {subscripts!r} has {len(terms)} terms for {len(ranks)} operands; "
            "write one term for each, separated by commas"
        )
    labels = []
    widest = 0
    # Dimensions under an ellipsis are counted from the last, as they broadcast.
    for i, (term, rank) in enumerate(zip(terms, ranks, strict=True)):
        before, dots, after = term.partition("...")
        if "." in before + after:
            raise ArgumentError(
                f"weft.numpy.einsum: misplaced dots in term {term!r} of "
                f"{subscripts!r}; an ellipsis is '...', once in a term"
            )
        for c in before + after:
            if not c.isalnum():
                raise ArgumentError(
                    f"weft.numpy.einsum: {c!r} in term {term!r} of {subscripts!r} is not "
                    "a letter or digit, by which dimensions are named"
                )
        extra = rank - len(before) - len(after)
        if extra < 0 or (extra and not dots):
            raise ArgumentError(
                f"weft.numpy.einsum: term {term!r} names {len(before) + len(after)} dimensions, "
                f"operand {i} has {rank}"
            )
        widest = max(widest, extra)
        labels.append([*before, *(f".{extra - k}" for k in range(extra)), *after])
    out: list[str]
    dots_labels = [f".{widest - k}" for k in range(widest)]
    if arrow:
        before, dots, after = right.partition("...")
        out = [*before, *(dots_labels if dots else ()), *after]
    else:
        # Without an arrow, the result has the letters that occur once, in alphabetical order.
        counts: dict[str, int] = {}
        for c in (c for names in labels for c in names):
            counts[c] = counts.get(c, 0) + 1
        named = sorted(c for c, n in counts.items() if n == 1 and c[0] != ".")
        out = [*dots_labels, *named]
    for c in out:
        if out.count(c) > 1:
            raise ArgumentError(
                f"weft.numpy.einsum: the result of {subscripts!r} names {c!r} "
                "twice; a diagonal is taken by repeating a letter in an operand's term"
            )
        if not any(c in names for names in labels):
            raise ArgumentError(
                f"weft.numpy.einsum: {c!r} of the result of {subscripts!r} is in no operand's term"
            )
    return labels, out


def _contraction_order(labels: list, shapes: Sequence, out: list, optimize: str) -> list:
    """Return pairs of positions to contract, by numpy's planner."""
    if len(labels) <= 2:
        return [tuple(range(len(labels)))]
    if isinstance(optimize, tuple):
        return [tuple(p) for p in optimize if not isinstance(p, str)]
    if optimize is False:
        return [(0, 1)] + [(0, n) for n in range(len(labels) - 2, 0, -1)]
    letters: dict[str, int] = {}
    terms = [[letters.setdefault(c, len(letters)) for c in term] for term in labels]
    interleaved: list[Any] = []
    for term, shape in zip(terms, shapes, strict=True):
        interleaved += [np.broadcast_to(np.float32(0), shape), term]
    method = "optimal" if len(labels) <= 6 and optimize != "greedy" else "greedy"
    if optimize in ("optimal", "greedy"):
        method = optimize
    path, _ = np.einsum_path(*interleaved, [letters[c] for c in out], optimize=method)
    return [tuple(p) for p in path[1:]]


@functools.lru_cache(maxsize=4096)
def make_plan(subscripts: str, shapes: tuple, optimize: Any) -> Plan:
    """Return the steps of an einsum for operands of these shapes."""
    labels, out = _split_terms(subscripts, [len(s) for s in shapes])
    sizes: dict[str, int] = {}
    for i, (term, shape) in enumerate(zip(labels, shapes, strict=True)):
        for c, n in zip(term, shape, strict=True):
            if sizes.setdefault(c, n) != n:
                if 1 not in (sizes[c], n):
                    raise ArgumentError(
                        f"weft.numpy.einsum: {c!r} in {subscripts!r} has size {n} in operand "
                        f"{i} and {sizes[c]} before"
                    )
                sizes[c] = max(sizes[c], n)
    steps: list[Single | Pair] = []
    current = [list(term) for term in labels]
    # A dimension of size 1 that is larger elsewhere broadcasts: it is dropped here.
    for i, (term, shape) in enumerate(zip(labels, shapes, strict=True)):
        dropped = tuple(
            d for d, (c, n) in enumerate(zip(term, shape, strict=True)) if n == 1 != sizes[c]
        )
        if dropped:
            kept = [c for d, c in enumerate(term) if d not in dropped]
            steps.append(Single(i, tuple(term), dropped, (), tuple(kept)))
            current[i] = kept
    # Each pair sums what neither the result nor a later operand needs.
    for positions in _contraction_order(current, shapes, out, optimize):
        group = sorted(positions, reverse=True)
        taken = [current[p] for p in group]
        rest = [t for p, t in enumerate(current) if p not in group]
        needed = {*out, *(c for t in rest for c in t)}
        while len(group) > 1:
            # numpy may contract several at once; taken from the back, pair by pair.
            j, i = group[0], group[1]
            others = needed | {c for t in taken[2:] for c in t}
            right, left = taken[0], taken[1]
            left = _alone(steps, i, left, others | set(right))
            right = _alone(steps, j, right, others | set(left))
            last = len(current) == 2
            i, j, left, right = _ordered(i, j, left, right, others, out if last else None)
            step = _contract(i, j, left, right, others)
            steps.append(step)
            current = [t for p, t in enumerate(current) if p not in (i, j)] + [list(step.result)]
            group = [len(current) - 1, *group[2:]]
            taken = [list(step.result), *taken[2:]]
        if len(current) == 1:
            current[0] = _alone(steps, 0, current[0], set(out))
    result = current[0]
    final = tuple(result.index(c) for c in out)
    return Plan(tuple(steps), final, tuple(sizes[c] for c in out))


def _alone(steps: list, index: int, labels: list, needed: set) -> list:
    """Return diagonals and sums that concern one operand; the labels it has then."""
    distinct = list(dict.fromkeys(labels))
    summed = tuple(c for c in distinct if c not in needed)
    if len(distinct) == len(labels) and not summed:
        return labels
    result = [c for c in distinct if c not in summed]
    steps.append(Single(index, tuple(labels), (), summed, tuple(result)))
    return result


def _free(labels: list, others: list) -> list:
    return [c for c in labels if c not in others]


def _ordered(i: int, j: int, left: list, right: list, needed: set, out: list | None) -> tuple:
    """Put the operands in the order in which the product's dimensions come out as wanted."""
    if out is not None:
        batch = [c for c in left if c in right and c in needed]
        swapped = [*batch, *_free(right, left), *_free(left, right)]
        if swapped == list(out) or (out[-1:] and out[-1] in left and out[-1] not in right):
            return j, i, right, left
    return i, j, left, right


def _contract(i: int, j: int, left: list, right: list, needed: set) -> Pair:
    batch = [c for c in left if c in right and c in needed]
    summed = [c for c in left if c in right and c not in needed]
    numbers = (
        (tuple(left.index(c) for c in summed), tuple(right.index(c) for c in summed)),
        (tuple(left.index(c) for c in batch), tuple(right.index(c) for c in batch)),
    )
    return Pair(i, j, numbers, (*batch, *_free(left, right), *_free(right, left)))


def _run_single(step: Single, x: ArrayLike) -> Any:
    labels = list(step.labels)
    if step.dropped:
        x = ops.squeeze(x, step.dropped)
        labels = [c for d, c in enumerate(labels) if d not in step.dropped]
    for c in dict.fromkeys(labels):
        while labels.count(c) > 1:
            a = labels.index(c)
            b = labels.index(c, a + 1)
            x = _diagonal(x, a, b)
            del labels[b]
    axes = tuple(d for d, c in enumerate(labels) if c in step.summed)
    if not axes:
        return x
    if typeof(x).dtype == dtypes.bool_:
        return reductions.reduce_or_p.bind(x, axes=axes)
    return reductions.reduce_sum_p.bind(x, axes=axes)


def _diagonal(x: ArrayLike, a: int, b: int) -> Any:
    """Return the elements at which two dimensions of one size agree, in the place of the first."""
    return moveaxis(diagonal(x, 0, a, b), -1, a)


def einsum(
    subscripts: object,
    /,
    *operands: Any,
    out: object = None,
    optimize: object = "auto",
    precision: object = None,
    preferred_element_type: DTypeLike | None = None,
    _dot_general: Any = dot_general,
    out_sharding: object = None,
) -> Any:
    """Sum products named by subscripts: 'ij,jk->ik' is the matrix product.

    subscripts: a string, or operands and lists of labels in turn. optimize: True, False,
    'optimal', 'greedy', or a path of pairs; the order of contractions. Raises ValueError where
    subscripts and shapes disagree. Source: numpy.einsum.

    >>> import weft
    >>> weft.numpy.einsum("ij,j->i", weft.numpy.ones((2, 3)), weft.numpy.arange(3.0))
    Array([3., 3.], dtype=float32)
    """
    refuse_out("einsum", out)
    if not isinstance(subscripts, str):
        subscripts, operands = _from_lists((subscripts, *operands))
    check_array("einsum", *operands)
    if out_sharding is not None:
        call = functools.partial(
            einsum,
            subscripts,
            optimize=optimize,
            precision=precision,
            preferred_element_type=preferred_element_type,
        )
        parts = in_parts(out_sharding, *operands)
        if parts is not None:
            return reshard(call(*operands, _dot_general=_in_parts(parts)), parts)
        return placed(functools.partial(call, _dot_general=_dot_general), out_sharding, *operands)
    preferred = canonical(preferred_element_type, "einsum")
    if isinstance(optimize, list):
        optimize = tuple(tuple(p) if isinstance(p, list) else p for p in optimize)
    plan = make_plan(subscripts, tuple(typeof(x).shape for x in operands), optimize)
    xs = list(promote(*operands))
    # A product of another library may compute in other types: it is told the result's.
    wanted = (
        preferred if _dot_general is dot_general or preferred is not None else typeof(xs[0]).dtype
    )
    for step in plan.steps:
        if isinstance(step, Pair):
            left, right = xs[step.left], xs[step.right]
            product = _dot_general(left, right, step.numbers, precision, wanted)
            xs = [x for p, x in enumerate(xs) if p != step.left and p != step.right]
            xs.append(product)
        else:
            xs[step.position] = _run_single(step, xs[step.position])
    x = xs[0]
    if plan.final != tuple(range(len(plan.final))):
        x = ops.transpose_p.bind(x, permutation=plan.final)
    if preferred is not None:
        x = cast(x, preferred)
    return to_array(x)


def _in_parts(wanted: Any) -> Any:
    """dot_general for the products whose sum the wanted unreduced axes split."""

    def dot(x: Any, y: Any, numbers: Any, precision: Any, preferred: Any) -> Any:
        parts = sharding_in_parts(typeof(x), typeof(y), numbers)
        if parts is not None and parts.spec.unreduced != wanted.spec.unreduced:
            parts = None
        return dot_general(x, y, numbers, precision, preferred, out_sharding=parts)

    return dot


def _from_lists(args: tuple) -> tuple[str, tuple]:
    """Return the form einsum(a, [0, 1], b, [1, 2], [0, 2]) as a string."""
    operands = args[: len(args) // 2 * 2 : 2]
    lists = [*args[1 : len(args) // 2 * 2 : 2]]
    names: dict[Any, str] = {}
    letters = string.ascii_lowercase + string.ascii_uppercase
    every = [label for labels in lists for label in labels if label is not Ellipsis]
    for label in sorted(set(every), key=lambda v: (str(type(v)), v)):
        names[label] = letters[len(names)]

    def text(labels: Any) -> str:
        return "".join("..." if v is Ellipsis else names[v] for v in labels)

    subscripts = ",".join(text(labels) for labels in lists)
    if len(args) % 2:
        subscripts += "->" + text(args[-1])
    return subscripts, operands


def einsum_path(
    subscripts: object, /, *operands: object, optimize: object = "auto"
) -> tuple[list, str]:
    """Return the order in which einsum contracts, and numpy's account of its cost.

    >>> import weft.numpy as wnp
    >>> wnp.einsum_path("ij,jk,k->i", wnp.ones((2, 3)), wnp.ones((3, 4)), wnp.ones(4))[0]
    [(1, 2), (0, 1)]
    """
    if not isinstance(subscripts, str):
        subscripts, operands = _from_lists((subscripts, *operands))
    shapes = [typeof(x).shape for x in operands]
    stand_ins = [np.broadcast_to(np.float32(0), s) for s in shapes]
    method = optimize if optimize in (False, True, "greedy", "optimal") else "optimal"
    path, account = np.einsum_path(subscripts, *stand_ins, optimize=method)
    return [tuple(p) for p in path[1:]], account
