# Tests: tests/ops/test_linalg.py
"""weft.lax.linalg: decompositions and solvers of batches of matrices."""

from weft.core.namespace import seal as _seal
from weft.lax.examples import EXAMPLES as _EXAMPLES
from weft.ops.linalg.cholesky import cholesky as cholesky
from weft.ops.linalg.cholesky import cholesky_p as cholesky_p
from weft.ops.linalg.cholesky import cholesky_update as cholesky_update
from weft.ops.linalg.cholesky import symmetric_product as symmetric_product
from weft.ops.linalg.eigen import EighImplementation as EighImplementation
from weft.ops.linalg.eigen import EigImplementation as EigImplementation
from weft.ops.linalg.eigen import eig as eig
from weft.ops.linalg.eigen import eig_p as eig_p
from weft.ops.linalg.eigen import eigh as eigh
from weft.ops.linalg.eigen import eigh_p as eigh_p
from weft.ops.linalg.eigen import hessenberg as hessenberg
from weft.ops.linalg.eigen import hessenberg_p as hessenberg_p
from weft.ops.linalg.eigen import schur as schur
from weft.ops.linalg.eigen import schur_p as schur_p
from weft.ops.linalg.eigen import tridiagonal as tridiagonal
from weft.ops.linalg.eigen import tridiagonal_p as tridiagonal_p
from weft.ops.linalg.lu import lu as lu
from weft.ops.linalg.lu import lu_p as lu_p
from weft.ops.linalg.lu import lu_pivots_to_permutation as lu_pivots_to_permutation
from weft.ops.linalg.lu import lu_pivots_to_permutation_p as lu_pivots_to_permutation_p
from weft.ops.linalg.lu import solve as solve
from weft.ops.linalg.polar import qdwh as qdwh
from weft.ops.linalg.qr import geqrf as geqrf
from weft.ops.linalg.qr import householder_product as householder_product
from weft.ops.linalg.qr import householder_product_p as householder_product_p
from weft.ops.linalg.qr import ormqr as ormqr
from weft.ops.linalg.qr import ormqr_p as ormqr_p
from weft.ops.linalg.qr import qr as qr
from weft.ops.linalg.qr import qr_p as qr_p
from weft.ops.linalg.svd import SvdAlgorithm as SvdAlgorithm
from weft.ops.linalg.svd import svd as svd
from weft.ops.linalg.svd import svd_p as svd_p
from weft.ops.linalg.triangular import triangular_solve as triangular_solve
from weft.ops.linalg.triangular import triangular_solve_p as triangular_solve_p
from weft.ops.linalg.triangular import tridiagonal_solve as tridiagonal_solve
from weft.ops.linalg.triangular import tridiagonal_solve_p as tridiagonal_solve_p

__all__ = [name for name in globals() if not name.startswith("_") and not name.endswith("_p")]
_seal(globals(), examples=_EXAMPLES, prefix="linalg.")
