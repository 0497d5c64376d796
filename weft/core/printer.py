"""Printing jaxprs: one equation a line, types with shardings and manual axes."""

from __future__ import annotations

import re
from itertools import count
from typing import TYPE_CHECKING

from weft.core.config import config
from weft.core.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Literal, Var

if TYPE_CHECKING:
    from weft.core.jaxpr import Atom


def jaxpr_html(jaxpr: Jaxpr | ClosedJaxpr) -> str:
    """Return a jaxpr's text for notebooks: inner jaxprs are folded, and unfold when clicked."""
    from html import escape

    lines = jaxpr.pretty_print(use_color=False).splitlines()
    depths = [len(line) - len(line.lstrip()) for line in lines]
    out: list[str] = []
    open_depths: list[int] = []
    for line, depth, following in zip(lines, depths, [*depths[1:], 0], strict=True):
        while open_depths and depth <= open_depths[-1]:
            open_depths.pop()
            out.append("</details>")
        if following > depth:
            out.append(f"<details{' open' if depth == 0 else ''}><summary>{escape(line)}</summary>")
            open_depths.append(depth)
        else:
            out.append(f"<div>{escape(line)}</div>")
    body = "".join([*out, *("</details>" for _ in open_depths)])
    return f'<div style="white-space:pre;font-family:monospace;overflow-x:auto">{body}</div>'


class _Names(dict):
    """Variables to a, b, …, z, aa, ab, … in order of appearance, inner jaxprs going on."""

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


class _Printer:
    def __init__(self, source_info: bool, name_stack: bool) -> None:
        self.source_info, self.name_stack = source_info, name_stack
        self.names = _Names()
        # By the types' ids: most variables of a jaxpr share few types, which it keeps alive.
        self.types: dict[int, str] = {}

    def type_of(self, v: Atom) -> str:
        if (text := self.types.get(id(v.aval))) is None:
            text = self.types[id(v.aval)] = v.aval.str_short()
        return text

    def jaxpr(self, jaxpr: Jaxpr) -> list[str]:
        consts = self.binders(jaxpr.constvars)
        lines = [f"{{ lambda {consts}{' ' if consts else ''}; {self.binders(jaxpr.invars)}. let"]
        for eqn in jaxpr.eqns:
            lines += ["    " + line for line in self.eqn(eqn)]
        outs = ", ".join(map(self.atom, jaxpr.outvars))
        trailing = "," if len(jaxpr.outvars) == 1 else ""
        lines.append(f"  in ({outs}{trailing}) }}")
        return lines

    def eqn(self, eqn: Eqn) -> list[str]:
        operands = " ".join(map(self.atom, eqn.invars))
        outs = self.binders(eqn.outvars) or "_"
        simple, nested = [], []
        for name, value in sorted(eqn.rule_params.items()):
            if _is_unset(value):
                continue
            text = self.param(value)
            if len(text) == 1:
                simple.append(f"{name}={text[0]}")
            else:
                nested += [f"  {name}={text[0]}"] + ["  " + line for line in text[1:]]
        where = self.where(eqn)
        if nested:
            return [
                f"{outs} = {eqn.primitive.name}[{where}",
                *(f"  {text}" for text in simple),
                *nested,
                f"] {operands}",
            ]
        params = f"[{' '.join(simple)}]" if simple else ""
        return [f"{outs} = {eqn.primitive.name}{params} {operands}".rstrip() + where]

    def where(self, eqn: Eqn) -> str:
        parts = ["/".join(eqn.source.scopes)] if self.name_stack and eqn.source.scopes else []
        if self.source_info:
            parts.append(eqn.source.short())
        return f"  # {' '.join(parts)}" if parts else ""

    def binders(self, variables: list[Var]) -> str:
        return " ".join([f"{self.names[v]}:{self.type_of(v)}" for v in variables])

    def atom(self, v: Atom) -> str:
        # str, since format() shows a float32's digits as a float64
        return f"{v.val!s}:{self.type_of(v)}" if isinstance(v, Literal) else self.names[v]

    def param(self, value: object) -> list[str]:
        if isinstance(value, ClosedJaxpr):
            value = value.jaxpr
        if isinstance(value, Jaxpr):
            return self.jaxpr(value)
        if isinstance(value, tuple) and value and isinstance(value[0], Jaxpr | ClosedJaxpr):
            lines = ["("]
            for item in value:
                lines += ["  " + line for line in self.param(item)]
            return [*lines, ")"]
        if hasattr(value, "describe"):
            return value.describe()
        if callable(value) and hasattr(value, "__name__"):
            return [value.__name__]
        if type(value).__repr__ is object.__repr__:  # no addresses: equal programs print alike
            return [type(value).__name__]
        return [str(value).replace("\n", " ")]


def _is_unset(value: object) -> bool:
    """None, False and nothing, alone or for every argument: what a reader need not see."""
    if value is None or value is False:
        return True
    return isinstance(value, tuple | frozenset) and all(v is None or v is False for v in value)


def print_jaxpr(
    jaxpr: Jaxpr | ClosedJaxpr,
    *,
    source_info: bool = False,
    name_stack: bool = False,
    use_color: bool | None = None,
) -> str:
    """Return the whole jaxpr.

    source_info: each line ends with the user's file and line. name_stack: and with the named
    scopes. use_color: types, keywords and comments have the colors of a terminal; None: as the
    option pprint_use_color says. Params that are None, False or empty are left out.
    """
    inner = jaxpr.jaxpr if isinstance(jaxpr, ClosedJaxpr) else jaxpr
    text = "\n".join(_Printer(source_info, name_stack).jaxpr(inner))
    if use_color is None:
        use_color = config.pprint_use_color
    return _COLORED.sub(_color, text) if use_color else text


# A comment, a type behind its colon, or a keyword.
_COLORED = re.compile(
    r"(?P<c35>  # .*)|(?P<c32>:\w+\[[^\]]*\](?:\{[^}]*\})?)|(?P<c1>\b(?:lambda|let|in)\b)"
)


def _color(match: re.Match) -> str:
    code = (match.lastgroup or "c1")[1:]
    return f"\033[{code}m{match[0]}\033[0m"


def print_eqn(eqn: Eqn) -> str:
    return "\n".join(_Printer(False, False).eqn(eqn))
