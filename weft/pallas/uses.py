# Tests: tests/pallas/test_op_table.py
"""Find the refs that a jaxpr writes, also where it passes them on to other jaxprs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from weft.core.jaxpr import ClosedJaxpr, Eqn, Jaxpr, open_jaxpr, subjaxprs
from weft.pallas.ir import ACCESSES

WRITTEN = {**dict.fromkeys(ACCESSES.keys() - {"get"}, 0), "async_copy_start": 1}
"""Op → the position of the ref whose contents it changes."""


def passed(eqn: Eqn) -> Iterator[tuple[Any, list[int]]]:
    """Return an equation's bodies, each with the operands' numbers of its first inputs.

    Refs are constants of loops, which come first.
    """
    params, name = eqn.rule_params, eqn.primitive.name
    for param, body in subjaxprs(params):
        first, count = 0, len(open_jaxpr(body).invars)
        if name == "cond":
            first = 1
        elif name == "scan":
            count = params["num_consts"]
        elif name == "while":
            first = params["cond_nconsts"] if param == "body_jaxpr" else 0
            count = params["body_nconsts" if param == "body_jaxpr" else "cond_nconsts"]
        elif name == "run_scoped":
            count = params["num_consts"]
        yield body, list(range(first, first + count))


def written_vars(jaxpr: Jaxpr | ClosedJaxpr) -> dict[Any, Eqn]:
    """Return the ref arguments that a jaxpr writes to, with the first equation that does."""
    inner = open_jaxpr(jaxpr)
    return inner.memo("written refs", lambda: _written(inner))


def _written(jaxpr: Jaxpr) -> dict[Any, Eqn]:
    writers: dict[Any, Eqn] = {}
    for eqn in jaxpr.eqns:
        operand = WRITTEN.get(eqn.primitive.name)
        if operand is not None:
            writers.setdefault(eqn.invars[operand], eqn)
        for body, operands in passed(eqn):
            written = written_vars(body)
            for v, k in zip(open_jaxpr(body).invars, operands, strict=False):
                if v in written:
                    writers.setdefault(eqn.invars[k], written[v])
    return writers
