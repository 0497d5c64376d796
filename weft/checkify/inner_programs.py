# Tests: tests/test_checkify.py
"""Ops that run jaxprs: they are given jaxprs that return the error too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import weft.numpy as wnp
from weft.api.remat import remat_p
from weft.api.shard_map_bodies import manual_scope
from weft.api.shard_map_op import shard_map_p
from weft.autodiff.manual_casts import as_state
from weft.autodiff.vmap import AxisData, batch_jaxpr
from weft.autodiff.zeros import instantiate_zero, stop_gradient
from weft.checkify.check_op import check_p
from weft.checkify.errors import Error, FailedCheckError
from weft.checkify.interpret import (
    ENTERED,
    Checked,
    Checks,
    checked,
    retraced,
    whole,
    without_checks,
)
from weft.core.jaxpr import ClosedJaxpr, Eqn, eval_closed, walk_eqns
from weft.core.trace import typeof
from weft.driver.jit_op import jit_p
from weft.ops.control.cond_op import cond_p
from weft.ops.control.scan_op import scan_p
from weft.ops.control.while_op import while_p
from weft.sharding.spec import PartitionSpec

if TYPE_CHECKING:
    from weft.typing import ArrayLike

# Ops that run jaxprs: each rule gives the results, or None if there is nothing to check.


def _jit(checks: Checks, eqn: Eqn, ins: Sequence[Any]) -> list | None:
    inner = checked(eqn.rule_params["jaxpr"], checks.errors)
    if not inner.sites:
        return None
    params = {**eqn.rule_params, "jaxpr": inner.jaxpr}
    if "out_shardings" in params:
        more = (None,) * (len(inner.jaxpr.out_avals) - inner.num_outs)
        params["out_shardings"] = (*params["out_shardings"], *more)
    outs = eqn.primitive.bind(*ins, **params)
    checks.join(outs[inner.num_outs], outs[inner.num_outs + 1 :], inner.sites)
    return outs[: inner.num_outs]


def _with_rules(checks: Checks, eqn: Eqn, ins: Sequence[Any]) -> list | None:
    """Call a function with rules of its own, which it keeps: the checks run beside it."""
    inner = checked(eqn.rule_params["jaxpr"], checks.errors)
    if not inner.sites:
        return None
    results = eval_closed(inner.jaxpr, *map(stop_gradient, ins))
    checks.join(results[inner.num_outs], results[inner.num_outs + 1 :], inner.sites)
    return eqn.primitive.bind(*ins, **{**eqn.rule_params, "jaxpr": without_checks(inner)})


def _varying(avals: Sequence[Any]) -> frozenset:
    return frozenset().union(*(a.mat.varying for a in avals if hasattr(a, "mat")))


def _as_varying(x: ArrayLike, axes: frozenset) -> Any:
    return as_state(x, tuple(sorted(axes, key=str)), "varying") if axes else x


def _found(inner: Checked) -> list:
    """Return the types of what a checked jaxpr gives of its checks."""
    return inner.jaxpr.out_avals[inner.num_outs :]


def _cond(checks: Checks, eqn: Eqn, ins: Sequence[Any]) -> list | None:
    inner = [checked(b, checks.errors) for b in eqn.rule_params["branches"]]
    if not any(b.sites for b in inner):
        return None
    n = inner[0].num_outs
    axes = _varying([a for b in inner for a in _found(b)])

    def branch(which: int) -> Callable:
        def flat(*args: object) -> list:
            outs = eval_closed(inner[which].jaxpr, *args)
            sites = [len(b.sites) for b in inner[:which]]
            code = outs[n]
            error_values = [wnp.where(code != 0, code + np.int32(sum(sites)), np.int32(0))]
            for i, b in enumerate(inner):
                zeros = [instantiate_zero(a) for a in _found(b)[1:]]
                error_values += outs[n + 1 :] if i == which else zeros
            return [*outs[:n], *(_as_varying(x, axes) for x in error_values)]

        return flat

    branches = tuple(
        retraced(branch(i), b.in_avals, b.jaxpr.debug)
        for i, b in enumerate(eqn.rule_params["branches"])
    )
    outs = cond_p.bind(*ins, branches=branches)
    checks.join(outs[n], outs[n + 1 :], [s for b in inner for s in b.sites])
    return outs[:n]


def run_mapped_branch(
    axis: AxisData, branch: ClosedJaxpr, taken: ArrayLike, operands: list, batched: list[bool]
) -> list:
    """Run a branch for all examples; its checks hold for those that take it."""
    inner = checked(branch, frozenset((FailedCheckError,)))
    mapped, _ = batch_jaxpr(inner.jaxpr, axis, batched, True)
    outs = eval_closed(mapped, *operands)
    error = Error(outs[inner.num_outs], outs[inner.num_outs + 1 :], inner.sites)
    checks = [e for e in walk_eqns(branch) if e.primitive is check_p]
    debug = all(e.rule_params["debug"] for e in checks)
    for k, site in enumerate(inner.sites):
        ok = wnp.logical_not(taken & (error._code == np.int32(k + 1)))
        check_p.bind(ok, *error._payload(k), site=site, debug=debug, ndim=1)
    return outs[: inner.num_outs]


def _first(old: Sequence[Any], new: Sequence[Any]) -> list:
    """Code and payloads of a loop after one more iteration."""
    keep = old[0] != 0
    return [wnp.where(keep, a, b) for a, b in zip(old, new, strict=True)]


def _scan(checks: Checks, eqn: Eqn, ins: Sequence[Any]) -> list | None:
    p = eqn.rule_params
    inner = checked(p["jaxpr"], checks.errors)
    if not inner.sites:
        return None
    types, carried = _found(inner), p["num_carry"]
    start, end, k = p["num_consts"], p["num_consts"] + carried, len(types)

    axes = _varying(types)

    def body(*args: object) -> list:
        outs = eval_closed(inner.jaxpr, *args[:end], *args[end + k :])
        error_values = [_as_varying(x, axes) for x in outs[inner.num_outs :]]
        new = _first(args[end : end + k], error_values)
        return [*outs[:carried], *new, *outs[carried : inner.num_outs]]

    init = [_as_varying(instantiate_zero(a), axes) for a in types]
    avals = [*inner.jaxpr.in_avals[:end], *map(typeof, init), *inner.jaxpr.in_avals[end:]]
    outs = scan_p.bind(
        *ins[:end],
        *init,
        *ins[end:],
        **{
            **p,
            "jaxpr": retraced(body, avals, p["jaxpr"].jaxpr.debug),
            "num_consts": start,
            "num_carry": carried + k,
        },
    )
    checks.join(outs[carried], outs[carried + 1 : carried + k], inner.sites)
    return [*outs[:carried], *outs[carried + k :]]


def _while(checks: Checks, eqn: Eqn, ins: Sequence[Any]) -> list | None:
    """Run the condition's checks beside it: once before the loop and at the end of the body."""
    p, errors = eqn.rule_params, checks.errors
    cond, body = checked(p["cond_jaxpr"], errors), checked(p["body_jaxpr"], errors)
    # Without checks inside, the loop stays as it is.
    if not (cond.sites or body.sites):
        return None
    nc, nb = p["cond_nconsts"], p["body_nconsts"]
    c_consts, b_consts, carry = ins[:nc], ins[nc : nc + nb], ins[nc + nb :]
    # The condition runs once before the first step, and its checks with it.
    first = eval_closed(cond.jaxpr, *c_consts, *carry)[1:]
    checks.join(first[0], first[1:], cond.sites)
    types = [*_found(body), *_found(cond)]
    n, k, kb = len(carry), len(types), len(_found(body))
    axes = _varying(types)

    def step(*args: object) -> list:
        old = args[nc + nb + n :]
        outs = eval_closed(body.jaxpr, *args[nc : nc + nb + n])
        after = eval_closed(cond.jaxpr, *args[:nc], *outs[:n])[1:]
        # One of both codes: that of the body, or numbered behind it that of the condition.
        told = [_as_varying(x, axes) for x in (*outs[n:], *after)]
        late = (told[0] == 0) & (told[kb] != 0)
        told[0] = wnp.where(late, told[kb] + np.int32(len(body.sites)), told[0])
        return [*outs[:n], *_first(old, told)]

    def go_on(*args: object) -> list:
        return eval_closed(without_checks(cond), *args[: nc + n])

    # Errors are carried: code 0 stands for none, and the first one that is found stays.
    init = [_as_varying(instantiate_zero(a), axes) for a in types]
    added = [typeof(x) for x in init]
    c_in, b_in = p["cond_jaxpr"].in_avals, p["body_jaxpr"].in_avals
    outs = while_p.bind(
        *c_consts,
        *c_consts,
        *b_consts,
        *carry,
        *init,
        cond_jaxpr=retraced(go_on, [*c_in, *added], "cond"),
        body_jaxpr=retraced(step, [*c_in[:nc], *b_in, *added], "body"),
        cond_nconsts=nc,
        body_nconsts=nc + nb,
    )
    payloads = [*outs[n + 1 : n + kb], *outs[n + kb + 1 : n + k]]
    checks.join(outs[n], payloads, [*body.sites, *cond.sites])
    return outs[:n]


def _shard_map(checks: Checks, eqn: Eqn, ins: Sequence[Any]) -> list | None:
    """Join the devices' errors: the check that comes first in the program is reported."""
    p = eqn.rule_params
    manual = frozenset(p["manual"])
    with manual_scope(p["mesh"], p["manual"], p["check_vma"]):
        inner = checked(p["jaxpr"], checks.errors)
        n, k = inner.num_outs, len(_found(inner))

        def body(*args: object) -> list:
            outs = eval_closed(inner.jaxpr, *args)
            codes = [wnp.expand_dims(_as_varying(x, manual), 0) for x in outs[n:]]
            return [*outs[:n], *codes]

        if not inner.sites:
            return None
        jaxpr = retraced(body, p["jaxpr"].in_avals, p["jaxpr"].jaxpr.debug)
    specs = (*p["out_specs"], *(PartitionSpec(p["manual"]),) * k)
    outs = shard_map_p.bind(*ins, **{**p, "jaxpr": jaxpr, "out_specs": specs})
    codes = [whole(x) for x in outs[n:]]
    at = wnp.argmin(wnp.where(codes[0] != 0, codes[0], np.int32(2**31 - 1)))
    code, *payloads = (x[at] for x in codes)
    checks.join(code, payloads, inner.sites)
    return outs[:n]


ENTERED |= {
    jit_p.name: _jit,
    remat_p.name: _jit,
    **dict.fromkeys(("custom_jvp_call", "custom_vjp_call", "custom_vmap_call"), _with_rules),
    cond_p.name: _cond,
    scan_p.name: _scan,
    while_p.name: _while,
    shard_map_p.name: _shard_map,
}
