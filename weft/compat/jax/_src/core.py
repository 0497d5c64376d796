# Tests: tests/compat/test_as_jax.py
"""jax._src.core, for flax and others: the public names, and types of values in memory."""

from collections.abc import Collection, Hashable, Iterable
from dataclasses import dataclass
from typing import Any

from weft.compat.jax import core as _core
from weft.core.aval import ShapedArray as ShapedArray
from weft.core.dtypes import is_extended
from weft.core.state import state
from weft.core.trace import StagingTrace
from weft.errors import ConcretizationTypeError as ConcretizationTypeError

AxisName = Hashable
AxisSize = int


def physical_aval(aval: ShapedArray) -> Any:
    """Return the type of the words that make up an array of keys."""
    if not is_extended(aval.dtype):
        return aval
    dtype = aval.dtype
    return ShapedArray(aval.shape + dtype.physical_shape, dtype.physical_dtype)


def typeof(x: object) -> Any:
    from weft.compat.types import typeof as of_jax

    return of_jax(x)


def pp_toplevel_jaxpr(jaxpr: object, **_: object) -> str:
    """Return the text of a jaxpr."""
    return str(jaxpr)


def definitely_equal(a: object, b: object) -> bool:
    """Return whether two sizes are equal."""
    return a is b or a == b


@dataclass(frozen=True)
class NamedAxisEffect:
    """The effect of an operation on a named axis, by which JAX keeps jaxprs that need the axis.

    Operations of weft have none, those that a program defines may.
    """

    name: AxisName


def filter_named_axis_effects(effects: Iterable[object], names: Collection[AxisName]) -> set:
    """Return the effects without those of these axes."""
    of_axes = {NamedAxisEffect(name) for name in names}
    return {effect for effect in effects if effect not in of_axes}


@dataclass(frozen=True)
class JaxprEqnContext:
    """The mesh and compute type of an equation, which weft's equations have in their parameters."""

    compute_type: str | None = None
    threefry_partitionable: bool = True
    xla_metadata: object = None


class _CurrentTrace:
    """The trace that operations go to, for brainstate, which adds arguments to what is traced."""

    def new_arg(self, aval: ShapedArray, source_info: object = None) -> Any:
        """Return an argument of the jaxpr under construction, after the others."""
        trace = state.trace
        if not isinstance(trace, StagingTrace):
            raise TypeError("new_arg: nothing is being traced to a jaxpr; call it in make_jaxpr")
        argument = trace.new_arg(aval)
        trace.added.append(argument)
        return argument


class _TraceContext:
    trace = _CurrentTrace()


trace_ctx = _TraceContext()


def __getattr__(name: str) -> Any:
    return getattr(_core, name)
