"""How a benchmark is declared: a function of the library (`xx`) that returns what to measure."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

CASES: dict[str, "Case"] = {}


@dataclass(frozen=True, slots=True)
class Timed:
    """A call to time. `prepare()` makes, untimed, the argument of each `run(argument)`."""

    run: Callable[..., Any]
    prepare: Callable[[], Any] | None = None
    equations: int | None = None  # of the traced program, to report a time per equation


@dataclass(frozen=True, slots=True)
class Case:
    """One row of the table: `setup(xx)` returns a callable, a `Timed` or, for bytes, a number."""

    name: str
    group: str
    budget: float | None  # the largest weft / JAX ratio that meets the target; None only reports
    clock: str  # "cpu": CPU time of the process, "wall": elapsed time, "value": setup's number
    unit: str
    setup: Callable[[Any], Any] | None = None
    script: str | None = None  # instead of setup: a whole program that prints one number


def case(name: str, *, budget: float | None, clock: str = "cpu", unit: str = "s"):
    """Declare the decorated `setup(xx)` as a case; `xx` is the module weft or jax."""

    def declare(setup: Callable[[Any], Any]) -> Callable[[Any], Any]:
        group = setup.__module__.rpartition(".")[2]
        add(Case(name, group, budget, clock, unit, setup=setup))
        return setup

    return declare


def script(group: str, name: str, source: str, *, budget: float | None, unit: str = "s") -> None:
    """Declare a case that needs a process to itself; `{lib}` in `source` is weft or jax."""
    add(Case(name, group, budget, "value", unit, script=source))


def add(new: Case) -> None:
    if new.name in CASES:
        raise ValueError(f"two benchmarks are named {new.name!r}")
    CASES[new.name] = new


def count_equations(jaxpr: Any) -> int:
    """Equations of a (closed) jaxpr and of every jaxpr inside it."""
    jaxpr = getattr(jaxpr, "jaxpr", jaxpr)
    total = 0
    for equation in jaxpr.eqns:
        total += 1
        for param in equation.params.values():
            for inner in param if isinstance(param, (tuple, list)) else (param,):
                if hasattr(getattr(inner, "jaxpr", inner), "eqns"):
                    total += count_equations(inner)
    return total
