# Tests: tests/ops/test_control.py, tests/ops/test_control_table.py
"""scan: a loop over leading axes, with a carry and stacked results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autodiff.shape import expand_dims, iota
from weft.autodiff.vmap import AxisData, move_dim, remove_dim
from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.boundary import api_boundary
from weft.core.config import config
from weft.core.errors import ArgumentError
from weft.core.masks import pick, unpick
from weft.core.provided import key_uses, use_operands
from weft.core.ref import AbstractRef
from weft.core.state import state
from weft.core.trace import typeof
from weft.core.tree import flatten
from weft.ops.control.common import (
    args_tree,
    avals_of,
    check_function,
    check_same_types,
    names_of,
    same_type,
    trace_body,
)
from weft.ops.control.divergence import vary
from weft.ops.control.scan_op import scan_p
from weft.ops.elementwise_api import convert
from weft.ops.joining import concatenate
from weft.ops.slicing import index_in_dim

if TYPE_CHECKING:
    from weft.core.tree import PyTreeDef
    from weft.refs.api import Ref
    from weft.typing import ArrayLike


def row_aval(aval: ShapedArray) -> ShapedArray:
    """Return the type of one slice along the leading axis."""
    return remove_dim(aval, 0)


def leading_size(xs: Sequence[Any], tree: PyTreeDef, length: int | None, api: str) -> int:
    sizes = []
    for i, aval in enumerate(avals_of(api, xs, names_of(tree, "xs"))):
        if not aval.shape:
            name = names_of(tree, "xs")()[i]
            raise ValueError(
                f"{api}: {name} is {aval.str_short()}, a scalar; every array of xs needs a leading "
                "axis to loop over. Pass values that do not change as part of the carry, or close "
                "over them"
            )
        sizes.append(aval.shape[0])
    if length is not None:
        try:
            length = length.__index__()
        except AttributeError:
            raise TypeError(f"{api}: length must be an int, got {length!r:.100}") from None
        if length < 0:
            raise ValueError(f"{api}: length must not be negative, got {length}")
    if len(set(sizes)) > 1 or (sizes and length is not None and length != sizes[0]):
        names = names_of(tree, "xs")()
        listing = ", ".join(f"{n} has {s}" for n, s in list(zip(names, sizes, strict=True))[:8])
        extra = f", but length is {length}" if length is not None else ""
        raise ValueError(
            f"{api}: the leading axes of xs must all have the number of iterations as their size: "
            f"{listing}{extra}"
        )
    if sizes:
        return sizes[0]
    if length is None:
        raise ValueError(f"{api}: xs has no arrays, so length must say how often to iterate")
    return length


def check_unroll(unroll: int, length: int, api: str) -> int:
    if unroll is True:
        return max(length, 1)
    if unroll is False:
        return 1
    if not isinstance(unroll, int | np.integer) or unroll < 0:
        raise ArgumentError(f"{api}: unroll must be a nonnegative int or a bool, got {unroll!r}")
    return max(length, 1) if unroll == 0 else int(unroll)


@api_boundary
def scan(
    f: Callable,
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    _split_transpose: bool = False,
) -> tuple[Any, Any]:
    """Loop over the leading axis of `xs`, carrying state and stacking results.

    Computes `carry, y = f(carry, x)` for every slice x and returns (last carry, stacked ys).

    Args:
      f: from (carry, slice of xs) to (carry, y); the carry keeps its structure and types.
      init: the first carry, a pytree.
      xs: a pytree of arrays of one leading size, or None. Of a `Ref`, f gets a ref to each row.
      length: the number of iterations; needed only if xs has no arrays.
      reverse: iterate from the last slice to the first; ys stay in the order of xs.
      unroll: iterations per step of the compiled loop; True unrolls it wholly.

    Raises:
      TypeError: f does not return a pair, or the carry changes its type (both are shown).
      ValueError: leading sizes differ (each is named), or length is missing.

    Works under every transformation. The reverse derivative keeps what an iteration's derivative
    needs; what does not change from iteration to iteration is kept once.

    >>> import weft
    >>> weft.lax.scan(lambda total, x: (total + x, total), 0.0, weft.numpy.arange(4.0))
    (Array(6., dtype=float32), Array([0., 0., 1., 3.], dtype=float32))
    """
    check_function("scan", "f", f)
    init_leaves, init_tree = flatten(init)
    xs_leaves, xs_tree = flatten(xs)
    if any(_holds_ref(x) for x in xs_leaves):
        f, xs = _over_rows(f, xs)
        xs_leaves, xs_tree = flatten(xs)
    n = leading_size(xs_leaves, xs_tree, length, "scan")
    unroll = check_unroll(unroll, n, "scan")
    if config.disable_jit and n:
        return _scan_in_python(f, init, xs_leaves, xs_tree, n, reverse)
    tree = args_tree(init, xs)
    x_avals = [row_aval(typeof(x)) for x in xs_leaves]
    carry, body, ys_tree = trace_with_carry(
        "scan", f, init_leaves, init_tree, x_avals, tree, _split_pair
    )
    if config.debug_key_reuse:
        use_operands("scan", [body], xs_leaves)
    outs = scan_p.bind(
        *body.consts,
        *carry,
        *xs_leaves,
        jaxpr=body.jaxpr,
        length=n,
        reverse=bool(reverse),
        unroll=unroll,
        num_consts=len(body.consts),
        num_carry=len(carry),
    )
    k = len(carry)
    return init_tree.unflatten(outs[:k]), ys_tree.unflatten(outs[k:])


def scan_rows(
    call: Callable, axis: AxisData, args: Sequence[Any], dims: Sequence[Any], unroll: int = 1
) -> tuple[list, list]:
    """Batch a call that takes no batches: make it for one row after the other."""
    batched = [d is not None for d in dims]
    moved = [x if d is None else move_dim(x, d, 0, axis) for x, d in zip(args, dims, strict=True)]

    def body(_: object, rows: list) -> tuple:
        return None, list(call(*unpick(rows, batched, moved)))

    _, outs = scan(body, None, pick(moved, batched), length=axis.size, unroll=unroll)
    return outs, [0] * len(outs)


def _holds_ref(x: ArrayLike) -> bool:
    """Tell whether a leaf of a tree is a ref or a placeholder of one."""
    return isinstance(getattr(x, "aval", None), AbstractRef)


def _over_rows(f: Callable, xs: object) -> tuple[Callable, Any]:
    """Return a body and xs without refs: in their places stand the numbers of their rows."""
    leaves, tree = flatten(xs, _holds_ref)

    def body(carry: object, x: object) -> Any:
        rows = zip(leaves, tree.flatten_up_to(x), strict=True)
        return f(carry, tree.unflatten([a.at[r] if _holds_ref(a) else r for a, r in rows]))

    def numbers(ref: Ref) -> Any:
        return iota("int32", ref.shape[0]) if ref.shape else 0

    return body, tree.unflatten([numbers(x) if _holds_ref(x) else x for x in leaves])


def _split_pair(out_tree: PyTreeDef, avals: Sequence[Any]) -> tuple[Any, Any]:
    """Return the trees of a body's carry and ys."""
    children = out_tree.children()
    node = out_tree.node_data()
    if node is None or node[0] not in (tuple, list) or len(children) != 2:
        raise TypeError(
            "scan: the body must return a pair (carry, y), got the structure "
            f"{out_tree}; return (carry, None) if there is nothing to stack"
        )
    return children[0], children[1]


def trace_with_carry(
    api: str,
    f: Callable,
    init: list,
    init_tree: Any,
    other_avals: Sequence[Any],
    tree: object,
    split: Callable[[Any, Sequence[Any]], tuple[Any, Any]],
    user_at: int | None = None,
) -> tuple[list, Any, Any]:
    """Trace a body whose result has the carry first; weak carries take the type it makes them.

    user_at: where in the carry the user's value is, if the rest is the loop's own. Returns the
    initial values, the body, and the tree of what follows the carry.
    """
    n = len(init)
    names = _carry_names(init_tree, user_at)
    # A carry that changes its weak type is traced again with the one that it becomes.
    uses = key_uses() if config.debug_key_reuse else None
    for _ in range(3 + n if state.spread else 3):
        if uses is not None:
            uses.restore()
        avals = avals_of(api, init, names)
        body = trace_body(f, tree, [*avals, *other_avals])
        carry_tree, rest_tree = split(body.out_tree, body.jaxpr.out_avals)
        if carry_tree != init_tree:
            want, got = init_tree, carry_tree
            if user_at is not None:
                want, got = want.children()[user_at], got.children()[user_at]
            raise TypeError(
                f"{api}: the body must return a carry of the structure it is given, but\n"
                f"  the carry has  {want}\n  the body gives {got}\n"
                "  Return the same containers and keys, or start with those that the body gives."
            )
        # Types are interned: the same object means that the carry keeps its type.
        got = body.jaxpr.out_avals[:n]
        if all(a is b for a, b in zip(avals, got, strict=True)):
            if uses is not None:
                uses.of_loop(api, body, init)
            return init, body, rest_tree
        new = []
        for x, a, b in zip(init, avals, got, strict=True):
            if (
                isinstance(a, ShapedArray)
                and a.weak_type
                and not (same_type(a, b) and b.weak_type)
                and a.shape == b.shape
            ):
                dtype, _ = dtypes.promote_types([(a.dtype, True), (b.dtype, b.weak_type)])
                x = _retyped(x, dtype, convert)
            # In shard_map a carry varies over all axes over which the body's result does.
            if state.spread and isinstance(b, ShapedArray):
                x = vary(x, b.mat.varying & state.spread)
            new.append(x)
        if all(x is y for x, y in zip(new, init, strict=True)):
            break
        init = new
    check_same_types(
        f"{api}: the carry must keep its type, but the body returns another one",
        avals,
        got,
        names,
        ("the initial value", "the body's result"),
    )
    return init, body, rest_tree


def _carry_names(tree: PyTreeDef, user_at: int | None) -> Callable[[], list[str]]:
    if user_at is None:
        return names_of(tree, "carry")

    def names() -> list[str]:
        carry_names = []
        for i, child in enumerate(tree.children()):
            carry_names += names_of(child, "carry" if i == user_at else "the loop's counter")()
        return carry_names

    return names


def _retyped(x: object, dtype: Any, convert: Callable) -> Any:
    if isinstance(x, bool | int | float | complex):
        return dtype.type(x)
    return convert(x, dtype, False)


def _scan_in_python(
    f: Callable, init: ArrayLike | None, xs: list, tree: PyTreeDef, n: int, reverse: bool
) -> tuple:
    """Return the loop op by op, for `disable_jit`."""
    carry, ys = init, []
    for i in reversed(range(n)) if reverse else range(n):
        x = tree.unflatten([index_in_dim(v, i, 0, keepdims=False) for v in xs])
        carry, y = f(carry, x)
        ys.append(y)
    if reverse:
        ys.reverse()
    leaves = [flatten(y)[0] for y in ys]
    stacked = [
        concatenate([expand_dims(v, (0,)) for v in col], 0) for col in zip(*leaves, strict=True)
    ]
    return carry, flatten(ys[0])[1].unflatten(stacked)


__all__ = ["scan", "scan_p"]
