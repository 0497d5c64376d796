"""Activation functions; those with a derivative of their own are ops."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import weft.numpy as wnp
from weft.autodiff.op_families import FLOAT, REAL, canonical_axis, elementwise, scalar
from weft.autodiff.shape import broadcast_in_dim
from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.errors import ArgumentError
from weft.core.primitive import Primitive
from weft.core.trace import typeof
from weft.numpy.common import check_array, strong
from weft.ops import elementwise_api as ew
from weft.ops.promote import promote, promote_inexact
from weft.ops.slicing import slice_in_dim

if TYPE_CHECKING:
    from weft._xla.mlir import ir
    from weft.lowering.context import RuleContext
    from weft.runtime.array import Array
    from weft.typing import ArrayLike

_FLOATS = dtypes.FLOATS


def _zeros(x: ArrayLike) -> Any:
    aval = typeof(x)
    return broadcast_in_dim(aval.dtype.type(0), aval.shape, ())


def _op(name: str, formula: Callable, slope: Callable, accepts: str = FLOAT) -> Primitive:
    """Make an elementwise op of one operand: its formula; slope(t, out, x), its derivative."""

    def lower(ctx: RuleContext, x: Array | ir.Value) -> Any:
        aval = ctx.avals_in[0]
        return ctx.lower_fun(formula, x, avals=[ShapedArray(aval.shape, aval.dtype)])[0]

    prim = elementwise(name, lower, accepts=accepts, jvps=[slope])
    prim.formula = formula
    return prim


def _bind(prim: Primitive, x: Array) -> Any:
    """Return the op; for complex numbers its formula, with the derivative that has."""
    formula: Any = prim.formula
    return formula(x) if typeof(x).dtype in dtypes.COMPLEX else prim.bind(x)


def _float(x: Array) -> Any:
    """Return the operand as a float or complex array; integers become floats."""
    aval = typeof(x)
    if aval.dtype in _FLOATS:
        return x
    return promote(x, 0.0)[0] if dtypes.is_bool(aval.dtype) else promote_inexact(x)[0]


def _beside_float(x: Array) -> Any:
    """Return the operand as it is beside a Python float: integers become weak floats."""
    aval = typeof(x)
    return x if aval.dtype in _FLOATS else promote(x, 0.0)[0]


# Rectifiers -----------------------------------------------------------------------------------

relu_p = _op(
    "relu",
    lambda x: wnp.maximum(x, scalar(0, x)),
    lambda t, out, x: ew.select_n_p.bind(ew.gt_p.bind(x, scalar(0, x)), _zeros(t), t),
    REAL,
)


def _within(x: ArrayLike, low: float, high: float) -> Any:
    above, below = ew.gt_p.bind(x, scalar(low, x)), ew.lt_p.bind(x, scalar(high, x))
    return ew.and_p.bind(above, below)


relu6_p = _op(
    "relu6",
    lambda x: wnp.minimum(wnp.maximum(x, scalar(0, x)), scalar(6, x)),
    lambda t, out, x: ew.select_n_p.bind(_within(x, 0, 6), _zeros(t), t),
)


def relu(x: ArrayLike) -> Any:
    """max(x, 0); the derivative at 0 is 0.

    >>> import weft
    >>> weft.grad(weft.nn.relu)(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    if dtypes.is_bool(typeof(x).dtype):
        x = promote(x, 0)[0]
    return _bind(relu_p, x)


def relu6(x: ArrayLike) -> Any:
    """min(max(x, 0), 6); the derivative at 0 and 6 is 0.

    >>> from weft import nn, numpy as wnp
    >>> nn.relu6(wnp.array([-4.0, 3.0, 9.0]))
    Array([0., 3., 6.], dtype=float32)
    """
    return _bind(relu6_p, _beside_float(x))


def leaky_relu(x: ArrayLike, negative_slope: ArrayLike = 0.01) -> Any:
    """Return x where x >= 0, else negative_slope * x.

    >>> import weft
    >>> weft.nn.leaky_relu(-1.0, 0.5)
    Array(-0.5, dtype=float32, weak_type=True)
    """
    return wnp.where(wnp.greater_equal(x, 0), x, wnp.multiply(x, negative_slope))


def elu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Any:
    """Return x where x > 0, else alpha (exp(x) - 1).

    Source: Clevert et al., "Fast and accurate deep network learning by exponential linear units".

    >>> import weft
    >>> weft.nn.elu(2.0)
    Array(2., dtype=float32, weak_type=True)
    """
    x = _beside_float(x)
    positive = wnp.greater(x, 0.0)
    # The untaken branch must be finite, or its derivative would turn zeros into NaNs.
    below = ew.expm1(wnp.where(positive, 0.0, x))
    return wnp.where(positive, x, wnp.multiply(below, alpha))


def celu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Any:
    """max(x, 0) + alpha (exp(min(x, 0) / alpha) - 1).

    Source: Barron, "Continuously differentiable exponential linear units".

    >>> import weft
    >>> weft.nn.celu(2.0)
    Array(2., dtype=float32, weak_type=True)
    """
    x = _beside_float(x)
    below = ew.expm1(wnp.divide(wnp.minimum(x, 0.0), alpha))
    return wnp.add(wnp.maximum(x, 0.0), wnp.multiply(below, alpha))


def selu(x: ArrayLike) -> Any:
    """Return the scaled exponential linear unit that keeps mean 0 and variance 1.

    Source: Klambauer et al., "Self-normalizing neural networks".

    >>> import weft
    >>> weft.nn.selu(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return ew.mul(elu(x, 1.6732632423543772848), 1.0507009873554804934)


def hard_tanh(x: ArrayLike) -> Any:
    """Return x clipped to [-1, 1]; the derivative at the ends is 1.

    >>> from weft import nn, numpy as wnp
    >>> nn.hard_tanh(wnp.array([-4.0, 0.5, 4.0]))
    Array([-1. ,  0.5,  1. ], dtype=float32)
    """
    return wnp.where(wnp.greater(x, 1), 1, wnp.where(wnp.less(x, -1), -1, x))


# Sigmoids -------------------------------------------------------------------------------------


def sigmoid(x: ArrayLike) -> Any:
    """1 / (1 + exp(-x)).

    >>> import weft
    >>> weft.nn.sigmoid(0.0)
    Array(0.5, dtype=float32, weak_type=True)
    """
    return ew.logistic_p.bind(_float(x))


def log_sigmoid(x: ArrayLike) -> Any:
    """log(sigmoid(x)), exact for large negative x.

    >>> from weft import nn, numpy as wnp
    >>> nn.log_sigmoid(wnp.array([-1000.0, 1000.0]))
    Array([-1000.,    -0.], dtype=float32)
    """
    return ew.neg_p.bind(softplus(ew.neg_p.bind(_float(x))))


def hard_sigmoid(x: ArrayLike) -> Any:
    """relu6(x + 3) / 6.

    >>> from weft import nn, numpy as wnp
    >>> nn.hard_sigmoid(wnp.array([-4.0, 0.0, 4.0]))
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    return ew.div(_bind(relu6_p, ew.add(_beside_float(x), 3.0)), 6.0)


def sparse_sigmoid(x: ArrayLike) -> Any:
    """0 below -1, 1 above 1, (x + 1) / 2 between.

    >>> from weft import nn, numpy as wnp
    >>> nn.sparse_sigmoid(wnp.array([-2.0, 0.5, 2.0]))
    Array([0.  , 0.75, 1.  ], dtype=float32)
    """
    if dtypes.is_complex(typeof(x).dtype):
        raise ArgumentError("nn.sparse_sigmoid: x must be real, as complex numbers have no order")
    x = _beside_float(x)
    # Not clamp: at -1 and 1 the derivative is that of ties, halfway between both sides.
    return wnp.multiply(wnp.minimum(wnp.maximum(wnp.add(x, 1.0), 0.0), 2.0), 0.5)


def silu(x: ArrayLike) -> Any:
    """Return x sigmoid(x), also called swish.

    >>> import weft
    >>> weft.nn.silu(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    x = _float(x)
    return ew.mul_p.bind(x, ew.logistic_p.bind(x))


swish = silu


def hard_silu(x: ArrayLike) -> Any:
    """Return x hard_sigmoid(x).

    >>> from weft import nn, numpy as wnp
    >>> nn.hard_silu(wnp.array([-4.0, 0.0, 4.0]))
    Array([-0.,  0.,  4.], dtype=float32)
    """
    x = _beside_float(x)
    return ew.mul_p.bind(x, hard_sigmoid(x))


hard_swish = hard_silu


# Smooth rectifiers ----------------------------------------------------------------------------

_ROOT = math.sqrt(2 / math.pi)


def _softplus_formula(x: ArrayLike) -> Any:
    if typeof(x).dtype in dtypes.COMPLEX:
        return wnp.logaddexp(x, 0.0)
    tail = ew.log1p(ew.exp(ew.neg(ew.abs(x))))
    return ew.add(ew.max(x, scalar(0, x)), tail)


softplus_p = _op(
    "softplus",
    _softplus_formula,
    lambda t, out, x: ew.mul_p.bind(t, ew.logistic_p.bind(x)),
)


def _logistic_of_cubic(x: ArrayLike) -> Any:
    """(1 + tanh(u)) / 2 as the logistic function of 2 u: exact where tanh(u) is near -1, too."""
    cubic = ew.add(ew.mul(ew.mul(x, x), 2 * _ROOT * 0.044715), 2 * _ROOT)
    return ew.logistic_p.bind(ew.mul(x, cubic))


def _gelu_tanh_slope(t: ArrayLike, out: Array, x: ArrayLike) -> Any:
    s = _logistic_of_cubic(x)
    inner = ew.add(ew.mul(ew.mul(x, x), 6 * _ROOT * 0.044715), 2 * _ROOT)
    bend = ew.mul(ew.mul(x, inner), ew.mul(s, ew.sub(1.0, s)))
    return ew.mul_p.bind(t, ew.add(s, bend))


def _gelu_erf_slope(t: ArrayLike, out: Array, x: Array) -> Any:
    cdf = ew.mul(ew.erfc(ew.mul(x, -math.sqrt(0.5))), 0.5)
    density = ew.mul(ew.exp(ew.mul(ew.mul(x, x), -0.5)), 1 / math.sqrt(2 * math.pi))
    return ew.mul_p.bind(t, ew.add(cdf, ew.mul(x, density)))


gelu_tanh_p = _op(
    "gelu_tanh",
    lambda x: ew.mul(x, _logistic_of_cubic(x)),
    _gelu_tanh_slope,
)
gelu_p = _op(
    "gelu",
    lambda x: ew.mul(ew.mul(x, 0.5), ew.erfc(ew.mul(x, -math.sqrt(0.5)))),
    _gelu_erf_slope,
)


def gelu(x: ArrayLike, approximate: bool = True) -> Any:
    """Return x times the normal distribution function of x, or its approximation by tanh.

    Source: Hendrycks and Gimpel, "Gaussian error linear units".

    >>> import weft
    >>> weft.nn.gelu(0.0)
    Array(0., dtype=float32)
    """
    return _bind(gelu_tanh_p if approximate else gelu_p, strong(_float(x)))


def softplus(x: ArrayLike) -> Any:
    """log(1 + exp(x)), exact for large x.

    >>> import weft
    >>> weft.nn.softplus(100.0)
    Array(100., dtype=float32, weak_type=True)
    """
    return _bind(softplus_p, _float(x))


def sparse_plus(x: ArrayLike) -> Any:
    """0 below -1, x above 1, (x + 1)**2 / 4 between.

    >>> from weft import nn, numpy as wnp
    >>> nn.sparse_plus(wnp.array([-2.0, 0.0, 2.0]))
    Array([0.  , 0.25, 2.  ], dtype=float32)
    """
    x = _beside_float(x)
    between = ew.mul(ew.integer_pow(ew.add(x, 1.0), 2), 0.25)
    return wnp.where(wnp.less_equal(x, -1.0), 0.0, wnp.where(wnp.greater_equal(x, 1.0), x, between))


def squareplus(x: ArrayLike, b: ArrayLike = 4) -> Any:
    """(x + sqrt(x**2 + b)) / 2.

    Source: Barron, "Squareplus: a softplus-like algebraic rectifier".

    >>> import weft
    >>> weft.nn.squareplus(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    x = _float(x)
    root = wnp.sqrt(wnp.add(ew.mul(x, x), b))
    if typeof(root).dtype in dtypes.COMPLEX:
        return ew.mul(wnp.add(x, root), 0.5)
    # Of negative x the sum cancels; the product with the difference is b.
    total = wnp.add(wnp.abs(x), root)
    return ew.mul(wnp.where(wnp.less(x, 0), wnp.divide(b, total), total), 0.5)


def soft_sign(x: ArrayLike) -> Any:
    """Return x / (|x| + 1).

    >>> from weft import nn, numpy as wnp
    >>> nn.soft_sign(wnp.array([-1.0, 0.0, 3.0]))
    Array([-0.5 ,  0.  ,  0.75], dtype=float32)
    """
    x = _float(x)
    return wnp.divide(x, wnp.add(ew.abs(x), 1.0))


def mish(x: ArrayLike) -> Any:
    """Return x tanh(softplus(x)).

    Source: Misra, "Mish: a self regularized non-monotonic activation function".

    >>> import weft
    >>> weft.nn.mish(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    x = _float(x)
    return ew.mul_p.bind(x, ew.tanh_p.bind(_bind(softplus_p, x)))


def _log1mexp_formula(x: Array) -> Any:
    near = ew.log(ew.neg(ew.expm1(ew.neg(x))))
    far = ew.log1p(ew.neg(ew.exp(ew.neg(x))))
    return ew.select(wnp.less(x, scalar(math.log(2), x)), near, far)


log1mexp_p = _op(
    "log1mexp",
    _log1mexp_formula,
    lambda t, out, x: ew.div_p.bind(t, ew.expm1_p.bind(x)),
)


def log1mexp(x: ArrayLike) -> Any:
    """log(1 - exp(-x)) for x > 0, exact for small and large x.

    Source: Mächler, "Accurately computing log(1 - exp(-|a|))".

    >>> import weft
    >>> round(float(weft.nn.log1mexp(1.0)), 5)
    -0.45868
    """
    return _bind(log1mexp_p, _float(x))


def glu(x: ArrayLike, axis: int = -1) -> Any:
    """Return the first half of x along an axis times the sigmoid of the second half.

    Source: Dauphin et al., "Language modeling with gated convolutional networks".

    >>> import weft, numpy as np
    >>> weft.nn.glu(np.zeros(4, "float32")).shape
    (2,)
    """
    x = _float(x)
    shape = typeof(x).shape
    axis = canonical_axis(axis, len(shape))
    half, odd = divmod(shape[axis], 2)
    if odd:
        raise ArgumentError(
            f"glu: axis {axis} of shape {shape} has an odd size and cannot be halved"
        )
    first = slice_in_dim(x, 0, half, axis=axis)
    second = slice_in_dim(x, half, 2 * half, axis=axis)
    return ew.mul_p.bind(first, ew.logistic_p.bind(second))


def identity(x: ArrayLike) -> Any:
    """x, as an array.

    >>> from weft import nn, numpy as wnp
    >>> nn.identity(wnp.array([1, -2]))
    Array([ 1, -2], dtype=int32)
    """
    check_array("identity", x)
    return wnp.asarray(x)
