# Tests: tests/compat/test_equations.py
"""The rules of a called function as parameters of its equation, called as JAX calls them."""

from __future__ import annotations

from typing import Any

from weft.autodiff.jvp import cotangent_aval, tangent_aval
from weft.autodiff.zeros import instantiate_zero
from weft.compat.primitive import Zero
from weft.core.trace import trace_to_jaxpr, typeof
from weft.core.tree import flatten


class Rules:
    """A rule of an equation: weft's parameters of that, by which it is bound again.

    state: what the rules of one equation tell each other.
    """

    __slots__ = ("rule_params", "state")

    def __init__(self, rule_params: dict[str, Any], state: dict[str, Any]) -> None:
        self.rule_params, self.state = rule_params, state

    def __repr__(self) -> str:
        call = self.rule_params.get("call")
        return f"{type(self).__name__} of {getattr(call, 'name', 'a function')}"

    def call_wrapped(self, *args: Any) -> Any:
        raise NotImplementedError

    def __call__(self, *args: Any) -> Any:
        return self.call_wrapped(*args)

    def _avals(self) -> list:
        """Return the types of the arguments; the rule must read nothing else that is traced."""
        if hasattr(self.rule_params["call"], "starts") or hasattr(
            self.rule_params["call"], "start"
        ):
            raise NotImplementedError(
                f"{self!r} reads traced values that its function closes over: pass them to the "
                "function as arguments"
            )
        return self.rule_params["jaxpr"].in_avals[self.rule_params["num_consts"] :]


class JvpRule(Rules):
    """From which tangents are zero: the jaxpr of results and tangents, and which of those are."""

    __slots__ = ()

    def call_wrapped(self, *zeros: Any) -> tuple:
        avals = self._avals()
        n = len(avals)
        out_zeros: list[bool] = []

        def flat(*xs: Any) -> list:
            nonzero = iter(xs[n:])
            tangents = [None if zero else next(nonzero) for zero in zeros]
            outs, out_tangents = self.rule_params["call"].rule((), list(xs[:n]), tangents)
            out_zeros[:] = [t is None for t in out_tangents]
            return [*outs, *(t for t in out_tangents if t is not None)]

        moving = [tangent_aval(a) for a, zero in zip(avals, zeros, strict=True) if not zero]
        jaxpr, consts = trace_to_jaxpr(flat, [*avals, *moving], repr(self))
        return jaxpr, consts, out_zeros


class FwdRule(Rules):
    """From which arguments are differentiated: the jaxpr of residuals and results."""

    __slots__ = ()

    def call_wrapped(self, *nonzeros: Any) -> tuple:
        def flat(*xs: Any) -> list:
            outs, residuals, context = self.rule_params["call"].forward(
                (), list(xs), list(nonzeros)
            )
            self.state["context"] = (*context, [typeof(o) for o in outs])
            self.state["num_residuals"] = len(residuals)
            return [*residuals, *outs]

        jaxpr, consts = trace_to_jaxpr(flat, self._avals(), repr(self))
        return jaxpr, consts

    def ready(self) -> dict[str, Any]:
        """Return what the forward rule told the others, which may have to be traced for it."""
        if not self.state:
            FwdRule.call_wrapped(self, *(True for _ in self._avals()))
        return self.state


class BwdRule(FwdRule):
    """From residuals and cotangents: the cotangents of the arguments."""

    __slots__ = ()

    def call_wrapped(self, *args: Any) -> Any:
        return self(*args)

    def __call__(self, *args: Any) -> list:
        state, primals = self.ready(), self._avals()
        n = state["num_residuals"]
        cts = [None if isinstance(ct, Zero) else ct for ct in args[n:]]
        outs = self.rule_params["call"].backward(state["context"], list(args[:n]), cts, primals)
        return [
            instantiate_zero(cotangent_aval(a)) if ct is None else ct
            for ct, a in zip(outs, primals, strict=True)
        ]


class OutTrees(FwdRule):
    """The structures of the results and of the residuals."""

    __slots__ = ()

    def __call__(self, *args: Any) -> tuple:
        state = self.ready()
        residual_tree, out_tree = state["context"][:2]
        return out_tree, residual_tree, [None] * state["num_residuals"]


class VmapRule(Rules):
    """From the size, and for constants and arguments which are batched: the results, and which."""

    __slots__ = ()

    def call_wrapped(self, *args: Any) -> Any:
        size, (_, batched), _, arguments = args
        return self.rule_params["call"].owner.vmap_rule(size, list(batched), *arguments)


class TransposeRule(Rules):
    """The jaxpr of a linear function's transpose."""

    __slots__ = ()

    def call_wrapped(self, *args: Any) -> tuple:
        return self.rule_params["transpose"], []


BY_NAME: dict[str, Any] = {
    "jvp_jaxpr_fun": JvpRule,
    "fwd_jaxpr_thunk": FwdRule,
    "bwd": BwdRule,
    "out_trees": OutTrees,
    "rule": VmapRule,
    "transpose_thunk": TransposeRule,
}


def tree_with_consts(rule_params: dict[str, Any]) -> Any:
    """Return the structure of (constants, arguments) of a call."""
    call = rule_params["call"]
    if not hasattr(call, "in_tree"):
        return None
    arguments = call.in_tree.unflatten(range(call.in_tree.num_leaves))
    return flatten(([0] * rule_params["num_consts"], arguments))[1]
