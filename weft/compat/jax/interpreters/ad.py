# Tests: tests/compat/test_as_jax.py
"""jax.interpreters.ad: derivatives of primitives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.autodiff.jvp import JVPTrace as JVPTrace
from weft.autodiff.jvp import JVPTracer as JVPTracer
from weft.autodiff.transpose import UndefinedPrimal as UndefinedPrimal
from weft.autodiff.transpose import is_undefined as is_undefined_primal
from weft.autodiff.zeros import add_any_p as add_jaxvals_p
from weft.compat.primitive import Primitive, Zero, instantiate_zeros
from weft.compat.primitive import primitive_jvps as primitive_jvps
from weft.compat.primitive import primitive_transposes as primitive_transposes

__all__ = [
    "JVPTrace",
    "JVPTracer",
    "UndefinedPrimal",
    "Zero",
    "add_jaxvals",
    "add_jaxvals_p",
    "add_tangents",
    "defbilinear",
    "defjvp",
    "defjvp2",
    "deflinear",
    "deflinear2",
    "get_primitive_transpose",
    "instantiate_zeros",
    "is_undefined_primal",
    "primitive_jvps",
    "primitive_transposes",
    "zeros_like_aval",
]


def add_jaxvals(x: object, y: object) -> Any:
    return add_jaxvals_p.bind(x, y)


def add_tangents(x: object, y: object) -> Any:
    """Return the sum of two tangents, either of which may be a `Zero`."""
    if isinstance(x, Zero):
        return y
    return x if isinstance(y, Zero) else add_jaxvals(x, y)


def zeros_like_aval(aval: Any) -> Any:
    return instantiate_zeros(Zero(aval))


def get_primitive_transpose(prim: Primitive) -> Callable:
    try:
        return primitive_transposes[prim]
    except KeyError:
        raise NotImplementedError(
            f"Transpose rule (for reverse-mode differentiation) for {prim.name!r} not implemented"
        ) from None


def deflinear(prim: Primitive, transpose: Callable) -> None:
    """Return a primitive linear in its operands together; transpose(cotangent, **params)."""
    deflinear2(prim, lambda ct, *_, **params: transpose(ct, **params))


def deflinear2(prim: Primitive, transpose: Callable) -> None:
    """Return the same; transpose(cotangent, *operands, **params)."""

    def jvp(primals: tuple, tangents: tuple, **params: object) -> tuple:
        out = prim.bind(*primals, **params)
        if all(isinstance(t, Zero) for t in tangents):
            outs = out if prim.multiple_results else [out]
            zeros = [Zero.from_primal_value(o) for o in outs]
            return out, zeros if prim.multiple_results else zeros[0]
        return out, prim.bind(*map(instantiate_zeros, tangents), **params)

    primitive_jvps[prim] = jvp
    primitive_transposes[prim] = transpose


def defbilinear(prim: Primitive, lhs_rule: Callable, rhs_rule: Callable) -> None:
    """Return a primitive that is linear in each of two operands; the rules transpose it in one."""
    defjvp(
        prim,
        lambda t, x, y, **params: prim.bind(t, y, **params),
        lambda t, x, y, **params: prim.bind(x, t, **params),
    )

    def transpose(ct: object, x: Any, y: object, **params: object) -> list:
        if is_undefined_primal(x):
            return [None if isinstance(ct, Zero) else lhs_rule(ct, x, y, **params), None]
        return [None, None if isinstance(ct, Zero) else rhs_rule(ct, x, y, **params)]

    primitive_transposes[prim] = transpose


def defjvp(prim: Primitive, *rules: Callable | None) -> None:
    """Register a rule for each operand: rule(tangent, *primals, **params), or None."""
    with_out = [r and (lambda t, out, *xs, _r=r, **params: _r(t, *xs, **params)) for r in rules]
    defjvp2(prim, *with_out)


def defjvp2(prim: Primitive, *rules: Callable | None) -> None:
    """Return the same, the result given to the rules: rule(tangent, result, *primals, **params)."""

    def jvp(primals: Any, tangents: Any, **params: object) -> tuple:
        out = prim.bind(*primals, **params)
        total: Any = Zero.from_primal_value(out)
        for rule, t in zip(rules, tangents, strict=False):
            if rule is not None and not isinstance(t, Zero):
                total = add_tangents(total, rule(t, out, *primals, **params))
        return out, total

    primitive_jvps[prim] = jvp
