"""Examples of the functions of weft.scipy.linalg, which their docstrings end with."""

from weft.core.namespace import examples_of

EXAMPLES = examples_of(
    "from weft import numpy as wnp; from weft.scipy import linalg",
    r"""
block_diag
>>> linalg.block_diag(wnp.array([[1, 2]]), 3)
Array([[1, 2, 0],
       [0, 0, 3]], dtype=int32)

cho_factor
>>> c, lower = linalg.cho_factor(wnp.array([[4.0, 2.0], [2.0, 5.0]]), lower=True)
>>> c.round(3)
Array([[2., 0.],
       [1., 2.]], dtype=float32)

cho_solve
>>> factor = linalg.cho_factor(wnp.array([[4.0, 2.0], [2.0, 5.0]]))
>>> linalg.cho_solve(factor, wnp.array([6.0, 7.0])).round(3)
Array([1., 1.], dtype=float32)

cholesky
>>> linalg.cholesky(wnp.array([[4.0, 2.0], [2.0, 5.0]]), lower=True).round(3)
Array([[2., 0.],
       [1., 2.]], dtype=float32)

circulant
>>> linalg.circulant(wnp.array([1, 2, 3]))
Array([[1, 3, 2],
       [2, 1, 3],
       [3, 2, 1]], dtype=int32)

companion
>>> linalg.companion(wnp.array([1.0, -3.0, 2.0]))
Array([[ 3., -2.],
       [ 1.,  0.]], dtype=float32)

convolution_matrix
>>> linalg.convolution_matrix(wnp.array([1, 2]), 3)
Array([[1, 0, 0],
       [2, 1, 0],
       [0, 2, 1],
       [0, 0, 2]], dtype=int32)

det
>>> round(float(linalg.det(wnp.array([[4.0, 2.0], [2.0, 5.0]]))), 3)
16.0

dft
>>> linalg.dft(2).real
Array([[ 1.,  1.],
       [ 1., -1.]], dtype=float32)

eigh
>>> w, v = linalg.eigh(wnp.array([[4.0, 2.0], [2.0, 5.0]]))
>>> [round(float(x), 3) for x in w]
[2.438, 6.562]

eigh_tridiagonal
>>> w = linalg.eigh_tridiagonal(wnp.array([2.0, 2.0]), wnp.array([1.0]), eigvals_only=True)
>>> [round(float(x), 3) for x in w]
[1.0, 3.0]

expm
>>> linalg.expm(wnp.zeros((2, 2)))
Array([[1., 0.],
       [0., 1.]], dtype=float32)

expm_frechet
>>> value, slope = linalg.expm_frechet(wnp.zeros((2, 2)), wnp.eye(2))
>>> slope
Array([[1., 0.],
       [0., 1.]], dtype=float32)

fiedler
>>> linalg.fiedler(wnp.array([1, 4]))
Array([[0, 3],
       [3, 0]], dtype=int32)

fiedler_companion
>>> linalg.fiedler_companion(wnp.array([1.0, 2.0, 3.0]))
Array([[-2., -3.],
       [ 1.,  0.]], dtype=float32)

funm
>>> round(float(linalg.funm(wnp.eye(2), wnp.exp)[0, 0].real), 3)
2.718

hadamard
>>> linalg.hadamard(2)
Array([[ 1,  1],
       [ 1, -1]], dtype=int32)

hankel
>>> linalg.hankel(wnp.array([1, 2, 3]))
Array([[1, 2, 3],
       [2, 3, 0],
       [3, 0, 0]], dtype=int32)

helmert
>>> linalg.helmert(2).shape
(1, 2)

hessenberg
>>> linalg.hessenberg(wnp.eye(3)).shape
(3, 3)

hilbert
>>> linalg.hilbert(2)
Array([[1.        , 0.5       ],
       [0.5       , 0.33333334]], dtype=float32)

inv
>>> linalg.inv(wnp.diag(wnp.array([2.0, 4.0])))
Array([[0.5 , 0.  ],
       [0.  , 0.25]], dtype=float32)

invhilbert
>>> linalg.invhilbert(2)
Array([[ 4., -6.],
       [-6., 12.]], dtype=float32)

invpascal
>>> linalg.invpascal(2)
Array([[ 2., -1.],
       [-1.,  1.]], dtype=float32)

leslie
>>> linalg.leslie(wnp.array([0.5, 2.0]), wnp.array([0.25]))
Array([[0.5 , 2.  ],
       [0.25, 0.  ]], dtype=float32)

lu
>>> p, l, u = linalg.lu(wnp.array([[0.0, 1.0], [2.0, 3.0]]))
>>> u
Array([[2., 3.],
       [0., 1.]], dtype=float32)

lu_factor
>>> packed, pivots = linalg.lu_factor(wnp.array([[0.0, 1.0], [2.0, 3.0]]))
>>> pivots
Array([1, 1], dtype=int32)

lu_solve
>>> factors = linalg.lu_factor(wnp.array([[0.0, 1.0], [2.0, 2.0]]))
>>> linalg.lu_solve(factors, wnp.array([1.0, 4.0]))
Array([1., 1.], dtype=float32)

pascal
>>> linalg.pascal(3)
Array([[1., 1., 1.],
       [1., 2., 3.],
       [1., 3., 6.]], dtype=float32)

polar
>>> u, p = linalg.polar(2 * wnp.eye(2))
>>> p.round(3)
Array([[2., 0.],
       [0., 2.]], dtype=float32)

qr
>>> q, r = linalg.qr(wnp.ones((3, 1)))
>>> abs(r[0]).round(3).tolist()[0] > 1.73
True

qr_multiply
>>> product, r = linalg.qr_multiply(wnp.eye(2), wnp.array([1.0, 2.0]))
>>> abs(product)
Array([1., 2.], dtype=float32)

rsf2csf
>>> t, z = linalg.rsf2csf(*linalg.schur(wnp.array([[0.0, 1.0], [-1.0, 0.0]])))
>>> [round(abs(float(x.imag)), 3) for x in wnp.diagonal(t)]
[1.0, 1.0]

schur
>>> t, z = linalg.schur(wnp.array([[1.0, 2.0], [0.0, 3.0]]))
>>> abs(t)
Array([[1., 2.],
       [0., 3.]], dtype=float32)

solve
>>> linalg.solve(wnp.diag(wnp.array([2.0, 4.0])), wnp.array([2.0, 2.0]))
Array([1. , 0.5], dtype=float32)

solve_sylvester
>>> linalg.solve_sylvester(wnp.eye(1), wnp.eye(1), wnp.ones((1, 1)))
Array([[0.5]], dtype=float32)

solve_triangular
>>> linalg.solve_triangular(wnp.array([[2.0, 0.0], [1.0, 1.0]]), wnp.array([2.0, 3.0]), lower=True)
Array([1., 2.], dtype=float32)

sqrtm
>>> abs(linalg.sqrtm(wnp.diag(wnp.array([4.0, 9.0])))).round(3)
Array([[2.       , 0.       ],
       [0.       , 3.0000002]], dtype=float32)

svd
>>> u, s, vh = linalg.svd(wnp.diag(wnp.array([3.0, 4.0])))
>>> [round(float(x), 3) for x in s]
[4.0, 3.0]

toeplitz
>>> linalg.toeplitz(wnp.array([1, 2, 3]))
Array([[1, 2, 3],
       [2, 1, 2],
       [3, 2, 1]], dtype=int32)
""",
)
__test__ = EXAMPLES
