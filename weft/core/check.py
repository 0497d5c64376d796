"""Type-checking jaxprs: what the option `enable_checks` does after every trace."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from weft.core.aval import Mat, ShapedArray
from weft.core.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Literal, Var, open_jaxpr, subjaxprs
from weft.core.typing import infer


class JaxprTypeError(TypeError):
    """A jaxpr that reads a variable before it is made, or whose types do not follow from its ops.

    Such a jaxpr comes from a faulty rule, not from the program that was traced.
    """


def check_jaxpr(jaxpr: Jaxpr | ClosedJaxpr) -> None:
    """Raises JaxprTypeError unless the jaxpr and all inner ones are well-formed and well-typed."""
    if isinstance(jaxpr, ClosedJaxpr) and len(jaxpr.consts) != len(jaxpr.jaxpr.constvars):
        raise JaxprTypeError(
            f"{jaxpr.jaxpr.debug}: {len(jaxpr.consts)} constants for "
            f"{len(jaxpr.jaxpr.constvars)} variables"
        )
    open_jaxpr(jaxpr).memo("checked", lambda: _check(open_jaxpr(jaxpr)))


def _check(j: Jaxpr) -> None:
    known: set[Any] = {*j.constvars, *j.invars}
    for eqn in j.eqns:
        _check_reads(j, eqn.invars, known, eqn.primitive.name, eqn)
        _check_types(j, eqn)
        for _, inner in subjaxprs(eqn.params):
            check_jaxpr(inner)
        _check_inner(j, eqn)
        for v in eqn.outvars:
            if v in known:
                raise JaxprTypeError(f"{_at(j, eqn)}: a result is assigned twice")
            known.add(v)
    _check_reads(j, j.outvars, known, "the result", None)


def _at(jaxpr: Jaxpr, eqn: Eqn | None) -> str:
    return f"{jaxpr.debug}" + (f": {eqn.primitive.name} ({eqn.source})" if eqn is not None else "")


def _check_reads(jaxpr: Jaxpr, atoms: Any, known: set, what: str, eqn: Eqn | None) -> None:
    for i, v in enumerate(atoms):
        if isinstance(v, Var) and v not in known:
            raise JaxprTypeError(
                f"{_at(jaxpr, eqn)}: operand {i} of {what} is a variable of type "
                f"{v.aval.str_short()} that nothing has made"
            )
        if not isinstance(v, Var | Literal):
            raise JaxprTypeError(f"{_at(jaxpr, eqn)}: operand {i} of {what} is {v!r}")


def _check_types(jaxpr: Jaxpr, eqn: Eqn) -> None:
    prim = eqn.primitive
    try:
        out, effects, casts = infer(prim, [v.aval for v in eqn.invars], eqn.params)
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
        if _bare(want) != _bare(v.aval):
            raise JaxprTypeError(
                f"{_at(jaxpr, eqn)}: result {i} has type {v.aval.str_short()}, the op gives "
                f"{want.str_short()}"
            )
    if not effects <= eqn.effects:
        raise JaxprTypeError(f"{_at(jaxpr, eqn)}: effects {effects} are not recorded")


# Operands and inner programs ---------------------------------------------------------------------
#
# For each op, what its inner programs take and give: (what, the types it has, those it must have).

Match = tuple[str, Sequence[Any], Sequence[Any]]


def _cond(avals: list, outs: list, params: dict) -> Iterator[Match]:
    # Along axes by which devices choose their branches differently, types say nothing: what is
    # equal on the devices that take a branch differs from what the others have.
    axes = avals[0].mat.varying
    for i, branch in enumerate(params["branches"]):
        for what, has, must in (
            (f"branch {i}", branch.in_avals, avals[1:]),
            (f"the results of branch {i}", branch.out_avals, outs),
        ):
            yield what, [_outside(a, axes) for a in has], [_outside(a, axes) for a in must]


def _scan(avals: list, outs: list, params: dict) -> Iterator[Match]:
    start = params["num_consts"] + params["num_carry"]
    jaxpr, n = params["jaxpr"], params["num_carry"]
    xs, ys = avals[start:], outs[n:]
    yield "the body", jaxpr.in_avals, [*avals[:start], *map(_row, xs)]
    yield "the results of the body", jaxpr.out_avals, [*avals[start - n : start], *map(_row, ys)]
    for what, stacked in (("xs", xs), ("ys", ys)):
        lengths = [a.shape[0] for a in stacked]
        yield f"the lengths of {what}", lengths, [params["length"]] * len(lengths)


def _while(avals: list, outs: list, params: dict) -> Iterator[Match]:
    n_cond = params["cond_nconsts"]
    start = n_cond + params["body_nconsts"]
    carry = avals[start:]
    yield "the condition", params["cond_jaxpr"].in_avals, [*avals[:n_cond], *carry]
    yield "the body", params["body_jaxpr"].in_avals, [*avals[n_cond:start], *carry]
    yield "the results of the body", params["body_jaxpr"].out_avals, carry


def _shard_map(avals: list, outs: list, params: dict) -> Iterator[Match]:
    jaxpr, mesh = params["jaxpr"], params["mesh"]

    def shards(whole: Sequence[Any], specs: Sequence[Any]) -> list:
        return [_shard(a, s, mesh) for a, s in zip(whole, specs, strict=True)]

    for what, inner, whole, specs in (
        ("the body", jaxpr.in_avals, avals, params["in_specs"]),
        ("the results of the body", jaxpr.out_avals, outs, params["out_specs"]),
    ):
        yield what, [(a.shape, a.dtype) for a in inner], shards(whole, specs)


def _linear_solve(avals: list, outs: list, params: dict) -> Iterator[Match]:
    parts = ("matvec", "vecmat", "solve", "transpose_solve")
    n = sum(params["counts"])
    start = 0
    for name, count in zip(parts, params["counts"], strict=True):
        part = params[name]
        if part is not None:
            yield name, part.in_avals, [*avals[start : start + count], *avals[n:]]
        start += count


def _program(avals: list, outs: list, params: dict) -> Iterator[Match]:
    """Ops that are a call of one program on all operands."""
    jaxpr = params["jaxpr"]
    if jaxpr is not None:
        yield "the program inside", jaxpr.in_avals, avals
        yield "the results of the program inside", jaxpr.out_avals, outs


_INNER: dict[str, Callable[[list, list, dict], Iterator[Match]]] = {
    "cond": _cond,
    "scan": _scan,
    "while": _while,
    "shard_map": _shard_map,
    "custom_linear_solve": _linear_solve,
    **dict.fromkeys(
        ("jit", "checkpoint", "custom_jvp_call", "custom_vjp_call", "custom_vmap_call"), _program
    ),
}


def _check_inner(jaxpr: Jaxpr, eqn: Eqn) -> None:
    rule = _INNER.get(eqn.primitive.name)
    if rule is None:
        return
    operands, results = [v.aval for v in eqn.invars], [v.aval for v in eqn.outvars]
    for what, has, must in rule(operands, results, eqn.params):
        if len(has) != len(must):
            raise JaxprTypeError(f"{_at(jaxpr, eqn)}: {what}: {len(has)} values, not {len(must)}")
        for i, (a, b) in enumerate(zip(has, must, strict=True)):
            if _bare(a) != _bare(b):
                raise JaxprTypeError(
                    f"{_at(jaxpr, eqn)}: {what}: value {i} has type {_text(a)}, the equation "
                    f"has {_text(b)}"
                )


def _outside(aval: Any, axes: frozenset) -> Any:
    """The type without what it says along the axes."""
    if not axes or not isinstance(aval, ShapedArray):
        return aval
    m = aval.mat
    return aval.update(mat=Mat(m.varying - axes, m.unreduced - axes, m.reduced - axes))


def _row(aval: Any) -> Any:
    """The type of one element along the first dimension."""
    if not isinstance(aval, ShapedArray):
        return aval.remove_dim(0)
    sharding = None if aval.sharding is None else aval.sharding.without_dim(0)
    return ShapedArray(aval.shape[1:], aval.dtype, False, sharding, aval.mat)


def _shard(aval: Any, spec: Any, mesh: Any) -> tuple:
    """Shape and dtype of what one device has of a value."""
    parts = [math.prod(mesh.shape[n] for n in spec.axes_of(d)) for d in range(len(aval.shape))]
    return tuple(d // n for d, n in zip(aval.shape, parts, strict=True)), aval.dtype


def _text(x: Any) -> str:
    return x.str_short() if hasattr(x, "str_short") else str(x)


def _bare(aval: Any) -> Any:
    """The type without what may differ between equal programs: weak types."""
    return aval.strip_weak_type() if hasattr(aval, "strip_weak_type") else aval
