# Tests: tests/api/test_remat.py, tests/api/test_remat_inside.py
"""Policies of checkpoint: which intermediate values are kept instead of computed again.

A policy is a function `policy(primitive, *operand types, **params)` that returns whether the
results of such an equation are kept. It may return an `Offload` instead of True: then they are
kept in another memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.core.aval import ShapedArray
    from weft.core.primitive import Primitive

Policy = Callable[..., Any]


class Offload:
    """Keep the value, moved to memory `dst` until the backward pass takes it back to `src`."""

    __slots__ = ("dst", "src")

    def __init__(self, src: str, dst: str) -> None:
        self.src = src
        self.dst = dst

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Offload) and (self.src, self.dst) == (other.src, other.dst)

    def __hash__(self) -> int:
        return hash((self.src, self.dst))

    def __repr__(self) -> str:
        return f"Offload(src={self.src!r}, dst={self.dst!r})"


def everything_saveable(prim: Primitive, *_: ShapedArray, **params: object) -> bool:
    """Keep everything: as without checkpoint."""
    return True


def nothing_saveable(prim: Primitive, *_: ShapedArray, **params: object) -> bool:
    """Keep the inputs only; the default."""
    return False


_PRODUCTS = frozenset(("dot_general", "conv_general_dilated", "ragged_dot_general"))


def dots_saveable(prim: Primitive, *_: ShapedArray, **params: object) -> bool:
    """Keep matrix products and convolutions."""
    return prim.name in _PRODUCTS


def dots_with_no_batch_dims_saveable(prim: Primitive, *_: ShapedArray, **params: Any) -> bool:
    """Keep matrix products without batch dimensions, such as those with weights."""
    if prim.name != "dot_general":
        return False
    _, (lhs_batch, rhs_batch) = params["dimension_numbers"]
    return not lhs_batch and not rhs_batch


checkpoint_dots = dots_saveable
checkpoint_dots_with_no_batch_dims = dots_with_no_batch_dims_saveable


class _Names:
    """A policy by the names that `checkpoint_name` gave; equal for equal names."""

    __slots__ = ("key", "names", "other", "rest")

    def __init__(self, names: frozenset, other: dict, rest: bool | str) -> None:
        self.names = names
        self.other = other  # Offload by name
        self.rest = rest  # whether to keep what has another name, or, with `rest`, no name
        self.key = (names, tuple(sorted(other.items())) if other else (), rest)

    def __call__(self, prim: Primitive, *_: object, **params: object) -> Any:
        if prim.name != "name":
            return self.rest == "anything"
        name = params["name"]
        if name in self.names:
            return not self.rest
        if name in self.other:
            return self.other[name]
        return bool(self.rest)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Names) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return f"policy by name {sorted(self.names) or sorted(self.other)}"


def _check_names(api: str, names: Sequence) -> frozenset:
    for n in names:
        if not isinstance(n, str):
            raise TypeError(
                f"checkpoint_policies.{api}: names are strings, got {n!r}; pass them one by one, "
                f"{api}('a', 'b')"
            )
    return frozenset(names)


def save_only_these_names(*names_which_can_be_saved: str) -> Policy:
    """Keep only values named so by `checkpoint_name`."""
    return _Names(_check_names("save_only_these_names", names_which_can_be_saved), {}, False)


def save_any_names_but_these(*names_not_to_save: str) -> Policy:
    """Keep values that have names, but not these."""
    return _Names(_check_names("save_any_names_but_these", names_not_to_save), {}, "names")


def save_anything_except_these_names(*names_not_to_save: str) -> Policy:
    """Keep everything but values of these names."""
    return _Names(
        _check_names("save_anything_except_these_names", names_not_to_save), {}, "anything"
    )


def save_and_offload_only_these_names(
    *,
    names_which_can_be_saved: Any,
    names_which_can_be_offloaded: Any,
    offload_src: str,
    offload_dst: str,
) -> Policy:
    """Keep values of some names, and those of others in another memory.

    offload_src, offload_dst: memory kinds, such as 'device' and 'pinned_host'.
    """
    api = "save_and_offload_only_these_names"
    saved = _check_names(api, names_which_can_be_saved)
    offloaded = _check_names(api, names_which_can_be_offloaded)
    if saved & offloaded:
        raise ValueError(
            f"checkpoint_policies.{api}: {sorted(saved & offloaded)} stand in both lists"
        )
    move = Offload(offload_src, offload_dst)
    return _Names(saved, dict.fromkeys(offloaded, move), False)


class _OffloadDots:
    __slots__ = ("move",)

    def __init__(self, move: Offload) -> None:
        self.move = move

    def __call__(self, prim: Any, *avals: Any, **params: Any) -> Any:
        return self.move if dots_with_no_batch_dims_saveable(prim, *avals, **params) else False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _OffloadDots) and self.move == other.move

    def __hash__(self) -> int:
        return hash(self.move)


def offload_dot_with_no_batch_dims(offload_src: str, offload_dst: str) -> Policy:
    """Keep matrix products without batch dimensions in another memory."""
    return _OffloadDots(Offload(offload_src, offload_dst))


class _Either:
    __slots__ = ("policies",)

    def __init__(self, policies: tuple) -> None:
        self.policies = policies

    def __call__(self, prim: Primitive, *avals: object, **params: object) -> Any:
        for policy in self.policies:
            kept = policy(prim, *avals, **params)
            if kept:
                return kept
        return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Either) and self.policies == other.policies

    def __hash__(self) -> int:
        return hash(self.policies)


def save_from_both_policies(policy_1: Policy, policy_2: Policy) -> Policy:
    """Keep what either policy keeps."""
    return _Either((policy_1, policy_2))
