"""Refs in reverse mode: as arguments of `vjp`, and to add cotangents up in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from weft._xla import pytree
from weft.autodiff.jvp import cotangent_aval
from weft.core.source import wraps
from weft.core.tree import flatten, names_in
from weft.refs.api import new_ref

if TYPE_CHECKING:
    from weft.core.tree import PyTreeDef


class _Mark:
    """A word about one cotangent. All of a kind are equal."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class GradValue(_Mark):
    """Given in place of a ref: return the cotangent."""

    __slots__ = ()


class DontWant(_Mark):
    """Given in place of a ref: the cotangent is not needed."""

    __slots__ = ()


class GradRef(_Mark):
    """Returned in place of a cotangent that was added to a ref."""

    __slots__ = ()


class DidntWant(_Mark):
    """Returned in place of a cotangent that was not wanted."""

    __slots__ = ()


class NotNeeded(_Mark):
    """Stands for an argument that the backward pass does not read."""

    __slots__ = ()


class NotSaveable(_Mark):
    """Stands for an argument that the backward pass reads, but that was not to be kept."""

    __slots__ = ()


for _kind in (GradRef, DidntWant, NotNeeded, NotSaveable):  # a jitted function may return them
    pytree.register_node(_kind, lambda mark: ((), None), lambda _, __, kind=_kind: kind())


def is_mark(x: object) -> bool:
    return isinstance(x, _Mark)


def is_ref(x: object) -> bool:
    return hasattr(type(x), "ref_aval")


def check_refs(api: str, in_tree: PyTreeDef, in_avals: Sequence[Any], refs: tuple) -> list:
    """Return the refs and marks for the flat inputs."""
    leaves, tree = flatten(refs, lambda x: is_ref(x) or is_mark(x))
    if tree != in_tree:
        raise ValueError(
            f"{api}: the refs must have the structure of the primals, {in_tree}, got {tree}; give "
            "weft.ad.GradValue() or weft.ad.DontWant() where there is no ref"
        )
    for i, (ref, aval) in enumerate(zip(leaves, in_avals, strict=True)):
        if isinstance(ref, GradValue | DontWant):
            continue
        name = names_in(in_tree, "refs")[i]
        if not is_ref(ref):
            raise TypeError(
                f"{api}: {name} must be a Ref, weft.ad.GradValue() or weft.ad.DontWant(), got "
                f"{type(ref).__name__}"
            )
        want = cotangent_aval(aval)
        if (ref.shape, ref.dtype) != (want.shape, want.dtype):
            raise TypeError(
                f"{api}: {name} must hold {want.str_short()}, the cotangent's type, got a "
                f"{ref.aval.str_short()}"
            )
    return leaves


def on_values(
    fun: Callable, primals: tuple, has_aux: bool
) -> tuple[Callable, tuple, list[int], Callable]:
    """`fun` of what the refs among the primals hold, as a function of arrays.

    Returns it, the primals with values for refs, the flat positions of these, and a function that
    takes the auxiliary output: it writes to the refs what they hold at the end.
    """
    leaves, tree = flatten(primals, is_ref)
    refs = [i for i, x in enumerate(leaves) if is_ref(x)]
    if len({id(leaves[i]._handle) for i in refs}) < len(refs):
        raise ValueError("vjp: the same Ref is given twice; pass it once")
    values = tuple(tree.unflatten([x[...] if is_ref(x) else x for x in leaves]))

    @wraps(fun)
    def of_values(*args: object) -> Any:
        flat, inner = flatten(args)
        refs_by_position = {i: new_ref(flat[i]) for i in refs}
        out = fun(*inner.unflatten([refs_by_position.get(i, x) for i, x in enumerate(flat)]))
        out, aux = out if has_aux else (out, None)
        return out, (aux, [refs_by_position[i][...] for i in refs])

    def finish(aux_and_values: tuple) -> Any:
        aux, ref_values = aux_and_values
        for i, x in zip(refs, ref_values, strict=True):
            leaves[i][...] = x
        return aux

    return of_values, values, refs, finish
