"""debug_nans and debug_infs: find the equation that made a NaN or an infinity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.core import dtypes
from weft.core.config import config
from weft.core.jaxpr import ClosedJaxpr, Literal
from weft.core.trace import typeof
from weft.driver.jit_op import jit_p


def _bad(x: Any) -> str | None:
    if not dtypes.is_inexact(getattr(typeof(x), "dtype", None)):
        return None
    host = np.asarray(x)
    if host.dtype.kind not in "fc":
        host = host.astype(np.float32)
    if config.debug_nans and np.isnan(host).any():
        return "NaN"
    if config.debug_infs and np.isinf(host).any():
        return "inf"
    return None


def check_results(outs: Sequence[Any], closed: ClosedJaxpr, args: Sequence[Any]) -> None:
    """Raises FloatingPointError naming the first equation whose result is not finite."""
    kind = next((k for k in map(_bad, outs) if k), None)
    if kind is None:
        return
    if len(closed.eqns) <= 1 and not any(e.primitive is jit_p for e in closed.eqns):
        where = (
            f"{closed.eqns[0].primitive.name} ({closed.eqns[0].source})"
            if closed.eqns
            else "a constant"
        )
        raise FloatingPointError(f"{kind} in the result of {where}")
    env = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
    env.update(zip(closed.jaxpr.invars, args, strict=True))
    for eqn in closed.eqns:
        ins = [v.val if isinstance(v, Literal) else env[v] for v in eqn.invars]
        try:
            out = eqn.primitive.bind(*ins, **eqn.params)
        except FloatingPointError as e:
            raise FloatingPointError(f"{e}, reached from {eqn.source}") from None
        if eqn.primitive.multiple_results:
            env.update(zip(eqn.outvars, out, strict=True))
        else:
            env[eqn.outvars[0]] = out
    raise FloatingPointError(
        f"{kind} in a result of {closed.jaxpr.debug}, which op-by-op evaluation does not reproduce"
    )
