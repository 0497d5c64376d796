"""Special values of elementwise functions, as the array API standard lists them."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from tests.numpy import array_api_cases as cases

PRECISIONS = {"float32": "complex64", "float64": "complex128"}
OPERATORS = {
    "add": operator.add,
    "divide": operator.truediv,
    "equal": operator.eq,
    "floor_divide": operator.floordiv,
    "multiply": operator.mul,
    "not_equal": operator.ne,
    "pow": operator.pow,
    "remainder": operator.mod,
    "subtract": operator.sub,
    "abs": operator.abs,
}


@pytest.fixture(autouse=True)
def _doubles() -> Iterator[None]:
    with weft.enable_x64(True):
        yield


def _of(function: str, table: str) -> list[tuple[str, str, list[str], str]]:
    return [row for row in cases.rows(table) if row[0] == function]


def _functions(table: str) -> list[str]:
    return sorted({name for name, *_ in cases.rows(table)})


def _points(function: str, table: str, dtype: str) -> list[tuple[tuple[float, ...], str, list]]:
    """Operands, result and symmetry of each row; operands count for the first row they meet."""
    points: dict[str, tuple[tuple[float, ...], str, list]] = {}
    for _, symmetry, conditions, result in _of(function, table):
        for a in cases.operands(conditions[0]):
            others = [(b,) for b in cases.operands(conditions[1], a)] if conditions[1:] else [()]
            for other in others:
                point = tuple(float(np.dtype(dtype).type(v)) for v in (a, *other))
                key = repr([(v, math.copysign(1, v)) for v in point])
                points.setdefault(key, (point, symmetry, result.split()))
    return list(points.values())


def _complex(points: list[tuple[float, float]], dtype: str) -> np.ndarray:
    z = np.zeros(len(points), dtype)
    z.real, z.imag = np.transpose(points)
    return z


def _reflected(symmetry: str, real: float, imag: float, z: complex) -> tuple[float, float]:
    """The parts of f at a point, from those at its reflection by the signs."""
    if symmetry == "odd":
        return real * z.real, imag * z.imag
    return z.real, real * imag * z.imag if symmetry == "even" else imag * z.imag


@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize("function", _functions(cases.COMPLEX))
def test_complex_functions_have_the_standards_special_values(function: str, dtype: str) -> None:
    tried = []
    for (a, b), symmetry, expected in _points(function, cases.COMPLEX, dtype):
        for real in (1.0, -1.0) if symmetry else (1.0,):
            tried += [((a, b), (real, imag), symmetry, expected) for imag in (1.0, -1.0)]
    z = _complex([(r * a, i * b) for (a, b), (r, i), *_ in tried], PRECISIONS[dtype])
    outs = np.asarray(getattr(wnp, function)(wnp.asarray(z)))
    for (point, signs, symmetry, expected), x, out in zip(tried, z, outs, strict=True):
        turn = (1.0, 1.0) if function == "sign" else signs  # of which zeros have no sign
        parts = _reflected(symmetry, *turn, complex(out))
        for word, part in zip(expected, parts, strict=True):
            assert cases.meets(word, part, *point), (expected, x, out)


@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize("function", _functions(cases.OF_PARTS))
def test_magnitudes_and_kinds_of_complex_numbers(function: str, dtype: str) -> None:
    tried = _points(function, cases.OF_PARTS, dtype)
    z = _complex([point for point, *_ in tried], PRECISIONS[dtype])
    outs = np.asarray(getattr(wnp, function)(wnp.asarray(z)))
    for (point, _, expected), out in zip(tried, outs, strict=True):
        assert cases.meets(expected[0], float(out), *point), (expected, point, out)


@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize("table", ["REAL", "BINARY"])
def test_real_functions_have_the_standards_special_values(table: str, dtype: str) -> None:
    rows = getattr(cases, table)
    for function in _functions(rows):
        tried = _points(function, rows, dtype)
        operands = [np.array(v, dtype) for v in zip(*(point for point, *_ in tried), strict=True)]
        spellings: list[Callable] = [getattr(wnp, function), OPERATORS.get(function)]
        for spelling in filter(None, spellings):
            outs = np.asarray(spelling(*map(wnp.asarray, operands)))
            for (point, _, expected), out in zip(tried, outs, strict=True):
                right = cases.meets(expected[0], float(out), *point)
                assert right, (function, expected, point, out)


@pytest.mark.parametrize("name", ["sin", "cos", "tan", "asin", "atan"])
@pytest.mark.parametrize("dtype", PRECISIONS.values())
def test_circular_functions_are_the_hyperbolic_ones_turned(name: str, dtype: str) -> None:
    """-i sinh(iz) and its like, which the standard asks for at special values."""
    parts = [0.0, -0.0, 0.5, -0.5, math.inf, -math.inf, math.nan]
    points = [complex(a, b) for a in parts for b in parts]
    z = np.array(points, dtype)
    iz = np.empty_like(z)
    iz.real, iz.imag = -z.imag, z.real
    hyperbolic = getattr(np, {"asin": "arcsinh", "atan": "arctanh"}.get(name, name + "h"))
    with np.errstate(all="ignore"):
        turned = hyperbolic(iz)
    expected = np.empty_like(z)
    if name == "cos":
        expected = turned
    else:
        expected.real, expected.imag = turned.imag, -turned.real
    out = np.asarray(getattr(wnp, name)(wnp.asarray(z)))
    for part in ("real", "imag"):
        ours, theirs = getattr(out, part), getattr(expected, part)
        np.testing.assert_allclose(np.abs(ours), np.abs(theirs), rtol=1e-5)
        known = ~np.isnan(theirs) & (np.isfinite(z.real) & np.isfinite(z.imag))
        np.testing.assert_array_equal(np.signbit(ours[known]), np.signbit(theirs[known]))


def test_remainders_of_zero_keep_their_derivative() -> None:
    for x, y in [(4.0, 2.0), (4.0, -2.0), (-4.0, 2.0), (-0.0, 3.0), (0.0, -3.0), (5.0, -3.0)]:
        slopes = weft.grad(lambda a, b: wnp.remainder(a, b), (0, 1))(x, y)
        np.testing.assert_array_equal(slopes, (1.0, -math.floor(x / y)))
        assert math.copysign(1, wnp.remainder(x, y)) == math.copysign(1, y)


def test_quotients_of_python_stay_in_divmod() -> None:
    values = np.array([1.0, -1.0, 0.3, 5.0, np.inf, -np.inf, np.nan])
    with np.errstate(all="ignore"):
        expected = np.divmod(values[:, None], values)
    for ours, theirs in zip(
        wnp.divmod(values[:, None], wnp.asarray(values)), expected, strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_exponentials_overflow_only_where_the_product_does() -> None:
    z = np.array([89.5 + 1.57j, 89.5 - 1.57j], np.complex64)
    out = np.asarray(wnp.exp(wnp.asarray(z)))
    np.testing.assert_allclose(out.real, np.exp(z.astype(np.complex128)).real, rtol=1e-4)
    np.testing.assert_array_equal(out.imag, [np.inf, -np.inf])


def test_expm1_is_accurate_near_zero_and_far_below() -> None:
    z = np.array([1e-30 + 1e-30j, 1e-9 - 1e-5j, -40 + 1j, 3 + 2j])
    np.testing.assert_allclose(wnp.expm1(wnp.asarray(z)).imag, np.expm1(z).imag, rtol=1e-12)
    np.testing.assert_allclose(wnp.expm1(wnp.asarray(z)).real, np.expm1(z).real, rtol=1e-9)
