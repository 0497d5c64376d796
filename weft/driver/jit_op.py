# Tests: tests/driver/test_jit.py
"""The jit op: a jaxpr called as one function, under every transformation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from weft.autodiff.jvp import jvp_jaxpr, linearize_jaxpr
from weft.autodiff.transpose import transpose_jaxpr
from weft.autodiff.vmap import AxisData, batch_jaxpr, dims_in_front, to_front
from weft.core.effects import Effect
from weft.core.jaxpr import ClosedJaxpr, jaxpr_axes
from weft.core.masks import pick, unpick
from weft.core.primitive import Primitive
from weft.core.undefined import is_undefined
from weft.sharding.named import type_sharding
from weft.sharding.spec import PartitionSpec

if TYPE_CHECKING:
    from weft._xla.mlir import ir
    from weft.core.aval import ShapedArray
    from weft.core.undefined import UndefinedPrimal
    from weft.lowering.context import RuleContext
    from weft.typing import ArrayLike

Placements = tuple  # per flat operand or result a Sharding, or None where propagation decides


def _abstract(
    *avals: ShapedArray, jaxpr: ClosedJaxpr, out_shardings: Placements, **params: object
) -> list:
    if not any(out_shardings):
        return list(jaxpr.out_avals)
    return [typed_as(a, s) for a, s in zip(jaxpr.out_avals, out_shardings, strict=True)]


def typed_as(aval: ShapedArray, sharding: object) -> Any:
    """Return the type of a value that jit places: Explicit axes of the sharding are part of it."""
    typed = type_sharding(sharding, aval.ndim) if sharding is not None else None
    return aval if typed is None or typed is aval.sharding else aval.update(sharding=typed)


def _effects(avals: Sequence[Any], params: dict[str, Any]) -> frozenset[Effect]:
    return params["jaxpr"].effects


def _jvp(
    primals: list,
    tangents: list,
    *,
    jaxpr: ClosedJaxpr,
    in_shardings: tuple,
    out_shardings: tuple,
    donated: tuple,
    **params: object,
) -> tuple:
    nonzero = [t is not None for t in tangents]
    pushed, out_nonzero = jvp_jaxpr(jaxpr, nonzero)
    outs = jit_p.bind(
        *primals,
        *(t for t in tangents if t is not None),
        jaxpr=pushed,
        in_shardings=(*in_shardings, *pick(in_shardings, nonzero)),
        out_shardings=(*out_shardings, *pick(out_shardings, out_nonzero)),
        donated=(*donated, *pick(donated, nonzero)),
        **params,
    )
    n = len(jaxpr.out_avals)
    return outs[:n], unpick(outs[n:], out_nonzero)


def _linearize(
    primals: list,
    tangents: list,
    *,
    jaxpr: ClosedJaxpr,
    in_shardings: tuple,
    out_shardings: tuple,
    donated: tuple,
    **params: object,
) -> tuple:
    nonzero = [t is not None for t in tangents]
    split = linearize_jaxpr(jaxpr, nonzero)
    outs = jit_p.bind(
        *primals,
        jaxpr=split.primal,
        in_shardings=in_shardings,
        out_shardings=(*out_shardings, *(None,) * split.num_residuals),
        donated=(False,) * len(primals),
        **params,
    )
    n = len(jaxpr.out_avals)
    residuals = split.residuals(primals, outs[n:])
    nonzero_tangents = [t for t in tangents if t is not None]
    result = jit_p.bind(
        *residuals,
        *nonzero_tangents,
        jaxpr=split.tangent,
        in_shardings=(*(None,) * len(residuals), *pick(in_shardings, nonzero)),
        out_shardings=tuple(pick(out_shardings, split.nonzero_out)),
        donated=(False,) * (len(residuals) + len(nonzero_tangents)),
        **params,
    )
    return outs[:n], unpick(result, split.nonzero_out)


def _transpose(
    cts: list,
    *args: ArrayLike | UndefinedPrimal,
    jaxpr: ClosedJaxpr,
    in_shardings: tuple,
    out_shardings: tuple,
    donated: tuple,
    **params: object,
) -> list:
    linear = [is_undefined(a) for a in args]
    nonzero = [ct is not None for ct in cts]
    backward, ct_nonzero = transpose_jaxpr(jaxpr, linear, nonzero)
    is_constant = [not lin for lin in linear]
    ct_shardings = pick(in_shardings, linear)
    n = sum(is_constant) + sum(nonzero)
    outs = jit_p.bind(
        *pick(args, is_constant),
        *(ct for ct in cts if ct is not None),
        jaxpr=backward,
        in_shardings=(*pick(in_shardings, is_constant), *pick(out_shardings, nonzero)),
        out_shardings=tuple(pick(ct_shardings, ct_nonzero)),
        donated=(False,) * n,
        **params,
    )
    return unpick(unpick(outs, ct_nonzero), linear)


def _batched(sharding: Any, batched: bool, axis: AxisData) -> Any:
    """Return the sharding of a value with a batch dimension in front; None where it has no spec."""
    if not batched:
        return sharding
    if not hasattr(sharding, "spec"):
        return None

    lead = PartitionSpec.UNCONSTRAINED if axis.spmd_name is None else axis.spmd_name
    return sharding.with_spec(PartitionSpec(lead, *sharding.spec))


def _batch(
    axis: AxisData,
    args: list,
    dims: list,
    *,
    jaxpr: ClosedJaxpr,
    in_shardings: tuple,
    out_shardings: tuple,
    **params: object,
) -> tuple:
    moved, batched = to_front(args, dims)
    inner, out_batched = batch_jaxpr(jaxpr, axis, batched)
    outs = jit_p.bind(
        *moved,
        jaxpr=inner,
        in_shardings=tuple(
            _batched(s, b, axis) for s, b in zip(in_shardings, batched, strict=True)
        ),
        out_shardings=tuple(
            _batched(s, b, axis) for s, b in zip(out_shardings, out_batched, strict=True)
        ),
        **params,
    )
    return outs, dims_in_front(out_batched)


def _lower(
    ctx: RuleContext,
    *operands: ir.Value,
    jaxpr: ClosedJaxpr,
    name: str,
    in_shardings: tuple,
    out_shardings: tuple,
    **params: Any,
) -> list:
    from weft.lowering.sharding import constrain

    if params["options"] not in ((), ctx.module.compiler_options):
        raise ValueError(
            f"jit of {name}: compiler_options={dict(params['options'])!r} is given inside of a "
            "program that is compiled as a whole; give it to the outermost jit"
        )
    placed = [
        constrain(ctx, x, s, a)
        for x, s, a in zip(operands, in_shardings, jaxpr.in_avals, strict=True)
    ]
    outs = ctx.call(jaxpr, placed, name)
    return [
        constrain(ctx, x, s, a)
        for x, s, a in zip(outs, out_shardings, jaxpr.out_avals, strict=True)
    ]


def _impl(*args: ArrayLike, jaxpr: ClosedJaxpr, **params: object) -> list:
    from weft.driver.execute import run_jaxpr

    return run_jaxpr(jaxpr, args, params)


jit_p = Primitive(
    "jit",
    abstract=_abstract,
    effects=_effects,
    jvp=_jvp,
    linearize=_linearize,
    transpose=_transpose,
    batch=_batch,
    lower=_lower,
    impl=_impl,
    named_axes=lambda params: jaxpr_axes(params["jaxpr"]),
    calls=True,
    multiple_results=True,
    own_types=True,
    higher_order=True,
)
