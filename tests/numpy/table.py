"""The functions of weft.numpy as expressions that NumPy, weft and JAX all evaluate.

`xp` is the namespace. A case is an expression, or a pair: the expression, and another one that
gives NumPy's answer where NumPy lacks a name or an argument. The oracle script
evaluates them with JAX in a process of its own.
"""

import ml_dtypes
import numpy as np

from tests.numpy.table_shapes import CASES as SHAPE_CASES

_r = np.random.default_rng(7)


def _floats(*shape, low=-2.0, high=2.0):
    return _r.uniform(low, high, shape).astype(np.float32)


OPERANDS = {
    "f": _floats(4),
    "g": _floats(4),
    "p": _floats(4, low=0.2, high=0.9),
    "f34": _floats(3, 4),
    "g34": _floats(3, 4),
    "p34": _floats(3, 4, low=0.2, high=0.9),
    "f43": _floats(4, 3),
    "f33": _floats(3, 3),
    "f234": _floats(2, 3, 4),
    "g245": _floats(2, 4, 5),
    "spd": (lambda m: m @ m.T + 3 * np.eye(3, dtype=np.float32))(_floats(3, 3)),
    "f2233": _floats(2, 2, 3, 3),
    "big": _floats(5, low=-300, high=300),
    "nanf": np.array([1.0, np.nan, 3.0, -2.0], np.float32),
    "nan34": np.where(_r.random((3, 4)) < 0.3, np.nan, _floats(3, 4)).astype(np.float32),
    "inff": np.array([1.0, np.inf, -np.inf, np.nan, 0.0, -0.0], np.float32),
    "i": np.array([3, -1, 0, 2], np.int32),
    "j": np.array([2, 5, -3, 1], np.int32),
    "i34": _r.integers(-5, 6, (3, 4)).astype(np.int32),
    "n": np.array([3, 0, 1, 2], np.int32),
    "n34": _r.integers(0, 3, (3, 4)).astype(np.int32),
    "srt": np.array([0, 2, 2, 5, 9], np.int32),
    "fsrt": np.array([-2.0, -0.5, 0.25, 1.5], np.float32),
    "i8": np.array([1, -2, 3, 4], np.int8),
    "u8": np.array([1, 200, 3, 7], np.uint8),
    "u34": _r.integers(0, 255, (3, 4)).astype(np.uint8),
    "i16": np.array([1, -2, 3, 4], np.int16),
    "u32": np.array([1, 2, 3, 4], np.uint32),
    "b": np.array([True, False, True, True]),
    "b34": _r.random((3, 4)) < 0.5,
    "c": (_floats(4) + 1j * _floats(4)).astype(np.complex64),
    "c33": (_floats(3, 3) + 1j * _floats(3, 3)).astype(np.complex64),
    "h": _floats(4).astype(np.float16),
    "bf": _floats(4).astype(ml_dtypes.bfloat16),
    "bf34": _floats(3, 4).astype(ml_dtypes.bfloat16),
    "e": np.zeros((0,), np.float32),
    "e03": np.zeros((0, 3), np.float32),
    "s": np.float32(1.5),
}

_UNARY_FLOAT = [
    "exp",
    "exp2",
    "expm1",
    "sin",
    "cos",
    "tan",
    "sinh",
    "cosh",
    "tanh",
    "arctan",
    "arcsinh",
    "cbrt",
    "degrees",
    "radians",
    "rad2deg",
    "deg2rad",
    "sinc",
    "rint",
    "fabs",
    "i0",
]
_UNARY_POSITIVE = ["log", "log2", "log10", "log1p", "sqrt", "arcsin", "arccos", "arctanh"]
_UNARY_ANY = [
    "absolute",
    "positive",
    "square",
    "conjugate",
    "real",
    "imag",
    "isfinite",
    "isnan",
    "isinf",
    "logical_not",
]
_BINARY = [
    "add",
    "subtract",
    "multiply",
    "true_divide",
    "divide",
    "maximum",
    "minimum",
    "fmax",
    "fmin",
    "equal",
    "not_equal",
    "less",
    "less_equal",
    "greater",
    "greater_equal",
    "logical_and",
    "logical_or",
    "logical_xor",
]
_BINARY_REAL = [
    "floor_divide",
    "remainder",
    "mod",
    "fmod",
    "arctan2",
    "hypot",
    "copysign",
    "heaviside",
    "nextafter",
]
_PAIRS = ("f, g", "i, j", "f, i", "i, 2", "f, 2", "i, 2.5", "f, 2.5", "2.0, bf", "i8, u8", "h, bf")
_REDUCTIONS = ["sum", "prod", "max", "min", "mean", "var", "std", "ptp"]

CASES: list = []
CASES += [f"xp.{n}({a})" for n in _UNARY_FLOAT for a in ("f", "i")]
CASES += [f"xp.{n}({a})" for n in _UNARY_POSITIVE for a in ("p",)]
CASES += [f"xp.{n}(c)" for n in ["exp", "log", "sin", "sqrt", "tanh", "log1p"]]
CASES += [f"xp.{n}({a})" for n in ("exp", "sqrt", "log") for a in ("bf", "h", "2", "2.0")]
CASES += [(f"xp.{n}({a})", f"np.{n}({a} * 1.0)") for n in ("sqrt", "log") for a in ("u8", "b")]
CASES += [
    f"xp.{n}({a})"
    for n in _UNARY_ANY
    for a in ("f", "i", "b", "c", "u8", "bf")
    if (n, a) != ("positive", "b")
]
CASES += [f"xp.{n}({a})" for n in ("floor", "ceil", "trunc", "round") for a in ("f", "i", "bf")]
CASES += [f"xp.{n}({a})" for n in ("sign", "negative", "reciprocal") for a in ("f", "c")]
CASES += ["xp.sign(i)", "xp.negative(i)", "xp.sign(u8)", "xp.negative(u8)", "xp.arccosh(p + 1)"]
CASES += [f"xp.{n}({a})" for n in _BINARY for a in _PAIRS]
CASES += [
    f"xp.{n}({a})"
    for n in _BINARY
    for a in ("f, f34", "c, f", "b, b34", "f34, s")
    if n != "subtract" or "b" not in a
]
CASES += [f"xp.{n}({a})" for n in _BINARY_REAL for a in ("f, g", "f, 2.5", "f34, g", "bf, 2.0")]
CASES += [
    f"xp.{n}({a})"
    for n in ("floor_divide", "remainder", "fmod")
    for a in ("i, j", "i8, 3", "u8, 3", "-7, 2")
]
CASES += [
    f"xp.{n}({a})"
    for n in ("bitwise_and", "bitwise_or", "bitwise_xor")
    for a in ("i, j", "i8, u8", "b, b", "i, 3")
]
CASES += [
    "xp.abs(i)",
    "xp.acos(p)",
    "xp.asin(p)",
    "xp.atan(f)",
    "xp.acosh(p + 1)",
    "xp.asinh(f)",
    "xp.atanh(p)",
    "xp.atan2(f, g)",
    "xp.angle(c)",
    "xp.angle(f, deg=True)",
    "xp.bitwise_count(u8)",
    "xp.bitwise_invert(i)",
    "xp.bitwise_not(b)",
    "xp.bitwise_left_shift(i, 2)",
    "xp.bitwise_right_shift(i, 1)",
    "xp.left_shift(u8, 1)",
    "xp.right_shift(i8, 1)",
    "xp.right_shift(u8, 1)",
    "xp.invert(u8)",
    "xp.conj(c)",
    "xp.divmod(i, 2)",
    "xp.divmod(f, 0.75)",
    "xp.float_power(p, 2)",
    "xp.power(f, 2)",
    "xp.power(f, -2)",
    "xp.power(p, g)",
    "xp.power(p, i)",
    "xp.power(i, 3)",
    "xp.power(i34, n)",
    "xp.power(2, n)",
    ("xp.power(2.0, n)", "np.float32(2.0) ** n"),
    "xp.power(b, 2)",
    "xp.pow(u8, 2)",
    "xp.power(bf, 2)",
    "xp.power(c, 2)",
    "xp.power(i, 2.0)",
    "xp.isposinf(inff)",
    "xp.isneginf(inff)",
    "xp.isinf(inff)",
    "xp.isfinite(inff)",
    "xp.isnan(inff)",
    "xp.signbit(inff)",
    "xp.signbit(bf)",
    "xp.signbit(i)",
    "xp.nan_to_num(inff)",
    "xp.nan_to_num(inff, nan=1.0, posinf=2.0, neginf=3.0)",
    "xp.nan_to_num(i)",
    "xp.frexp(big)",
    "xp.frexp(inff)",
    "xp.ldexp(f, i)",
    "xp.ldexp(p, 3)",
    "xp.modf(big)",
    "xp.gcd(i, 6)",
    "xp.gcd(i34, i34 * 2)",
    "xp.lcm(i, 4)",
    "xp.spacing(f)",
    "xp.fmax(nanf, f)",
    "xp.fmin(nanf, f)",
    "xp.maximum(nanf, f)",
    "xp.logaddexp(f, g)",
    "xp.logaddexp(i, 2)",
    "xp.logaddexp(inff, inff)",
    "xp.logaddexp2(f, g)",
    "xp.clip(f, -0.5, 0.5)",
    "xp.clip(i, 0, 2)",
    ("xp.clip(f, max=g)", "np.minimum(f, g)"),
    ("xp.clip(i, min=1)", "np.maximum(i, 1)"),
    "xp.around(f * 100, -1)",
    "xp.round(f, 2)",
    "xp.round(i * 7, -1)",
    "xp.round(c, 1)",
    "xp.iscomplex(c)",
    "xp.isreal(f)",
    "xp.less(c, c.real)",
    "xp.sinc(xp.zeros(2))",
    "xp.hypot(inff, 1.0)",
]

# Creation ------------------------------------------------------------------------------------
CASES += [
    "xp.array([1, 2, 3])",
    "xp.array([[1.0, 2.0], [3, 4]])",
    "xp.array([True, False])",
    "xp.array([1, 2.5, True])",
    "xp.array([1 + 2j, 3])",
    "xp.array(2)",
    "xp.array(2.5, dtype='bfloat16')",
    "xp.array([1.5, 2.5], dtype='int32')",
    "xp.array(f, ndmin=3)",
    "xp.array([f, g])",
    "xp.array([f[0], 2.0, i[1]])",
    "xp.array([])",
    "xp.asarray(f)",
    "xp.asarray([1, 2], dtype='float16')",
    "xp.copy(f)",
    ("xp.astype(f, 'int32')", "f.astype('int32')"),
    ("xp.astype(i, 'bfloat16')", "i.astype(bf.dtype)"),
    "xp.zeros((2, 3))",
    "xp.zeros(3, dtype='int8')",
    "xp.ones((2, 3), 'complex64')",
    "xp.ones(())",
    ("xp.empty((2, 0))", "np.zeros((2, 0))"),
    "xp.full((2, 2), 7)",
    "xp.full((2, 4), f)",
    "xp.full(2, 1.5, 'int32')",
    "xp.zeros_like(i34)",
    "xp.ones_like(bf)",
    "xp.full_like(i, 1.5)",
    "xp.full_like(f34, 2, dtype='int16', shape=(2,))",
    ("xp.empty_like(f)", "np.zeros_like(f)"),
    "xp.arange(5)",
    "xp.arange(1, 10, 3)",
    "xp.arange(10, 0, -2)",
    "xp.arange(0, 1, 0.25)",
    "xp.arange(3.5)",
    "xp.arange(3, dtype='float32')",
    "xp.arange(2, 8, dtype='uint8')",
    "xp.linspace(0, 1, 5)",
    "xp.linspace(0, 10, 5, endpoint=False)",
    "xp.linspace(f, g, 3)",
    "xp.linspace(f, g, 3, axis=-1)",
    "xp.linspace(0, 5, 4, dtype='int32')",
    "xp.linspace(0, 1, 5, retstep=True)",
    "xp.logspace(0, 2, 4)",
    "xp.geomspace(1, 16, 5)",
    "xp.geomspace(xp.array([1.0, 2.0]), xp.array([[3.0], [0.5]]), 5, endpoint=False)",
    "xp.eye(3)",
    "xp.eye(3, 4, 1, dtype='int32')",
    "xp.identity(2)",
    "xp.tri(3, 4, 1)",
    "xp.tril(f34)",
    "xp.triu(f34, 1)",
    "xp.tril(f234, -1)",
    "xp.diag(f)",
    "xp.diag(f, -1)",
    "xp.diag(f34, 1)",
    "xp.diagflat(f33, 1)",
    "xp.vander(f)",
    "xp.vander(i, 3, increasing=True)",
    "xp.meshgrid(f, i)",
    "xp.meshgrid(f, i, indexing='ij', sparse=True)",
    "xp.indices((2, 3))",
    "xp.indices((2, 3), sparse=True)",
    (
        "xp.fromfunction(lambda a, b: a * 2 + b, (2, 3))",
        "np.fromfunction(lambda a, b: a * 2 + b, (2, 3))",
    ),
    "xp.frombuffer(b'abcd', dtype='uint8')",
    "xp.fromiter(range(4), 'int32')",
    "xp.fromstring('1 2 3', dtype='int32', sep=' ')",
    "xp.ix_([0, 2], [True, False, True])",
    "xp.tril_indices(3)",
    "xp.triu_indices(3, 1, 4)",
    "xp.tril_indices_from(f33)",
    "xp.triu_indices_from(f33, k=1)",
    "xp.diag_indices(3)",
    "xp.diag_indices_from(f33)",
    "xp.mask_indices(3, xp.triu)",
    "xp.mgrid[0:2, 0:3]",
    "xp.mgrid[0:1:4j]",
    "xp.ogrid[0:2, 0:3]",
    "xp.r_[0:3, 5, f]",
    "xp.c_[f, g]",
    "xp.r_['0,2', f, g]",
    "xp.asarray(xp.r_['r', f, 1])",
    "xp.asarray(xp.r_['c', f, 1])",
    "xp.asarray(xp.c_['r', f, f])",
]

# Reductions ----------------------------------------------------------------------------------
for _n in _REDUCTIONS:
    CASES += [
        f"xp.{_n}(f34)",
        f"xp.{_n}(f234, axis=(0, 2), keepdims=True)",
        f"xp.{_n}(i34, axis=-1)",
    ]
    CASES += [f"xp.{_n}(f34, axis=1)"]
CASES += [f"xp.{n}(bf)" for n in ("sum", "mean", "max", "var", "prod")]
CASES += [
    f"xp.{n}({a})"
    for n in ("sum", "prod", "mean", "cumsum", "cumprod")
    for a in ("b", "i8", "u8", "c", "2", "2.0")
    if (n, a) != ("cumprod", "u8")
]
CASES += [("xp.cumprod(u8)", "np.cumprod(u8, dtype='uint8')")]
CASES += [
    "xp.sum(f34, where=b34)",
    "xp.sum(f34, initial=2.0)",
    "xp.sum(f34, axis=())",
    "xp.sum(i, dtype='float32')",
    "xp.sum(f, dtype='int32')",
    ("xp.sum(i8, promote_integers=False)", "np.sum(i8)"),
    "xp.sum(e03, axis=0)",
    "xp.prod(f34, axis=0, where=b34, initial=3.0)",
    "xp.max(f34, where=b34, initial=-5.0)",
    "xp.min(f34, axis=0, initial=0.0)",
    "xp.max(c)",
    "xp.min(c)",
    "xp.amax(i34, axis=0)",
    "xp.amin(u8)",
    "xp.max(nanf)",
    "xp.max(b34, axis=0)",
    "xp.mean(f34, where=b34)",
    "xp.mean(i, dtype='float16')",
    "xp.var(f34, axis=0, ddof=1)",
    "xp.std(c33, axis=1)",
    "xp.var(f34, where=b34)",
    "xp.std(f34, axis=1, correction=1)",
    "xp.var(f34, axis=0, mean=xp.mean(f34, axis=0, keepdims=True))",
    "xp.all(b34, axis=0)",
    "xp.all(f34)",
    "xp.any(b34, axis=1, keepdims=True)",
    "xp.any(i34, where=b34)",
    "xp.count_nonzero(i34)",
    "xp.count_nonzero(i34, axis=1, keepdims=True)",
    "xp.average(f34)",
    "xp.average(f34, axis=1, weights=p)",
    "xp.average(i, weights=p, returned=True)",
    "xp.nansum(nan34, axis=0)",
    "xp.nanprod(nan34)",
    "xp.nanmax(nan34, axis=1)",
    "xp.nanmin(nan34)",
    "xp.nanmean(nan34, axis=1, keepdims=True)",
    "xp.nanvar(nan34, axis=1)",
    "xp.nanstd(nan34)",
    "xp.nansum(i8)",
    "xp.argmax(f34)",
    "xp.argmax(f34, axis=1)",
    "xp.argmin(f34, axis=0, keepdims=True)",
    "xp.argmin(b)",
    "xp.nanargmax(nan34)",
    "xp.nanargmin(nanf, axis=0)",
    "xp.cumsum(f34)",
    "xp.cumsum(f34, axis=1)",
    "xp.cumprod(f34, axis=0)",
    "xp.cumsum(i34, axis=0, dtype='float32')",
    "xp.nancumsum(nanf)",
    "xp.nancumprod(nanf)",
    "xp.cumulative_sum(f, include_initial=True)",
    "xp.cumulative_sum(i8)",
    "xp.cumulative_prod(f34, axis=1)",
    "xp.trace(f34)",
    "xp.trace(f234, 1, 1, 2)",
    "xp.trace(i8[None])",
]

# Where NumPy's rules are easily missed --------------------------------------------------------
CASES += [
    "xp.sum(f34, axis=0, dtype=bool)",
    "xp.prod(i34, axis=1, dtype=bool)",
    "xp.sum(n, dtype=bool, initial=0)",
    "xp.cumsum(n, dtype=bool)",
    "xp.cumprod(n, dtype=bool)",
    ("xp.sort_complex(f34)", "np.sort(f34, axis=-1).astype('complex64')"),
    "xp.packbits(i34)",
    "xp.packbits(i34, axis=1)",
    "xp.bincount(b)",
    "xp.setdiff1d(i, f)",
    ("xp.setdiff1d(e, f, size=2)", "np.zeros(2)"),
    ("xp.intersect1d(i, f + 0.25, size=2)", "np.zeros(2)"),
    "xp.repeat(3, 2, axis=0)",
    "xp.resize(e, (2,))",
    ("xp.median(e03.T, axis=1)", "np.full(3, np.nan)"),
    ("xp.nanmedian(e03, axis=0)", "np.full(3, np.nan)"),
    ("xp.quantile(e03, 0.5, axis=1)", "np.zeros(0)"),
    "xp.array(range(1, 7, 2))",
    "xp.frombuffer(bytes(range(16)), dtype='int64')[:0]",
    "xp.logaddexp.reduce(i)",
    "xp.logaddexp.accumulate(i)",
    "xp.logical_and.accumulate(f34)",
    "xp.logical_or.reduce(n34, initial=False)",
    "xp.logical_and.reduce(n34, axis=1, initial=False)",
    "xp.minimum.reduce(i34, dtype='float32', initial=-2)",
    ("xp.add(True, 3)", "np.add(True, 3)"),
    ("xp.left_shift(b, b)", "np.left_shift(b * 1, b * 1)"),
    ("xp.log10(c * 0)", "np.full(4, -np.inf + 0j)"),
    ("round(f[0])", "round(float(f[0]))"),
]

CASES = [(c, c) if isinstance(c, str) else c for c in [*CASES, *SHAPE_CASES]]
EXPRESSIONS = [c[0] for c in CASES]


def mutated(function, x, *args):
    """What a function of NumPy that writes in place leaves in the array."""
    x = np.array(x)
    function(x, *args)
    return x


def put_along(x, index, value, axis):
    x = np.array(x)
    np.put_along_axis(x, index, value, axis)
    return x


def poly_fold(x):
    total = np.float32(1)
    for v in x:
        total = total * v + 1
    return total


HELPERS = {"mutated": mutated, "put_along": put_along, "poly_fold": poly_fold}
