"""Assertions for users' own test suites: communication budgets, gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.core.namespace import seal
from weft.partition.collect import KINDS
from weft.partition.report import format_bytes, parse_bytes

__all__ = ["assert_comm", "check_grads"]

_KINDS = frozenset(KINDS.values())


def assert_comm(
    fun: Callable,
    args: Sequence[Any] = (),
    kwargs: dict[str, Any] | None = None,
    *,
    max_bytes: str | float | None = None,
    exact: bool = True,
    **counts: int,
) -> None:
    """Fails unless `fun(*args, **kwargs)` communicates within a budget.

    counts: executions by kind (`all_reduce=2`, `all_gather=0`, …), loops counted. Kinds that are
    not named must not occur, unless exact is False. max_bytes: what each device may send in one
    call, a number or a string such as '3 MB'.

    Raises AssertionError with the whole communication table, expected and found counts.

    >>> import weft
    >>> mesh = weft.sharding.AbstractMesh((8,), ("data",))
    >>> rows = weft.NamedSharding(mesh, weft.P("data"))
    >>> x = weft.ShapeDtypeStruct((64,), "float32", sharding=rows)
    >>> weft.testing.assert_comm(lambda x: x + 1, (x,), max_bytes=0)
    """
    from weft.communication import comm

    unknown = sorted(set(counts) - _KINDS)
    if unknown:
        raise TypeError(
            f"assert_comm: {unknown[0]!r} is not a kind of collective; the kinds are "
            f"{', '.join(sorted(_KINDS))}"
        )
    report = comm(fun, *args, **(kwargs or {}))
    found = report.counts()
    expected = dict(counts)
    if exact:
        expected = {**dict.fromkeys(found, 0), **counts}
    problems = []
    for kind in sorted(expected):
        want, got = expected[kind], found.get(kind, 0)
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


def check_grads(
    fun: Callable,
    args: Sequence[Any],
    order: int = 1,
    modes: Sequence[str] = ("fwd", "rev"),
    atol: float = 1e-2,
    rtol: float = 1e-2,
    eps: float | None = None,
) -> None:
    """Fails unless derivatives agree with central differences along random directions.

    fun: any differentiable function of arrays. order: how many derivatives. modes: 'fwd', 'rev'.
    Compute in float64 (weft.enable_x64) for tight tolerances.

    >>> import weft
    >>> weft.testing.check_grads(weft.numpy.sin, (0.5,), order=2)
    """
    from weft.core.tree import flatten, tree_map
    from weft.transforms.autodiff import jvp, vjp

    rng = np.random.default_rng(0)

    def host(tree: Any) -> Any:
        return tree_map(lambda x: np.asarray(x), tree)

    def direction(tree: Any) -> Any:
        return tree_map(lambda x: rng.standard_normal(x.shape).astype(x.dtype), tree)

    def dot(a: Any, b: Any) -> float:
        return sum(
            float(np.sum(np.asarray(x, np.float64) * np.asarray(y, np.float64)))
            for x, y in zip(flatten(a)[0], flatten(b)[0], strict=True)
        )

    primals = host(tuple(args))
    dtype = flatten(primals)[0][0].dtype
    step = eps or (1e-4 if dtype == np.float64 else 1e-2)
    tangents = direction(primals)
    shifted = [
        tree_map(lambda p, t, s=s: (p + s * step * t).astype(p.dtype), primals, tangents)
        for s in (1, -1)
    ]
    plus, minus = (host(fun(*x)) for x in shifted)
    numeric = tree_map(lambda a, b: (a - b) / (2 * step), plus, minus)
    ct = direction(plus)
    expected = dot(numeric, ct)
    if "fwd" in modes:
        _, pushed = jvp(fun, primals, tangents)
        np.testing.assert_allclose(
            dot(pushed, ct), expected, atol=atol, rtol=rtol, err_msg="forward mode"
        )
    if "rev" in modes:
        _, pull = vjp(fun, *primals)
        np.testing.assert_allclose(
            dot(pull(ct), tangents), expected, atol=atol, rtol=rtol, err_msg="reverse mode"
        )
    if order > 1:
        if "fwd" in modes:
            check_grads(
                lambda *xs: jvp(fun, xs, tangents)[1], args, order - 1, modes, atol, rtol, eps
            )
        if "rev" in modes:
            check_grads(lambda *xs: vjp(fun, *xs)[1](ct), args, order - 1, modes, atol, rtol, eps)


seal(globals())
