# Tests: tests/sparse/test_matrices.py
"""The operations of COO and CSR on their arrays, with the `bind` that JAX's primitives have.

They are made of plain operations, whose derivatives, batches and shardings are theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import weft.sparse.matrices as matrices

if TYPE_CHECKING:
    from weft.runtime.array import Array


class COOInfo(NamedTuple):
    """The shape of a matrix, and what is known of its indices."""

    shape: tuple[int, ...]
    rows_sorted: bool = False
    cols_sorted: bool = False


@dataclass(frozen=True)
class ArrayFunction:
    """An operation on the arrays of a sparse matrix."""

    name: str
    bind: Callable


def _with_coo(fun: Callable[..., Array]) -> Callable:
    """Return the function of a COO as one of its arrays."""

    def bind(*arrays: Array, spinfo: COOInfo, **options: bool) -> Array:
        return fun(matrices.COO(arrays[:3], **spinfo._asdict()), *arrays[3:], **options)

    return bind


def _with_csr(fun: Callable[..., Array]) -> Callable:
    """Return the function of a CSR as one of its arrays."""

    def bind(*arrays: Array, shape: tuple, **options: bool) -> Array:
        return fun(matrices.CSR(arrays[:3], shape=shape), *arrays[3:], **options)

    return bind


def _stored(fun: Callable) -> Callable:
    """Return the function that gives a sparse matrix as one that gives its arrays."""
    return lambda mat, **options: list(fun(mat, **options)._bufs)


coo_fromdense_p = ArrayFunction("coo_fromdense", _stored(matrices.coo_fromdense))
coo_todense_p = ArrayFunction("coo_todense", _with_coo(matrices.coo_todense))
coo_matvec_p = ArrayFunction("coo_matvec", _with_coo(matrices.coo_matvec))
coo_matmat_p = ArrayFunction("coo_matmat", _with_coo(matrices.coo_matmat))
csr_fromdense_p = ArrayFunction("csr_fromdense", _stored(matrices.csr_fromdense))
csr_todense_p = ArrayFunction("csr_todense", _with_csr(matrices.csr_todense))
csr_matvec_p = ArrayFunction("csr_matvec", _with_csr(matrices.csr_matvec))
csr_matmat_p = ArrayFunction("csr_matmat", _with_csr(matrices.csr_matmat))
