# Tests: tests/sparse/test_bcoo.py
"""The sparse array types: what they hold, and their pytrees."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

import weft.numpy as wnp
from weft.api.vmappable import register_vmappable
from weft.core.errors import ArgumentError, has_page
from weft.tree_util import register_pytree_node_class

if TYPE_CHECKING:
    from weft.runtime.array import Array

__all__ = ["BCOO", "BCSR", "JAXSparse", "SparseEfficiencyError", "SparseEfficiencyWarning"]


@has_page("weft.sparse")
class SparseEfficiencyError(ValueError):
    """Raised where a layout would store mostly zeros."""


class SparseEfficiencyWarning(UserWarning):
    """Issued where a layout stores mostly zeros."""


class CuSparseEfficiencyWarning(SparseEfficiencyWarning):
    """Never issued: weft calls no library of sparse kernels."""


class JAXSparse:
    """Base class of sparse arrays: shape and dtype of the dense array, and its operators.

    Subclasses name the arrays they store in `_buffers`; the first holds the values.
    """

    _buffers: ClassVar[tuple[str, ...]] = ("data",)
    _flags: ClassVar[tuple[str, ...]] = ()

    __hash__ = None  # type: ignore[assignment]
    __array_priority__ = 100
    data: Any
    shape: tuple[int, ...]

    def __init__(self, args: tuple, *, shape: Sequence[int], **flags: bool) -> None:
        self.shape = tuple(operator.index(s) for s in shape)
        if len(args) != len(self._buffers):
            raise ArgumentError(
                f"{type(self).__name__}: args must be ({', '.join(self._buffers)}), got "
                f"{len(args)} arrays"
            )
        for name, value in zip(self._buffers, args, strict=True):
            setattr(self, name, wnp.asarray(value))
        for name in self._flags:
            setattr(self, name, bool(flags.get(name, False)))

    @property
    def _bufs(self) -> tuple:
        return tuple(getattr(self, name) for name in self._buffers)

    @property
    def _info(self) -> dict[str, Any]:
        return {"shape": self.shape, **{name: getattr(self, name) for name in self._flags}}

    @property
    def nse(self) -> int:
        """The number of elements that are stored, of each batch."""
        return int(self.data.shape[0])

    @property
    def dtype(self) -> np.dtype:
        return self.data.dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))

    @property
    def T(self) -> Any:
        return self.transpose()

    def __len__(self) -> int:
        return self.shape[0]

    def todense(self) -> Array:
        """Return the dense array."""
        raise NotImplementedError(f"{type(self).__name__} has no todense")

    def transpose(self, axes: Any = None) -> Any:
        """Return the sparse array with its axes permuted."""
        raise NotImplementedError(f"{type(self).__name__} has no transpose")

    def block_until_ready(self) -> Any:
        """Wait for the stored arrays, and return the sparse array."""
        for buffer in self._bufs:
            buffer.block_until_ready()
        return self

    def tree_flatten(self) -> tuple[tuple, dict[str, Any]]:
        """Return the stored arrays, and what is static."""
        return self._bufs, self._info

    @classmethod
    def tree_unflatten(cls, aux_data: dict[str, Any], children: Sequence) -> Any:
        """Make a sparse array of what `tree_flatten` gave."""
        new = object.__new__(cls)
        new.__dict__.update(aux_data)
        new.__dict__.update(zip(cls._buffers, children, strict=True))
        return new

    def __repr__(self) -> str:
        try:
            layout = [f"nse={self.nse}"]
            layout += [f"{n}={v}" for n in ("n_batch", "n_dense") if (v := getattr(self, n, 0))]
            dims = ", ".join(map(str, self.shape))
            return f"{type(self).__name__}({self.dtype}[{dims}], {', '.join(layout)})"
        except (AttributeError, IndexError, TypeError):  # pytrees of something else than arrays
            return f"{type(self).__name__}(<invalid>)"


class BCOOLayout(NamedTuple):
    """How many leading dimensions are batches, then sparse, then dense; and elements stored."""

    n_batch: int
    n_sparse: int
    n_dense: int
    nse: int


def bcoo_layout(data: Any, indices: Any, shape: tuple[int, ...]) -> BCOOLayout:
    """Return the layout of BCOO arrays; raises where their shapes do not fit."""
    if not wnp.issubdtype(indices.dtype, wnp.integer):
        raise TypeError(f"BCOO: indices must be integers, got {indices.dtype}")
    if indices.ndim < 2:
        raise ValueError(
            f"BCOO: indices must have shape [*batch, nse, n_sparse], got {indices.shape}"
        )
    nse, n_sparse = indices.shape[-2:]
    n_batch = indices.ndim - 2
    n_dense = len(shape) - n_batch - n_sparse
    expected = (nse, *shape[n_batch + n_sparse :])
    if n_dense < 0 or data.ndim < n_batch or tuple(data.shape[n_batch:]) != expected:
        raise ValueError(
            f"BCOO: data of shape {data.shape} and indices of shape {indices.shape} do not fit "
            f"shape {shape}: data must be [*batch, nse, *dense], indices [*batch, nse, n_sparse]"
        )
    for name, buffer in (("data", data), ("indices", indices)):
        if any(b not in (1, s) for b, s in zip(buffer.shape[:n_batch], shape, strict=False)):
            raise ValueError(
                f"BCOO: the batch dimensions {buffer.shape[:n_batch]} of {name} must be 1 or those "
                f"of shape {shape}"
            )
    return BCOOLayout(n_batch, n_sparse, n_dense, nse)


@register_pytree_node_class
class BCOO(JAXSparse):
    """A sparse array in batched coordinate format.

    args: data of shape [*batch, nse, *dense] and indices of shape [*batch, nse, n_sparse].
    shape: that of the dense array, [*batch, *sparse, *dense]. Elements of equal indices are added
    up, and those out of bounds are padding. A batch dimension of data or indices may be 1, for all
    batches alike. indices_sorted, unique_indices: what the caller knows of the indices.

    Raises ValueError where the shapes do not fit, TypeError for indices that are no integers.

    >>> import weft.numpy as wnp
    >>> from weft.sparse import BCOO
    >>> m = BCOO.fromdense(wnp.array([[0.0, 2.0], [1.0, 0.0]]))
    >>> m, m @ wnp.array([1.0, 10.0])
    (BCOO(float32[2, 2], nse=2), Array([20.,  1.], dtype=float32))
    """

    _buffers = ("data", "indices")
    _flags = ("indices_sorted", "unique_indices")
    indices: Any
    indices_sorted: bool
    unique_indices: bool

    def __init__(
        self,
        args: tuple,
        *,
        shape: Sequence[int],
        indices_sorted: bool = False,
        unique_indices: bool = False,
    ) -> None:
        super().__init__(
            args, shape=shape, indices_sorted=indices_sorted, unique_indices=unique_indices
        )
        bcoo_layout(self.data, self.indices, self.shape)

    nse = property(lambda self: self.indices.shape[-2])  # type: ignore[assignment]
    n_batch = property(lambda self: self.indices.ndim - 2)
    n_sparse = property(lambda self: self.indices.shape[-1])
    n_dense = property(lambda self: self.data.ndim - 1 - self.n_batch)

    @classmethod
    def fromdense(
        cls,
        mat: object,
        *,
        nse: int | None = None,
        index_dtype: object = np.int32,
        n_dense: int = 0,
        n_batch: int = 0,
    ) -> BCOO:
        """Return the sparse form of a dense array."""
        from weft.sparse.bcoo import bcoo_fromdense

        return bcoo_fromdense(
            mat, nse=nse, index_dtype=index_dtype, n_dense=n_dense, n_batch=n_batch
        )

    @classmethod
    def from_scipy_sparse(
        cls, mat: Any, *, index_dtype: Any = None, n_dense: int = 0, n_batch: int = 0
    ) -> BCOO:
        """Return a matrix of scipy.sparse as a BCOO."""
        if n_dense or n_batch:
            raise NotImplementedError(
                "BCOO.from_scipy_sparse: n_dense and n_batch must be 0; call update_layout after"
            )
        mat = mat.tocoo()
        indices = np.stack([mat.row, mat.col], 1).astype(index_dtype or np.int32)
        return cls((mat.data, indices), shape=mat.shape)

    def todense(self) -> Array:
        """Return the dense array."""
        from weft.sparse.bcoo import bcoo_todense

        return bcoo_todense(self)

    def transpose(self, axes: Sequence[int] | None = None) -> BCOO:
        """Permute the axes, those of batches, sparse and dense ones each among themselves."""
        from weft.sparse.bcoo import bcoo_transpose

        return bcoo_transpose(self, permutation=range(self.ndim)[::-1] if axes is None else axes)

    def sort_indices(self) -> BCOO:
        """Return the same array with its elements in the order of their indices."""
        from weft.sparse.bcoo import bcoo_sort_indices

        return bcoo_sort_indices(self)

    def sum_duplicates(self, nse: int | None = None, remove_zeros: bool = True) -> BCOO:
        """Return the same array with unique, sorted indices.

        nse: how many elements are stored, needed under transformations; remove_zeros: elements
        that are zero are no longer stored.
        """
        from weft.sparse.bcoo import bcoo_eliminate_zeros, bcoo_sum_duplicates

        return (bcoo_eliminate_zeros if remove_zeros else bcoo_sum_duplicates)(self, nse=nse)

    def update_layout(
        self,
        *,
        n_batch: int | None = None,
        n_dense: int | None = None,
        on_inefficient: str | None = "error",
    ) -> BCOO:
        """Return the same array with other numbers of batch and dense dimensions."""
        from weft.sparse.bcoo import bcoo_update_layout

        return bcoo_update_layout(
            self, n_batch=n_batch, n_dense=n_dense, on_inefficient=on_inefficient
        )


@register_pytree_node_class
class BCSR(JAXSparse):
    """A sparse array in batched compressed row format.

    args: data [*batch, nse, *dense], column indices [*batch, nse], and indptr [*batch, rows + 1],
    which says at which element each row begins. shape: [*batch, rows, columns, *dense].

    Raises ValueError where the shapes do not fit.

    >>> import weft.numpy as wnp
    >>> from weft.sparse import BCSR
    >>> m = BCSR.fromdense(wnp.array([[0.0, 2.0], [1.0, 3.0]]))
    >>> m.indptr.tolist(), m.indices.tolist()
    ([0, 1, 3], [1, 0, 1])
    """

    _buffers = ("data", "indices", "indptr")
    _flags = ("indices_sorted", "unique_indices")
    indices: Any
    indptr: Any
    indices_sorted: bool
    unique_indices: bool

    def __init__(
        self,
        args: tuple,
        *,
        shape: Sequence[int],
        indices_sorted: bool = False,
        unique_indices: bool = False,
    ) -> None:
        super().__init__(
            args, shape=shape, indices_sorted=indices_sorted, unique_indices=unique_indices
        )
        n, rows = self.n_batch, self.indptr.shape[-1] - 1
        batches = [b.shape[:n] for b in self._bufs]
        fits = (
            self.n_dense == self.ndim - n - 2 >= 0
            and self.data.shape[n:] == (self.nse, *self.shape[n + 2 :])
            and self.indptr.ndim == n + 1
            and rows == self.shape[n]
            and all(b in (1, s) for dims in batches for b, s in zip(dims, self.shape, strict=False))
        )
        if not fits:
            raise ValueError(
                f"BCSR: data, indices and indptr of shapes {self.data.shape}, {self.indices.shape} "
                f"and {self.indptr.shape} do not fit shape {self.shape}: they must be [*batch, "
                "nse, *dense], [*batch, nse] and [*batch, rows + 1]"
            )

    nse = property(lambda self: self.indices.shape[-1])  # type: ignore[assignment]
    n_batch = property(lambda self: self.indices.ndim - 1)
    n_sparse = property(lambda self: 2)
    n_dense = property(lambda self: self.data.ndim - 1 - self.n_batch)

    @classmethod
    def fromdense(
        cls,
        mat: object,
        *,
        nse: int | None = None,
        index_dtype: object = np.int32,
        n_dense: int = 0,
        n_batch: int = 0,
    ) -> BCSR:
        """Return the sparse form of a dense array."""
        return cls.from_bcoo(
            BCOO.fromdense(mat, nse=nse, index_dtype=index_dtype, n_dense=n_dense, n_batch=n_batch)
        )

    @classmethod
    def from_scipy_sparse(
        cls, mat: Any, *, index_dtype: object = None, n_dense: int = 0, n_batch: int = 0
    ) -> BCSR:
        """Return a matrix of scipy.sparse as a BCSR."""
        if n_dense or n_batch:
            raise NotImplementedError("BCSR.from_scipy_sparse: n_dense and n_batch must be 0")
        mat = mat.tocsr()
        dtype = index_dtype or np.int32
        return cls((mat.data, mat.indices.astype(dtype), mat.indptr.astype(dtype)), shape=mat.shape)

    @classmethod
    def from_bcoo(cls, arr: BCOO) -> BCSR:
        """Return the BCSR of a BCOO that has two sparse dimensions."""
        from weft.sparse.bcsr import from_bcoo

        return from_bcoo(arr)

    def to_bcoo(self) -> BCOO:
        """Return the BCOO of the same elements."""
        from weft.sparse.bcsr import to_bcoo

        return to_bcoo(self)

    def todense(self) -> Array:
        """Return the dense array."""
        return self.to_bcoo().todense()

    def transpose(self, axes: Any = None) -> BCSR:
        """Permute the axes, those of batches, sparse and dense ones each among themselves."""
        return self.from_bcoo(self.to_bcoo().transpose(axes))

    def sum_duplicates(self, nse: int | None = None, remove_zeros: bool = True) -> BCSR:
        """Return the same array with unique, sorted indices; see `BCOO.sum_duplicates`."""
        return self.from_bcoo(self.to_bcoo().sum_duplicates(nse, remove_zeros))


def _mapped_shape(x: Any, axis: int | None, size: int | None) -> tuple[int, ...]:
    """Return the shape with an axis taken out, or put in if there is a size."""
    limit = x.n_batch + (size is not None)
    if axis is None or not 0 <= axis < limit:
        raise ValueError(
            f"vmap: a {type(x).__name__} is mapped over its batch dimensions, of which it has "
            f"{x.n_batch}, got axis {axis}; update_layout makes more of them"
        )
    end = axis + (size is None)
    return (*x.shape[:axis], *([] if size is None else [size]), *x.shape[end:])


def _without_axis(part: Callable, _: object, x: Any, axis: int) -> Any:
    info = {**x._info, "shape": _mapped_shape(x, axis, None)}
    size = x.shape[axis]  # a dimension of size 1 stands for batches that are alike
    full = lambda b: wnp.broadcast_to(b, [*b.shape[:axis], size, *b.shape[axis + 1 :]])
    return type(x).tree_unflatten(info, [part(full(b), axis) for b in x._bufs])


def _with_axis(whole: Callable, size: int, x: Any, axis: int) -> Any:
    info = {**x._info, "shape": _mapped_shape(x, axis, size)}
    return type(x).tree_unflatten(info, [whole(size, b, axis) for b in x._bufs])


for _type in (BCOO, BCSR):
    register_vmappable(_type, int, int, _without_axis, _with_axis)
