"""Type-checking jaxprs: what the option `enable_checks` does after every trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.core.aval import plain_type
from weft.core.errors import has_page
from weft.core.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Literal, Var, open_jaxpr, subjaxprs
from weft.core.typing import infer

if TYPE_CHECKING:
    from weft.core.aval import ShapedArray


@has_page()
class JaxprTypeError(TypeError):
    """A jaxpr that reads a variable before it is made, or whose types do not follow from its ops.

    Such a jaxpr comes from a faulty rule, not from the program that was traced.
    """


def check_jaxpr(jaxpr: Jaxpr | ClosedJaxpr) -> None:
    """Raise JaxprTypeError unless the jaxpr and all inner ones are well-formed and well-typed."""
    if isinstance(jaxpr, ClosedJaxpr) and len(jaxpr.consts) != len(jaxpr.jaxpr.constvars):
        raise JaxprTypeError(
            f"{jaxpr.jaxpr.debug}: {len(jaxpr.consts)} constants for "
            f"{len(jaxpr.jaxpr.constvars)} variables"
        )
    open_jaxpr(jaxpr).memo("checked", lambda: _check(open_jaxpr(jaxpr)))


def _check(j: Jaxpr) -> None:
    defined: set[Any] = {*j.constvars, *j.invars}
    for eqn in j.eqns:
        _check_reads(j, eqn.invars, defined, eqn.primitive.name, eqn)
        _check_types(j, eqn)
        for _, inner in subjaxprs(eqn.rule_params):
            check_jaxpr(inner)
        _check_inner(j, eqn)
        for v in eqn.outvars:
            if v in defined:
                raise JaxprTypeError(f"{_at(j, eqn)}: a result is assigned twice")
            defined.add(v)
    _check_reads(j, j.outvars, defined, "the result", None)


def _at(jaxpr: Jaxpr, eqn: Eqn | None) -> str:
    return f"{jaxpr.debug}" + (f": {eqn.primitive.name} ({eqn.source})" if eqn is not None else "")


def _check_reads(jaxpr: Jaxpr, atoms: list, defined: set, label: str, eqn: Eqn | None) -> None:
    for i, v in enumerate(atoms):
        if isinstance(v, Var) and v not in defined:
            raise JaxprTypeError(
                f"{_at(jaxpr, eqn)}: operand {i} of {label} is a variable of type "
                f"{v.aval.str_short()} that nothing has made"
            )
        if not isinstance(v, Var | Literal):
            raise JaxprTypeError(f"{_at(jaxpr, eqn)}: operand {i} of {label} is {v!r}")


def _check_types(jaxpr: Jaxpr, eqn: Eqn) -> None:
    prim = eqn.primitive
    try:
        out, effects, casts = infer(prim, [v.aval for v in eqn.invars], eqn.rule_params)
    except (TypeError, ValueError) as e:
        raise JaxprTypeError(f"{_at(jaxpr, eqn)}: operands do not fit: {e}") from e
    if casts is not None:
        raise JaxprTypeError(f"{_at(jaxpr, eqn)}: operands vary over different axes")
    outs = out if prim.multiple_results else [out]
    if len(outs) != len(eqn.outvars):
        raise JaxprTypeError(
            f"{_at(jaxpr, eqn)}: {len(eqn.outvars)} results, the op has {len(outs)}"
        )
    for i, (want, v) in enumerate(zip(outs, eqn.outvars, strict=True)):
        if plain_type(want) != plain_type(v.aval):
            raise JaxprTypeError(
                f"{_at(jaxpr, eqn)}: result {i} has type {_text(v.aval)}, the op gives "
                f"{_text(want)}"
            )
    if not effects <= eqn.effects:
        raise JaxprTypeError(f"{_at(jaxpr, eqn)}: effects {effects} are not recorded")


def _check_inner(jaxpr: Jaxpr, eqn: Eqn) -> None:
    """Check that inner jaxprs take and return the types of the operands and results."""
    prim = eqn.primitive
    operands, results = [v.aval for v in eqn.invars], [v.aval for v in eqn.outvars]
    matches: Any = () if prim.inner is None else prim.inner(operands, results, eqn.rule_params)
    called = eqn.rule_params["jaxpr"] if prim.calls else None
    if called is not None:
        matches = (
            ("the program inside", called.in_avals, operands),
            ("the results of the program inside", called.out_avals, results),
        )
    for kind, has, must in matches:
        if len(has) != len(must):
            raise JaxprTypeError(f"{_at(jaxpr, eqn)}: {kind}: {len(has)} values, not {len(must)}")
        for i, (a, b) in enumerate(zip(has, must, strict=True)):
            if not _replaces(a, b):
                raise JaxprTypeError(
                    f"{_at(jaxpr, eqn)}: {kind}: value {i} has type {_text(a)}, the equation "
                    f"has {_text(b)}"
                )


def _replaces(a: Any, b: Any) -> bool:
    """Return whether a value of type `b` may stand for a variable of type `a`.

    The partitioner places what has no explicit sharding, such as a residual of an Auto region,
    which is of explicit type again where it is an array.
    """
    a, b = plain_type(a), plain_type(b)
    if None in (getattr(a, "sharding", None), getattr(b, "sharding", None)):
        a, b = (x.update(sharding=None) if hasattr(x, "sharding") else x for x in (a, b))
    return bool(a == b)


def _text(x: tuple | ShapedArray) -> str:
    return x.str_short() if hasattr(x, "str_short") else str(x)
