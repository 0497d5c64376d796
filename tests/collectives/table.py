"""Collective × transformation × context: `python -m tests.collectives.table` prints it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable

import numpy as np

import weft
from tests.collectives.cases import CASES, MACHINE, SHAPE, Case
from tests.collectives.harness import COMPILER_OPTIONS, Context, draw, mesh_of, program
from weft import lax
from weft.sharding.mesh import AxisType


def _scan(fun: Callable) -> Callable:
    def scanned(v):
        _, ys = lax.scan(lambda c, _: (c, fun(c)), v, None, length=2)
        return lax.index_in_dim(ys, 1, 0, keepdims=False)

    return scanned


def _cond(fun: Callable) -> Callable:
    def chosen(v):
        everywhere = lax.pmax(lax.axis_index(MACHINE.names), MACHINE.names)
        return lax.cond(lax.gt(everywhere, 0), fun, lambda v: lax.mul(fun(v), 2.0), v)

    return chosen


def _while(fun: Callable) -> Callable:
    def looped(v):
        def body(state):
            return lax.add(state[0], 1), fun(v)

        return lax.while_loop(lambda state: lax.lt(state[0], 2), body, (0, fun(v)))[1]

    return looped


def _other_vmap(fun: Callable) -> Callable:
    def mapped(v):
        doubled = lax.concatenate([lax.expand_dims(v, (1,)), lax.expand_dims(v, (1,))], 1)
        return lax.index_in_dim(weft.vmap(fun, 1, -1)(doubled), 1, -1, keepdims=False)

    return mapped


INSIDE: dict[str, Callable] = {
    "jit": weft.jit,
    "vmap of another axis": _other_vmap,
    "scan": _scan,
    "cond": _cond,
    "checkpoint": weft.checkpoint,
    "while": _while,
}
"""Transformations of the per-device function; all but while are differentiated in reverse too."""

CONTEXTS = {
    "vmap": Context(),
    "shard_map": Context(("x", "v")),
    "shard_map, check_vma=False": Context(("x", "v"), check_vma=False),
    "vmap in shard_map": Context(("x",)),
    "shard_map in vmap": Context(("x",), outside=True),
    "partly manual shard_map": Context(("x",), auto=True),
    "explicit mesh": Context(("x", "v"), axis_type=AxisType.Explicit),
}

COLUMNS = ("value", "jvp", "vjp", "vjp of vjp", *INSIDE)


def check(
    case: Case, context: Context, rng: np.random.Generator, inside: Iterable[str] = tuple(INSIDE)
) -> dict[str, str]:
    """Transformation → what is wrong (empty if nothing), all from one compiled program."""
    x, t = draw(rng, MACHINE, SHAPE, np.float32), draw(rng, MACHINE, SHAPE, np.float32)
    want = MACHINE.stack(case.meaning(x))
    want_t = MACHINE.stack(case.push(x, t) if case.push else case.meaning(t))
    ct = rng.integers(-4, 4, want.shape).astype(np.float32)
    plain = program(MACHINE, case.fun, context)
    inner = {name: program(MACHINE, case.fun, context, inside=INSIDE[name]) for name in inside}

    def everything(x, t, ct):
        out = {}
        out["value"], out["jvp"] = weft.jvp(plain, (x,), (t,))
        back = weft.vjp(plain, x)[1]
        out["vjp"] = back(ct)[0]
        # Back of back is the function itself again, where it is linear.
        out["vjp of vjp"] = weft.vjp(lambda c: back(c)[0], ct)[1](t)[0]
        for name, fun in inner.items():
            if name == "while":
                out[name] = (fun(x), None)
            else:
                y, inner_back = weft.vjp(fun, x)
                out[name] = (y, inner_back(ct)[0])
        return out

    given = (MACHINE.stack(x), MACHINE.stack(t), ct)
    if context.axis_type is AxisType.Explicit:
        mesh = mesh_of(MACHINE, context.mesh_axes, axis_type=AxisType.Explicit)
        given = weft.device_put(given, weft.NamedSharding(mesh, weft.P(*context.mesh_axes)))
    got = weft.jit(everything, compiler_options=COMPILER_OPTIONS)(*given)
    product = np.sum(ct * want_t)

    def pairs_up(cotangent) -> str:
        found = np.sum(np.asarray(cotangent) * MACHINE.stack(t))
        return "" if np.allclose(found, product, rtol=1e-4, atol=1e-2) else f"{found} ≠ {product}"

    faults = {
        "value": _differs(got["value"], want),
        "jvp": _differs(got["jvp"], want_t),
        "vjp": pairs_up(got["vjp"]),
        "vjp of vjp": _differs(got["vjp of vjp"], want_t),
    }
    for name in inner:
        y, cotangent = got[name]
        faults[name] = _differs(y, want)
        if cotangent is not None:
            faults[name] += _differs(cotangent, np.asarray(got["vjp"]))
    return faults


def _differs(got, want: np.ndarray) -> str:
    got = np.asarray(got)
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{got.shape} instead of {want.dtype}{want.shape}"
    return "" if np.allclose(got, want, rtol=1e-5, atol=1e-5) else "wrong values"


def main() -> int:
    from rich.console import Console
    from rich.progress import track
    from rich.table import Table

    weft.config.update("num_cpu_devices", 8)
    table = Table(title="collective × transformation × context")
    for heading in ("collective", "context", *COLUMNS):
        table.add_column(heading)
    wrong = 0
    rows = [(case, name) for case in CASES for name in CONTEXTS]
    for case, name in track(rows, console=Console(stderr=True), transient=True):
        try:
            faults = check(case, CONTEXTS[name], np.random.default_rng(0))
        except Exception as error:
            faults = dict.fromkeys(COLUMNS, str(error))
        wrong += sum(map(bool, faults.values()))
        table.add_row(case.name, name, *("[red]✗" if faults[c] else "[green]✓" for c in COLUMNS))
    console = Console(width=180)
    console.print(table)
    console.print(f"{len(rows)} rows, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
