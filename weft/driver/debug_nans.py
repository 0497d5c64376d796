"""debug_nans and debug_infs: find the equation that made a NaN or an infinity.

The program is run again, equation by equation. An equation that runs a program of its own (a loop,
a branch, a jitted function) is entered; a shard_map runs as one program whose results are, for
each equation and device, whether something went wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.core import dtypes, provided
from weft.core.config import config, options
from weft.core.jaxpr import ClosedJaxpr, Eqn, Literal, eval_closed
from weft.core.trace import typeof
from weft.driver.jit import jit


@dataclass(frozen=True)
class Wanted:
    """The test for the values looked for."""

    nans: bool
    infs: bool

    def in_host(self, x: np.ndarray) -> str | None:
        if x.dtype.kind not in "fc":
            x = x.astype(np.float32)
        if self.nans and np.isnan(x).any():
            return "NaN"
        return "inf" if self.infs and np.isinf(x).any() else None

    def in_array(self, x: object) -> str | None:
        if not dtypes.is_inexact(getattr(typeof(x), "dtype", None)):
            return None
        return self.in_host(np.asarray(x))

    def among(self, outs: Sequence[Any]) -> str | None:
        return next(filter(None, map(self.in_array, outs)), None)


def check_results(outs: Sequence[Any], closed: ClosedJaxpr, args: Sequence[Any]) -> None:
    """Raise FloatingPointError naming the first equation whose result is not finite."""
    wanted = Wanted(bool(config.debug_nans), bool(config.debug_infs))
    kind = wanted.among(outs)
    if kind is None:
        return
    with options["debug_nans"](False), options["debug_infs"](False):
        text = _search(wanted, closed, args)
    if text is None:
        text = f"a result of {closed.jaxpr.debug}, which op-by-op evaluation does not reproduce"
        raise FloatingPointError(f"{kind} in {text}")
    raise FloatingPointError(text)


def named(kind: str, eqn: Eqn) -> str:
    """Return the equation, and what is in its result."""
    return f"{kind} in the result of {eqn.primitive.name} ({eqn.source})"


def _search(wanted: Wanted, closed: ClosedJaxpr, args: Sequence[Any]) -> str | None:
    """Return the first equation of a program with such a result, in words."""
    if not closed.eqns:
        return "NaN or inf in the result of a constant" if wanted.among(closed.consts) else None
    env = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
    env.update(zip(closed.jaxpr.invars, args, strict=True))
    for eqn in closed.eqns:
        ins = [v.val if isinstance(v, Literal) else env[v] for v in eqn.invars]
        out = eqn.primitive.bind(*ins, **eqn.rule_params)
        outs = out if eqn.primitive.multiple_results else [out]
        kind = wanted.among(outs)
        if kind is not None:
            wanted = Wanted(kind == "NaN", kind == "inf")
            inside = ENTERED.get(eqn.primitive.name)
            inner_hit = None if inside is None else inside(wanted, eqn, ins)
            return inner_hit or named(kind, eqn) + _devices(wanted, outs)
        env.update(zip(eqn.outvars, outs, strict=True))
    return None


def _devices(wanted: Wanted, outs: Sequence[Any]) -> str:
    """Name the devices whose part of a value has such elements."""
    for x in outs:
        shards = getattr(x, "addressable_shards", ())
        if len(shards) < 2 or wanted.in_array(x) is None:
            continue
        hit_devices = [s.device for s in shards if wanted.in_host(np.asarray(s.data))]
        every = len(hit_devices) == len(shards)
        return f", on all {len(hit_devices)} devices" if every else on_devices(hit_devices)
    return ""


def on_devices(devices: Sequence[Any]) -> str:
    """Return the devices, as the end of a message."""
    named = ", ".join(map(str, devices[:8])) + (", …" if len(devices) > 8 else "")
    return f", on {named}"


# Equations with programs of their own -------------------------------------------------------------


def _called(wanted: Wanted, eqn: Eqn, ins: Sequence[Any]) -> str | None:
    text = _search(wanted, eqn.rule_params["jaxpr"], ins)
    return text and f"{text}, reached from {eqn.source}"


def _branch(wanted: Wanted, eqn: Eqn, ins: Sequence[Any]) -> str | None:
    branches = eqn.rule_params["branches"]
    taken = min(max(int(ins[0]), 0), len(branches) - 1)
    text = _search(wanted, branches[taken], ins[1:])
    return text and f"{text}, in branch {taken} of cond ({eqn.source})"


def _scan(wanted: Wanted, eqn: Eqn, ins: Sequence[Any]) -> str | None:
    params, body = eqn.rule_params, eqn.rule_params["jaxpr"]
    n_const, n_carry, length = params["num_consts"], params["num_carry"], params["length"]
    consts, carry = list(ins[:n_const]), list(ins[n_const : n_const + n_carry])
    xs = [np.asarray(x) if not _is_key(x) else x for x in ins[n_const + n_carry :]]
    order = range(length)

    def steps() -> Iterator[tuple[int, list]]:
        state = carry
        for i in reversed(order) if params["reverse"] else order:
            operands = [*consts, *state, *(x[i] for x in xs)]
            yield i, operands
            state = _run(body, operands)[:n_carry]

    return _first_step(wanted, eqn, body, steps())


def _while(wanted: Wanted, eqn: Eqn, ins: Sequence[Any]) -> str | None:
    params = eqn.rule_params
    n_cond, n_body = params["cond_nconsts"], params["body_nconsts"]
    cond_consts, consts = ins[:n_cond], ins[n_cond : n_cond + n_body]

    def steps() -> Iterator[tuple[int, list]]:
        carry, i = list(ins[n_cond + n_body :]), 0
        while bool(np.all(_run(params["cond_jaxpr"], [*cond_consts, *carry])[0])):
            yield i, [*consts, *carry]
            carry, i = _run(params["body_jaxpr"], [*consts, *carry]), i + 1

    return _first_step(wanted, eqn, params["body_jaxpr"], steps())


def _first_step(
    wanted: Wanted, eqn: Eqn, body: ClosedJaxpr, steps: Iterator[tuple[int, list]]
) -> str | None:
    for i, operands in steps:
        if wanted.among(_run(body, operands)) is not None:
            text = _search(wanted, body, operands)
            return text and f"{text}, in iteration {i} of {eqn.primitive.name} ({eqn.source})"
    return None


def _run(closed: ClosedJaxpr, args: Sequence[Any]) -> list:
    """Return the results of a program, compiled as a whole."""
    return closed.memo("run to find NaNs", lambda: jit(lambda *xs: eval_closed(closed, *xs)))(*args)


def _is_key(x: np.ndarray) -> bool:
    return dtypes.is_extended(typeof(x).dtype)


CALLS = ("jit", "remat2", "custom_jvp_call", "custom_vjp_call", "custom_vmap_call")
"""Equations that run their parameter `jaxpr` on their operands."""

ENTERED = {
    **dict.fromkeys(CALLS, _called),
    "cond": _branch,
    "scan": _scan,
    "while": _while,
    "shard_map": provided.search_shard_map,
}
