# Tests: tests/compat/test_as_jax.py
"""JAX's lowering rules, `rule(ctx, *values, **params)`, as weft's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft._xla import mlir as _mlir
from weft._xla.mlir import ir
from weft.lowering.context import RuleContext, dense_attr, ir_type

if TYPE_CHECKING:
    from weft.core.primitive import Primitive
    from weft.runtime.array import Array


class ModuleContext:
    """The context of the module under construction, for rules."""

    def __init__(self, module: Any) -> None:
        self._module = module

    platforms = property(lambda self: tuple(self._module.platforms))
    context = property(lambda self: _mlir.context())

    def get_backend(self, optional: bool = False) -> Any:
        from weft.runtime.backend import devices

        return devices()[0].client


class LoweringRuleContext:
    """The context of a lowering rule: the equation's types, its primitive, the module."""

    def __init__(self, ctx: RuleContext, **changes: Any) -> None:
        self.weft = ctx
        self.module_context = ModuleContext(ctx.module)
        self.primitive: Any = ctx.eqn.primitive
        self.name_stack: Any = ""
        self.traceback: Any = None
        self.avals_in: Sequence[Any] = ctx.avals_in
        self.avals_out: Sequence[Any] = ctx.avals_out
        self.tokens_in: Any = None
        self.tokens_out: Any = None
        self.axis_size_env: Any = None
        self.dim_var_values: Sequence[Any] = ()
        self.__dict__.update(changes)

    def __getattr__(self, name: str) -> Any:
        # What weft's own rules ask of their context, such as those of `ffi_lowering`.
        return getattr(self.__dict__["weft"], name)

    def replace(self, **changes: object) -> LoweringRuleContext:
        fields = {name: value for name, value in self.__dict__.items() if name != "weft"}
        return LoweringRuleContext(self.weft, **{**fields, **changes})

    def set_tokens_out(self, tokens: object) -> None:
        self.tokens_out = tokens


def register_lowering(
    prim: Primitive,
    rule: Callable,
    platform: str | None = None,
    inline: bool = True,
    cacheable: bool = True,
) -> Callable:
    """Give a primitive its lowering, on one platform or on all that have none of their own."""
    lowerings = getattr(prim, "lowerings", None)
    if lowerings is None:  # one of weft's: the rule takes its place
        prim.lower = _lower({None: rule}, prim)
        return rule
    lowerings[platform] = rule
    prim.lower = _lower(lowerings, prim)
    return rule


_ALIASES = {"gpu": ("cuda", "rocm"), "cuda": ("gpu",), "rocm": ("gpu",)}


def _lower(lowerings: dict[str | None, Callable], prim: Primitive) -> Callable:
    def lower(ctx: RuleContext, *operands: ir.Value, **params: object) -> Any:
        platform = ctx.module.platforms[0]
        names = (platform, *_ALIASES.get(platform, ()), None)
        rule = next((lowerings[n] for n in names if n in lowerings), None)
        if rule is None:
            raise NotImplementedError(
                f"MLIR translation rule for primitive {prim.name!r} not found for platform "
                f"{platform}: register one with mlir.register_lowering"
            )
        with ctx.loc:
            out = rule(LoweringRuleContext(ctx), *operands, **params)
        values = _flat(out)
        return values if prim.multiple_results else values[0]

    return lower


def _flat(out: list | ir.Value) -> list:
    """Return the values of a rule's result, which may be nested or an operation."""
    if isinstance(out, ir.Value):
        return [out]
    if hasattr(out, "results") and not isinstance(out, list | tuple):
        return list(out.results)
    return [v for o in out for v in _flat(o)]


def lower_fun(fun: Callable, multiple_results: bool = True) -> Callable:
    """Return a lowering rule made of a function that computes the primitive by other ops."""

    def rule(ctx: LoweringRuleContext, *values: ir.Value, **params: object) -> list:
        def flat(*xs: Array) -> list:
            out = fun(*xs, **params)
            return list(out) if multiple_results else [out]

        closed = ctx.weft._trace(flat, ctx.avals_in)
        return ctx.weft.module.lower_parts(ctx.weft, closed, values)

    return rule


def aval_to_ir_type(aval: object) -> ir.Type:
    return ir_type(aval)


def dtype_to_ir_type(dtype: object) -> ir.Type:
    return _mlir.element_type(dtype)


def ir_constant(value: object, aval: object = None) -> ir.Value:
    """Return a constant at the insertion point."""
    value = np.asarray(value)
    attribute = dense_attr(value)
    results = [_mlir.tensor_type(value.shape, value.dtype)]
    loc = ir.Location.unknown(_mlir.context())
    op = ir.Operation.create("stablehlo.constant", results, [], {"value": attribute}, loc=loc)
    return op.result


def aval_to_ir_types(ctx: object, aval: object) -> tuple[ir.Type, ...]:
    """Return the types of the values that stand for one value of a program: one."""
    return (ir_type(aval),)


def ir_constants(val: object, *, const_lowering: object = None, aval: object = None) -> tuple:
    return (ir_constant(val),)


def i32_attr(i: int) -> ir.Attribute:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(32, _mlir.context()), i)


def i64_attr(i: int) -> ir.Attribute:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64, _mlir.context()), i)


def dense_int_array(values: Sequence[int]) -> ir.Attribute:
    return ir.DenseI64ArrayAttr.get(values, _mlir.context())


def dense_int_elements(values: Sequence[int]) -> ir.Attribute:
    return ir_attribute(np.asarray(values, np.int64))


def ir_attribute(val: Any) -> ir.Attribute:
    """Return a Python value as an attribute: what holds others becomes an array of attributes."""
    context = _mlir.context()
    if isinstance(val, bool | np.bool_):
        return ir.BoolAttr.get(bool(val), context)
    if isinstance(val, str):
        return ir.StringAttr.get(val, context)
    if isinstance(val, bytes):
        return ir.StringAttr.get(val.decode("latin-1"), context)
    if isinstance(val, int):
        return i64_attr(val)
    if isinstance(val, float):
        return ir.FloatAttr.get(_mlir.element_type("float64"), val, ir.Location.unknown(context))
    if isinstance(val, dict):
        return ir.DictAttr.get({k: ir_attribute(v) for k, v in val.items()}, context)
    if isinstance(val, list | tuple):
        return ir.ArrayAttr.get([ir_attribute(v) for v in val], context)
    if isinstance(val, ir.Attribute):
        return val
    if isinstance(val, np.generic | np.ndarray):
        with context:
            return dense_attr(np.asarray(val))
    raise TypeError(f"ir_attribute: {type(val).__name__} has no attribute: {val!r:.80}")


def flatten_ir_values(xs: Sequence[Any]) -> list:
    """Values, or types, of which some stand together in tuples, one after the other."""
    return [v for x in xs for v in (x if isinstance(x, tuple | list) else (x,))]
