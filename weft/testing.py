"""Assertions for users' own test suites: communication budgets, gradients."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.api.grad import jvp, vjp
from weft.communication import comm
from weft.core.namespace import seal
from weft.core.trace import typeof
from weft.core.tree import flatten, tree_map
from weft.partition.collect import KINDS
from weft.partition.report.communication import CommReport, format_bytes, parse_bytes

if TYPE_CHECKING:
    from weft.typing import ArrayLike

__all__ = ["assert_comm", "check_grads", "check_jvp", "check_vjp"]

_KINDS = frozenset(KINDS.values())

DEFAULT_TOLERANCE = 1e-2
Tolerance = float | Mapping[Any, float] | None


def assert_comm(
    fun: Callable,
    args: Sequence[Any] = (),
    kwargs: dict[str, Any] | None = None,
    *,
    max_bytes: str | float | None = None,
    exact: bool = True,
    golden: str | os.PathLike[str] | None = None,
    **counts: int,
) -> None:
    """Fail unless `fun(*args, **kwargs)` communicates within a budget.

    counts: executions by kind (`all_reduce=2`, `all_gather=0`, …), loops counted. Kinds that are
    not named must not occur, unless exact is False. max_bytes: what each device may send in one
    call, a number or a string such as '3 MB'. golden: a file that lists the collectives as they
    were when it was written, in place of counts; the environment variable WEFT_UPDATE_GOLDENS=1
    writes it anew. It holds kinds, axes, local shapes, bytes and executions, no lines or times.

    Raises AssertionError with the whole communication table, expected and found counts.

    >>> import weft
    >>> mesh = weft.sharding.AbstractMesh((8,), ("data",))
    >>> rows = weft.NamedSharding(mesh, weft.P("data"))
    >>> x = weft.ShapeDtypeStruct((64,), "float32", sharding=rows)
    >>> weft.testing.assert_comm(lambda x: x + 1, (x,), max_bytes=0)
    """
    unknown = sorted(set(counts) - _KINDS)
    if unknown:
        raise TypeError(
            f"assert_comm: {unknown[0]!r} is not a kind of collective; the kinds are "
            f"{', '.join(sorted(_KINDS))}"
        )
    report = comm(fun, *args, **(kwargs or {}))
    counted = report.counts()
    expected = dict(counts)
    if golden is not None:
        _compare_with_golden(report, Path(golden))
    if exact and (golden is None or counts):
        expected = {**dict.fromkeys(counted, 0), **counts}
    problems = []
    for kind in sorted(expected):
        want, got = expected[kind], counted.get(kind, 0)
        if want != got:
            problems.append(f"- {kind}: {want}\n+ {kind}: {got}")
    if max_bytes is not None and report.total_bytes > parse_bytes(max_bytes):
        problems.append(
            f"- at most {format_bytes(parse_bytes(max_bytes))} sent per device\n"
            f"+ {format_bytes(report.total_bytes)} sent per device"
        )
    if problems:
        raise AssertionError(
            "communication differs from its budget (- expected, + found):\n"
            + "\n".join(problems)
            + f"\n\n{report}"
        )


def _compare_with_golden(report: CommReport, path: Path) -> None:
    """Raise the difference between a report's collectives and those that a file lists."""
    listing = "".join("  ".join(row[:5]) + "\n" for row in report.rows())
    if os.environ.get("WEFT_UPDATE_GOLDENS", "0") not in ("", "0"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(listing, "utf-8")
        return
    remedy = "WEFT_UPDATE_GOLDENS=1 writes it"
    if not path.exists():
        raise AssertionError(f"golden {path} does not exist; {remedy}\n\n{report}")
    expected = path.read_text("utf-8")
    if expected != listing:
        lines = difflib.ndiff(expected.splitlines(), listing.splitlines())
        changes = "\n".join(line for line in lines if not line.startswith("?"))
        raise AssertionError(
            f"communication differs from {path} (- expected, + found); {remedy} anew if this is "
            f"meant:\n{changes}\n\n{report}"
        )


def check_grads(
    f: Callable,
    args: Sequence[Any],
    order: int = 1,
    modes: Sequence[str] = ("fwd", "rev"),
    atol: Tolerance = None,
    rtol: Tolerance = None,
    eps: float | None = None,
) -> None:
    """Fail unless derivatives agree with central differences along random directions.

    f: any differentiable function of arrays. order: how many derivatives. modes: 'fwd', 'rev'.
    atol, rtol: tolerances, numbers or dicts from dtypes to numbers; 1e-2 where none is given.
    eps: the step of the differences; without it, 1e-4, and in less than float64 1e-2, or 1e-4 where
    the function bends too much for 1e-2. Compute in float64 (weft.enable_x64) for tight tolerances.
    A derivative that is NaN is a failure.

    Raises AssertionError where they differ, ValueError for arguments that would check nothing.

    >>> import weft
    >>> weft.testing.check_grads(weft.numpy.sin, (0.5,), order=2)
    """
    modes = (modes,) if isinstance(modes, str) else tuple(modes)
    if not modes or set(modes) - {"fwd", "rev"}:
        raise ValueError(f"check_grads: modes are 'fwd', 'rev' or both, got {modes}")
    if order < 1:
        raise ValueError(f"check_grads: order must be 1 or more, got {order}")
    differences = _Differences(f, args, eps, atol, rtol)
    if "fwd" in modes:
        differences.check_jvp(lambda xs, ts: jvp(f, xs, ts), "forward mode")
    if "rev" in modes:
        differences.check_vjp(lambda *xs: vjp(f, *xs), "reverse mode")
    if order > 1:
        rest = (args, order - 1, modes, atol, rtol, eps)
        if "fwd" in modes:
            check_grads(lambda *xs: jvp(f, xs, differences.tangents)[1], *rest)
        if "rev" in modes:
            check_grads(lambda *xs: vjp(f, *xs)[1](differences.cotangents), *rest)


def check_jvp(
    f: Callable,
    f_jvp: Callable,
    args: Sequence[Any],
    atol: Tolerance = None,
    rtol: Tolerance = None,
    eps: float | None = None,
    err_msg: str = "",
) -> None:
    """Fail unless a derivative agrees with central differences along a random direction.

    f_jvp(primals, tangents) returns (f(*primals), the output's tangents), as a partial `weft.jvp`
    does. The other arguments are those of `check_grads`; err_msg comes with the failure.

    >>> import weft
    >>> def rule(primals, tangents):
    ...     (x,), (t,) = primals, tangents
    ...     return x * x, 2 * x * t
    >>> weft.testing.check_jvp(lambda x: x * x, rule, (3.0,))
    """
    _Differences(f, args, eps, atol, rtol).check_jvp(f_jvp, err_msg)


def check_vjp(
    f: Callable,
    f_vjp: Callable,
    args: Sequence[Any],
    atol: Tolerance = None,
    rtol: Tolerance = None,
    eps: float | None = None,
    err_msg: str = "",
) -> None:
    """Fail unless a derivative agrees with central differences along a random direction.

    f_vjp(*args) returns (f(*args), function from the output's cotangents to those of the
    arguments), as a partial `weft.vjp` does. The other arguments are those of `check_jvp`.

    >>> import weft
    >>> weft.testing.check_vjp(lambda x: x * x, lambda x: (x * x, lambda ct: (2 * x * ct,)), (3.0,))
    """
    _Differences(f, args, eps, atol, rtol).check_vjp(f_vjp, err_msg)


class _Differences:
    """Estimate a derivative along a random direction by central differences, for random weights."""

    def __init__(
        self,
        f: Callable,
        args: Sequence[Any],
        eps: float | None,
        atol: Tolerance,
        rtol: Tolerance,
    ) -> None:
        rng = np.random.default_rng(0)

        def normal(x: np.ndarray) -> Any:
            drawn = rng.standard_normal(x.shape)
            if np.iscomplexobj(x):
                drawn = drawn + 1j * rng.standard_normal(x.shape)
            return drawn.astype(x.dtype)

        def direction(tree: tuple | np.ndarray) -> Any:
            return tree_map(normal, tree)

        self.tolerances = {"atol": _by_dtype("atol", atol), "rtol": _by_dtype("rtol", rtol)}
        self.primals = _host(tuple(args))
        arrays = flatten(self.primals)[0]
        if not arrays:
            raise ValueError("args holds no arrays, so that there is no derivative to check")
        dtype = arrays[0].dtype
        self.f, self.steps = f, [eps or 1e-4]
        if not eps and dtype != np.float64:
            # rounding counts for more than curvature, of most functions but not of all
            self.steps = [1e-2, 1e-4] if dtype in (np.float32, np.complex64) else [1e-2]
        self.tangents = direction(self.primals)
        self.value = _host(f(*self.primals))
        self.cotangents = direction(self.value)
        self.slopes: list[float] = []

    def _slope(self, k: int) -> float:
        """Return the derivative along the direction that the k-th step gives."""
        for step in self.steps[len(self.slopes) : k + 1]:
            shifted = [
                tree_map(lambda p, t, s=s: (p + s * t).astype(p.dtype), *self._pair)
                for s in (step, -step)
            ]
            plus, minus = (_host(self.f(*x)) for x in shifted)
            numeric = tree_map(lambda a, b, s=step: (a - b) / (2 * s), plus, minus)
            self.slopes.append(_dot(numeric, self.cotangents))
        return self.slopes[k]

    @property
    def _pair(self) -> tuple:
        return self.primals, self.tangents

    def check_jvp(self, f_jvp: Callable, err_msg: str) -> None:
        value, pushed = f_jvp(*self._pair)
        self._check(value, _dot(pushed, self.cotangents), err_msg)

    def check_vjp(self, f_vjp: Callable, err_msg: str) -> None:
        value, pull = f_vjp(*self.primals)
        self._check(value, _dot(pull(self.cotangents), self.tangents), err_msg)

    def _check(self, value: ArrayLike | tuple, slope: float, err_msg: str) -> None:
        for got, want in zip(flatten(value)[0], flatten(self.value)[0], strict=True):
            near = self._tolerances(want.dtype)
            np.testing.assert_allclose(np.asarray(got), want, err_msg=f"{err_msg} (value)", **near)
        near = self._tolerances(flatten(self.primals)[0][0].dtype)
        if not any(np.allclose(slope, self._slope(k), **near) for k in range(len(self.steps))):
            wanted = self.slopes[0]
            np.testing.assert_allclose(slope, wanted, err_msg=err_msg, equal_nan=False, **near)

    def _tolerances(self, dtype: np.dtype) -> dict[str, Any]:
        return {
            name: bound.get(dtype, DEFAULT_TOLERANCE) if isinstance(bound, dict) else bound
            for name, bound in self.tolerances.items()
        }


def _by_dtype(name: str, bound: Tolerance) -> Any:
    """Return a tolerance as a number, or as a dict whose keys are NumPy's dtypes."""
    if bound is None:
        return DEFAULT_TOLERANCE
    if not isinstance(bound, Mapping):
        return float(bound)
    try:
        return {np.dtype(dtype): float(value) for dtype, value in bound.items()}
    except TypeError as error:
        raise TypeError(
            f"{name} must be a number or a dict from dtypes to numbers, got {bound!r}"
        ) from error


def _host(tree: object) -> Any:
    """Return arrays in memory of their own, which functions of native code may take to write to."""
    return tree_map(lambda x: np.array(x, typeof(x).dtype), tree)


def _dot(a: ArrayLike | tuple, b: object) -> float:
    """Return the real part of the product of cotangents and tangents."""
    return sum(
        float(np.sum(np.asarray(x, np.complex128) * np.asarray(y, np.complex128)).real)
        for x, y in zip(flatten(a)[0], flatten(b)[0], strict=True)
    )


seal(globals())
