# Tests: tests/driver/test_debug_nans.py
"""debug_nans inside shard_map: the body runs once more and tells each equation on each device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from weft.api.shard_map_bodies import manual_scope, retraced
from weft.api.shard_map_op import shard_map_p
from weft.autodiff.shape import broadcast_in_dim, reshape
from weft.autodiff.zeros import full
from weft.collectives.casts import pvary
from weft.core import dtypes
from weft.core.jaxpr import ClosedJaxpr, Eqn, Literal, eval_closed
from weft.core.trace import typeof
from weft.driver.debug_nans import CALLS, Wanted, named, on_devices
from weft.ops.control.cond import switch
from weft.ops.control.loops import while_loop
from weft.ops.control.scan import scan
from weft.ops.elementwise_api import abs as absolute
from weft.ops.elementwise_api import add, convert, eq, gt, ne, or_p, select, sub
from weft.ops.joining import concatenate
from weft.ops.reduce import reduce_or_p
from weft.ops.slicing import slice_in_dim
from weft.sharding.spec import PartitionSpec

if TYPE_CHECKING:
    from weft.runtime.array import Array


class Site(NamedTuple):
    """An equation whose results are looked at, and the loops and branches around it."""

    eqn: Eqn
    around: tuple[tuple[str, Eqn], ...] = ()

    @property
    def depth(self) -> int:
        """Count the loops around the equation."""
        return sum(kind == "iteration" for kind, _ in self.around)

    def text(self, kind: str, iterations: Sequence[int]) -> str:
        """Name the equation and the iterations of its loops, from the outermost."""
        counts = iter(iterations)
        where = [
            f", in {region}{f' {next(counts)}' if region == 'iteration' else ''} of "
            f"{e.primitive.name} ({e.source})"
            for region, e in self.around
        ]
        return named(kind, self.eqn) + "".join(reversed(where))


def search(wanted: Wanted, eqn: Eqn, operands: Sequence[Any]) -> str | None:
    """Return the first equation of a shard_map with such a result, and the devices where it is."""
    params, body = dict(eqn.rule_params), eqn.rule_params["jaxpr"]
    mesh, manual = params["mesh"], params["manual"]
    sites = _sites(body)
    if not sites:
        return None

    def make() -> ClosedJaxpr:
        def flags(*xs: Array) -> list:
            body_hits, _ = _run(wanted, body, xs, manual)
            return [reshape(f, (1, *typeof(f).shape)) for f in body_hits]

        return retraced(body, (*key, "jaxpr"), flags, body.in_avals)

    key = ("flags", wanted, manual, params["check_vma"])
    with manual_scope(mesh, manual, params["check_vma"]):
        flagged = body.memo(key, make)
    params.update(jaxpr=flagged, out_specs=(PartitionSpec(manual),) * len(sites))
    outs = shard_map_p.bind(*operands, **params)
    kind = "NaN" if wanted.nans else "inf"
    for first, site in enumerate(sites):
        if not np.asarray(outs[first])[:, 0].any():
            continue
        # Of equations in one loop, that of the earliest iteration came first.
        top = site.around[:1]
        hits = []
        for n, (other, out) in enumerate(zip(sites, outs, strict=True)):
            if n == first or (top and other.around[:1] == top):
                rows = np.asarray(out)
                hits += [(tuple(r[1:]), n) for r in rows if r[0]]
        # A loop's own result comes behind what happened in its iterations.
        last = (np.iinfo(np.int32).max,)
        iterations, n = min(hits, key=lambda hit: ((*hit[0], *last), hit[1]))
        hit_devices = [
            s.device
            for s in outs[n].addressable_shards
            if any(r[0] and tuple(r[1:]) == iterations for r in np.asarray(s.data))
        ]
        text = sites[n].text(kind, [int(i) for i in iterations])
        return f"{text}{on_devices(hit_devices)}, in shard_map ({eqn.source})"
    return None


def _sites(closed: ClosedJaxpr, around: tuple = ()) -> list[Site]:
    """Return the equations whose results are looked at, in the order of `_run`'s flags."""
    sites: list[Site] = []
    for eqn in closed.eqns:
        for region, inner in _inner(eqn):
            sites += _sites(inner, around if region is None else (*around, (region, eqn)))
        sites += [Site(eqn, around) for v in eqn.outvars if _can_hold(v.aval)]
    return sites


def _inner(eqn: Eqn) -> list[tuple[str | None, ClosedJaxpr]]:
    """Return the programs of an equation that are entered, each with the word for a run of it."""
    name, params = eqn.primitive.name, eqn.rule_params
    if name in CALLS:
        return [(None, params["jaxpr"])]
    if name == "cond":
        return [(f"branch {i}", b) for i, b in enumerate(params["branches"])]
    if name in ("scan", "while"):
        return [("iteration", params["jaxpr" if name == "scan" else "body_jaxpr"])]
    return []


def _run(
    wanted: Wanted, closed: ClosedJaxpr, args: Sequence[Any], manual: tuple
) -> tuple[list, list]:
    """Return a vector for each site, and the results of the program.

    The first number of a vector says whether the site has such a result, the others in which
    iterations of the loops around it that was first, from the outermost.
    """
    env = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
    env.update(zip(closed.jaxpr.invars, args, strict=True))

    def read(v: Any) -> Any:
        return v.val if isinstance(v, Literal) else env[v]

    flags: list[Any] = []
    for eqn in closed.eqns:
        operands = [read(v) for v in eqn.invars]
        if eqn.primitive.name in CALLS:
            flags += _run(wanted, eqn.rule_params["jaxpr"], operands, manual)[0]
        enter = _ENTER.get(eqn.primitive.name)
        if enter is not None:
            hits, outs = enter(wanted, eqn, operands, manual)
            flags += hits
        else:
            out = eqn.primitive.bind(*operands, **eqn.rule_params)
            outs = out if eqn.primitive.multiple_results else [out]
        for v, x in zip(eqn.outvars, outs, strict=True):
            if _can_hold(v.aval):
                flags.append(pvary(reshape(convert(_flag(wanted, x), np.int32), (1,)), manual))
        env.update(zip(eqn.outvars, outs, strict=True))
    return flags, [read(v) for v in closed.jaxpr.outvars]


def _no_hits(closed: ClosedJaxpr, more: int, manual: tuple) -> list:
    """Return vectors of zeros for the sites of a program, `more` numbers longer."""
    return [pvary(full((1 + s.depth + more,), 0, dtypes.int32), manual) for s in _sites(closed)]


def _joined(firsts: Sequence[Any], hits: Sequence[Any], iteration: object, manual: tuple) -> list:
    """Return the vectors of a loop after an iteration: what was found first stays."""
    count = pvary(reshape(iteration, (1,)), manual)
    result = []
    for old, new in zip(firsts, hits, strict=True):
        flag, rest = slice_in_dim(new, 0, 1), slice_in_dim(new, 1, None)
        fresh = concatenate([flag, count, rest], 0)
        was_set = broadcast_in_dim(gt(slice_in_dim(old, 0, 1), np.int32(0)), fresh.shape, (0,))
        result.append(select(was_set, old, fresh))
    return result


def _scan(wanted: Wanted, eqn: Eqn, operands: Sequence[Any], manual: tuple) -> tuple[list, list]:
    p, body = eqn.rule_params, eqn.rule_params["jaxpr"]
    n_const, n_carry, length = p["num_consts"], p["num_carry"], p["length"]
    consts = operands[:n_const]

    def step(state: tuple, xs: list) -> tuple:
        i, firsts, carry = state
        hits, outs = _run(wanted, body, [*consts, *carry, *xs], manual)
        following = sub(i, np.int32(1)) if p["reverse"] else add(i, np.int32(1))
        firsts = _joined(firsts, hits, i, manual)
        return (following, firsts, outs[:n_carry]), outs[n_carry:]

    start = np.int32(length - 1 if p["reverse"] else 0)
    state = start, _no_hits(body, 1, manual), list(operands[n_const : n_const + n_carry])
    (_, firsts, carry), ys = scan(
        step, state, list(operands[n_const + n_carry :]), length, reverse=p["reverse"]
    )
    return firsts, [*carry, *ys]


def _while(wanted: Wanted, eqn: Eqn, operands: Sequence[Any], manual: tuple) -> tuple[list, list]:
    p, body = eqn.rule_params, eqn.rule_params["body_jaxpr"]
    n_cond, n_body = p["cond_nconsts"], p["body_nconsts"]
    cond_consts, consts = operands[:n_cond], operands[n_cond : n_cond + n_body]

    def goes_on(state: tuple) -> Any:
        return eval_closed(p["cond_jaxpr"], *cond_consts, *state[2])[0]

    def step(state: tuple) -> tuple:
        i, firsts, carry = state
        hits, outs = _run(wanted, body, [*consts, *carry], manual)
        return add(i, np.int32(1)), _joined(firsts, hits, i, manual), outs

    state = np.int32(0), _no_hits(body, 1, manual), list(operands[n_cond + n_body :])
    _, firsts, carry = while_loop(goes_on, step, state)
    return firsts, carry


def _cond(wanted: Wanted, eqn: Eqn, operands: Sequence[Any], manual: tuple) -> tuple[list, list]:
    branches = eqn.rule_params["branches"]

    def run(taken: int) -> Callable:
        def branch(*xs: object) -> tuple[list, list]:
            hits, outs = _run(wanted, branches[taken], xs, manual)
            flags = [hits if i == taken else _no_hits(b, 0, manual) for i, b in enumerate(branches)]
            return [f for part in flags for f in part], outs

        return branch

    flags, outs = switch(operands[0], [run(i) for i in range(len(branches))], *operands[1:])
    return flags, outs


_ENTER = {"scan": _scan, "while": _while, "cond": _cond}


def _can_hold(aval: Any) -> bool:
    """Return whether values of the type can be NaN or infinite; parts of sums are not looked at."""
    return dtypes.is_inexact(getattr(aval, "dtype", None)) and not aval.mat.unreduced


def _flag(wanted: Wanted, x: Array) -> Any:
    """Return whether a value has it, a scalar."""
    axes = tuple(range(typeof(x).ndim))
    size = absolute(x)
    tests = []
    if wanted.nans:
        tests.append(ne(size, size))
    if wanted.infs:
        tests.append(eq(size, np.asarray(np.inf).astype(typeof(size).dtype)[()]))
    flags = [reduce_or_p.bind(t, axes=axes) if axes else t for t in tests]
    return flags[0] if len(flags) == 1 else or_p.bind(*flags)
