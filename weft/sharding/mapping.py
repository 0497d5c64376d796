"""Sharding rules of operations, as users write them: the factors of every operand's dimensions.

`"... i k, k j -> ... i j"` names an index for each dimension. Dimensions with one name are split
alike; `...` stands for the leading dimensions that are left, `(a b)` for one that is made of two.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

BATCHING = "…"
"""Stands for the leading dimensions in an `ArrayMapping`; `…1` for those of another group."""

_NAME = re.compile(r"[^\W\d_]\w*")
_TOKEN = re.compile(r"\s*(?:\.\.\.(?P<group>\d*)|(?P<name>\w+)|(?P<mark>[(),])|(?P<wrong>\S))")


def _is_batching(factor: str) -> bool:
    return factor[:1] == BATCHING and (len(factor) == 1 or factor[1:].isdigit())


def _check_name(factor: object, api: str) -> None:
    if not isinstance(factor, str) or not _NAME.fullmatch(factor):
        raise ValueError(
            f"{api}: {factor!r} is no name of a factor, which begins with a letter and has letters,"
            " digits and underscores"
        )


class CompoundFactor(tuple):
    """The factors of one dimension that is made of several, the outermost first.

    >>> CompoundFactor("batch", "heads")
    CompoundFactor('batch', 'heads')
    """

    __slots__ = ()

    def __new__(cls, *factors: str) -> CompoundFactor:
        if len(factors) < 2:
            raise ValueError(
                f"CompoundFactor{factors!r}: give two factors at least; one is written as a string"
            )
        for factor in factors:
            _check_name(factor, "CompoundFactor")
        return super().__new__(cls, factors)

    def __repr__(self) -> str:
        return f"CompoundFactor({', '.join(map(repr, self))})"


class ArrayMapping(tuple):
    """The factors of an operand's or result's dimensions: names, `CompoundFactor`s, and in front
    `BATCHING` for any number of leading dimensions.

    >>> ArrayMapping(BATCHING, CompoundFactor("b", "c"), "d")
    ArrayMapping('…', CompoundFactor('b', 'c'), 'd')
    """

    __slots__ = ()

    def __new__(cls, *dim_mappings: str | CompoundFactor) -> ArrayMapping:
        for position, dim in enumerate(dim_mappings):
            if isinstance(dim, CompoundFactor):
                continue
            if isinstance(dim, str) and _is_batching(dim):
                if position:
                    raise ValueError(
                        f"ArrayMapping: dimension {position} is {dim!r}; leading dimensions stand "
                        "in front"
                    )
                continue
            _check_name(dim, f"ArrayMapping: dimension {position}")
        return super().__new__(cls, dim_mappings)

    def __repr__(self) -> str:
        return f"ArrayMapping({', '.join(map(repr, self))})"

    @property
    def text(self) -> str:
        """Write the mapping in the syntax of sharding rules."""
        words = []
        for dim in self:
            if isinstance(dim, CompoundFactor):
                words.append(f"({' '.join(dim)})")
            else:
                words.append(dim.replace(BATCHING, "..."))
        return " ".join(words)


class SdyShardingRule:
    """Says how the dimensions of an operation's operands and results are split together.

    operand_mappings, result_mappings: an `ArrayMapping`, or a tuple of names, for each array.
    reduction_factors: indices that the operation sums over, so that split operands give partial
    sums. need_replication_factors: those along which nothing may be split. permutation_factors:
    those along which it exchanges data between devices. factor_sizes: the sizes of factors that
    stand in compound dimensions only.

    Raises:
      ValueError: a factor that no mapping uses, that has two kinds, or whose size is missing or
      follows from a dimension.

    Source: Shardy's `sdy.op_sharding_rule`.

    >>> SdyShardingRule((("i", "k"), ("k", "j")), (("i", "j"),), reduction_factors=("k",))
    SdyShardingRule('i k, k j -> i j', reduction_factors=('k',))
    """

    __slots__ = (
        "factor_sizes",
        "need_replication_factors",
        "operand_mappings",
        "permutation_factors",
        "reduction_factors",
        "result_mappings",
    )

    def __init__(
        self,
        operand_mappings: tuple[ArrayMapping, ...],
        result_mappings: tuple[ArrayMapping, ...],
        *,
        reduction_factors: tuple[str, ...] = (),
        need_replication_factors: tuple[str, ...] = (),
        permutation_factors: tuple[str, ...] = (),
        **factor_sizes: int,
    ) -> None:
        self.operand_mappings = tuple(ArrayMapping(*m) for m in operand_mappings)
        self.result_mappings = tuple(ArrayMapping(*m) for m in result_mappings)
        self.factor_sizes = factor_sizes
        self.reduction_factors = reduction_factors
        self.need_replication_factors = need_replication_factors
        self.permutation_factors = permutation_factors
        whole = {d for m in self._mappings for d in m if isinstance(d, str)}
        used = whole | {f for m in self._mappings for d in m for f in _factors(d)}
        self._check_sizes(whole, used)
        self._check_kinds(used)

    def _check_sizes(self, whole: set[str], used: set[str]) -> None:
        for factor, size in self.factor_sizes.items():
            if factor not in used:
                raise ValueError(f"{self!r}: a size is given for {factor!r}, which is no factor")
            if factor in whole:
                raise ValueError(
                    f"{self!r}: the size of {factor!r} is that of its dimension; leave it out"
                )
            if not isinstance(size, int):
                raise TypeError(f"{self!r}: the size of {factor!r} must be an int, got {size!r}")
        for factor in sorted(used - whole - self.factor_sizes.keys()):
            raise ValueError(
                f"{self!r}: {factor!r} stands in compound dimensions only; give its size: "
                f"{factor}=…"
            )

    def _check_kinds(self, used: set[str]) -> None:
        seen: dict[str, str] = {}
        for kind in _KINDS:
            factors = getattr(self, kind)
            if not isinstance(factors, tuple):
                raise ValueError(f"{self!r}: {kind} must be a tuple of names, got {factors!r}")
            for factor in factors:
                if factor not in used:
                    raise ValueError(f"{self!r}: {kind} names {factor!r}, which is no factor")
                if factor in seen:
                    raise ValueError(
                        f"{self!r}: {factor!r} stands in {seen[factor]} and in {kind}; name it once"
                    )
                seen[factor] = kind

    @property
    def _mappings(self) -> tuple[ArrayMapping, ...]:
        return self.operand_mappings + self.result_mappings

    def __repr__(self) -> str:
        sides = (
            ", ".join(m.text for m in s) for s in (self.operand_mappings, self.result_mappings)
        )
        kinds = "".join(f", {k}={getattr(self, k)!r}" for k in _KINDS if getattr(self, k))
        sizes = "".join(f", {name}={size}" for name, size in self.factor_sizes.items())
        return f"SdyShardingRule({' -> '.join(sides)!r}{kinds}{sizes})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SdyShardingRule) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def attribute_text(self, operands: Sequence[Any], results: Sequence[Any], api: str) -> str:
        """Return the rule of arrays with these shapes as an `sdy.op_sharding_rule` attribute.

        Raises ValueError where their number, ranks or sizes do not fit.
        """
        arrays, sizes = self._fitted(operands, results, api)
        symbols = {factor: _symbol(i) for i, factor in enumerate(sizes)}

        def tensors(dims: Sequence[Sequence[Sequence[str]]]) -> str:
            texts = (["".join(symbols[f] for f in dim) for dim in array] for array in dims)
            return ", ".join(f"[{', '.join(text)}]" for text in texts)

        n = len(operands)
        body = f"({tensors(arrays[:n])})->({tensors(arrays[n:])})"
        listing = ", ".join(f"{symbols[f]}={size}" for f, size in sizes.items())
        kinds = ""
        for kind in _KINDS:
            members = sorted((symbols[f] for f in getattr(self, kind)), key=_symbol_order)
            if members:
                kinds += f" {kind.removesuffix('_factors')}={{{', '.join(members)}}}"
        return f"#sdy.op_sharding_rule<{body} {{{listing}}}{kinds}, custom>"

    def factor_text(self, operands: Sequence[Any], results: Sequence[Any], api: str) -> str:
        """Return the rule as weft/sharding/factors.py reads it, for Explicit axes of types."""
        arrays, sizes = self._fitted(operands, results, api)
        n = len(operands)
        ins, outs = ({f for a in side for d in a for f in d} for side in (arrays[:n], arrays[n:]))
        shared = (ins & outs) - {*self.need_replication_factors, *self.reduction_factors}
        names = {factor: f"f{i}" for i, factor in enumerate(sizes)}

        def dim(factors: Sequence[str]) -> str:
            if not factors or not shared.issuperset(factors):
                return "*"
            if len(factors) == 1:
                return names[factors[0]]
            return f"({' '.join(f'{names[f]}={sizes[f]}' for f in factors)})"

        sides = (", ".join(" ".join(map(dim, a)) for a in s) for s in (arrays[:n], arrays[n:]))
        return " -> ".join(sides)

    def _fitted(
        self, operands: Sequence[Any], results: Sequence[Any], api: str
    ) -> tuple[list[list[tuple[str, ...]]], dict[str, int]]:
        """Return the factors of every dimension, and the sizes of all factors."""
        sizes: dict[str, int] = {}
        groups: dict[str, int] = {}  # of leading dimensions → how many there are
        arrays = []
        for kind, mappings, values in (
            ("operand", self.operand_mappings, operands),
            ("result", self.result_mappings, results),
        ):
            if len(mappings) != len(values):
                raise ValueError(
                    f"{api}: {self!r} describes {len(mappings)} {kind}s, there are {len(values)}"
                )
            for i, (mapping, array) in enumerate(zip(mappings, values, strict=True)):
                label = f"{api}: {self!r}: {kind} {i} of shape {tuple(array.shape)}"
                arrays.append(self._dims(mapping, tuple(array.shape), groups, sizes, label))
        for array, dims in zip((*operands, *results), arrays, strict=True):
            for size, factors in zip(array.shape, dims, strict=True):
                product = math.prod(sizes[f] for f in factors)
                if len(factors) > 1 and product != size:
                    raise ValueError(
                        f"{api}: {self!r}: ({' '.join(factors)}) has {product} elements, the "
                        f"dimension of an array of shape {tuple(array.shape)} has {size}"
                    )
        return arrays, sizes

    def _dims(
        self,
        mapping: ArrayMapping,
        shape: tuple[int, ...],
        groups: dict[str, int],
        sizes: dict[str, int],
        label: str,
    ) -> list[tuple[str, ...]]:
        dims = list(map(_factors, mapping))
        if mapping and isinstance(mapping[0], str) and _is_batching(mapping[0]):
            group = mapping[0][1:] or "0"
            lead = max(len(shape) - len(mapping) + 1, 0)
            if groups.setdefault(group, lead) != lead:
                raise ValueError(
                    f"{label}: '...' is {lead} dimensions here, elsewhere {groups[group]}"
                )
            dims[:1] = [(f"{BATCHING}{group} {d}",) for d in range(lead)]
        if len(dims) != len(shape):
            raise ValueError(f"{label}: the rule gives it {len(dims)} dimensions")
        for d, (factors, size) in enumerate(zip(dims, shape, strict=True)):
            if len(factors) == 1:
                (factor,) = factors
                factor_size = sizes.setdefault(factor, size)
                if factor_size != size and factor[0] == BATCHING:
                    raise ValueError(
                        f"{label}: leading dimension {d} has size {factor_size} elsewhere"
                    )
                sizes[factor] = min(factor_size, size)
                continue
            for factor in factors:
                sizes.setdefault(factor, self.factor_sizes.get(factor, size))
        return dims


_KINDS = ("reduction_factors", "need_replication_factors", "permutation_factors")


def _factors(dim: str | CompoundFactor) -> tuple[str, ...]:
    return (dim,) if isinstance(dim, str) else tuple(dim)


def _symbol(i: int) -> str:
    """Shardy's factor names: i … z, then z_1, z_2, …"""
    return chr(ord("i") + i) if i < 18 else f"z_{i - 17}"


def _symbol_order(symbol: str) -> tuple[int, str]:
    return len(symbol), symbol


def parse_rule(text: str, **options: Any) -> SdyShardingRule:
    """Read a rule from text such as `"... (h d), d e -> ... h e"`.

    options: those of `SdyShardingRule`.

    Raises:
      TypeError: text is no string.
      ValueError: text does not have one `->`, or a part of it is no mapping.

    >>> parse_rule("... i -> ... i", need_replication_factors=("i",))
    SdyShardingRule('... i -> ... i', need_replication_factors=('i',))
    """
    if not isinstance(text, str):
        raise TypeError(
            "sharding_rule must be a string such as '... i -> ... i', an SdyShardingRule, or a "
            f"function that returns one, got {type(text).__name__}"
        )
    if text.count("->") != 1:
        raise ValueError(
            f"sharding_rule {text!r}: write operands and results with one '->' between"
        )
    operands, results = (tuple(_parse_side(side, text)) for side in text.split("->"))
    return SdyShardingRule(operands, results, **options)


def _parse_side(side: str, text: str) -> Iterator[ArrayMapping]:
    """Return the mappings of the arrays on one side; a side without any is one scalar."""
    api = f"sharding_rule {text!r}"
    array: list[str | CompoundFactor] = []
    compound: list[str] | None = None
    for token in _TOKEN.finditer(side):
        name, mark, group = token["name"], token["mark"], token["group"]
        if token["wrong"]:
            raise ValueError(f"{api}: {token['wrong']!r} means nothing in a rule")
        if group is not None:
            if array or compound is not None:
                raise ValueError(f"{api}: '...' stands in front of an array's dimensions")
            array.append(f"{BATCHING}{int(group)}" if group else BATCHING)
        elif name:
            _check_name(name, api)
            (array if compound is None else compound).append(name)
        elif mark == "(":
            if compound is not None:
                raise ValueError(
                    f"{api}: a dimension's factors are one list without inner brackets"
                )
            compound = []
        elif compound is not None:
            if mark != ")":
                raise ValueError(f"{api}: '(' is not closed")
            if len(compound) < 2:
                raise ValueError(f"{api}: brackets hold two factors at least")
            array.append(CompoundFactor(*compound))
            compound = None
        elif mark == ")":
            raise ValueError(f"{api}: ')' closes nothing")
        else:
            yield ArrayMapping(*array)
            array = []
    if compound is not None:
        raise ValueError(f"{api}: '(' is not closed")
    yield ArrayMapping(*array)


Rule = SdyShardingRule | str | Callable[..., Any]


def as_rule(value: Rule | None, options: dict[str, Any]) -> SdyShardingRule | Callable | None:
    """Turn a user's sharding rule, which may be text, into a rule or a function that makes one."""
    if value is None or isinstance(value, SdyShardingRule) or callable(value):
        if any(options.values()):
            chosen: Iterable[str] = (name for name, v in options.items() if v)
            raise ValueError(
                f"sharding_rule: {', '.join(chosen)} belong to a rule given as text; give them to "
                "SdyShardingRule(…) itself"
            )
        return value
    return parse_rule(value, **options)
