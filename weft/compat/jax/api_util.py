# Tests: tests/compat/test_as_jax.py
"""jax.api_util: flattening functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from weft.compat.jax._src.util import safe_map
from weft.compat.jax.core import DebugInfo
from weft.compat.linear_util import Store, WrappedFun, transformation_with_aux2
from weft.core.tree import broadcast_prefix
from weft.driver.staging import aval_of_spec as shaped_abstractify
from weft.tree_util import PyTreeDef, tree_flatten, tree_unflatten

__all__ = [
    "argnums_partial",
    "debug_info",
    "donation_vector",
    "flatten_axes",
    "flatten_fun",
    "flatten_fun_nokwargs",
    "rebase_donate_argnums",
    "safe_map",
    "shaped_abstractify",
]


@transformation_with_aux2
def flatten_fun(f: Callable, store: Store, in_tree: PyTreeDef, *leaves: float) -> list:
    """Return the function of the leaves of `(args, kwargs)`; aside: its result's tree."""
    args, kwargs = tree_unflatten(in_tree, leaves)
    out, tree = tree_flatten(f(*args, **kwargs))
    store.store(tree)
    return out


@transformation_with_aux2
def flatten_fun_nokwargs(f: Callable, store: Store, in_tree: PyTreeDef, *leaves: object) -> list:
    """Return the same, of the leaves of the arguments."""
    out, tree = tree_flatten(f(*tree_unflatten(in_tree, leaves)))
    store.store(tree)
    return out


def debug_info(
    traced_for: str, fun: Callable, args: Sequence[Any] = (), kwargs: object = None, **_: object
) -> DebugInfo:
    name = getattr(fun, "__name__", repr(fun))
    return DebugInfo(traced_for, name, None, None)


def flatten_axes(name: str, treedef: PyTreeDef, axis_tree: object, **_: object) -> list:
    """Return one entry for each leaf, of a tree prefix."""
    return broadcast_prefix(axis_tree, treedef, name)


def argnums_partial(
    f: WrappedFun, dyn_argnums: int | Sequence[int], args: Sequence[Any], **_: object
) -> tuple[WrappedFun, tuple]:
    """Return the function of some of its arguments, the others fixed, and those arguments."""
    chosen = (dyn_argnums,) if isinstance(dyn_argnums, int) else tuple(dyn_argnums)
    chosen = tuple(i % len(args) for i in chosen)

    def partial(inner: Callable, *dynamic: object, **kwargs: object) -> Any:
        rest: Iterator = iter(dynamic)
        return inner(*(next(rest) if i in chosen else a for i, a in enumerate(args)), **kwargs)

    return f.wrap2(partial, (), None), tuple(args[i] for i in chosen)


def rebase_donate_argnums(donate: Sequence[int], static: Sequence[int]) -> tuple[int, ...]:
    """Return positions among the arguments that are not static."""
    return tuple(sorted(i - sum(s < i for s in static) for i in donate))


def donation_vector(
    donate_argnums: Sequence[int], donate_argnames: Sequence[str], in_tree: PyTreeDef, **_: object
) -> tuple[bool, ...]:
    """Return whether each leaf of `(args, kwargs)` is donated."""
    args, kwargs = in_tree.children()
    mask = [i in donate_argnums for i, c in enumerate(args.children()) for _ in range(c.num_leaves)]
    data = kwargs.node_data() if kwargs.num_leaves else None
    names = () if data is None else data[1]
    pairs = zip(names, kwargs.children(), strict=True)
    mask += [n in donate_argnames for n, c in pairs for _ in range(c.num_leaves)]
    return tuple(mask)
