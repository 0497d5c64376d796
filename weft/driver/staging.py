"""make_jaxpr and eval_shape: tracing without running."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import is_dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from weft.core import provided
from weft.core.aval import NO_MAT, Mat, ShapedArray
from weft.core.boundary import api_boundary
from weft.core.dtypes import canonicalize_dtype, is_extended
from weft.core.errors import ArgumentError, kind_of
from weft.core.jaxpr import ClosedJaxpr
from weft.core.notebook import displayed
from weft.core.ref import AbstractRef
from weft.core.source import function_name, wraps
from weft.core.state import AxisEntry, current_trace, extend_axes, state
from weft.core.trace import EVAL, Tracer, changeable, check_unchangeable, trace_to_jaxpr
from weft.core.trace import typeof as value_type
from weft.core.tree import flatten, flatten_fun
from weft.sharding.named import (
    NamedSharding,
    Sharding,
    is_format,
    is_over_nothing,
    type_sharding,
)
from weft.sharding.spec import PartitionSpec

if TYPE_CHECKING:
    from weft.autodiff.jvp import JVPTrace
    from weft.collectives.async_ import InFlight
    from weft.core.primitive import Primitive
    from weft.core.trace import StagingTrace
    from weft.typing import ArrayLike


@displayed("weft.sharding.drawing", "placed_html")
class ShapeDtypeStruct:
    """Shape and dtype of an array that need not exist.

    Args:
      shape: tuple of int. dtype: any dtype; one of 64 bits stands for what a program computes in.
      sharding: a Sharding, a `weft.layout.Format`, a `P` over the mesh that is in context when it
      is used, or None. weak_type: as of Python scalars. manual_axis_type: the
      `weft.sharding.ManualAxisType` inside shard_map (mat is the same, short), or vma: only the
      mesh axes along which the value varies.

    Raises TypeError or ValueError for what is no shape, dtype or sharding of such a shape.

    >>> import weft
    >>> weft.ShapeDtypeStruct((2, 3), "float32")
    ShapeDtypeStruct(shape=(2, 3), dtype=float32)
    """

    __slots__ = ("_sharding", "dtype", "mat", "shape", "weak_type")

    def __init__(
        self,
        shape: Sequence[int],
        dtype: Any,
        *,
        sharding: Any = None,
        weak_type: bool = False,
        manual_axis_type: Any = None,
        vma: Any = None,
        mat: Any = None,
    ) -> None:
        if dtype is None:
            raise ValueError("ShapeDtypeStruct: dtype must be given, got None")
        self.shape = checked_shape("ShapeDtypeStruct", shape)
        usable = canonicalize_dtype(dtype)  # an error for what is no dtype
        # 64 bits stay, whatever `enable_x64` says: files of checkpoints have them.
        self.dtype = usable if is_extended(usable) else np.dtype(dtype)
        self._sharding = _checked_sharding(sharding, self.shape)
        self.weak_type = bool(weak_type)
        mat = manual_axis_type if mat is None else mat
        self.mat = mat if mat is not None else (Mat(vma) if vma else NO_MAT)

    @classmethod
    def like(cls, x: Any) -> ShapeDtypeStruct:
        """Return the struct of an array's type and, if it is committed, of its sharding.

        >>> import weft
        >>> weft.ShapeDtypeStruct.like(weft.numpy.ones(3))
        ShapeDtypeStruct(shape=(3,), dtype=float32)
        """
        aval = aval_of_spec(x)
        committed = getattr(x, "_committed", True)
        sharding = (getattr(x, "sharding", None) or aval.sharding) if committed else None
        return cls(
            aval.shape, aval.dtype, sharding=sharding, weak_type=aval.weak_type, mat=aval.mat
        )

    @property
    def sharding(self) -> Any:
        """The sharding; one given as a `P` is over the mesh in context where it is asked for."""
        if is_format(self._sharding):
            return self._sharding.sharding
        if not isinstance(self._sharding, PartitionSpec):
            return self._sharding
        from weft.sharding.explicit import named

        return named("ShapeDtypeStruct", self._sharding)

    @property
    def format(self) -> Any:
        """A `weft.layout.Format`: the sharding, with the layout of one that was given as such."""
        from weft.sharding.memory_layout import Format

        return self._sharding if is_format(self._sharding) else Format(None, self.sharding)

    @property
    def __weft_array__(self) -> Callable[[], Any] | None:
        """Inside `eval_shape`, where types are all that counts: make a value of this one."""
        new_value = state.new_value
        return None if new_value is None else lambda: new_value(self.aval)

    ndim = property(lambda self: len(self.shape))
    vma = property(lambda self: self.mat.varying)
    manual_axis_type = property(lambda self: self.mat)

    @property
    def size(self) -> int:
        return self.aval.size

    @property
    def aval(self) -> ShapedArray:
        typed = type_sharding(self.sharding, len(self.shape))
        dtype = canonicalize_dtype(self.dtype)
        return ShapedArray(self.shape, dtype, self.weak_type, typed, self.mat)

    def update(self, **changes: object) -> ShapeDtypeStruct:
        old = {name.strip("_"): getattr(self, name) for name in self.__slots__}
        if "manual_axis_type" in changes or "vma" in changes:
            del old["mat"]
        return ShapeDtypeStruct(**{**old, **changes})

    def __len__(self) -> int:
        return len(self.aval)

    def _key(self) -> tuple:
        return self.shape, self.dtype, self._sharding, self.weak_type, self.mat

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShapeDtypeStruct) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        extra = f", sharding={self._sharding}" if self._sharding is not None else ""
        extra += ", weak_type=True" if self.weak_type else ""
        return f"ShapeDtypeStruct(shape={self.shape}, dtype={self.dtype.name}{extra})"


def checked_shape(api: str, shape: Any) -> tuple[int, ...]:
    """Return the shape as a tuple of ints; an error names `who` was given it."""
    try:
        # Dimensions of unknown size are ints of a class of their own, which index() would lose.
        sizes = tuple(d if hasattr(d, "poly") else operator.index(d) for d in shape)
    except TypeError:
        raise TypeError(f"{api}: shape must be a tuple of integers, got {shape!r}") from None
    if any(d < 0 for d in sizes):
        raise ValueError(f"{api}: shape {sizes} has a negative dimension")
    return sizes


def _checked_sharding(sharding: NamedSharding | None, shape: tuple[int, ...]) -> Any:
    if is_format(sharding):
        if sharding.layout:
            sharding.layout.check_compatible_aval(shape, "ShapeDtypeStruct")
        _checked_sharding(sharding.sharding, shape)
        return sharding
    if sharding is None or is_over_nothing(sharding):
        return None
    if isinstance(sharding, PartitionSpec):
        if len(sharding) > len(shape):
            raise ValueError(
                f"ShapeDtypeStruct: sharding {sharding!r} has {len(sharding)} entries, but the "
                f"shape {shape} has {len(shape)} dimensions"
            )
    elif isinstance(sharding, NamedSharding):
        sharding.check_rank(shape, "a ShapeDtypeStruct")
    elif not isinstance(sharding, Sharding):
        raise ArgumentError(
            "ShapeDtypeStruct: sharding must be a weft.sharding.Sharding, a PartitionSpec or "
            f"None, got {type(sharding).__name__}: {sharding!r:.100}"
        )
    return sharding


def aval_of_spec(x: ArrayLike | ShapeDtypeStruct) -> Any:
    """Return the aval of a value or of anything with shape and dtype that describes one."""
    if isinstance(x, ShapeDtypeStruct):
        return x.aval
    if isinstance(x, ShapedArray) or hasattr(x, "to_tangent"):
        return x
    try:
        return value_type(x)
    except TypeError:
        if hasattr(x, "shape") and hasattr(x, "dtype") and not isinstance(x, np.ndarray):
            return ShapedArray(tuple(x.shape), x.dtype)
        raise


def typeof(x: Any) -> Any:
    """Return the type of a value: its shape, dtype, weak type, sharding and manual-axis type.

    x: an array, a number, a `Ref`, or a `ShapeDtypeStruct` that describes a value.

    >>> import weft
    >>> weft.typeof(1.0), weft.typeof(weft.new_ref(1.0))
    (ShapedArray(float32[], weak_type=True), AbstractRef(Ref{f32[]}))
    """
    aval = getattr(x, "aval", None)
    return aval if isinstance(aval, AbstractRef) else aval_of_spec(x)


def struct_of(aval: InFlight | ShapedArray, sharding: object = None) -> Any:
    """Return a type as a `ShapeDtypeStruct`, with the sharding of its value where that is known."""
    if not isinstance(aval, ShapedArray):
        return aval
    return ShapeDtypeStruct(
        aval.shape,
        aval.dtype,
        sharding=aval.sharding if sharding is None else sharding,
        weak_type=aval.weak_type,
        mat=aval.mat,
    )


def split_static(
    fun: Callable, args: Sequence[Any], static: Sequence[int]
) -> tuple[Callable, list[Any]]:
    """Return the function of its dynamic arguments only, and those arguments."""
    static = tuple(i + len(args) if i < 0 else i for i in static)
    if not static:
        return fun, list(args)
    dynamic = [a for i, a in enumerate(args) if i not in static]

    def partial(*traced: object, **kwargs: object) -> Any:
        it = iter(traced)
        full = [a if i in static else next(it) for i, a in enumerate(args)]
        return fun(*full, **kwargs)

    return wraps(fun)(partial) if hasattr(fun, "__name__") else partial, dynamic


@api_boundary
def make_jaxpr(
    fun: Callable,
    static_argnums: int | Sequence[int] = (),
    axis_env: Sequence[tuple[Any, int]] | None = None,
    return_shape: bool = False,
) -> Callable:
    """Return a function that returns the jaxpr `fun` traces to, for arguments like those given.

    axis_env: (name, size) of named axes to be in scope. return_shape: also return the tree of
    `ShapeDtypeStruct` of the result.

    >>> import weft
    >>> weft.make_jaxpr(lambda x: x * 2.0)(1.0)
    { lambda ; a:f32[]. let
        b:f32[] = mul a 2.0:f32[]
      in (b,) }
    """
    check_callable(fun, "make_jaxpr")
    static = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)

    @wraps(fun)
    @api_boundary
    def traced(*args: ArrayLike | ShapeDtypeStruct, **kwargs: object) -> Any:
        inner, dynamic = split_static(fun, args, static)
        leaves, in_tree = flatten((tuple(dynamic), kwargs))
        check_unchangeable(leaves)
        flat_fun, out = flatten_fun(inner, in_tree)
        entries = [AxisEntry(name, size, "vmap") for name, size in axis_env or ()]
        with extend_axes(entries):
            jaxpr, consts = trace_to_jaxpr(
                flat_fun, [aval_of_spec(x) for x in leaves], function_name(fun)
            )
        closed = provided.shown(ClosedJaxpr(jaxpr, consts))
        if return_shape:
            return closed, out.tree.unflatten([struct_of(a) for a in closed.out_avals])
        return closed

    return traced


@api_boundary
def is_jitted(fun: object) -> bool:
    """Tell whether a function is a result of jit: functools.wraps gives others its attributes."""
    info = getattr(fun, "_jit_info", None)
    return info is not None and getattr(fun, "__wrapped__", None) is info.fun


def eval_shape(fun: Callable, *args: object, **kwargs: object) -> Any:
    """Return the result's tree with `ShapeDtypeStruct` leaves; nothing is computed.

    Operations inside take `ShapeDtypeStruct`s for values, too.

    >>> import weft
    >>> weft.eval_shape(lambda x: x @ x, weft.ShapeDtypeStruct((2, 2), "float32"))
    ShapeDtypeStruct(shape=(2, 2), dtype=float32)
    """
    check_callable(fun, "eval_shape")
    if is_jitted(fun):
        return cast(Any, fun).eval_shape(*args, **kwargs)
    leaves, in_tree = flatten((args, kwargs))
    if changeable:
        from weft.driver import changeable as with_changeable

        if with_changeable.has_changeable(args, kwargs):
            return with_changeable.eval_shape(fun, args, kwargs)
    flat_fun, out = flatten_fun(fun, in_tree)
    structs: dict[int, ShapeDtypeStruct] = {}  # among the results, which may be structs themselves

    def traced(*xs: object) -> list:
        before, state.new_value = state.new_value, state.trace.new_arg
        try:
            outs = flat_fun(*xs)
        finally:
            state.new_value = before
        structs.update((i, o) for i, o in enumerate(outs) if isinstance(o, ShapeDtypeStruct))
        return [0 if i in structs else o for i, o in enumerate(outs)]

    jaxpr, _ = trace_to_jaxpr(traced, [aval_of_spec(x) for x in leaves], function_name(fun))
    avals = enumerate(jaxpr.out_avals)
    return out.tree.unflatten([structs[i] if i in structs else struct_of(a) for i, a in avals])


class _FoldingTrace:
    """Runs ops on values that are known at once; ops on traced ones go on to the trace around."""

    __slots__ = ("finished", "parent")

    def __init__(self, parent: JVPTrace | StagingTrace) -> None:
        self.parent = parent
        self.finished = False

    def process(self, prim: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        traced = any(isinstance(a, Tracer) for a in args)
        with current_trace(self.parent if traced else EVAL):
            return state.trace.process(prim, args, params)


@contextmanager
def ensure_compile_time_eval() -> Any:
    """Inside, ops on concrete values run at once even while tracing.

    Ops that have traced operands, too, are recorded as outside.

    >>> import weft
    >>> @weft.jit
    ... def f(x):
    ...     with weft.ensure_compile_time_eval():
    ...         n = int(weft.numpy.sum(weft.numpy.arange(3)))
    ...     return x * n
    >>> f(2.0)
    Array(6., dtype=float32, weak_type=True)
    """
    trace = state.trace
    with current_trace(trace if trace is EVAL else _FoldingTrace(trace)):
        yield


def check_callable(fun: Any, api: str) -> None:
    if not callable(fun):
        call = hasattr(fun, "aval")
        hint = "; give the function itself, not the result of calling it" if call else ""
        if isinstance(fun, classmethod):
            hint = "; write @classmethod above the transformation, which wraps the function"
        raise TypeError(f"{api}: expected a function, got {kind_of(fun)}: {fun!r:.100}{hint}")


def array_remedy(x: object) -> str:
    """Say what to do with an argument of no type that weft computes with."""
    if isinstance(x, ShapeDtypeStruct):
        return (
            "It has a type and no values: give it to .lower, .trace, .eval_shape or weft.eval_shape"
        )
    register = "register its type as a pytree"
    if is_dataclass(x):
        register += " (weft.tree_util.register_dataclass)"
    return f"Mark it static (static_argnums, static_argnames), or {register}"
