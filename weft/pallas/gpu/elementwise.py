# Tests: tests/pallas/test_gpu.py
"""Elementwise ops of kernels in Triton IR."""

from __future__ import annotations

from typing import Any

import numpy as np

import weft.pallas.gpu.float8 as float8
from weft._xla.mlir import ir
from weft.core import dtypes
from weft.core.jaxpr import Eqn
from weft.pallas.gpu.emitter import BOOL, Emitter, element_type, rule

F32, F64 = np.dtype(np.float32), np.dtype(np.float64)


def operands(e: Emitter, eqn: Eqn, xs: tuple) -> list:
    """Bring operands to one shape: rank-0 ones are repeated."""
    shape = eqn.outvars[0].aval.shape
    return [
        e.splat(x, shape) if shape and not v.aval.shape else x
        for v, x in zip(eqn.invars, xs, strict=True)
    ]


def _dtype(eqn: Eqn) -> Any:
    return eqn.invars[0].aval.dtype


@rule("div", "rem", least=4)
@rule("add", "sub", "mul", "max", "min", "and", "or", "xor", least=2)
def _binary(e: Emitter, eqn: Eqn, *xs: ir.Value) -> ir.Value:
    x, y = operands(e, eqn, xs)
    name, dtype = eqn.primitive.name, _dtype(eqn)
    if dtype == BOOL:  # sums and products of booleans are their or and and
        name = {"add": "or", "max": "or", "mul": "and", "min": "and"}.get(name, name)
    if name == "add" and dtype in (F32, F64):
        # XLA's Triton leaves a product and a sum two steps, but adds to products of matrices.
        makers = {_maker(v): v for v in (x, y)}
        if "arith.mulf" in makers and "tt.dot" not in makers:
            product = makers["arith.mulf"]
            return e.same("math.fma", *product.owner.operands, y if product is x else x)
    return e.binary(name, x, y, dtype)


def _maker(x: ir.Value) -> str | None:
    """Return the name of the operation that a value is the result of."""
    operation = getattr(x.owner, "operation", None)
    return None if operation is None else operation.name


@rule("eq", "ne", "lt", "le", least=2)
def _compare(e: Emitter, eqn: Eqn, *xs: ir.Value) -> ir.Value:
    x, y = operands(e, eqn, xs)
    return e.compare(eqn.primitive.name, x, y, _dtype(eqn))


# Functions of one number -------------------------------------------------------------------------

_MATH = ("exp", "exp2", "log", "log2", "sin", "cos", "sqrt", "rsqrt", "floor", "ceil", "erf")
"""Those that Triton compiles as operations of MLIR's math dialect."""

_LIBRARY = {
    **{
        name: name
        for name in (
            *("tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
            *("log1p", "expm1", "log10", "cbrt", "erfc", "lgamma"),
        )
    },
    "erf_inv": "erfinv",
}
"""Those of NVIDIA's libdevice: their names there and, but for its ends, in AMD's ocml."""


def libdevice(e: Emitter, name: str, xs: list) -> ir.Value:
    """Return a function of the GPU's own library, for float32 and float64."""
    single = e.element(xs[0]) == element_type(F32)
    if e.platform == "rocm":
        symbol = f"__ocml_{name}_{'f32' if single else 'f64'}"
    else:
        symbol = f"__nv_{name}{'f' if single else ''}"
    context = xs[0].type.context
    text = lambda s: ir.StringAttr.get(s, context)
    return e.value(
        "tt.extern_elementwise",
        xs,
        xs[0].type,
        libname=text("" if e.platform == "rocm" else "libdevice"),
        libpath=text(""),
        symbol=text(symbol),
        pure=ir.BoolAttr.get(True, context),
    )


@rule(*_MATH, *_LIBRARY, least=4)
def _function(e: Emitter, eqn: Eqn, x: ir.Value) -> ir.Value:
    name = eqn.primitive.name
    return e.same(f"math.{name}", x) if name in _MATH else libdevice(e, _LIBRARY[name], [x])


@rule("pow", "atan2", least=4)
def _function_of_two(e: Emitter, eqn: Eqn, *xs: ir.Value) -> ir.Value:
    x, y = operands(e, eqn, xs)
    if not dtypes.is_float(_dtype(eqn)):
        raise e.fail("powers of integers with traced exponents; use floats")
    return libdevice(e, eqn.primitive.name, [x, y])


@rule("fma", least=4)
def _fma(e: Emitter, eqn: Eqn, *xs: ir.Value) -> ir.Value:
    return e.same("math.fma", *operands(e, eqn, xs))


@rule("logistic", least=4)
def _logistic(e: Emitter, eqn: Eqn, x: ir.Value) -> ir.Value:
    dtype = _dtype(eqn)
    one = e.constant(1.0, e.sizes(x), dtype)
    power = e.same("math.exp", e.same("arith.negf", x))
    return e.binary("div", one, e.binary("add", one, power, dtype), dtype)


@rule("abs", least=2)
def _abs(e: Emitter, eqn: Eqn, x: ir.Value) -> ir.Value:
    dtype = _dtype(eqn)
    if dtypes.is_float(dtype):
        return e.same("math.absf", x)
    return e.same("math.absi", x) if dtypes.is_signed(dtype) else x


@rule("neg", least=2)
def _neg(e: Emitter, eqn: Eqn, x: ir.Value) -> ir.Value:
    dtype = _dtype(eqn)
    if dtypes.is_float(dtype):
        return e.same("arith.negf", x)
    return e.same("arith.subi", e.constant(0, e.sizes(x), dtype), x)


@rule("not")
def _not(e: Emitter, eqn: Eqn, x: ir.Value) -> ir.Value:
    return e.same("arith.xori", x, e.constant(-1, e.sizes(x), _dtype(eqn)))


@rule("round", least=4)
def _round(e: Emitter, eqn: Eqn, x: ir.Value) -> ir.Value:
    to_even = int(eqn.rule_params["rounding_method"]) == 1
    return libdevice(e, "rint" if to_even else "round", [x])


@rule("shift_left", "shift_right_logical", "shift_right_arithmetic")
def _shift(e: Emitter, eqn: Eqn, *xs: ir.Value) -> ir.Value:
    x, y = operands(e, eqn, xs)
    dtype, name = _dtype(eqn), eqn.primitive.name
    bits, sizes = dtype.itemsize * 8, e.sizes(x)
    unsigned = np.dtype(f"uint{bits}")
    far = e.compare("ge", y, bits, unsigned)
    if name == "shift_right_arithmetic":
        return e.same("arith.shrsi", x, e.select(far, e.constant(bits - 1, sizes, dtype), y))
    shifted = e.same("arith.shli" if name == "shift_left" else "arith.shrui", x, y)
    return e.select(far, e.constant(0, sizes, dtype), shifted)


@rule("select_n")
def _select(e: Emitter, eqn: Eqn, which: ir.Value, *cases: ir.Value) -> ir.Value:
    which, no, yes = operands(e, eqn, (which, *cases))
    return e.select(which, yes, no)


# Conversions -------------------------------------------------------------------------------------


def convert(e: Emitter, x: ir.Value, old: Any, new: Any) -> ir.Value:
    """Return the value in another dtype, rounded to nearest or truncated toward zero."""
    old, new = np.dtype(old), np.dtype(new)
    if old == new:
        return x
    sizes = e.sizes(x)
    type_ = e.type(sizes, new)
    if is_narrow(old) and new != np.float16:
        return convert(e, float8.to_float32(e, x, old), F32, new)
    if new == BOOL:
        return e.compare("ne", x, e.constant(0, sizes, old), old)
    if dtypes.is_float(old) and dtypes.is_float(new):
        return _float_to_float(e, x, old, new, type_)
    if dtypes.is_float(old):
        signed = "arith.fptosi" if dtypes.is_signed(new) else "arith.fptoui"
        wide = x if old.itemsize >= 4 else convert(e, x, old, F32)
        return e.value(signed, [wide], type_)
    unsigned = old == BOOL or not dtypes.is_signed(old)
    if dtypes.is_float(new):
        narrow = new if new.itemsize >= 4 else F32
        y = e.value("arith.uitofp" if unsigned else "arith.sitofp", [x], e.type(sizes, narrow))
        return convert(e, y, narrow, new)
    old_bits, new_bits = (1 if old == BOOL else old.itemsize * 8), new.itemsize * 8
    if old_bits == new_bits:
        return x
    if new_bits < old_bits:
        return e.value("arith.trunci", [x], type_)
    return e.value("arith.extui" if unsigned else "arith.extsi", [x], type_)


def is_narrow(dtype: np.dtype) -> bool:
    return dtypes.is_float(dtype) and dtype.itemsize == 1


def _float_to_float(
    e: Emitter, x: ir.Value, old: np.dtype, new: np.dtype, type_: object
) -> ir.Value:
    if is_narrow(old):
        return float8.to_float16(e, x, old)
    if is_narrow(new):
        return float8.from_float32(e, convert(e, x, old, F32), new)
    if old.itemsize == new.itemsize:  # bfloat16 and float16
        return convert(e, convert(e, x, old, F32), F32, new)
    return e.value("arith.extf" if new.itemsize > old.itemsize else "arith.truncf", [x], type_)


@rule("convert_element_type")
def _convert(e: Emitter, eqn: Eqn, x: ir.Value) -> ir.Value:
    return convert(e, x, _dtype(eqn), eqn.outvars[0].aval.dtype)


@rule("bitcast_convert_type")
def _bitcast(e: Emitter, eqn: Eqn, x: ir.Value) -> ir.Value:
    out = eqn.outvars[0].aval
    return x if e.of(out) == x.type else e.value("tt.bitcast", [x], e.of(out))
