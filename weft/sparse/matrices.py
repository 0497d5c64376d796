"""COO, CSR and CSC: matrices without batches, which do what the BCOO of their elements does."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

import weft.numpy as wnp
from weft.sparse.arrays import BCOO, JAXSparse
from weft.sparse.bcoo import expect, lexical_order
from weft.sparse.bcsr import pointers_of, rows_of
from weft.tree_util import register_pytree_node_class

if TYPE_CHECKING:
    from weft.runtime.array import Array


class Matrix(JAXSparse):
    """The base of COO, CSR and CSC: `to_bcoo` and `from_bcoo` say how they store a matrix."""

    _transposed: ClassVar[str]

    def __init__(self, args: tuple, *, shape: Sequence[int], **flags: bool) -> None:
        super().__init__(args, shape=shape, **flags)
        name = type(self).__name__
        if len(self.shape) != 2 or any(b.ndim != 1 for b in self._bufs):
            raise ValueError(
                f"{name}: shape must be that of a matrix and {', '.join(self._buffers)} vectors, "
                f"got {self.shape} and shapes {[b.shape for b in self._bufs]}"
            )

    @classmethod
    def from_bcoo(cls, mat: BCOO) -> Any:
        """Return the matrix of the elements of a BCOO, in their order."""
        raise NotImplementedError

    def to_bcoo(self) -> BCOO:
        """Return the BCOO of the same elements."""
        raise NotImplementedError

    @classmethod
    def fromdense(cls, mat: Any, *, nse: int | None = None, index_dtype: object = np.int32) -> Any:
        """Return the sparse form of a dense matrix; nse: how many elements are stored."""
        mat = wnp.asarray(mat)
        if mat.ndim != 2:
            raise ValueError(f"{cls.__name__}.fromdense: mat must be a matrix, got {mat.shape}")
        return cls.from_bcoo(BCOO.fromdense(mat, nse=nse, index_dtype=index_dtype))

    def todense(self) -> Array:
        """Return the dense matrix."""
        return self.to_bcoo().todense()

    def transpose(self, axes: Any = None) -> Any:
        """Return the transpose, which stores the same vectors."""
        if axes is not None and tuple(axes) != (1, 0):
            raise NotImplementedError(
                f"{type(self).__name__}.transpose: axes must be None, got {axes}"
            )
        return _TYPES[self._transposed].of_transpose(self)

    @classmethod
    def of_transpose(cls, mat: Any) -> Any:
        """Return the transpose of a matrix that stores the same vectors."""
        return cls(mat._bufs, shape=mat.shape[::-1])

    def __matmul__(self, other: Any) -> Array:
        if isinstance(other, JAXSparse):
            raise NotImplementedError(
                f"{type(self).__name__} @ {type(other).__name__}: multiply BCOO arrays"
            )
        return operator.matmul(self.to_bcoo(), wnp.asarray(other))

    def __rmatmul__(self, other: Any) -> Array:
        return operator.matmul(wnp.asarray(other), self.to_bcoo())

    def sum(self, *args: object, **kwargs: object) -> Any:
        """Sum over axes; see `BCOO.sum`."""
        mat: Any = self.to_bcoo()
        return mat.sum(*args, **kwargs)


@register_pytree_node_class
class COO(Matrix):
    """A matrix of elements with their rows and columns.

    args: data, row and col, vectors of one length. Elements of equal indices are added up, and
    those out of bounds are padding. rows_sorted, cols_sorted: what is known of the indices.
    """

    _buffers = ("data", "row", "col")
    _flags = ("rows_sorted", "cols_sorted")
    _transposed = "COO"
    row: Any
    col: Any

    def __init__(
        self,
        args: tuple,
        *,
        shape: Sequence[int],
        rows_sorted: bool = False,
        cols_sorted: bool = False,
    ) -> None:
        super().__init__(args, shape=shape, rows_sorted=rows_sorted, cols_sorted=cols_sorted)

    @classmethod
    def from_bcoo(cls, mat: BCOO) -> COO:
        """Return the matrix of the elements of a BCOO, in their order."""
        row, col = mat.indices.T
        return cls((mat.data, row, col), shape=mat.shape, rows_sorted=mat.indices_sorted)

    def to_bcoo(self) -> BCOO:
        """Return the BCOO of the same elements."""
        return BCOO((self.data, wnp.stack([self.row, self.col], 1)), shape=self.shape)

    @classmethod
    def of_transpose(cls, mat: Any) -> COO:
        """Return the transpose."""
        return cls(
            (mat.data, mat.col, mat.row),
            shape=mat.shape[::-1],
            rows_sorted=mat.cols_sorted,
            cols_sorted=mat.rows_sorted,
        )


@register_pytree_node_class
class CSR(Matrix):
    """A matrix in compressed row format: data, column indices, and where each row begins."""

    _buffers = ("data", "indices", "indptr")
    _transposed = "CSC"
    _rows: ClassVar[int] = 0
    indices: Any
    indptr: Any

    def __init__(self, args: tuple, *, shape: Sequence[int]) -> None:
        super().__init__(args, shape=shape)
        if self.indptr.shape[0] != self.shape[self._rows] + 1:
            raise ValueError(
                f"{type(self).__name__}: indptr must have {self.shape[self._rows] + 1} entries for "
                f"shape {self.shape}, got {self.indptr.shape[0]}"
            )

    @classmethod
    def from_bcoo(cls, mat: BCOO) -> Any:
        """Return the matrix of the elements of a BCOO."""
        order = slice(None, None, -1) if cls._rows else slice(None)
        indices = mat.indices[:, order]
        at = lexical_order(indices, mat.shape[order])
        rows, columns = indices[at].T
        pointers = pointers_of(rows, mat.shape[cls._rows])
        return cls((mat.data[at], columns, pointers), shape=mat.shape)

    def to_bcoo(self) -> BCOO:
        """Return the BCOO of the same elements."""
        rows = rows_of(self.indices, self.indptr)
        pair = (self.indices, rows) if self._rows else (rows, self.indices)
        return BCOO((self.data, wnp.stack(pair, 1)), shape=self.shape)


@register_pytree_node_class
class CSC(CSR):
    """A matrix in compressed column format: data, row indices, and where each column begins."""

    _transposed = "CSR"
    _rows = 1


_TYPES: dict[str, type[Matrix]] = {"COO": COO, "CSR": CSR, "CSC": CSC}


def _from(kind: str, mat: object, nse: int | None, index_dtype: object) -> Any:
    return _TYPES[kind].fromdense(
        mat, nse=None if nse is None else operator.index(nse), index_dtype=index_dtype
    )


def _multiply(api: str, mat: Any, kind: type, other: Any, ndim: int, transpose: bool) -> Array:
    expect(api, mat, kind)
    other = wnp.asarray(other)
    if other.ndim != ndim:
        raise ValueError(f"{api}: the dense operand must have rank {ndim}, got {other.shape}")
    return (mat.T if transpose else mat) @ other


def coo_fromdense(mat: object, *, nse: int | None = None, index_dtype: object = np.int32) -> COO:
    """Return the COO of a dense matrix; nse: how many elements are stored."""
    return _from("COO", mat, nse, index_dtype)


def csr_fromdense(mat: object, *, nse: int | None = None, index_dtype: object = np.int32) -> CSR:
    """Return the CSR of a dense matrix; nse: how many elements are stored."""
    return _from("CSR", mat, nse, index_dtype)


def coo_todense(mat: COO) -> Array:
    """Return the dense matrix."""
    expect("coo_todense", mat, COO)
    return mat.todense()


def csr_todense(mat: CSR) -> Array:
    """Return the dense matrix."""
    expect("csr_todense", mat, CSR)
    return mat.todense()


def coo_matvec(mat: COO, v: object, transpose: bool = False) -> Array:
    """Multiply a matrix, or its transpose, by a vector."""
    return _multiply("coo_matvec", mat, COO, v, 1, transpose)


def coo_matmat(mat: COO, B: object, *, transpose: bool = False) -> Array:
    """Multiply a matrix, or its transpose, by a dense matrix."""
    return _multiply("coo_matmat", mat, COO, B, 2, transpose)


def csr_matvec(mat: CSR, v: object, transpose: bool = False) -> Array:
    """Multiply a matrix, or its transpose, by a vector."""
    return _multiply("csr_matvec", mat, CSR, v, 1, transpose)


def csr_matmat(mat: CSR, B: object, *, transpose: bool = False) -> Array:
    """Multiply a matrix, or its transpose, by a dense matrix."""
    return _multiply("csr_matmat", mat, CSR, B, 2, transpose)
