# Tests: tests/test_tree.py
"""Pytrees for the transformations: flattening arguments, matching prefixes, naming leaves."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from weft._xla import pytree
from weft._xla.pytree import PyTreeDef, flatten
from weft.core.errors import ArgumentError

if TYPE_CHECKING:
    from weft.typing import ArrayLike

__all__ = ["PyTreeDef", "broadcast_prefix", "flatten", "flatten_fun", "key_path", "tree_map"]

_LEAF = flatten(0)[1]


def _register_dicts() -> None:
    """OrderedDict keeps its order; defaultdict sorts its keys, as dict does."""

    def keyed(keys: Sequence, d: dict) -> tuple:
        return tuple((pytree.DictKey(k), d[k]) for k in keys)

    pytree.register_node(
        OrderedDict,
        lambda d: (tuple(d.values()), tuple(d)),
        lambda keys, values: OrderedDict(zip(keys, values, strict=True)),
        lambda d: (keyed(tuple(d), d), tuple(d)),
    )

    def sorted_keys(d: defaultdict) -> tuple:
        return d.default_factory, tuple(sorted(d))

    pytree.register_node(
        defaultdict,
        lambda d: (tuple(d[k] for k in sorted(d)), sorted_keys(d)),
        lambda data, values: defaultdict(data[0], zip(data[1], values, strict=True)),
        lambda d: (keyed(sorted(d), d), sorted_keys(d)),
    )


_register_dicts()


class OutTree:
    """Where a flattened function leaves the tree of its result."""

    __slots__ = ("tree",)

    tree: PyTreeDef


def flatten_fun(fun: Callable, in_tree: PyTreeDef) -> tuple[Callable[..., list], OutTree]:
    """`fun(*args, **kwargs)` as a function of flat leaves; in_tree is that of `(args, kwargs)`."""
    out = OutTree()

    def flat_fun(*leaves: ArrayLike) -> list:
        args, kwargs = in_tree.unflatten(leaves)
        outs, out.tree = flatten(fun(*args, **kwargs))
        return outs

    return flat_fun, out


def tree_map(f: Callable, tree: object, *rest: object, is_leaf: Callable | None = None) -> Any:
    leaves, treedef = flatten(tree, is_leaf)
    columns = [leaves, *(treedef.flatten_up_to(r) for r in rest)]
    return treedef.unflatten([f(*xs) for xs in zip(*columns, strict=True)])


def broadcast_prefix(
    prefix: Any, tree: PyTreeDef, label: str, is_leaf: Callable | None = None
) -> list:
    """Return one entry of `prefix` per leaf of `tree`, where prefix is a tree prefix of it.

    `label` names the argument in the error when it is not. None is an entry, not a subtree.
    """

    def leaf(x: object) -> bool:
        return x is None or (is_leaf is not None and is_leaf(x))

    entries, prefix_tree = flatten(prefix, leaf)
    if prefix_tree == _LEAF:
        return entries * tree.num_leaves
    full = tree.unflatten([object() for _ in range(tree.num_leaves)])
    try:
        subtrees = prefix_tree.flatten_up_to(full)
    except (ValueError, TypeError):
        raise ArgumentError(
            f"{label} must be a pytree prefix of the values it stands for, but "
            + (
                _first_difference(prefix, full, leaf, label.split()[-1])
                or f"its structure {prefix_tree} does not match theirs, {tree}"
            )
            + "; a prefix has one entry in the place of a whole subtree, or the subtree's own "
            "containers"
        ) from None
    result = []
    for entry, subtree in zip(entries, subtrees, strict=True):
        result += [entry] * len(flatten(subtree)[0])
    return result


def _first_difference(
    prefix: Sequence | dict, full: object, leaf: Callable, path: str
) -> str | None:
    """Return where a tree of tuples, lists and dicts is no prefix of another, in words."""
    if leaf(prefix) or not isinstance(prefix, tuple | list | dict):
        return None
    if type(prefix) is not type(full):
        kind = f"a {type(full).__name__}" if isinstance(full, tuple | list | dict) else "one leaf"
        return f"{path} is a {type(prefix).__name__} where the values have {kind}"
    if isinstance(prefix, dict):
        if set(prefix) != set(full):
            return f"{path} has the keys {list(prefix)} where the values have {list(full)}"
        pairs: Any = [(f"[{k!r}]", prefix[k], full[k]) for k in prefix]
    else:
        if len(prefix) != len(full):
            return f"{path} has {len(prefix)} entries where the values have {len(full)}"
        pairs = [(f"[{i}]", p, f) for i, (p, f) in enumerate(zip(prefix, full, strict=True))]
    differences = (_first_difference(p, f, leaf, path + key) for key, p, f in pairs)
    return next(filter(None, differences), None)


def key_path(path: Sequence[Any]) -> str:
    """Return a leaf's path as Python writes it: `[0]['w'].bias`."""
    return "".join(map(str, path))


def leaf_names(tree: object, root: str = "") -> list[str]:
    """Return a name for every leaf of a tree, for messages."""
    leaves, _ = pytree.flatten_with_path(tree)
    return [root + key_path(path) for path, _ in leaves]


def names_in(tree: PyTreeDef, root: str = "") -> list[str]:
    """Act as `leaf_names`, of any tree with this structure."""
    try:
        return leaf_names(tree.unflatten([object() for _ in range(tree.num_leaves)]), root)
    except Exception:  # a node of the user's may take arrays only
        return [f"{root} (leaf {i})" for i in range(tree.num_leaves)]


def arg_names(fun: Callable, in_tree: PyTreeDef, statics: Sequence[int] = ()) -> list[str]:
    """Return the names of the flat arguments of `fun` called with `(args, kwargs)` of this tree.

    statics: positions of arguments that are not in the tree.
    """
    args, kwargs = in_tree.children()
    children = args.children()
    positions = position_names(fun, len(children) + len(statics))
    roots = [name for i, name in enumerate(positions) if i not in statics]
    if kwargs.num_leaves:  # in the order of their names, whatever the signature's
        roots += kwargs.node_data()[1]
        children += kwargs.children()
    return [n for root, child in zip(roots, children, strict=True) for n in names_in(child, root)]


def position_names(fun: Callable, n: int) -> list[str]:
    """Return names of the first n positional arguments of a function, else `args[i]`."""
    import inspect

    try:
        parameters = list(inspect.signature(fun).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    named = [p.name for p in parameters if p.kind in kinds][:n]
    rest = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "args")
    return named + [f"{rest}[{i}]" for i in range(n - len(named))]
