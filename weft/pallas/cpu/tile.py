# Tests: tests/pallas/test_cpu_cache.py
"""Kernels in tiles: a body whose rows do not depend on each other runs on a few rows at a time.

A body that passes over its block several times (softmax: maximum, sum, quotient) is bound by the
cache that holds the block. Where dimension 0 of all blocks is a dimension of the formula as well,
the body is rewritten for so few rows that they stay in the first cache from pass to pass.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import weft.pallas.cpu.scalar as scalar
from weft.core.aval import ShapedArray
from weft.core.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Literal, Var, open_jaxpr
from weft.core.ref import Window
from weft.pallas.combiners import CUMULATIVE, REDUCTIONS
from weft.pallas.cpu.values import COSTLY, size_of
from weft.sharding.factors import RULES, parse_factors

if TYPE_CHECKING:
    from weft.core.jaxpr import Atom
    from weft.pallas.ir import KernelCall

TILE_BYTES = 8 << 10
"""Bytes of refs that a tile is to touch: with what is stored on the way, a first cache's part."""
POINTWISE = {"select_n", "pow", "convert_element_type", "bitcast_convert_type"}


@dataclass(frozen=True, slots=True)
class Tile:
    """A body for `count` tiles of `rows` rows each; refs: positions of the refs cut in tiles."""

    jaxpr: ClosedJaxpr
    rows: int
    count: int
    refs: frozenset[int]


class _Whole(Exception):
    """The body needs its whole block at once."""


def tile_of(call: KernelCall) -> Tile | None:
    """Return the call's body in tiles, or None where that cannot be or would not help."""
    jaxpr = open_jaxpr(call.jaxpr)
    if jaxpr.constvars:
        return None
    if not any(e.primitive.name.startswith(("reduce_", "arg", "cum")) for e in jaxpr.eqns):
        return None
    if call.debug:
        return None
    if call.aliases and any(any(b.by_element) for b in call.blocks):
        return None
    try:
        return _Tiling(jaxpr).tile()
    except _Whole:
        return None


class _Tiling:
    """demand: for a variable, the dimension along which it is needed in tiles; None: all of it."""

    def __init__(self, jaxpr: Jaxpr) -> None:
        self.jaxpr = jaxpr
        self.demand: dict[Any, int | None] = {}
        self.refs: dict[Any, bool] = {}
        self.size = 0

    def tile(self) -> Tile:
        jaxpr = self.jaxpr
        eqns = []
        for eqn in reversed(jaxpr.eqns):
            if eqn.primitive.name == "set":
                self.set(eqn)
            elif not any(v in self.demand for v in eqn.outvars):
                if eqn.effects and eqn.primitive.name != "get":
                    raise _Whole
                continue
            else:
                self.visit(eqn)
            eqns.append(eqn)
        cut = {v for v, tiled in self.refs.items() if tiled}
        if not cut or self.size < 2:
            raise _Whole
        row_bytes = sum(v.aval.size // self.size * v.aval.dtype.itemsize for v in cut)
        fitting = (n for n in range(self.size, 1, -1) if n * row_bytes <= TILE_BYTES)
        rows = next((n for n in fitting if not self.size % n), 1)
        body = _Rewriting(self, rows).jaxpr(eqns[::-1])
        places: dict[Any, int] = {v: k for k, v in enumerate(jaxpr.invars)}
        return Tile(
            body,
            rows,
            self.size // rows,
            frozenset(places[v] for v in cut),
        )

    # Demands, from results to operands ---------------------------------------------------------

    def need(self, atom: Atom, dim: int | None) -> None:
        if isinstance(atom, Literal):
            return
        if not atom.aval.shape:
            dim = None
        elif dim is not None:
            self.agree(int(atom.aval.shape[dim]))
        if self.demand.setdefault(atom, dim) != dim:
            raise _Whole

    def agree(self, size: int) -> None:
        self.size = self.size or size
        if size != self.size:
            raise _Whole

    def use(self, ref: Any, eqn: Eqn, tiled: bool) -> None:
        """Tell whether a ref is cut into tiles, in all uses or none; indices span dimension 0."""
        if self.refs.setdefault(ref, tiled) != tiled:
            raise _Whole
        if not tiled:
            return
        indexer = eqn.rule_params["indexer"]
        first = indexer.dims[0] if indexer.dims else None
        if not isinstance(first, Window) or (first.start, first.stride) != (0, 1):
            raise _Whole
        if indexer.has_picks or first.size != ref.aval.shape[0]:
            raise _Whole
        self.agree(first.size)

    def set(self, eqn: Eqn) -> None:
        ref, value, *rest = eqn.invars
        self.use(ref, eqn, True)
        self.need(value, 0)
        if not isinstance(value, Literal) and not value.aval.shape:
            raise _Whole
        for k, atom in enumerate(rest):
            masks = eqn.rule_params["masked"] and k == eqn.rule_params["indexer"].num_operands
            self.need(atom, 0 if masks and atom.aval.shape else None)

    def visit(self, eqn: Eqn) -> None:
        wanted = {self.demand[v] for v in eqn.outvars if v in self.demand}
        if len(wanted) > 1:
            raise _Whole
        dim = wanted.pop()
        name = eqn.primitive.name
        if name == "get":
            self.get(eqn, dim)
        elif dim is None:
            if eqn.effects or _is_costly(eqn):
                raise _Whole
            for atom in eqn.invars:
                self.need(atom, None)
        elif name in POINTWISE or scalar.has_code(name):
            for atom in eqn.invars:
                self.need(atom, dim)
        elif name in _TILED:
            for atom, needed in zip(eqn.invars, _demands(eqn, dim), strict=True):
                self.need(atom, needed)
        else:
            raise _Whole

    def get(self, eqn: Eqn, dim: int | None) -> None:
        ref, *rest = eqn.invars
        if dim not in (None, 0):
            raise _Whole
        self.use(ref, eqn, dim == 0)
        n = eqn.rule_params["indexer"].num_operands
        for k, atom in enumerate(rest):
            self.need(atom, dim if k >= n and atom.aval.shape else None)


def _is_costly(eqn: Eqn) -> bool:
    """Return whether making it anew for every tile would tell."""
    if all(size_of(a.aval.shape) == 1 for a in eqn.invars):
        return False
    return eqn.primitive.name not in _CHEAP and scalar.COSTS.get(eqn.primitive.name, 9) >= COSTLY


_CHEAP = POINTWISE | {"broadcast_in_dim", "reshape", "transpose", "slice"}
_TILED = {"broadcast_in_dim", "reshape", "transpose", "iota", "concatenate"}
_TILED |= CUMULATIVE.keys() | REDUCTIONS.keys()
"""Ops beside elementwise ones that have tiles."""


def _demands(eqn: Eqn, dim: int) -> list[int | None]:
    """Return the dimensions to read operands by tiles in for a result along `dim`: those
    of the same factor."""
    if dim in (eqn.rule_params.get("axis"), eqn.rule_params.get("dimension")):
        raise _Whole
    avals, out = [v.aval for v in eqn.invars], eqn.outvars[0].aval
    if not avals:
        return []
    text = RULES[str(eqn.primitive.sharding)](avals, [out], **eqn.rule_params)
    (operands, (result,)), _ = parse_factors(text)
    dims = [x.index(result[dim]) if result[dim] in x else None for x in operands]
    if eqn.primitive.name != "broadcast_in_dim" and None in dims:
        raise _Whole
    return dims


class _Rewriting:
    """The body with `rows` in place of all rows."""

    def __init__(self, tiling: _Tiling, rows: int) -> None:
        self.tiling, self.rows = tiling, rows
        self.known: dict[Var, Var] = {}

    def shape(self, shape: tuple, dim: int) -> tuple[int, ...]:
        return (*shape[:dim], self.rows, *shape[dim + 1 :])

    def atom(self, atom: Atom) -> Any:
        return atom if isinstance(atom, Literal) else self.known[atom]

    def new(self, v: Var) -> Var:
        if isinstance(v.aval, ShapedArray) and v in self.tiling.demand:
            dim = self.tiling.demand[v]
        else:
            dim = 0 if self.tiling.refs.get(v) else None
        aval = v.aval if dim is None else v.aval.update(shape=self.shape(v.aval.shape, dim))
        return self.known.setdefault(v, Var(aval))

    def params(self, eqn: Eqn) -> dict[str, Any]:
        params = dict(eqn.rule_params)
        name = eqn.primitive.name
        if name in ("get", "set"):
            if self.tiling.refs[eqn.invars[0]]:
                first, *rest = params["indexer"].dims
                first = replace(first, size=self.rows)
                params["indexer"] = replace(params["indexer"], dims=(first, *rest))
            return params
        dim = self.tiling.demand[eqn.outvars[0]] if len(eqn.outvars) == 1 else None
        for key in ("shape", "new_sizes"):
            if dim is not None and key in params:
                params[key] = self.shape(params[key], dim)
        return params

    def jaxpr(self, eqns: list[Eqn]) -> ClosedJaxpr:
        old = self.tiling.jaxpr
        invars = [self.new(v) for v in old.invars]
        new = []
        for eqn in eqns:
            ins = [self.atom(a) for a in eqn.invars]
            outs = [self.new(v) for v in eqn.outvars]
            new.append(eqn.replace(invars=ins, outvars=outs, rule_params=self.params(eqn)))
        return ClosedJaxpr(Jaxpr([], invars, [], new, old.effects, old.debug))
