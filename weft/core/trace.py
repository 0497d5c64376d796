"""Tracing: types of values, the eager trace, and the staging trace that builds jaxprs.

A transformation is a trace with a parent. `bind` hands an op to the current trace; a trace that
finds none of its own tracers among the operands hands it on to its parent. Tracers point to their
trace and never the other way, so no reference cycles arise.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.core import dtypes, errors
from weft.core.aval import ShapedArray
from weft.core.caches import make_room
from weft.core.cell import Cell, cell_aval
from weft.core.config import config
from weft.core.errors import ArgumentError
from weft.core.jaxpr import NO_EFFECTS, Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Var
from weft.core.primitive import PRIMITIVES, Primitive
from weft.core.source import Source, capture
from weft.core.state import State, current_trace, state
from weft.core.tracer import Tracer
from weft.core.typing import infer, mixed

if TYPE_CHECKING:
    from weft.autodiff.jvp import JVPTrace
    from weft.autodiff.vmap import BatchTrace
    from weft.core.ref import AbstractRef
    from weft.typing import ArrayLike


# The type of any value ------------------------------------------------------------------------

aval_of: dict[type, Callable[[Any], Any]] = {}
"""Python type -> function giving the aval of its values. The runtime adds Array."""


_scalar_avals: dict[tuple[type, bool], ShapedArray] = {}


def _scalar_aval(x: Any) -> ShapedArray:
    key = (x.__class__, config.enable_x64)
    aval = _scalar_avals.get(key)
    if aval is None:
        weak = not isinstance(x, bool)
        aval = _scalar_avals[key] = ShapedArray((), dtypes.scalar_dtype(x), weak_type=weak)
    return aval


for _type in (bool, int, float, complex):
    aval_of[_type] = _scalar_aval


def _numpy_aval(x: Any) -> ShapedArray:
    return ShapedArray(x.shape, dtypes.canonicalize_dtype(x.dtype))


aval_of[np.ndarray] = _numpy_aval
aval_of[Cell] = cell_aval


def typeof(x: object) -> Any:
    """Return the aval of a value: its shape, dtype, weak type, sharding and manual-axis type.

    >>> import weft
    >>> weft.typeof(1.0)
    ShapedArray(float32[], weak_type=True)
    """
    if isinstance(x, Tracer):
        return x.aval
    get = aval_of.get(x.__class__)
    if get is None:
        get = _find_aval_rule(x)
    return get(x)


changeable: dict[type, Any] = {}
"""Class of values that operations read as arrays, and that programs write to -> how.

`lower(x)` gives its arrays and a hashable structure, `make(structure, arrays)` another such value,
and `update(x, structure, arrays)` writes to one.
"""


def check_unchangeable(leaves: Sequence[Any]) -> None:
    """Raise NotImplementedError for an argument whose changes a traced function would lose.

    What traces a function, other than a call of a jitted one, asks it about the flat arguments.
    """
    for x in leaves if changeable else ():
        if type(x) in changeable:
            raise NotImplementedError(
                f"a {type(x).__qualname__} is no argument of a traced function, other than of jit: "
                "what the function writes to it would be lost. Pass its arrays and return the new "
                "ones, or weft.new_ref (in flax: nnx.Variable without hijax=True)"
            )


def _find_aval_rule(x: Any) -> Callable[[Any], Any]:
    if isinstance(x, np.generic):
        return _numpy_aval
    check_not_masked(x)
    for base in type(x).__mro__:
        if base in aval_of:
            return aval_of[base]
    if array_method(x) is not None:
        return lambda v: typeof(array_method(v)())
    raise ArgumentError(
        f"a value of type {type(x).__module__}.{type(x).__qualname__} is not an array or a "
        f"number: {x!r:.200}. Arguments and results of transformed functions are arrays, scalars "
        "and pytrees of them; mark other arguments static or register their type as a pytree node."
    )


def check_not_masked(x: object) -> None:
    """Raise ValueError for NumPy's masked arrays, whose mask no op would regard."""
    if isinstance(x, np.ndarray) and hasattr(x, "_mask"):
        raise ValueError(
            "masked NumPy arrays are no operands: the mask would be lost. Give x.filled(value), or "
            "the data and the mask as two arrays: weft.numpy.where(mask, value, x.data)"
        )


def is_array_like(x: Any) -> bool:
    """Return whether weft computes with the value."""
    return (
        type(x) in aval_of
        or isinstance(x, Tracer | np.ndarray | np.generic)
        or any(base in aval_of for base in type(x).__mro__)
        or array_method(x) is not None
    )


def array_method(x: ArrayLike | list) -> Any:
    """Return the method that converts an object of a user's class to an array, or None.

    It is named `__weft_array__`, or `__jax_array__` as in JAX.
    """
    return getattr(x, "__weft_array__", None) or getattr(x, "__jax_array__", None)


def stands_for_array(x: ArrayLike) -> bool:
    """Tell whether an operand that the asking trace did not make has an `array_method`."""
    return x.__class__ not in aval_of and not isinstance(x, Tracer) and array_method(x) is not None


def with_arrays(args: Sequence[Any]) -> list:
    """Convert operands whose class offers an array by a method to that array."""
    return [array_method(x)() if stands_for_array(x) else x for x in args]


# Eager evaluation -----------------------------------------------------------------------------


class EvalTrace:
    """Runs each op at once. `dispatch` is replaced by the runtime side (driver/execute.py)."""

    __slots__ = ()

    @staticmethod
    def dispatch(prim: Primitive, args: tuple, params: dict[str, Any]) -> Any:
        import_module("weft.numpy.methods")  # the result needs its methods
        execute = import_module("weft.driver.execute")
        EvalTrace.dispatch = staticmethod(execute.dispatch_op)  # type: ignore[method-assign]
        return EvalTrace.dispatch(prim, args, params)

    def process(self, prim: Primitive, args: tuple, params: dict[str, Any]) -> Any:
        if prim.impl is not None:
            return prim.impl(*args, **params)
        try:
            function = prim.eager_cache[tuple(params.items()) if params else ()]
        except (KeyError, TypeError):
            function = None
        return EvalTrace.dispatch(prim, args, params) if function is None else function(*args)


EVAL = EvalTrace()
State.trace = EVAL


def check_not_leaked(args: Sequence[Any]) -> None:
    """Raise UnexpectedTracerError if a tracer outlived its trace."""
    for a in args:
        if isinstance(a, Tracer):
            raise errors.leaked(a)


# Staging --------------------------------------------------------------------------------------


class StagedTracer(Tracer):
    """A variable of the jaxpr under construction."""

    __slots__ = ("eqn", "variable")

    variable: Var
    eqn: Eqn | None

    def __init__(self, trace: StagingTrace, aval: Any, var: Var, eqn: Eqn | None) -> None:
        self._trace = trace
        self.aval = aval
        self.variable = var
        self.eqn = eqn

    def source(self) -> Source | None:
        return self.eqn.source if self.eqn is not None else None


def is_zero(x: ArrayLike) -> bool:
    """Return whether a value is known to be zero everywhere."""
    if isinstance(x, StagedTracer):
        if x.eqn is None or x.eqn.primitive.name != "broadcast_in_dim":
            return False
        atom = x.eqn.invars[0]
        return isinstance(atom, Literal) and not atom.val
    return isinstance(x, bool | int | float | complex | np.generic | np.ndarray) and not np.any(x)


_PYTHON_SCALARS = frozenset((bool, int, float, complex))

inside_manual: list[Callable] = []
"""Set by weft.api.shard_map_op: the type that a value from outside has inside the body."""

structural_on_extended: list[Callable] = []
"""Set by weft.random: applies a structural op to arrays of an extended dtype."""


MOST_RULES = 8192
"""How many types of operands each op remembers its results' types for."""


class StagingTrace:
    """Records equations. What it does for one op is the cost of tracing."""

    __slots__ = (
        "_atoms",
        "_keep",
        "added",
        "consts",
        "constvars",
        "effects",
        "eqns",
        "finished",
        "name",
    )

    def __init__(self, name: str = "<lambda>") -> None:
        self.name = name
        self.eqns: list[Eqn] = []
        self.constvars: list[Var] = []
        self.consts: list[Any] = []
        self.effects: frozenset = NO_EFFECTS
        self.finished = False
        self._atoms: dict[int, Atom] = {}
        self._keep: list[Any] = []  # keeps the objects whose ids are keys of _atoms alive
        self.added: list[StagedTracer] = []  # arguments after the function's own

    def new_arg(self, aval: ShapedArray | AbstractRef) -> StagedTracer:
        return StagedTracer(self, aval, Var(aval), None)

    def process(self, prim: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        atoms: list[Atom] = []
        avals = []
        # Tracers of this trace, the common case, need no call.
        for a in args:
            if a.__class__ is StagedTracer and a._trace is self:
                atoms.append(a.variable)
                avals.append(a.aval)
            else:
                atom = self.atom(a)
                atoms.append(atom)
                avals.append(atom.aval)
        if prim.higher_order:
            # Calls of user functions may stage themselves, or be replaced by their bodies.
            if prim.stage is not None:
                staged = prim.stage(self, args, params)
                if staged is not None:
                    return staged
            out, effects, casts = infer(prim, avals, params)
        else:
            # Types of an op depend on its operands' types and its params alone.
            key = (*avals, *params.items())
            try:
                cached = prim.rule_cache.get(key)
            except TypeError:
                check_hashable(prim, params)
                raise
            if cached is None:
                if len(prim.rule_cache) >= MOST_RULES:
                    make_room(prim.rule_cache, MOST_RULES)
                cached = prim.rule_cache[key] = infer(prim, avals, params)
            out, effects, casts = cached
        # Operands of different manual-axis types: cast them, and bind again.
        if casts is not None:
            return self._cast_and_process(prim, args, params, casts)
        if prim.multiple_results:
            outvars = [Var(aval) for aval in out]
            eqn = Eqn(prim, atoms, outvars, params, effects, capture())
            result: Any = [StagedTracer(self, v.aval, v, eqn) for v in outvars]
        else:
            var = Var(out)
            eqn = Eqn(prim, atoms, [var], params, effects, capture())
            result = StagedTracer(self, out, var, eqn)
        self.eqns.append(eqn)
        if effects:
            self.effects |= effects
        return result

    def _cast_and_process(self, prim: Primitive, args: Any, params: dict, casts: Any) -> Any:
        if casts is EXTENDED:
            return structural_on_extended[0](prim, args, params)
        pcast = PRIMITIVES["pcast"]
        cast_args = []
        for x, needed in zip(args, casts, strict=True):
            broadcast, small = None, None
            if needed and all(to != "unreduced" for _, to in needed):
                broadcast, small = self._broadcast_of(x)
            if small is not None:
                x = StagedTracer(self, small.aval, small, None)
            for axes, to in needed:
                if to == "unreduced":
                    if not is_zero(x):  # any other value would be counted once for each device
                        raise mixed(prim, [typeof(a) for a in args], axes[0])
                    x = self.process(pcast, (x,), {"axes": axes, "to": "varying"})
                x = self.process(pcast, (x,), {"axes": axes, "to": to})
            if broadcast is not None:
                x = self.process(broadcast.primitive, (x,), broadcast.rule_params)
            cast_args.append(x)
        return self.process(prim, cast_args, params)

    def _broadcast_of(self, x: Any) -> tuple[Eqn | None, Var | None]:
        """Return the equation that broadcast x from a smaller variable, and that; or None, None.

        A cast stands before it: its transpose is a sum over devices, of the smaller value then.
        """
        eqn = x.eqn if x.__class__ is StagedTracer and x._trace is self else None
        if eqn is None or eqn.primitive.name != "broadcast_in_dim" or len(eqn.invars) != 1:
            return None, None
        small = eqn.invars[0]
        if isinstance(small, Var) and small.aval.size < x.aval.size:
            return eqn, small
        return None, None

    def atom(self, x: ArrayLike) -> Atom:
        """Return the variable or literal for a value: own or outer tracer, array or scalar."""
        if x.__class__ is StagedTracer and x._trace is self:
            return x.variable
        atom = self._atoms.get(id(x))
        if atom is not None:
            return atom
        if x.__class__ in _PYTHON_SCALARS:
            aval = _scalar_aval(x)
            if x.__class__ is int and not -(2**31) <= x < 2**31:
                aval.dtype.type(x)  # raises OverflowError
            return Literal(x, aval)
        if isinstance(x, Tracer):
            if x._trace.finished:
                raise errors.leaked(x)
            aval = x.aval
        else:
            method = array_method(x)
            if method is not None:
                return self.atom(method())
            aval = typeof(x)
            if isinstance(x, np.generic) or (type(x) is np.ndarray and x.ndim == 0):
                return Literal(x.astype(aval.dtype)[()], aval)
        if aval.sharding is not None and state.axes and inside_manual:
            aval = inside_manual[0](aval)
        var = Var(aval)
        self._atoms[id(x)] = var
        self._keep.append(x)
        self.constvars.append(var)
        self.consts.append(x)
        return var

    def lift(self, x: Any) -> StagedTracer:
        """Return the value as a tracer of this trace; literals become constants."""
        if x.__class__ is StagedTracer and x._trace is self:
            return x
        atom = self.atom(x)
        if isinstance(atom, Literal):
            atom = self.atom(np.asarray(atom.val, atom.aval.dtype).reshape(()).view(_Const))
        assert isinstance(atom, Var)
        return StagedTracer(self, atom.aval, atom, None)

    def to_jaxpr(self, args: Sequence[StagedTracer], outs: Sequence[Any]) -> Jaxpr:
        self.finished = True
        try:
            out_atoms = [self.atom(o) for o in outs]
        except TypeError:
            _check_results(self.name, outs)
            raise
        jaxpr = Jaxpr(
            self.constvars,
            [a.variable for a in (*args, *self.added)],
            out_atoms,
            self.eqns,
            self.effects,
            self.name,
        )
        if config.enable_checks:
            from weft.core.check import check_jaxpr

            check_jaxpr(jaxpr)
        return jaxpr


class _Const(np.ndarray):
    """A rank-0 constant that must become a variable rather than a literal."""


aval_of[_Const] = _numpy_aval
EXTENDED = object()


def _check_results(name: str, outs: Sequence[Any]) -> None:
    for i, x in enumerate(outs):
        if not is_array_like(x):
            which = "what it returns" if len(outs) == 1 else f"leaf {i} of what it returns"
            raise TypeError(
                f"{name} must return arrays, numbers or pytrees of them, but {which} is "
                f"{type(x).__name__}: {x!r:.100}"
            )


def check_hashable(prim: Primitive, params: dict[str, Any]) -> None:
    for name, value in params.items():
        try:
            hash(value)
        except TypeError:
            raise TypeError(
                f"{prim.name}: parameter {name!r} must be hashable, got {type(value).__name__} "
                f"{value!r:.100}; use a tuple instead of a list, an int instead of an array"
            ) from None


@contextmanager
def gc_paused() -> Iterator[None]:
    """No cyclic collection while tracing: many objects are made, none in cycles."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def trace_to_jaxpr(
    fun: Callable[..., Sequence[Any]], avals: Sequence[Any], name: str = "<lambda>"
) -> tuple[Jaxpr, list[Any]]:
    """Trace a function of flat arguments; return its jaxpr and the values of its constvars.

    The constants are arrays, or tracers of outer traces that the function closes over.
    """
    trace = StagingTrace(name)
    jaxpr = _staged(trace, fun, avals)
    if config.check_tracer_leaks:
        check_nothing_leaked(trace, name)
    return jaxpr, trace.consts


def _staged(trace: StagingTrace, fun: Callable[..., Sequence[Any]], avals: Sequence[Any]) -> Jaxpr:
    with gc_paused():
        args = [trace.new_arg(a) for a in avals]
        with current_trace(trace):
            outs = fun(*args)
        return trace.to_jaxpr(args, outs)


def check_nothing_leaked(trace: JVPTrace | BatchTrace | StagingTrace, name: str) -> None:
    """Raise UnexpectedTracerError if a tracer of a finished trace can still be reached.

    name: what was traced, for the message. The caller must not hold tracers itself.
    """
    gc.collect()
    alive = [t for t in gc.get_referrers(trace) if isinstance(t, Tracer)]
    if alive:
        raise errors.still_alive(alive, name)


def closed_call_jaxpr(
    fun: Callable[..., Sequence[Any]], avals: Sequence[Any], name: str = "<lambda>"
) -> tuple[ClosedJaxpr, list[Any]]:
    """Trace a function; what it closes over becomes leading arguments of the closed jaxpr.

    Returns the jaxpr and those values, to be passed in front of the arguments.
    """
    jaxpr, consts = trace_to_jaxpr(fun, avals, name)
    closed = ClosedJaxpr(jaxpr.replace(constvars=[], invars=[*jaxpr.constvars, *jaxpr.invars]), ())
    return closed, consts
