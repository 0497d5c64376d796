# Tests: tests/core/test_trace.py
"""Tracers: values under a transformation, and what they say where Python asks for a number."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.core import errors
from weft.core.aval import ShapedArray

if TYPE_CHECKING:
    from weft.core.source import Source


class Tracer:
    """A value under a transformation: an aval and what its trace knows of it.

    Array methods and operators are installed by weft.numpy, for tracers and arrays alike.
    """

    __slots__ = ("__weakref__", "_trace", "aval")
    __array_priority__ = 1000

    # A traced value never changes, and a copy of its trace would be none that the program is in.
    def __copy__(self) -> Tracer:
        return self

    def __deepcopy__(self, memo: dict) -> Tracer:
        return self

    def __hash__(self) -> int:
        raise TypeError(
            f"a traced array of type {self.aval.str_short()} ({errors.made_at(self)}) is not "
            "hashable, so it can be no key of a dict, no member of a set and no static argument: "
            "its value is not known while tracing. Use weft.numpy.where or weft.lax.switch to "
            "choose by it, or mark the argument static (static_argnums of weft.jit)"
        )

    _trace: Any
    aval: Any

    shape = property(lambda self: self.aval.shape)
    dtype = property(lambda self: self.aval.dtype)
    ndim = property(lambda self: self.aval.ndim)
    size = property(lambda self: self.aval.size)
    weak_type = property(lambda self: self.aval.weak_type)
    nbytes = property(lambda self: self.aval.nbytes)
    itemsize = property(lambda self: self.aval.dtype.itemsize)
    vma = property(lambda self: self.aval.mat.varying)
    committed = property(lambda self: False)

    @property
    def sharding(self) -> Any:
        return self.aval.sharding

    def _is_traced_array(self) -> bool:
        """Return the attribute by which jaxlib tests isinstance(x, Array)."""
        return isinstance(self.aval, ShapedArray)

    def concrete(self) -> Any:
        """Return the value as an array, where the trace knows it; else None."""
        return None

    def source(self) -> Source | None:
        """Return where the value was made, if the trace recorded it."""
        return None

    differentiated = False
    """Whether the value has a tangent, which a Python value would lose."""

    def _constant(self, error: type, operation: str, remedy: str) -> Any:
        if self.differentiated and self.concrete() is not None:
            raise error(
                f"{operation} of a traced array of type {self.aval.str_short()} "
                f"({errors.made_at(self)}): it is being differentiated, and outside of weft its "
                "derivative would be lost. Use weft.numpy functions, or take it as a constant "
                "with weft.lax.stop_gradient(x)."
            )
        return self._needs_value(error, operation, remedy)

    def _needs_value(self, error: type, operation: str, remedy: str) -> Any:
        if self._trace.finished:
            raise errors.leaked(self)
        value = self.concrete()
        if value is None:
            raise error(
                f"{operation} of a traced array of type {self.aval.str_short()} "
                f"({errors.made_at(self)}): its value is not known while tracing. {remedy}"
            )
        return value

    def __bool__(self) -> bool:
        return bool(
            self._needs_value(
                errors.TracerBoolConversionError,
                "the truth value",
                "Use weft.numpy.where or weft.lax.cond (for loops weft.lax.while_loop, for "
                "and, or, not the operators &, |, ~), or mark the argument static "
                "(static_argnums of weft.jit, or of weft.checkpoint).",
            )
        )

    def __index__(self) -> int:
        return self._integer(errors.TracerIntegerConversionError).__index__()

    def __int__(self) -> int:
        return int(self._integer(errors.ConcretizationTypeError))

    def _integer(self, error: type) -> Any:
        return self._needs_value(
            error,
            "the Python integer value",
            "Shapes, axes and loop counts must be Python ints: mark the argument static, or use "
            "weft.lax.fori_loop / weft.lax.dynamic_slice; x.astype(int) converts an array.",
        )

    def __float__(self) -> float:
        return float(self._constant(*_TO_PYTHON))

    def __complex__(self) -> complex:
        return complex(self._constant(*_TO_PYTHON))

    def item(self) -> Any:
        return np.asarray(self._needs_value(*_TO_PYTHON)).item()

    def tolist(self) -> Any:
        return np.asarray(self._constant(*_TO_PYTHON)).tolist()

    def __array__(self, *args: Any, **kwargs: Any) -> np.ndarray:
        value = self._constant(
            errors.TracerArrayConversionError,
            "the NumPy value",
            "Use weft.numpy instead of numpy inside transformed functions, or weft.pure_callback "
            "to call NumPy at run time.",
        )
        return np.asarray(value, *args, **kwargs)

    def __len__(self) -> int:
        return len(self.aval)

    def block_until_ready(self) -> Tracer:
        return self

    def __repr__(self) -> str:
        return f"Traced<{self.aval.str_short()}>with<{type(self._trace).__name__}>"

    def __format__(self, spec: str) -> str:
        return repr(self) if not spec else format(self._needs_value(*_TO_PYTHON), spec)


_TO_PYTHON = (
    errors.ConcretizationTypeError,
    "the Python value",
    "Keep it an array, or use weft.debug.print / weft.debug.callback to see it at run time.",
)


def _of_buffers(name: str) -> Callable:
    """Make a member that only arrays have, since it concerns the devices of their buffers."""

    def member(self: Tracer, *_: object) -> Any:
        raise errors.ConcretizationTypeError(
            f"{name} of a traced array of type {self.aval.str_short()} ({errors.made_at(self)}): "
            "no device holds it while tracing. Ask the argument or the result outside of the "
            "function; inside, weft.typeof(x) tells what is known"
        )

    member.__name__ = member.__qualname__ = name
    return member


for _name in (
    *("devices", "is_deleted", "delete", "tobytes", "unsafe_buffer_pointer", "addressable_data"),
    "on_device_size_in_bytes",
):
    setattr(Tracer, _name, _of_buffers(_name))
for _name in (
    *("is_fully_replicated", "is_fully_addressable", "addressable_shards", "global_shards"),
):
    setattr(Tracer, _name, property(_of_buffers(_name)))
