# Tests: tests/compat/test_as_jax.py
"""jax.core: types, tracers, evaluation of jaxprs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft import ensure_compile_time_eval as ensure_compile_time_eval
from weft.compat.equations import params_seen, params_taken
from weft.compat.types import typeof as get_aval  # noqa: F401
from weft.core import effects as _effects
from weft.core.aval import AbstractToken as AbstractToken
from weft.core.aval import ShapedArray as ShapedArray
from weft.core.jaxpr import Atom as Atom
from weft.core.jaxpr import Eqn, Literal, Var, open_jaxpr
from weft.core.jaxpr import eval_jaxpr as eval_jaxpr
from weft.core.jaxpr import subjaxprs as subjaxprs_of
from weft.core.state import current_trace, state
from weft.core.trace import EVAL
from weft.core.trace import Tracer as Tracer
from weft.core.trace import aval_of as pytype_aval_mappings  # noqa: F401
from weft.errors import JaxprTypeError as JaxprTypeError

if TYPE_CHECKING:
    from weft.lowering.context import RuleContext

Value = Any
ParamDict = dict[str, Any]
Effects = frozenset
OutputType = Any
no_effects: frozenset = frozenset()
abstract_token = AbstractToken()


class Effect(_effects.Effect):
    """An effect that a program defines, as a class of its own."""

    ordered = False

    def __new__(cls, *_: Any, **__: Any) -> Effect:
        self = object.__new__(cls)
        self.name = cls.__name__
        return self


class _KindOfAval(type):
    def __instancecheck__(cls, value: object) -> bool:
        return hasattr(value, "str_short") and hasattr(value, "strip_weak_type")

    def __subclasscheck__(cls, other: type) -> bool:
        return cls in other.__mro__ or hasattr(other, "strip_weak_type")


class AbstractValue(metaclass=_KindOfAval):
    """The kind of all types of values; weft's types are instances of it."""


class _KindOfTrace(type):
    def __instancecheck__(cls, value: object) -> bool:
        return hasattr(value, "process") and not isinstance(value, type)


class Trace(metaclass=_KindOfTrace):
    """The kind of what a transformation records or computes with; programs may derive their own."""

    finished = False
    main = property(lambda self: getattr(self, "tag", None))

    def process(self, prim: Any, args: Any, params: dict[str, Any]) -> Any:
        """Give an operation to the program's own rule; one that JAX lacks by its formula."""
        if prim.formula is not None:
            with current_trace(self):
                return prim.formula(*args, **params)
        return self.process_primitive(prim, args, params_seen(prim, params, args))

    def process_primitive(self, primitive: object, tracers: object, params: dict[str, Any]) -> Any:
        raise NotImplementedError(f"{type(self).__name__}: define process_primitive")

    def full_raise(self, x: object) -> Any:
        return x

    def invalidate(self) -> None:
        self.finished = True

    def is_valid(self) -> bool:
        return not self.finished


class TraceTag:
    """A mark by which a transformation knows its own tracers."""


eval_context = ensure_compile_time_eval
set_current_trace = current_trace


class DropVar(Var):
    """The kind of variables that JAX writes for results that nobody uses; weft names them all."""

    __slots__ = ()


class OpaqueTraceState:
    """Which transformations are under way, to be compared only."""

    __slots__ = ("_axes", "_trace")

    def __init__(self) -> None:
        self._trace, self._axes = state.trace, state.axes

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, OpaqueTraceState)
            and self._trace is other._trace
            and self._axes == other._axes
        )

    __hash__ = None  # type: ignore[assignment]


def get_opaque_trace_state(convention: str | None = None) -> OpaqueTraceState:
    return OpaqueTraceState()


def find_top_trace(values: object) -> Any:
    """Return the trace that ops go to here."""
    return state.trace


class _TakenTrace:
    def __enter__(self) -> Any:
        return state.trace

    def __exit__(self, *_: object) -> None:
        pass


def take_current_trace() -> _TakenTrace:
    return _TakenTrace()


def trace_state_clean() -> bool:
    return state.trace is EVAL and not state.axes


def nonempty_axis_env_DO_NOT_USE() -> bool:
    return bool(state.axes)


def unsafe_get_axis_names_DO_NOT_USE() -> list:
    return list(state.axes)


def unsafe_am_i_under_a_jit_DO_NOT_USE() -> bool:
    from weft.core.trace import StagingTrace

    return _any_trace(StagingTrace)


def unsafe_am_i_under_a_vmap_DO_NOT_USE() -> bool:
    from weft.autodiff.vmap import BatchTrace

    return _any_trace(BatchTrace)


def _any_trace(kind: type) -> bool:
    trace = state.trace
    while trace is not None:
        if isinstance(trace, kind):
            return True
        trace = getattr(trace, "parent", None)
    return False


def valid_jaxtype(value: object) -> bool:
    from weft.core.trace import is_array_like

    return is_array_like(value)


def is_concrete(value: object) -> bool:
    return not isinstance(value, Tracer) or value.concrete() is not None


def concrete_or_error(force: Any, value: Any, context: str = "") -> Any:
    """Return the value in Python's or NumPy's terms; raises for one that tracing does not know."""
    if force is None:
        return value if not isinstance(value, Tracer) else value._needs_value(*_needed(context))
    if isinstance(value, Tracer) and value.concrete() is None:
        value._needs_value(*_needed(context))
    return force(value)


def _needed(context: str) -> tuple:
    from weft.errors import ConcretizationTypeError

    return ConcretizationTypeError, "the Python value", context


def mapped_aval(size: int, axis: int | None, aval: ShapedArray) -> Any:
    """Return the type of one example of a batch along the axis."""
    from weft.autodiff.vmap import remove_dim

    return remove_dim(aval, axis)


def unmapped_aval(
    size: int, axis: int | None, aval: ShapedArray, explicit_mesh_axis: object = None
) -> Any:
    """Return the type of a batch along the axis."""
    from weft.autodiff.vmap import AxisData, add_dim

    return add_dim(aval, axis, AxisData(None, size))


def primal_dtype_to_tangent_dtype(dtype: Any) -> Any:
    from weft.core import dtypes

    return dtype if dtypes.is_inexact(dtype) else dtypes.float0


class _KindOfEqn(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, Eqn)


class JaxprEqn(metaclass=_KindOfEqn):
    """The kind of equations; called, it makes one of parts in JAX's order."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return new_jaxpr_eqn(*args, **kwargs)


def last_used(jaxpr: Any) -> dict[Var, Eqn | None]:
    """Return for each variable the equation that reads it last; None for results."""
    last_use: dict[Var, Eqn | None] = {v: None for v in jaxpr.outvars if not isinstance(v, Literal)}
    for eqn in reversed(jaxpr.eqns):
        for v in eqn.invars:
            if not isinstance(v, Literal):
                last_use.setdefault(v, eqn)
    return last_use


def clean_up_dead_vars(eqn: Eqn, env: dict[Var, Any], last: dict[Var, Eqn | None]) -> None:
    """Drop from an interpreter's values those that no later equation reads."""
    for v in {v for v in eqn.invars if not isinstance(v, Literal)}:
        if last[v] is eqn:
            env.pop(v, None)


def subjaxprs(jaxpr: Any) -> list:
    """Return the jaxprs among the params of a jaxpr's equations."""
    inner = (s for eqn in open_jaxpr(jaxpr).eqns for _, s in subjaxprs_of(eqn.rule_params))
    return [open_jaxpr(s) for s in inner]


def jaxprs_in_params(params: dict[str, Any]) -> list:
    return [open_jaxpr(s) for _, s in subjaxprs_of(params)]


def traverse_jaxpr_params(f: Any, params: dict[str, Any]) -> dict[str, Any]:
    """f of each param that is a jaxpr, or holds some."""
    return {name: f(open_jaxpr(s)) for name, s in subjaxprs_of(params)}


def check_jaxpr(jaxpr: Any) -> None:
    from weft.core import check

    check.check_jaxpr(open_jaxpr(jaxpr))


def gensym(suffix: str = "") -> Any:
    return Var


def new_jaxpr_eqn(
    invars: Any,
    outvars: Any,
    primitive: Any,
    params: dict[str, Any],
    effects: Any = no_effects,
    source_info: Any = None,
    ctx: RuleContext | None = None,
) -> Eqn:
    from weft.core.source import UNKNOWN

    return Eqn(
        primitive,
        list(invars),
        list(outvars),
        params_taken(primitive, params),
        frozenset(effects),
        source_info or UNKNOWN,
    )


def call_impl(f: Any, *args: object, **params: object) -> Any:
    return f.call_wrapped(*args)


class DebugInfo:
    """The names of a traced function and its arguments."""

    def __init__(
        self,
        traced_for: str = "",
        func_src_info: str = "",
        arg_names: Any = None,
        result_paths: Any = None,
    ) -> None:
        self.traced_for = traced_for
        self.func_src_info = func_src_info
        self.func_name = func_src_info.split(" ")[0] if func_src_info else ""
        self.arg_names = arg_names
        self.result_paths = result_paths

    def _replace(self, **changes: object) -> DebugInfo:
        names = ("traced_for", "func_src_info", "arg_names", "result_paths")
        return DebugInfo(**{**{n: getattr(self, n) for n in names}, **changes})


def max_dim(a: object, b: Any) -> Any:
    return max(a, b)


def min_dim(a: Any, b: object) -> Any:
    return min(a, b)


def is_constant_dim(d: object) -> bool:
    return isinstance(d, int)


def is_constant_shape(shape: Any) -> bool:
    return all(map(is_constant_dim, shape))
