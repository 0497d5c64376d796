"""Ref: a mutable array, in kernels and outside of them; new_ref, freeze."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from weft._xla import pytree
from weft.autodiff.manual_casts import varying_over
from weft.autodiff.shape import expand_dims, reshape
from weft.autodiff.zeros import stop_gradient
from weft.core import dtypes
from weft.core.boundary import api_boundary
from weft.core.cell import Cell
from weft.core.errors import ArgumentError
from weft.core.kernel_frame import check_own
from weft.core.ref import AbstractRef, Indexer, whole
from weft.core.state import state
from weft.core.trace import EVAL, Tracer, aval_of, typeof
from weft.ops.as_array import as_array
from weft.ops.elementwise_api import convert
from weft.ops.joining import rev
from weft.ops.promote import broadcast_to
from weft.refs import ops as ops
from weft.refs import views
from weft.refs.indexing import Index, compose, parse_index

if TYPE_CHECKING:
    from weft.typing import Array, ArrayLike

_OF_ARRAYS = frozenset(
    (
        *("mT", "swapaxes", "ravel", "flatten", "squeeze", "astype"),
        *("sum", "prod", "max", "min", "mean", "std", "var", "any", "all", "argmax", "argmin"),
        *("cumsum", "cumprod", "dot", "round", "clip", "copy", "conj", "real", "imag", "view"),
        *("sort", "argsort", "take", "repeat", "item", "tolist"),
    )
)


class Ref:
    """A mutable array, or a part of one.

    `ref[index]` reads, `ref[index] = value` writes, `ref[index] += value` does both; `ref[...]`
    is all of it. An index has NumPy's form, with static slices, `pl.ds(start, size)` for windows
    whose start is traced, and integer arrays. `ref.at[index]` is a ref to a part. A ref is not
    an array: read it to compute with it.

    Kernels get refs as arguments; `weft.new_ref` makes one anywhere.
    """

    __slots__ = ("_handle", "_operands", "_views")

    _handle: Any  # a Cell or a tracer of type AbstractRef
    _views: tuple[views.View, ...]  # one of another
    _operands: tuple  # of the views
    exist: ClassVar[bool] = False  # whether there has been one

    def __init__(
        self, handle: Any, views: tuple[views.View, ...] = (), operands: tuple = ()
    ) -> None:
        if not Ref.exist:
            Ref.exist = True
        self._handle = handle
        self._views = views
        self._operands = operands

    # Its type -----------------------------------------------------------------------------------

    @property
    def ref_aval(self) -> AbstractRef:
        """The type of the whole ref this one belongs to."""
        return typeof(self._handle)

    @property
    def aval(self) -> AbstractRef:
        aval = typeof(self._handle)
        if not self._views:
            return aval
        return aval.update(shape=self.shape, dtype=self.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        return self._views[-1].shape if self._views else self.ref_aval.shape

    @property
    def dtype(self) -> Any:
        return self._views[-1].dtype if self._views else self.ref_aval.dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return self.aval.size

    @property
    def memory_space(self) -> Any:
        return self.ref_aval.memory_space

    def __getattr__(self, name: str) -> Any:
        if name in _OF_ARRAYS:
            raise AttributeError(
                f"a Ref has no {name!r}, which is of arrays: read it first, ref[...].{name}"
            )
        return object.__getattribute__(self, name)  # again, for its error

    def __len__(self) -> int:
        return len(self.aval)

    def __repr__(self) -> str:
        value = getattr(self._handle, "value", None)
        if not self._views and isinstance(self._handle, Cell) and value is not None:
            return f"Ref({repr(value).removeprefix('Array(').removesuffix(')')})"
        return f"Ref({self.aval.str_short()})"

    # Reading and writing ------------------------------------------------------------------------

    def __getitem__(self, index: object) -> Array:
        return load(self, index)

    def __setitem__(self, index: object, value: object) -> None:
        store(self, index, value)

    @property
    def at(self) -> _At:
        """Index it to get a ref to a part: `ref.at[2:4]`."""
        return _At(self)

    def get(self, idx: object = ...) -> Any:
        """Read a ref at an index, by default all of it, as ref[idx]."""
        return load(self, idx)

    def set(self, value: object, idx: object = ...) -> None:
        """Replace its value at an index, by default all of it, as ref[idx] = value."""
        store(self, idx, value)

    def swap(self, value: object, idx: object = ...) -> Any:
        """Set the elements; return the value before. See `weft.pallas.swap`."""
        return swap(self, idx, value)

    def addupdate(self, x: object, idx: object = ...) -> None:
        """Add to its value at an index, by default to all of it. See `weft.ref.addupdate`."""
        addupdate(self, idx, x)

    # Views --------------------------------------------------------------------------------------

    def _seen(self, view: views.View) -> Ref:
        return Ref(self._handle, (*self._views, view), self._operands)

    def reshape(self, *shape: object) -> Ref:
        """Return a ref to the same elements in another shape; one size may be -1."""
        return self._seen(views.reshaped(self.shape, self.dtype, shape))

    def transpose(self, *permutation: object) -> Ref:
        """Return a ref to the same elements, dimensions in another order, by default backwards."""
        return self._seen(views.transposed(self.shape, self.dtype, permutation))

    @property
    def T(self) -> Ref:
        """A ref to the same elements, dimensions backwards."""
        return self.transpose()

    def bitcast(self, dtype: object) -> Ref:
        """Return a ref to the same bits in another dtype. Narrower numbers are along the last
        dimension but one: a float32[8, 128] is a bfloat16[16, 128]."""
        return self._seen(views.bitcast(self.shape, self.dtype, dtype))

    # Where it lies ------------------------------------------------------------------------------

    @property
    def _array(self) -> Any:
        array = self._handle.value if isinstance(self._handle, Cell) else None
        if array is None or isinstance(array, Tracer) or self._views:
            raise AttributeError(
                f"a {self.aval.str_short()} that is an argument or a part of another ref has no "
                "place in memory of its own; ask the ref that weft.new_ref made"
            )
        return array

    @property
    def sharding(self) -> Any:
        """Which device holds which part of the array it holds now."""
        return self._array.sharding

    @property
    def committed(self) -> bool:
        """Whether the user chose the devices of the array it holds now."""
        return self._array.committed

    def unsafe_buffer_pointer(self) -> int:
        """Return the address of the array held now: only jitted functions write there."""
        return self._array.unsafe_buffer_pointer()

    def __array__(self, *args: object, **kwargs: object) -> np.ndarray:
        raise TypeError(_NOT_AN_ARRAY)

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))

    def __bool__(self) -> bool:
        raise TypeError(_NOT_AN_ARRAY)

    __hash__ = object.__hash__

    # Where it points ----------------------------------------------------------------------------

    def located(self, index: object, mask: object = None) -> Index:
        """Return the index relative to the whole ref; a window beyond it takes a mask."""
        _check_readable(self)
        parsed = parse_index(self.shape, index)
        if self._views:
            resolved = self._resolved(parsed.indexer, parsed.operands)
            parsed.indexer, parsed.operands, parsed.forms = resolved
            for view in self._views:
                if isinstance(view, views.Part) and view.beyond:
                    parsed.beyond = view.beyond
        if parsed.beyond and mask is None:
            raise IndexError(parsed.beyond)
        return parsed

    def _resolved(self, indexer: Indexer, operands: Any) -> tuple:
        aval = self.ref_aval
        base = (aval.shape, aval.dtype)
        return views.resolve(self._views, base, indexer, operands, self._operands)

    def pointer(self) -> tuple[Any, Indexer, tuple]:
        """Return the handle of the whole ref, and the index of this part."""
        indexer, operands, forms = self._resolved(whole(self.shape), ())
        if forms:
            raise TypeError(
                f"a {self.aval.str_short()} that is seen reshaped, transposed or bitcast has no "
                "place of its own to copy from or to; copy the ref it was made of, or read and "
                "write it with ref[...]"
            )
        return self._handle, indexer, tuple(operands)


_NOT_AN_ARRAY = "a Ref is not an array; read its value with ref[...]"


def _refuse(x: Array) -> Any:
    raise TypeError(f"a {x.aval.str_short()} is not an array; read its value with ref[...]")


aval_of[Ref] = _refuse

_OPERATORS = (
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor"),
    *("lshift", "rshift"),
)
for _name in (*_OPERATORS, *(f"r{n}" for n in _OPERATORS), "lt", "le", "gt", "ge"):
    setattr(Ref, f"__{_name}__", lambda self, other: _refuse(self))
for _name in ("neg", "abs", "invert", "pos"):
    setattr(Ref, f"__{_name}__", _refuse)


class _At:
    """ref.at: indexing it gives a ref to a part."""

    __slots__ = ("ref",)

    def __init__(self, ref: Ref) -> None:
        self.ref = ref

    def __getitem__(self, index: object) -> Ref:
        ref = self.ref
        parsed = parse_index(ref.shape, index)
        if parsed.reverse or parsed.new:
            raise TypeError(
                "ref.at[...] takes no None and no slices that count backwards; reshape or flip "
                "the value that is read"
            )
        operands = tuple(parsed.operands)
        if ref._views and isinstance(last := ref._views[-1], views.Part):
            last_operands = ref._operands[len(ref._operands) - last.count :]
            indexer, more = compose(last.indexer, last_operands, parsed.indexer, operands)
            beyond = last.beyond or parsed.beyond
            part = views.Part(indexer.shape, ref.dtype, indexer, len(more), beyond)
            kept = ref._operands[: len(ref._operands) - last.count]
            return Ref(ref._handle, (*ref._views[:-1], part), (*kept, *more))
        indexer = parsed.indexer
        part = views.Part(indexer.shape, ref.dtype, indexer, len(operands), parsed.beyond)
        return Ref(ref._handle, (*ref._views, part), (*ref._operands, *operands))


pytree.register_node(
    Ref,
    lambda r: ((r._handle, *r._operands), r._views),
    lambda views, children: Ref(children[0], views, tuple(children[1:])),
)


def _check_readable(ref: Ref) -> None:
    if not isinstance(ref, Ref):
        raise TypeError(f"a Ref is needed here, got {type(ref).__name__}: {ref!r:.80}")
    space = ref.memory_space
    if getattr(space, "holds_semaphores", False):
        raise TypeError(
            "a semaphore cannot be read or written with ref[...]; use pl.semaphore_signal, "
            "pl.semaphore_wait and pl.semaphore_read"
        )
    check_own(ref.ref_aval)


def mask_operands(shape: tuple[int, ...], mask: Any, label: str) -> list:
    """Return the mask as an op's operand, of the shape of what is read or written."""
    if mask is None:
        return []
    mask = as_array(mask) if not hasattr(mask, "dtype") else mask
    if not dtypes.is_bool(typeof(mask).dtype):
        raise TypeError(f"{label}: mask must be boolean, got {typeof(mask).str_short()}")
    return [_spread(mask, shape, f"{label}: mask")]


def _spread(x: ArrayLike, shape: tuple[int, ...], label: str) -> Any:
    value_shape = typeof(x).shape
    fits = len(value_shape) <= len(shape) and all(
        a in (1, b) for a, b in zip(value_shape[::-1], shape[::-1], strict=False)
    )
    if not fits:
        raise ValueError(
            f"{label} of shape {value_shape} does not broadcast to the shape {shape} of the part "
            "of the ref that is indexed"
        )
    return broadcast_to(x, shape)


def load(
    ref: Any, idx: object = ..., *, mask: object = None, other: Any = None, **hints: object
) -> Any:
    """ref[idx], reading only where the mask is true.

    ref: a Ref. idx: as in ref[idx]. mask: booleans that broadcast to the shape of ref[idx]; where
    False nothing is read and the result is `other` (a value that broadcasts; 0 by default).
    Hints of other compilers (cache_modifier, eviction_policy, volatile) are accepted.

    Raises TypeError, IndexError or ValueError for an index or mask that does not fit.

    >>> import weft
    >>> ref = weft.new_ref(weft.numpy.arange(4))
    >>> weft.pallas.load(ref, slice(None), mask=weft.numpy.arange(4) < 2, other=9)
    Array([0, 1, 9, 9], dtype=int32)
    """
    _check_hints("load", hints)
    at = _locate(ref, idx, mask)
    extras = mask_operands(at.shape, mask, "load")
    has_other = mask is not None and other is not None
    if has_other:
        extras.append(_spread(_value(ref, other, "load: other"), at.shape, "load: other"))
    elif other is not None:
        raise ValueError("load: other is what is read where the mask is False; give a mask, too")
    extras = [to_plain(at, x) for x in extras]
    out = ops.get_p.bind(
        ref._handle,
        *at.operands,
        *extras,
        indexer=at.indexer,
        masked=mask is not None,
        has_other=has_other,
    )
    return shown(at, out)


def _locate(ref: Ref, idx: object, mask: object = None) -> Index:
    if not isinstance(ref, Ref):
        _check_readable(ref)
    return ref.located(idx, mask)


def _check_hints(api: str, hints: dict) -> None:
    unknown = set(hints) - {"cache_modifier", "eviction_policy", "volatile"}
    if unknown:
        raise TypeError(f"{api}: unknown argument {sorted(unknown)[0]!r}")


def to_plain(at: Index, value: ArrayLike) -> Any:
    """Return a value of the shape of the result, as the op takes it."""
    if at.new:
        value = reshape(value, at.inner)
    if at.reverse:
        value = rev(value, at.reverse)
    for _, back in reversed(at.forms):
        value = back(value)
    return value


def shown(at: Index, out: ArrayLike) -> Any:
    """Reshape the result of an op as the index asks."""
    for form, _ in at.forms:
        out = form(out)
    if at.reverse:
        out = rev(out, at.reverse)
    return expand_dims(out, at.new) if at.new else out


def _value(ref: Ref, value: ArrayLike, label: str) -> Any:
    """Return the value in the ref's dtype; numbers adapt, arrays must have it."""
    dtype = ref.dtype
    if isinstance(value, Ref):
        _refuse(value)
    if isinstance(value, list | tuple):
        value = np.asarray(value)
    aval = typeof(value)
    if aval.dtype != dtype:
        kinds = dtypes.is_complex, dtypes.is_inexact
        if not (aval.weak_type and all(has(dtype) or not has(aval.dtype) for has in kinds)):
            raise ArgumentError(
                f"{label} of dtype {dtypes.short_name(aval.dtype)} does not fit into a "
                f"{ref.ref_aval.str_short()}; convert it with .astype({str(dtype)!r})"
            )
    if isinstance(value, bool | int | float | complex):
        value = dtype.type(value)
    else:
        value = convert(value, dtype)
    varying = ref.ref_aval.mat.varying
    if varying - typeof(value).mat.varying:
        value = varying_over(value, tuple(sorted(varying, key=str)))
    return stop_gradient(value) if ref.ref_aval.no_grad else value


def check_dtype(ref: Ref, label: str) -> None:
    """Raise for refs whose memory holds another dtype than they are seen in."""
    if ref.dtype != ref.ref_aval.dtype:
        raise TypeError(
            f"{label}: the ref is a {ref.ref_aval.str_short()} seen as "
            f"{dtypes.short_name(ref.dtype)}, and would be changed as what it is; read it, "
            "compute, and write it"
        )


def stored(ref: Ref, at: Index, value: ArrayLike, label: str) -> Any:
    """Return the value as the op takes it."""
    return to_plain(
        at, _spread(_value(ref, value, f"{label}: a value"), at.shape, f"{label}: a value")
    )


def store(ref: Any, idx: object, val: Any, *, mask: object = None, **hints: object) -> None:
    """ref[idx] = val, writing only where the mask is true.

    val: a number, or an array of the ref's dtype that broadcasts to the shape of ref[idx].

    >>> import weft
    >>> ref = weft.new_ref(weft.numpy.zeros(4))
    >>> weft.pallas.store(ref, slice(0, 2), 5.0)
    >>> ref[...]
    Array([5., 5., 0., 0.], dtype=float32)
    """
    _check_hints("store", hints)
    at = _locate(ref, idx, mask)
    value = stored(ref, at, val, "store")
    extras = [to_plain(at, m) for m in mask_operands(at.shape, mask, "store")]
    ops.set_p.bind(
        ref._handle, value, *at.operands, *extras, indexer=at.indexer, masked=mask is not None
    )


def swap(ref: Any, idx: object, val: Any, *, mask: object = None, **hints: object) -> Any:
    """ref[idx] = val, and the value before; both only where the mask is true.

    >>> import weft
    >>> ref = weft.new_ref(weft.numpy.zeros(3))
    >>> weft.pallas.swap(ref, 1, 2.0)
    Array(0., dtype=float32)
    """
    _check_hints("swap", hints)
    at = _locate(ref, idx, mask)
    value = stored(ref, at, val, "swap")
    extras = [to_plain(at, m) for m in mask_operands(at.shape, mask, "swap")]
    out = ops.swap_p.bind(
        ref._handle, value, *at.operands, *extras, indexer=at.indexer, masked=mask is not None
    )
    return shown(at, out)


def addupdate(ref: Any, idx: object, val: Any) -> None:
    """ref[idx] += val in one op; where index arrays repeat a position, each addition counts.

    >>> import weft
    >>> ref = weft.new_ref(weft.numpy.zeros(3))
    >>> weft.pallas.addupdate(ref, weft.numpy.array([1, 1]), 2.0)
    >>> ref[...]
    Array([0., 4., 0.], dtype=float32)
    """
    at = _locate(ref, idx)
    check_dtype(ref, "addupdate")
    value = stored(ref, at, val, "addupdate")
    ops.addupdate_p.bind(ref._handle, value, *at.operands, indexer=at.indexer)


@api_boundary
def new_ref(init_val: Any, *, memory_space: object = None, kind: object = None) -> Ref:
    """Return a mutable array that starts with the value of init_val.

    init_val: an array or a number (of a pytree, make one ref for each leaf). memory_space: for
    kernels. kind: None, or "no_grad_no_remat": what is written has no derivative, as for a ref
    that only logs; no kind of ref is written again by a recomputation. Works under every
    transformation: a function may make refs and use them, also in loops and branches, and is
    differentiated and mapped through them; jit and loops take refs as arguments or close over
    them, and the caller sees what they write.

    Raises TypeError if init_val is not an array.

    >>> import weft
    >>> ref = weft.new_ref(weft.numpy.zeros(3))
    >>> @weft.jit
    ... def add_one():
    ...     ref[1] += 1.0
    >>> add_one(); add_one(); ref[...]
    Array([0., 2., 0.], dtype=float32)
    """
    if isinstance(init_val, Ref):
        raise TypeError("new_ref: init_val is a Ref; give its value, ref[...]")
    if kind not in (None, "no_grad_no_remat"):
        raise ValueError(f"new_ref: kind must be None or 'no_grad_no_remat', got {kind!r}")
    value = as_array(init_val)
    if kind is not None:
        value = stop_gradient(value)
    aval = typeof(value)
    weak = aval.weak_type
    if weak:
        value = convert(value, aval.dtype)
    ref_aval = AbstractRef(aval, memory_space, weak_type=weak, no_grad=kind is not None)
    cell = Cell(value, ref_aval, state.trace)
    if state.trace is EVAL and hasattr(value, "copy"):  # an array of its own to write to
        cell.value, cell.alone = value.copy(), True
    return Ref(cell)


@api_boundary
def freeze(ref: object) -> Any:
    """Return the value of a ref, which cannot be used from then on.

    Raises TypeError if it is not a whole ref made by `new_ref` in the same function.

    >>> import weft
    >>> ref = weft.new_ref(weft.numpy.ones(2)); ref[0] = 3.0
    >>> weft.freeze(ref)
    Array([3., 1.], dtype=float32)
    """
    if not isinstance(ref, Ref):
        raise TypeError(f"freeze: expected a Ref, got {type(ref).__name__}: {ref!r:.80}")
    cell = ref._handle
    if not isinstance(cell, Cell) or not cell.is_open() or ref._views:
        raise TypeError(
            f"freeze: a {ref.aval.str_short()} that is an argument, a part of a ref, or was made "
            "outside of the function being traced cannot be frozen; read it with ref[...]"
        )
    value = cell.get()
    cell.value = None
    return convert(value, cell.aval.dtype, True) if cell.aval.weak_type else value
