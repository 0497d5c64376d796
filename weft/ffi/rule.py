"""Sharding rules of calls: Einstein-like factor mappings, as Shardy's op_sharding_rule."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.core.aval import ShapedArray


class ShardingRule:
    """Says along which dimensions a native call may run on shards.

    spec: one group of factor names for each operand and result, in order, as in
    'b i, b j -> b k': a factor that operands and results share passes a sharding through. Factors
    only in operands or only in results need their dimension whole, unless they are named in
    `reduction` (results of the shards are then added up). permutation: factors whose shards the
    call may see, though it exchanges data along them itself.

    Source: Shardy's `sdy.op_sharding_rule`.

    >>> import weft
    >>> weft.ffi.ShardingRule("b i, i j -> b j", reduction="i")
    ShardingRule('b i, i j -> b j', reduction=('i',))
    """

    __slots__ = ("need_replication", "operands", "permutation", "reduction", "results")

    operands: tuple[tuple[str, ...], ...]
    results: tuple[tuple[str, ...], ...]

    def __init__(
        self,
        spec: str,
        *,
        reduction: str | Iterable[str] = (),
        need_replication: str | Iterable[str] = (),
        permutation: str | Iterable[str] = (),
    ) -> None:
        if not isinstance(spec, str) or spec.count("->") != 1:
            raise ValueError(
                f"sharding_rule {spec!r}: write factors of operands and results with one '->', as "
                "in 'b i, b j -> b k'"
            )
        left, right = spec.split("->")
        self.operands = _groups(left)
        self.results = _groups(right)
        for f in (f for group in self.operands + self.results for f in group):
            if not f.isidentifier():
                raise ValueError(
                    f"sharding_rule {spec!r}: {f!r} is no name of a factor; separate names by "
                    "spaces and arrays by commas"
                )
        self.reduction = _names(reduction)
        self.need_replication = _names(need_replication)
        self.permutation = _names(permutation)
        for name in self.operands + self.results:
            if len(set(name)) != len(name):
                raise ValueError(f"sharding_rule {spec!r}: {' '.join(name)!r} repeats a factor")
        used = {f for group in self.operands + self.results for f in group}
        for kind in ("reduction", "need_replication", "permutation"):
            for f in getattr(self, kind):
                if f not in used:
                    raise ValueError(
                        f"sharding_rule {spec!r}: {kind} names {f!r}, which is no factor of it"
                    )
        in_results = {f for group in self.results for f in group}
        for f in self.reduction:
            if f in in_results:
                raise ValueError(
                    f"sharding_rule {spec!r}: {f!r} is summed over (reduction) and so cannot be a "
                    "dimension of a result"
                )

    def _key(self) -> tuple:
        return self.operands, self.results, self.reduction, self.need_replication, self.permutation

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShardingRule) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    @property
    def spec(self) -> str:
        def side(groups: tuple) -> str:
            return ", ".join(" ".join(g) for g in groups)

        return f"{side(self.operands)} -> {side(self.results)}"

    def __repr__(self) -> str:
        kinds = "".join(
            f", {k}={getattr(self, k)!r}"
            for k in ("reduction", "need_replication", "permutation")
            if getattr(self, k)
        )
        return f"ShardingRule({self.spec!r}{kinds})"

    def batched(self, operands: Sequence[bool]) -> ShardingRule:
        """Return the rule with a new leading factor on the batched operands and on all results."""
        used = {f for g in self.operands + self.results for f in g}
        name = next(n for n in (f"batch{i}" for i in range(len(used) + 1)) if n not in used)
        return self.regrouped(
            [(name, *g) if b else g for g, b in zip(self.operands, operands, strict=True)],
            [(name, *g) for g in self.results],
        )

    def regrouped(self, operands: Sequence[Any], results: Sequence[Any]) -> ShardingRule:
        """Return the rule with other groups of its factors, for a call derived from this one."""
        rule = object.__new__(ShardingRule)
        rule.operands, rule.results = tuple(operands), tuple(results)
        rule.reduction = self.reduction
        rule.need_replication, rule.permutation = self.need_replication, self.permutation
        return rule

    def fit(self, operands: int, results: int) -> ShardingRule:
        """Fit the rule to a call with so many arrays: a side without factors may be one scalar."""
        ins = ((),) if not self.operands and operands == 1 else self.operands
        outs = ((),) if not self.results and results == 1 else self.results
        if (ins, outs) == (self.operands, self.results):
            return self
        return self.regrouped(ins, outs)

    def leading_shared(self) -> int:
        """Return how many leading dimensions are the same passthrough factors in every array."""
        count = 0
        special = {*self.reduction, *self.need_replication, *self.permutation}
        for column in zip(*self.operands, *self.results, strict=False):
            if len(set(column)) > 1 or column[0] in special:
                break
            count += 1
        return count

    def splittable(self) -> set[str]:
        """Return the factors along which operands may be split."""
        ins = {f for g in self.operands for f in g}
        outs = {f for g in self.results for f in g}
        allowed = (ins & outs) | set(self.reduction) | set(self.permutation)
        return allowed - set(self.need_replication)

    def factor_text(self) -> str:
        """Write the rule as weft/sharding/factors.py reads it: `!` is whole, `+` is summed."""
        allowed, summed = self.splittable(), set(self.reduction)
        ins = {f for g in self.operands for f in g}

        def name(f: str, result: bool) -> str:
            if f in summed:
                return f"+{f}"
            if f in allowed:
                return f if f in ins else "*"
            return "*" if result else f"!{f}"

        def side(groups: tuple, result: bool) -> str:
            return ", ".join(" ".join(name(f, result) for f in g) for g in groups)

        return f"{side(self.operands, False)} -> {side(self.results, True)}"

    def sizes(self, operands: Sequence[Any], results: Sequence[Any], label: str) -> dict[str, int]:
        """Return each factor's size from the shapes; raise ValueError where they disagree."""
        by_factor: dict[str, int] = {}
        where: dict[str, str] = {}
        for kind, groups, avals in (
            ("operand", self.operands, operands),
            ("result", self.results, results),
        ):
            if len(groups) != len(avals):
                raise ValueError(
                    f"{label}: sharding_rule {self.spec!r} describes {len(groups)} {kind}s, the "
                    f"call has {len(avals)}"
                )
            for i, (group, aval) in enumerate(zip(groups, avals, strict=True)):
                if len(group) != len(aval.shape):
                    raise ValueError(
                        f"{label}: sharding_rule {self.spec!r} gives {kind} {i} the factors "
                        f"{' '.join(group)!r}, but its type is {aval.str_short()}; give one for "
                        "each dimension"
                    )
                for f, size in zip(group, aval.shape, strict=True):
                    if by_factor.setdefault(f, size) != size:
                        raise ValueError(
                            f"{label}: factor {f!r} of sharding_rule {self.spec!r} has size "
                            f"{by_factor[f]} in {where[f]} and {size} in {kind} {i}"
                        )
                    where.setdefault(f, f"{kind} {i}")
        return by_factor

    def text(self, operands: Sequence[Any], results: Sequence[Any], label: str) -> str:
        """Return the rule as an `sdy.op_sharding_rule` attribute."""
        sizes = self.sizes(operands, results, label)
        order = list(sizes)
        symbol = {f: _symbol(i) for i, f in enumerate(order)}

        def tensors(groups: tuple) -> str:
            return ", ".join("[" + ", ".join(symbol[f] for f in g) + "]" for g in groups)

        ins = {f for g in self.operands for f in g}
        outs = {f for g in self.results for f in g}
        alone = (ins ^ outs) - set(self.reduction) - set(self.permutation)
        replicated = [f for f in order if f in alone or f in self.need_replication]
        kinds = ""
        for kind, factors in (
            ("reduction", [f for f in order if f in self.reduction]),
            ("need_replication", replicated),
            ("permutation", [f for f in order if f in self.permutation]),
        ):
            if factors:
                kinds += f" {kind}={{{', '.join(symbol[f] for f in factors)}}}"
        listing = ", ".join(f"{symbol[f]}={sizes[f]}" for f in order)
        body = f"({tensors(self.operands)})->({tensors(self.results)})"
        return f"#sdy.op_sharding_rule<{body} {{{listing}}}{kinds}, custom>"


def _symbol(i: int) -> str:
    """Shardy's factor names: i … z, then z_1, z_2, …"""
    return chr(ord("i") + i) if i < 18 else f"z_{i - 17}"


def _groups(side: str) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(group.split()) for group in side.split(",")) if side.strip() else ()


def _names(value: str | Iterable[str]) -> tuple[str, ...]:
    if not isinstance(value, str | Iterable):
        raise TypeError(
            f"sharding_rule: factors are given as a string such as 'i j', or names, got {value!r}"
        )
    return tuple(value.split()) if isinstance(value, str) else tuple(value)


def as_rule(value: object) -> ShardingRule | None:
    if value is None or isinstance(value, ShardingRule):
        return value
    if isinstance(value, str):
        return ShardingRule(value)
    raise TypeError(
        f"sharding_rule must be a string such as 'b i -> b i' or a weft.ffi.ShardingRule, got "
        f"{type(value).__name__}"
    )


def batch_rule(
    operands: Sequence[Any], results: Sequence[Any], num_batch_dims: int
) -> ShardingRule:
    """Return the rule of a call whose leading dimensions are independent, others whole."""
    shape = results[0].shape[:num_batch_dims] if results else ()

    def group(kind: str, i: int, aval: ShapedArray) -> tuple[str, ...]:
        names = []
        for d in range(len(aval.shape)):
            shared = d < num_batch_dims and aval.shape[d] == shape[d]
            names.append(f"b{d}" if shared else f"{kind}{i}_{d}")
        return tuple(names)

    rule = object.__new__(ShardingRule)
    rule.operands = tuple(group("o", i, a) for i, a in enumerate(operands))
    rule.results = tuple(group("r", i, a) for i, a in enumerate(results))
    rule.reduction = rule.need_replication = rule.permutation = ()
    return rule
