"""Adding cotangents up in refs: what `with_refs` of a function that vjp gives does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft._xla import pytree
from weft.core.boundary import api_boundary
from weft.core.tree import flatten, names_in
from weft.transforms.jvp import cotangent_aval, has_tangent


class _Mark:
    """A word about one cotangent. All of a kind are equal."""

    __slots__ = ()

    def __eq__(self, other: Any) -> bool:
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


for _kind in (GradRef, DidntWant):  # a jitted function may return them
    pytree.register_node(_kind, lambda mark: ((), None), lambda _, __, kind=_kind: kind())


def _is_ref(x: Any) -> bool:
    return hasattr(type(x), "ref_aval")


def into_refs(
    f_vjp: Callable, who: str, in_tree: Any, in_avals: Sequence[Any], refs: tuple
) -> Callable[[Any], Any]:
    """`f_vjp` whose results are added to the refs."""
    leaves, tree = flatten(refs, _is_ref)
    if tree != in_tree:
        raise ValueError(
            f"{who}: the refs must have the structure of the primals, {in_tree}, got {tree}; give "
            "weft.ad.GradValue() or weft.ad.DontWant() where there is no ref"
        )
    for i, (ref, aval) in enumerate(zip(leaves, in_avals, strict=True)):
        name = names_in(in_tree, "refs")[i]
        if isinstance(ref, GradValue | DontWant):
            continue
        if not _is_ref(ref):
            raise TypeError(
                f"{who}: {name} must be a Ref, weft.ad.GradValue() or weft.ad.DontWant(), got "
                f"{type(ref).__name__}"
            )
        want = cotangent_aval(aval)
        if (ref.shape, ref.dtype) != (want.shape, want.dtype):
            raise TypeError(
                f"{who}: {name} must hold {want.str_short()}, the cotangent's type, got a "
                f"{ref.aval.str_short()}"
            )

    @api_boundary
    def add_up(cts: Any) -> Any:
        found = flatten(f_vjp(cts))[0]
        results: list = []
        for ref, ct, aval in zip(leaves, found, in_avals, strict=True):
            if isinstance(ref, GradValue):
                results.append(ct)
            elif isinstance(ref, DontWant):
                results.append(DidntWant())
            else:
                if has_tangent(aval):
                    ref.addupdate(ct)
                results.append(GradRef())
        return in_tree.unflatten(results)

    return add_up
