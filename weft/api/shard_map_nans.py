"""debug_nans inside shard_map: the body runs once more and tells each equation on each device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.api.shard_map_op import manual_scope, retraced, shard_map_p
from weft.autodiff.shape import reshape
from weft.collectives.casts import pvary
from weft.core import dtypes
from weft.core.jaxpr import ClosedJaxpr, Eqn, Literal
from weft.core.trace import typeof
from weft.driver.debug_nans import CALLS, Wanted, named, on_devices
from weft.ops.elementwise_api import abs as absolute
from weft.ops.elementwise_api import eq, ne, or_p
from weft.ops.reduce import reduce_or_p
from weft.sharding.spec import PartitionSpec

if TYPE_CHECKING:
    from weft.runtime.array import Array


def search(wanted: Wanted, eqn: Eqn, operands: Sequence[Any]) -> str | None:
    """The first equation of a shard_map with such a result, and the devices where it is."""
    params, body = dict(eqn.params), eqn.params["jaxpr"]
    mesh, manual = params["mesh"], params["manual"]

    def make() -> tuple[ClosedJaxpr, list[Eqn]]:
        sites: list[Eqn] = []

        def flags(*xs: Array) -> list:
            return [pvary(reshape(f, (1,)), manual) for f in _flags(wanted, body, xs, sites)]

        return retraced(body, (*key, "jaxpr"), flags, body.in_avals), sites

    key = ("flags", wanted, manual, params["check_vma"])
    with manual_scope(mesh, manual, params["check_vma"]):
        flagged, sites = body.memo(key, make)
    if not sites:
        return None
    params.update(jaxpr=flagged, out_specs=(PartitionSpec(manual),) * len(sites))
    outs = shard_map_p.bind(*operands, **params)
    for site, out in zip(sites, outs, strict=True):
        held = [s.device for s in out.addressable_shards if np.asarray(s.data).any()]
        if held:
            kind = "NaN" if wanted.nans else "inf"
            return f"{named(kind, site)}{on_devices(held)}, in shard_map ({eqn.source})"
    return None


def _flags(wanted: Wanted, closed: ClosedJaxpr, args: Sequence[Any], sites: list[Eqn]) -> list:
    """Whether each equation has such a result, one scalar each; `sites` takes the equations."""
    env = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
    env.update(zip(closed.jaxpr.invars, args, strict=True))
    flags = []
    for eqn in closed.eqns:
        operands = [v.val if isinstance(v, Literal) else env[v] for v in eqn.invars]
        if eqn.primitive.name in CALLS:
            flags += _flags(wanted, eqn.params["jaxpr"], operands, sites)
        out = eqn.primitive.bind(*operands, **eqn.params)
        outs = out if eqn.primitive.multiple_results else [out]
        for x in outs:
            if (flag := _flag(wanted, x)) is not None:
                sites.append(eqn)
                flags.append(flag)
        env.update(zip(eqn.outvars, outs, strict=True))
    return flags


def _flag(wanted: Wanted, x: Array) -> Any:
    """Whether a value has it, a scalar; None for values that cannot, and for parts of sums."""
    aval = typeof(x)
    if not dtypes.is_inexact(getattr(aval, "dtype", None)) or aval.mat.unreduced:
        return None
    axes = tuple(range(aval.ndim))
    size = absolute(x)
    tests = []
    if wanted.nans:
        tests.append(ne(size, size))
    if wanted.infs:
        tests.append(eq(size, np.asarray(np.inf).astype(typeof(size).dtype)[()]))
    found = [reduce_or_p.bind(t, axes=axes) if axes else t for t in tests]
    return found[0] if len(found) == 1 else or_p.bind(*found)
