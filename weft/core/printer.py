"""Printing jaxprs: one equation a line, types with shardings and manual axes."""

from __future__ import annotations

from itertools import count
from typing import Any

from weft.core.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Literal, Var


class _Names(dict):
    """Variables to a, b, …, z, aa, ab, … in order of appearance."""

    def __init__(self) -> None:
        self._numbers = count()

    def __missing__(self, var: Var) -> str:
        n, name = next(self._numbers), ""
        while True:
            name = chr(ord("a") + n % 26) + name
            n = n // 26 - 1
            if n < 0:
                break
        self[var] = name
        return name


def print_jaxpr(jaxpr: Jaxpr, *, source_info: bool = False) -> str:
    """The whole jaxpr; with `source_info`, each line ends with the user's file and line."""
    return "\n".join(_jaxpr_lines(jaxpr, _Names(), source_info))


def print_eqn(eqn: Eqn) -> str:
    return "\n".join(_eqn_lines(eqn, _Names(), False))


def _binders(variables: list[Var], names: _Names) -> str:
    return " ".join(f"{names[v]}:{v.aval.str_short()}" for v in variables)


def _jaxpr_lines(jaxpr: Jaxpr, names: _Names, source_info: bool) -> list[str]:
    consts = _binders(jaxpr.constvars, names)
    lines = [f"{{ lambda {consts}{' ' if consts else ''}; {_binders(jaxpr.invars, names)}. let"]
    for eqn in jaxpr.eqns:
        lines += ["    " + line for line in _eqn_lines(eqn, names, source_info)]
    outs = ", ".join(_atom(v, names) for v in jaxpr.outvars)
    trailing = "," if len(jaxpr.outvars) == 1 else ""
    lines.append(f"  in ({outs}{trailing}) }}")
    return lines


def _atom(v: Any, names: _Names) -> str:
    if isinstance(v, Literal):
        return f"{v.val}:{v.aval.str_short()}"
    return names[v]


def _eqn_lines(eqn: Eqn, names: _Names, source_info: bool) -> list[str]:
    operands = " ".join(_atom(v, names) for v in eqn.invars)
    simple, nested = [], []
    for name, value in sorted(eqn.params.items()):
        text = _param_lines(value, source_info)
        if len(text) == 1:
            simple.append(f"{name}={text[0]}")
        else:
            nested += [f"  {name}={text[0]}"] + ["  " + line for line in text[1:]]
    outs = _binders(eqn.outvars, names) or "_"
    where = f"  # {eqn.source.short()}" if source_info else ""
    if nested:
        simple_lines = [f"  {text}" for text in simple]
        return [
            f"{outs} = {eqn.primitive.name}[{where}",
            *simple_lines,
            *nested,
            f"] {operands}",
        ]
    params = f"[{' '.join(simple)}]" if simple else ""
    return [f"{outs} = {eqn.primitive.name}{params} {operands}{where}"]


def _param_lines(value: Any, source_info: bool) -> list[str]:
    if isinstance(value, ClosedJaxpr):
        value = value.jaxpr
    if isinstance(value, Jaxpr):
        return _jaxpr_lines(value, _Names(), source_info)
    if isinstance(value, tuple) and value and isinstance(value[0], Jaxpr | ClosedJaxpr):
        lines = ["("]
        for item in value:
            lines += ["  " + line for line in _param_lines(item, source_info)]
        return [*lines, ")"]
    if callable(value) and hasattr(value, "__name__"):
        return [value.__name__]
    return [str(value).replace("\n", " ")]
