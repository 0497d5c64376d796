"""The calls of the array API standard that `make array-api` makes, on every dtype and shape.

Each is a function of a namespace and arrays. Calls that the standard leaves open are not made:
arrays of mixed kinds, negative numbers converted to unsigned ones, axes of arrays without any.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

Call = tuple[str, Callable, tuple[np.ndarray, ...]]

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
DTYPES = ["bool", *INTEGERS, "float32", "float64", "complex64", "complex128"]
SHAPES = [(), (0,), (3,), (2, 3), (2, 0, 3)]
ORDER = "biufc"

UNARY = """
abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp expm1 floor imag
isfinite isinf isnan log log1p log2 log10 logical_not negative positive real reciprocal round sign
signbit sin sinh square sqrt tan tanh trunc
""".split()  # noqa: SIM905
OPERATORS = {
    "add": "add", "bitwise_and": "and_", "bitwise_left_shift": "lshift", "bitwise_or": "or_",
    "bitwise_right_shift": "rshift", "bitwise_xor": "xor", "divide": "truediv", "equal": "eq",
    "floor_divide": "floordiv", "greater": "gt", "greater_equal": "ge", "less": "lt",
    "less_equal": "le", "multiply": "mul", "not_equal": "ne", "pow": "pow", "remainder": "mod",
    "subtract": "sub",
}  # fmt: skip
BINARY = """
atan2 copysign hypot logaddexp logical_and logical_or logical_xor maximum minimum nextafter
""".split()  # noqa: SIM905
REDUCTIONS = "max min sum prod mean std var any all argmax argmin count_nonzero".split()  # noqa: SIM905
SCALARS = (True, 2, 2.5, 2 + 1j)


def data(rng: np.random.Generator, dtype: str, shape: tuple, positive: bool = False) -> np.ndarray:
    """Random numbers of small magnitude."""
    kind = np.dtype(dtype).kind
    if kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if kind in "iu":
        low = 1 if positive else 0 if kind == "u" else -5
        return np.asarray(rng.integers(low, 6, shape)).astype(dtype)
    x = np.asarray(rng.normal(size=shape) * 2)
    if kind == "c":
        return (x + 1j * rng.normal(size=shape)).astype(dtype)
    return np.asarray(np.abs(x) + 0.5 if positive else x).astype(dtype)


def same_kind(a: str, b: str) -> bool:
    """Whether the standard's promotion table has both dtypes."""
    kinds = [("real", "b")[k == "b"] if k in "biu" else "float" for k in map(_kind, (a, b))]
    return kinds[0] == kinds[1] and {_kind(a), _kind(b), a, b} & {"uint64"} == set() or a == b


def _kind(dtype: str) -> str:
    return np.dtype(dtype).kind


def _namespaced(path: str) -> Callable[[Any], Callable]:
    return operator.attrgetter(path)


def _with(path: str, *args: Any, **kwargs: Any) -> Callable:
    """A function of a namespace and arrays that calls `path` of it; dtypes are given by name."""

    def call(xp: Any, *arrays: Any) -> Any:
        named = {k: getattr(xp, v) if k == "dtype" else v for k, v in kwargs.items()}
        return _namespaced(path)(xp)(*arrays, *args, **named)

    return call


def _fits(scalar: complex, dtype: str) -> bool:
    kinds = {bool: "b", int: "i", float: "f", complex: "c"}
    kind = _kind(dtype)
    order = ORDER.index("i" if kind == "u" else kind)
    exact = kind != "b" or isinstance(scalar, bool)
    return ORDER.index(kinds[type(scalar)]) <= order and exact and (kind == "b") == (scalar is True)


def elementwise(rng: np.random.Generator) -> Iterator[Call]:
    for name, dtype, shape in itertools.product(UNARY, DTYPES, SHAPES):
        x = data(rng, dtype, shape, positive=name.startswith(("log", "sqrt")))
        if x.dtype.kind == "f" and name in ("acos", "asin", "atanh"):
            x = np.clip(x, -0.9, 0.9)
        if x.dtype.kind == "f" and name == "acosh":
            x = np.abs(x) + 1
        yield name, _with(name), (x,)
    for name in [*OPERATORS, *BINARY]:
        positive = name in ("floor_divide", "remainder", "divide", "pow") or "shift" in name
        symbol = getattr(operator, OPERATORS.get(name, "add"))
        forms = [(name, _with(name))]
        if name in OPERATORS:
            forms.append((f"operator of {name}", lambda xp, x, y, f=symbol: f(x, y)))
        for a, b in itertools.product(DTYPES, DTYPES):
            for left, right in (((2, 3), (3,)), ((), (3,)), ((0,), (1,)), ((), ())):
                x, y = (data(rng, d, s, positive) for d, s in ((a, left), (b, right)))
                for text, call in forms if same_kind(a, b) else ():
                    yield text, call, (x, y)
        for dtype, scalar in itertools.product(DTYPES, SCALARS):
            if _fits(scalar, dtype):
                x = data(rng, dtype, (3,), positive=True)
                for text, call in forms:
                    yield f"{text}, scalar", lambda xp, x, f=call, s=scalar: f(xp, x, s), (x,)
                    yield f"{text}, scalar", lambda xp, x, f=call, s=scalar: f(xp, s, x), (x,)


def _axes(shape: tuple) -> list[dict]:
    every = [{}, {"keepdims": True}, {"axis": None}]
    if shape:
        every += [{"axis": 0}, {"axis": -1, "keepdims": True}]
    if len(shape) > 1:
        every += [{"axis": (0, 1)}, {"axis": (0, -1), "keepdims": True}]
    return every


def reductions(rng: np.random.Generator) -> Iterator[Call]:
    for dtype, shape in itertools.product(DTYPES, SHAPES):
        x = data(rng, dtype, shape, positive=True)
        for name, options in itertools.product(REDUCTIONS, _axes(shape)):
            if not (name.startswith("arg") and isinstance(options.get("axis"), tuple)):
                yield name, _with(name, **options), (x,)
        for options in _axes(shape):
            yield "linalg.vector_norm", _with("linalg.vector_norm", **options), (x,)
        for other in DTYPES:
            if ORDER.index(_kind(other)) >= ORDER.index(x.dtype.kind) or other in INTEGERS:
                for name in ("sum", "prod"):
                    yield f"{name}, dtype", _with(name, dtype=other), (np.abs(x),)
        for name in ("cumulative_sum", "cumulative_prod"):
            for initial in (False, True) if shape else ():
                yield name, _with(name, axis=0, include_initial=initial), (x,)
        if shape:
            yield "diff", _with("diff"), (x,)
            yield "diff", lambda xp, x: xp.diff(x, axis=0, prepend=x, append=x), (x,)
            for options in ({}, {"axis": 0}, {"descending": True}, {"stable": False}):
                yield "sort", _with("sort", **options), (x,)
                if options.get("stable", True):
                    yield "argsort", _with("argsort", **options), (x,)
            yield "nonzero", _with("nonzero"), (x,)
        for name in ("all", "counts", "inverse", "values"):
            yield f"unique_{name}", _with(f"unique_{name}"), (x,)
        for order in (1, 3, float("inf"), -float("inf"), 0):
            yield "linalg.vector_norm", _with("linalg.vector_norm", ord=order), (x,)


def manipulation(rng: np.random.Generator) -> Iterator[Call]:
    for dtype, shape in itertools.product(DTYPES, SHAPES):
        x = data(rng, dtype, shape)
        ones = (x,)
        for convert in (bool, int, float, complex, operator.index):
            if not shape:
                yield f"{convert.__name__}()", lambda xp, x, f=convert: f(x), ones
        yield "permute_dims", lambda xp, x: xp.permute_dims(x, tuple(range(x.ndim))[::-1]), ones
        for copy in (None, True, False):
            yield "reshape", _with("reshape", (-1,), copy=copy), ones
            yield "asarray", _with("asarray", copy=copy), ones
        for axis in (0, -1):
            yield "expand_dims", _with("expand_dims", axis=axis), ones
            yield "stack", lambda xp, x, a=axis: xp.stack([x, x], axis=a), ones
        yield "squeeze", lambda xp, x: xp.squeeze(xp.expand_dims(x, axis=0), axis=0), ones
        yield "concat", lambda xp, x: xp.concat([x, x], axis=None), ones
        yield "broadcast_to", lambda xp, x: xp.broadcast_to(x, (2, *x.shape)), ones
        yield "broadcast_arrays", lambda xp, x: xp.broadcast_arrays(x, xp.ones(1)), ones
        yield "tile", _with("tile", (2, 1, 2)), ones
        yield "flip", _with("flip"), ones
        yield "roll", _with("roll", 1), ones
        yield "from_dlpack", _with("from_dlpack"), ones
        yield "to_device", lambda xp, x: x.to_device(x.device), ones
        yield "attributes", lambda xp, x: (x.ndim, x.size, x.shape, x.dtype), ones
        yield "mask", lambda xp, x: x[x == x], ones
        for index in ((), ..., None, (..., None)):
            yield "indexing", lambda xp, x, i=index: x[i], ones
        for name in ("zeros_like", "ones_like"):
            yield name, _with(name), ones
            for other in DTYPES:
                yield name, _with(name, dtype=other), ones
        for other in DTYPES:
            if ORDER.index(_kind(other)) >= ORDER.index(x.dtype.kind) and _kind(other) != "u":
                yield "astype", lambda xp, x, d=other: xp.astype(x, getattr(xp, d)), ones
                yield "asarray", _with("asarray", dtype=other), ones
            yield "isdtype", lambda xp, x, d=other: xp.isdtype(x.dtype, getattr(xp, d)), ones
        for scalar in SCALARS:
            if _fits(scalar, dtype):
                yield "result_type", _with("result_type", scalar), ones
                yield "where", lambda xp, x, s=scalar: xp.where(x == x, x, s), ones
                yield "full_like", _with("full_like", scalar), ones
        for kind in ("bool", "integral", "real floating", "complex floating", "numeric"):
            yield "isdtype", lambda xp, x, k=kind: xp.isdtype(x.dtype, (k, "bool")), ones
        for field in ("bits", "eps", "max", "min", "smallest_normal"):
            for name in ("finfo", "iinfo"):
                call = lambda xp, x, n=name, f=field: getattr(getattr(xp, n)(x.dtype), f)
                yield name, call, ones
        if shape:
            yield from _of_an_axis(x)
        if len(shape) > 1:
            for name in ("tril", "triu"):
                yield name, _with(name, k=1), ones
            for name in ("matrix_transpose", "linalg.matrix_transpose", "linalg.trace"):
                yield name, _with(name), ones
            yield "moveaxis", _with("moveaxis", 0, -1), ones
            yield "roll", _with("roll", (1, -1), axis=(0, 1)), ones


def _of_an_axis(x: np.ndarray) -> Iterator[Call]:
    ones = (x,)
    for index in (slice(None, None, -1), slice(1, None), slice(None, None, 2), (..., slice(0, 1))):
        yield "indexing", lambda xp, x, i=index: x[i], ones
    for axis in (0, -1):
        yield "concat", lambda xp, x, a=axis: xp.concat([x, x], axis=a), ones
        yield "unstack", _with("unstack", axis=axis), ones
        yield "repeat", _with("repeat", 2, axis=axis), ones
        yield "flip", _with("flip", axis=axis), ones
        call = lambda xp, x, a=axis: xp.take_along_axis(
            x, xp.zeros(x.shape, dtype=xp.int64), axis=a
        )
        if x.size:
            yield "take_along_axis", call, ones
    if x.shape[0]:
        for dtype in ("int32", "int64", "uint8"):
            call = lambda xp, x, d=dtype: xp.take(
                x, xp.asarray([1, 0, 1], dtype=getattr(xp, d)), axis=0
            )
            yield "take", call, ones
        yield "indexing", lambda xp, x: x[xp.asarray([1, 0]), ...], ones
        yield "indexing", lambda xp, x: x[-1, ...], ones
    if x.ndim == 1:
        yield "meshgrid", lambda xp, x: tuple(xp.meshgrid(x, x, indexing="ij")), ones


def pairs(rng: np.random.Generator) -> Iterator[Call]:
    for a, b in itertools.product(DTYPES, DTYPES):
        if not same_kind(a, b):
            continue
        x, y = data(rng, a, (2, 3)), data(rng, b, (2, 3))
        for name in ("isin", "result_type", "linalg.vecdot", "vecdot"):
            yield name, _with(name), (x, y)
        yield "where", lambda xp, x, y: xp.where(x == x, x, y), (x, y)
        yield "concat", lambda xp, x, y: xp.concat([x, y]), (x, y)
        yield "matmul", lambda xp, x, y: x @ y.T, (x, y)
        yield "matmul", lambda xp, x, y: xp.linalg.matmul(x, xp.matrix_transpose(y)), (x, y)
        for axes in (0, 2, ((0,), (0,))):
            yield "tensordot", _with("tensordot", axes=axes), (x, y)
        v, w = data(rng, a, (3,)), data(rng, b, (3,))
        for name in ("linalg.outer", "linalg.cross", "matmul"):
            yield name, _with(name), (v, w)
        for side in ("left", "right"):
            call = lambda xp, v, w, s=side: xp.searchsorted(xp.sort(v), w, side=s)
            yield "searchsorted", call, (v, w)


def extensions(rng: np.random.Generator) -> Iterator[Call]:
    for dtype in DTYPES[-4:]:
        for shape in ((3, 3), (2, 3, 3), (0, 3, 3), (2, 0, 0)):
            x = data(rng, dtype, shape)
            x = (x @ np.conj(np.swapaxes(x, -1, -2)) + 5 * np.eye(shape[-1])).astype(dtype)
            for name in ("cholesky", "det", "inv", "slogdet", "eigvalsh", "pinv", "svdvals"):
                yield f"linalg.{name}", _with(f"linalg.{name}"), (x,)
            for power in (-1, 0, 3):
                yield "linalg.matrix_power", _with("linalg.matrix_power", power), (x,)
            yield "linalg.eigh", lambda xp, x: xp.linalg.eigh(x).eigenvalues, (x,)
            yield "linalg.solve", lambda xp, x: xp.linalg.solve(x, x), (x,)
        for shape in ((3, 3), (2, 3), (3, 2), (4, 2, 3)):
            x = data(rng, dtype, shape)
            for order in ("fro", "nuc", 1, -1, 2, -2, float("inf")):
                yield "linalg.matrix_norm", _with("linalg.matrix_norm", ord=order), (x,)
            for name in ("matrix_rank", "pinv", "svdvals", "diagonal", "trace"):
                yield f"linalg.{name}", _with(f"linalg.{name}"), (x,)
            for mode in ("reduced", "complete"):
                call = lambda xp, x, m=mode: xp.abs(xp.linalg.qr(x, mode=m).R)
                yield "linalg.qr", call, (x,)
                call = lambda xp, x, m=mode: xp.linalg.svd(x, full_matrices=m == "complete").U.shape
                yield "linalg.svd", call, (x,)
        for shape, norm in itertools.product(
            ((4,), (5,), (2, 4)), ("backward", "ortho", "forward")
        ):
            x = data(rng, dtype, shape)
            for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
                for n in (None, 3, 8):
                    yield f"fft.{name}", _with(f"fft.{name}", n=n, norm=norm), (x,)
            for name in ("fftn", "ifftn", "rfftn", "irfftn"):
                yield f"fft.{name}", _with(f"fft.{name}", norm=norm), (x,)
            for name in ("fftshift", "ifftshift"):
                yield f"fft.{name}", _with(f"fft.{name}"), (x,)


def creation(rng: np.random.Generator) -> Iterator[Call]:
    for dtype in [None, *DTYPES]:
        named = {"dtype": dtype} if dtype else {}
        integer = dtype is None or _kind(dtype) in "iufc"
        for args in ((3,), (0,), (1, 5), (1, 10, 3), (0, -3)):
            if integer and not (dtype and _kind(dtype) == "c"):
                yield "arange", _with("arange", *args, **named), ()
        for args in ((0, 1, 5), (0.0, 1.0, 1), (0, 1, 0), (1, -1, 4)):
            if dtype is None or _kind(dtype) in "fc":
                yield "linspace", _with("linspace", *args, **named), ()
                yield "linspace", _with("linspace", *args, endpoint=False, **named), ()
        for args in ((3,), (2, 3), (0, 3)):
            yield "eye", _with("eye", *args, k=1, **named), ()
        for shape in (3, (), (2, 3), (0,)):
            for name in ("zeros", "ones"):
                yield name, _with(name, shape, **named), ()
            for scalar in SCALARS:
                if dtype is None or _fits(scalar, dtype):
                    yield "full", _with("full", shape, scalar, **named), ()
                    yield "asarray", _with("asarray", [scalar, scalar], **named), ()
                    yield "asarray", _with("asarray", scalar, **named), ()
    for name in ("fft.fftfreq", "fft.rfftfreq"):
        for options in ({}, {"d": 0.5}, {"dtype": "float32"}):
            yield name, _with(name, 5, **options), ()
    for kind in (
        None,
        "bool",
        "integral",
        "real floating",
        "complex floating",
        ("bool", "numeric"),
    ):
        call = lambda xp, k=kind: sorted(xp.__array_namespace_info__().dtypes(kind=k))
        yield "__array_namespace_info__", call, ()


GROUPS = (elementwise, reductions, manipulation, pairs, extensions, creation)
