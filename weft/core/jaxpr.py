# Tests: tests/core/test_trace.py, tests/core/test_printer.py
"""The IR: a jaxpr is a list of equations in A-normal form, typed by avals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from weft.core import provided
from weft.core.notebook import displayed
from weft.core.state import state

if TYPE_CHECKING:
    from weft.core.source import Source
    from weft.typing import ArrayLike

NO_EFFECTS: frozenset = frozenset()


class Var:
    """A typed variable; names are given when a jaxpr is printed."""

    __slots__ = ("aval",)

    def __init__(self, aval: Any) -> None:
        self.aval = aval

    def __repr__(self) -> str:
        return f"Var(id={id(self)}):{self.aval.str_short()}"


class Literal:
    """A scalar constant written into the program."""

    __slots__ = ("aval", "val")

    def __init__(self, val: Any, aval: Any) -> None:
        self.val = val
        self.aval = aval

    def __repr__(self) -> str:
        return f"{self.val}:{self.aval.str_short()}"


Atom = Var | Literal


class Eqn:
    """outvars = primitive[params](invars), with its effects and the user's source line.

    `rule_params` are the parameters that the primitive's rules take, `params` the same as JAX
    names and writes them, for programs that read or rewrite equations.
    """

    __slots__ = ("effects", "invars", "outvars", "primitive", "rule_params", "source")

    def __init__(
        self,
        primitive: Any,
        invars: list[Atom],
        outvars: list[Var],
        rule_params: dict[str, Any],
        effects: frozenset,
        source: Source,
    ) -> None:
        self.primitive = primitive
        self.invars = invars
        self.outvars = outvars
        self.rule_params = rule_params
        self.effects = effects
        self.source = source

    @property
    def params(self) -> dict[str, Any]:
        """The parameters as JAX names and writes them; `primitive.bind` takes these too."""
        return provided.params_seen(self.primitive, self.rule_params, self.invars)

    @property
    def source_info(self) -> Any:
        """The user's source line, as JAX calls `source`."""
        return self.source

    def replace(self, **changes: Any) -> Eqn:
        """Return the equation with other members; `params` as JAX writes them."""
        if "source_info" in changes:
            changes["source"] = changes.pop("source_info")
        if "params" in changes:
            primitive = changes.get("primitive", self.primitive)
            changes["rule_params"] = provided.params_taken(primitive, changes.pop("params"))
        changes.pop("ctx", None)
        return Eqn(**{**{name: getattr(self, name) for name in self.__slots__}, **changes})

    def __repr__(self) -> str:
        from weft.core.printer import print_eqn

        return print_eqn(self)


@displayed("weft.core.printer", "jaxpr_html")
class _Memoized:
    """Keeps what was derived from an object, as long as the object lives."""

    __slots__ = ("__weakref__", "_memo")

    def __init__(self) -> None:
        self._memo: dict | None = None

    def memo(self, key: str | tuple, make: Callable[[], Any]) -> Any:
        """Return the result that a transformation derived from this jaxpr, computed once."""
        if self._memo is None:
            self._memo = {}
        try:
            return self._memo[key]
        except KeyError:
            pass  # what make() raises is no consequence of this
        value = self._memo[key] = make()
        return value


class Jaxpr(_Memoized):
    """constvars and invars in, outvars out; `effects` joins those of the equations."""

    __slots__ = (
        "constvars",
        "debug",
        "effects",
        "eqns",
        "invars",
        "outvars",
    )

    def __init__(
        self,
        constvars: list[Var],
        invars: list[Var],
        outvars: list[Atom],
        eqns: list[Eqn],
        effects: frozenset = NO_EFFECTS,
        debug: Any = "<lambda>",
        *,
        debug_info: Any = None,
    ) -> None:
        self.constvars = constvars
        self.invars = invars
        self.outvars = outvars
        self.eqns = eqns
        self.effects = effects
        # the traced function's name, of which JAX's programs keep more
        named = debug if debug_info is None else debug_info
        self.debug = named if isinstance(named, str) else getattr(named, "func_name", "<lambda>")
        self._memo = None

    def replace(self, **changes: object) -> Jaxpr:
        names = ("constvars", "invars", "outvars", "eqns", "effects", "debug")
        return Jaxpr(**{**{n: getattr(self, n) for n in names}, **changes})

    @property
    def in_avals(self) -> list:
        return [v.aval for v in self.invars]

    @property
    def out_avals(self) -> list:
        return [v.aval for v in self.outvars]

    def pretty_print(
        self,
        *,
        source_info: bool = False,
        name_stack: bool = False,
        use_color: bool | None = None,
    ) -> str:
        """Return the text, with lines, named scopes and a terminal's colors if asked."""
        from weft.core.printer import print_jaxpr

        return print_jaxpr(
            self, source_info=source_info, name_stack=name_stack, use_color=use_color
        )

    def __str__(self) -> str:
        return self.pretty_print()

    __repr__ = __str__


class ClosedJaxpr(_Memoized):
    """A jaxpr with the values of its constvars."""

    __slots__ = ("consts", "jaxpr")

    def __init__(self, jaxpr: Jaxpr, consts: Sequence[Any] = ()) -> None:
        self.jaxpr = jaxpr
        self.consts = list(consts)
        self._memo = None

    in_avals = property(lambda self: self.jaxpr.in_avals)
    out_avals = property(lambda self: self.jaxpr.out_avals)
    eqns = property(lambda self: self.jaxpr.eqns)
    effects = property(lambda self: self.jaxpr.effects)
    constvars = property(lambda self: self.jaxpr.constvars)
    invars = property(lambda self: self.jaxpr.invars)
    outvars = property(lambda self: self.jaxpr.outvars)
    literals = property(lambda self: self.consts)

    def replace(self, *, jaxpr: Jaxpr | None = None, consts: Any = None) -> ClosedJaxpr:
        """Return a copy with the jaxpr or its constants replaced."""
        return ClosedJaxpr(
            self.jaxpr if jaxpr is None else jaxpr, self.consts if consts is None else consts
        )

    def map_jaxpr(self, f: Callable[[Jaxpr], Jaxpr]) -> ClosedJaxpr:
        """Return a copy with f(jaxpr) in place of the jaxpr."""
        return self.replace(jaxpr=f(self.jaxpr))

    def pretty_print(
        self,
        *,
        source_info: bool = False,
        name_stack: bool = False,
        use_color: bool | None = None,
    ) -> str:
        """Return the text, with lines, named scopes and a terminal's colors if asked."""
        return self.jaxpr.pretty_print(
            source_info=source_info, name_stack=name_stack, use_color=use_color
        )

    def __str__(self) -> str:
        return self.pretty_print()

    __repr__ = __str__


def subjaxprs(params: dict[str, Any]) -> Iterator[tuple[str, Jaxpr | ClosedJaxpr]]:
    """Return the jaxprs among an equation's params, with the name of the param that holds each."""
    for name, value in params.items():
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, Jaxpr | ClosedJaxpr):
                yield name, item


def open_jaxpr(jaxpr: Jaxpr | ClosedJaxpr) -> Jaxpr:
    return jaxpr.jaxpr if isinstance(jaxpr, ClosedJaxpr) else jaxpr


def walk_eqns(jaxpr: Jaxpr | ClosedJaxpr) -> Iterator[Eqn]:
    """Yield every equation, those of inner jaxprs included, outer first."""
    for eqn in open_jaxpr(jaxpr).eqns:
        yield eqn
        for _, inner in subjaxprs(eqn.rule_params):
            yield from walk_eqns(inner)


def eval_jaxpr(jaxpr: Jaxpr, consts: Iterable[Any], *args: ArrayLike) -> list:
    """Evaluate a jaxpr under the current trace; equations keep their own source lines."""
    env: dict[Atom, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))
    before = state.source
    try:
        for eqn in jaxpr.eqns:
            state.source = eqn.source
            ins = [v.val if v.__class__ is Literal else env[v] for v in eqn.invars]
            assign(env, eqn, eqn.primitive.bind(*ins, **eqn.rule_params))
    finally:
        state.source = before
    return [v.val if v.__class__ is Literal else env[v] for v in jaxpr.outvars]


def interpret(closed: ClosedJaxpr, args: Iterable[Any], apply: Callable[[Eqn, list], Any]) -> list:
    """Evaluate a jaxpr, each equation by apply(eqn, operands); equations keep their lines."""
    jaxpr = closed.jaxpr
    env: dict[Atom, Any] = dict(zip(jaxpr.constvars, closed.consts, strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))
    before = state.source
    try:
        for eqn in jaxpr.eqns:
            state.source = eqn.source
            ins = [v.val if v.__class__ is Literal else env[v] for v in eqn.invars]
            assign(env, eqn, apply(eqn, ins))
    finally:
        state.source = before
    return [v.val if v.__class__ is Literal else env[v] for v in jaxpr.outvars]


def assign(env: dict[Atom, Any], eqn: Eqn, out: Any) -> None:
    """Enter what the equation's op returned as the values of its variables."""
    if eqn.primitive.multiple_results:
        env.update(zip(eqn.outvars, out, strict=True))
    else:
        env[eqn.outvars[0]] = out


def eval_closed(closed: ClosedJaxpr, *args: Any) -> list:
    return eval_jaxpr(closed.jaxpr, closed.consts, *args)


def jaxpr_as_fun(closed: ClosedJaxpr) -> Callable[..., list]:
    """Return the function a closed jaxpr computes, on flat arguments."""
    return lambda *args: eval_closed(closed, *args)


def jaxpr_axes(jaxpr: ClosedJaxpr) -> frozenset:
    """Return the named axes that a jaxpr's equations communicate over."""

    def find() -> frozenset:
        names: frozenset = frozenset()
        for eqn in jaxpr.eqns:
            if eqn.primitive.named_axes is not None:
                names |= frozenset(eqn.primitive.named_axes(eqn.rule_params))
        return names

    return jaxpr.memo("named_axes", find)
