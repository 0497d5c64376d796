"""Examples of the functions of weft.lax, which their docstrings end with."""

from __future__ import annotations

from weft.core.namespace import examples_of

EXAMPLES = examples_of(
    "from weft import lax, numpy as wnp",
    r"""
abs
>>> lax.abs(wnp.array([-2.0, 3.0]))
Array([2., 3.], dtype=float32)

acos
>>> lax.acos(wnp.array([1.0, 2.0]))
Array([ 0., nan], dtype=float32)

acosh
>>> lax.acosh(1.0)
Array(0., dtype=float32, weak_type=True)

add
>>> lax.add(wnp.arange(3), 10)
Array([10, 11, 12], dtype=int32)

after_all
>>> token = lax.after_all(lax.create_token(), lax.create_token())

approx_max_k
>>> lax.approx_max_k(wnp.array([3.0, 9.0, 5.0]), 2)
[Array([9., 5.], dtype=float32), Array([1, 2], dtype=int32)]

approx_min_k
>>> lax.approx_min_k(wnp.array([3.0, 9.0, 5.0]), 2)
[Array([3., 5.], dtype=float32), Array([0, 2], dtype=int32)]

asin
>>> lax.asin(wnp.array([0.0, 1.5]))
Array([ 0., nan], dtype=float32)

asinh
>>> lax.asinh(0.0)
Array(0., dtype=float32, weak_type=True)

atan
>>> lax.atan(wnp.array([0.0, wnp.inf])) * 2 / wnp.pi
Array([0., 1.], dtype=float32)

atan2
>>> lax.atan2(wnp.array([0.0, 1.0]), wnp.array([-1.0, 0.0])) / wnp.pi
Array([1. , 0.5], dtype=float32)

atanh
>>> lax.atanh(wnp.array([0.0, 1.0]))
Array([ 0., inf], dtype=float32)

batch_matmul
>>> lax.batch_matmul(wnp.ones((5, 2, 3)), wnp.ones((5, 3, 4))).shape
(5, 2, 4)

bessel_i0e
>>> lax.bessel_i0e(0.0)
Array(1., dtype=float32, weak_type=True)

bessel_i1e
>>> lax.bessel_i1e(0.0)
Array(0., dtype=float32, weak_type=True)

bitwise_and
>>> lax.bitwise_and(wnp.array([0b1010, 0b0011]), 0b1100)
Array([8, 0], dtype=int32)

bitwise_not
>>> lax.bitwise_not(wnp.array([True, False]))
Array([False,  True], dtype=bool)

bitwise_or
>>> lax.bitwise_or(wnp.array([0b1010, 0b0011]), 0b1100)
Array([14, 15], dtype=int32)

bitwise_xor
>>> lax.bitwise_xor(wnp.array([0b1010, 0b0011]), 0b1100)
Array([ 6, 15], dtype=int32)

broadcast_like
>>> lax.broadcast_like(wnp.ones(3), wnp.zeros((2, 3))).shape
(2, 3)

broadcast_to_rank
>>> lax.broadcast_to_rank(wnp.ones((2, 3)), rank=4).shape
(1, 1, 2, 3)

cbrt
>>> lax.cbrt(wnp.array([-8.0, 0.0])).round(5)
Array([-2.,  0.], dtype=float32)

ceil
>>> lax.ceil(wnp.array([-1.5, 0.2]))
Array([-1.,  1.], dtype=float32)

clz
>>> lax.clz(wnp.array([0, 1, 255], "uint8"))
Array([8, 7, 0], dtype=uint8)

complex
>>> lax.complex(wnp.array([1.0, 2.0]), wnp.array([0.0, -1.0]))
Array([1.+0.j, 2.-1.j], dtype=complex64)

conj
>>> lax.conj(wnp.array([1 + 2j, 3]))
Array([1.-2.j, 3.-0.j], dtype=complex64)

conv
>>> lax.conv(wnp.ones((1, 2, 8, 8)), wnp.ones((4, 2, 3, 3)), (1, 1), "SAME").shape
(1, 4, 8, 8)

conv_general_dilated_local
>>> lax.conv_general_dilated_local(
...     wnp.ones((1, 2, 4)), wnp.ones((5, 4, 3)), (1,), "VALID", (2,)
... ).shape
(1, 5, 3)

conv_general_dilated_patches
>>> lax.conv_general_dilated_patches(wnp.arange(4.0).reshape(1, 1, 4), (2,), (1,), "VALID")
Array([[[0., 1., 2.],
        [1., 2., 3.]]], dtype=float32)

conv_general_permutations
>>> lax.conv_general_permutations(("NHWC", "HWIO", "NHWC"))
[(0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2)]

conv_general_shape_tuple
>>> lax.conv_general_shape_tuple(
...     (1, 8, 8, 3), (3, 3, 3, 16), (2, 2), "SAME", ("NHWC", "HWIO", "NHWC")
... )
(1, 4, 4, 16)

conv_shape_tuple
>>> lax.conv_shape_tuple((1, 3, 8, 8), (16, 3, 3, 3), (1, 1), [(0, 0), (1, 1)])
(1, 16, 6, 8)

conv_transpose_shape_tuple
>>> lax.conv_transpose_shape_tuple(
...     (1, 4, 4, 3), (3, 3, 3, 16), (2, 2), "SAME", ("NHWC", "HWIO", "NHWC")
... )
(1, 8, 8, 16)

conv_with_general_padding
>>> lax.conv_with_general_padding(
...     wnp.ones((1, 1, 3)), wnp.ones((1, 1, 2)), (1,), [(1, 0)], None, None
... )
Array([[[1., 2., 2.]]], dtype=float32)

cos
>>> lax.cos(wnp.array([0.0, wnp.pi]))
Array([ 1., -1.], dtype=float32)

cosh
>>> lax.cosh(wnp.array([0.0, 100.0]))
Array([ 1., inf], dtype=float32)

create_token
>>> token = lax.create_token()
>>> token.shape
()

cumlogsumexp
>>> lax.cumlogsumexp(wnp.array([1000.0, -wnp.inf, 0.0]))
Array([1000., 1000., 1000.], dtype=float32)

cummax
>>> lax.cummax(wnp.array([3, 1, 4, 1]))
Array([3, 3, 4, 4], dtype=int32)

cummin
>>> lax.cummin(wnp.array([3, 1, 4, 1]), reverse=True)
Array([1, 1, 1, 1], dtype=int32)

cumprod
>>> lax.cumprod(wnp.array([[1, 2], [3, 4]]), axis=1)
Array([[ 1,  2],
       [ 3, 12]], dtype=int32)

cumsum
>>> lax.cumsum(wnp.array([[1, 2], [3, 4]]), axis=0)
Array([[1, 2],
       [4, 6]], dtype=int32)

dce_sink
>>> lax.dce_sink(wnp.ones(3))

digamma
>>> lax.digamma(wnp.array([1.0, -1.0])).round(4)
Array([-0.5772,     nan], dtype=float32)

div
>>> lax.div(wnp.array([7, -7]), 2)
Array([ 3, -3], dtype=int32)

dtype
>>> lax.dtype(3), lax.dtype(wnp.ones(2, "bfloat16"))
(dtype('int32'), dtype(bfloat16))

empty
>>> lax.empty((2, 3), "int8").shape
(2, 3)

eq
>>> lax.eq(wnp.array([1.0, wnp.nan]), wnp.array([1.0, wnp.nan]))
Array([ True, False], dtype=bool)

erf
>>> lax.erf(wnp.array([0.0, wnp.inf]))
Array([0., 1.], dtype=float32)

erf_inv
>>> lax.erf_inv(wnp.array([0.0, 1.0]))
Array([ 0., inf], dtype=float32)

erfc
>>> lax.erfc(wnp.array([0.0, wnp.inf]))
Array([1., 0.], dtype=float32)

exp
>>> lax.exp(wnp.array([0.0, -wnp.inf]))
Array([1., 0.], dtype=float32)

exp2
>>> lax.exp2(wnp.array([0.0, 3.0]))
Array([1., 8.], dtype=float32)

expm1
>>> lax.expm1(1e-10), lax.exp(1e-10) - 1
(Array(1.e-10, dtype=float32, weak_type=True), Array(0., dtype=float32, weak_type=True))

floor
>>> lax.floor(wnp.array([-1.5, 0.2]))
Array([-2.,  0.], dtype=float32)

ge
>>> lax.ge(wnp.arange(3), 1)
Array([False,  True,  True], dtype=bool)

gt
>>> lax.gt(wnp.arange(3), 1)
Array([False, False,  True], dtype=bool)

igamma
>>> lax.igamma(wnp.array([1.0, 2.0]), wnp.array([0.0, wnp.inf]))
Array([0., 1.], dtype=float32)

igamma_grad_a
>>> lax.igamma_grad_a(2.0, 1.0).round(3)
Array(-0.276, dtype=float32, weak_type=True)

igammac
>>> lax.igammac(wnp.array([1.0, 2.0]), wnp.array([0.0, wnp.inf]))
Array([1., 0.], dtype=float32)

imag
>>> lax.imag(wnp.array([1 + 2j, 3j]))
Array([2., 3.], dtype=float32)

index_take
>>> lax.index_take(wnp.array([[1, 2], [3, 4]]), (wnp.array([1, 0]),), (0,))
Array([[3, 4],
       [1, 2]], dtype=int32)

is_finite
>>> lax.is_finite(wnp.array([1.0, wnp.nan, wnp.inf]))
Array([ True, False, False], dtype=bool)

le
>>> lax.le(wnp.arange(3), 1)
Array([ True,  True, False], dtype=bool)

lgamma
>>> lax.exp(lax.lgamma(wnp.array([5.0, 0.0]))).round()
Array([24., inf], dtype=float32)

log
>>> lax.log(wnp.array([1.0, 0.0, -1.0]))
Array([  0., -inf,  nan], dtype=float32)

log1p
>>> lax.log1p(1e-10), lax.log(1 + 1e-10)
(Array(1.e-10, dtype=float32, weak_type=True), Array(0., dtype=float32, weak_type=True))

logistic
>>> lax.logistic(wnp.array([0.0, wnp.inf, -wnp.inf]))
Array([0.5, 1. , 0. ], dtype=float32)

lt
>>> lax.lt(wnp.arange(3), 1)
Array([ True, False, False], dtype=bool)

max
>>> lax.max(wnp.array([1.0, wnp.nan, 3.0]), 2.0)
Array([ 2., nan,  3.], dtype=float32)

min
>>> lax.min(wnp.array([1.0, wnp.nan, 3.0]), 2.0)
Array([ 1., nan,  2.], dtype=float32)

mul
>>> lax.mul(wnp.array([2, 3]), wnp.array([4, 5]))
Array([ 8, 15], dtype=int32)

ne
>>> lax.ne(wnp.array([1.0, wnp.nan]), wnp.array([1.0, wnp.nan]))
Array([False,  True], dtype=bool)

neg
>>> lax.neg(wnp.array([1, -128], "int8"))
Array([  -1, -128], dtype=int8)

nextafter
>>> lax.nextafter(wnp.array([1.0, 1.0]), wnp.array([2.0, 0.0])) - 1
Array([ 1.1920929e-07, -5.9604645e-08], dtype=float32)

polygamma
>>> lax.polygamma(1.0, 1.0).round(4)
Array(1.6449, dtype=float32, weak_type=True)

population_count
>>> lax.population_count(wnp.array([7, 255], "uint8"))
Array([3, 8], dtype=uint8)

pow
>>> lax.pow(wnp.array([2.0, 4.0]), wnp.array([3.0, 0.5]))
Array([8., 2.], dtype=float32)

ragged_dot_general
>>> lengths = wnp.array([1, 2])
>>> how = lax.RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), [0], [0])
>>> lax.ragged_dot_general(wnp.ones((3, 2)), wnp.ones((2, 2, 4)), lengths, how).shape
(3, 4)

random_gamma_grad
>>> lax.random_gamma_grad(1.0, 0.5).round(3)
Array(0.807, dtype=float32, weak_type=True)

real
>>> lax.real(wnp.array([1 + 2j, 3j]))
Array([1., 0.], dtype=float32)

reciprocal
>>> lax.reciprocal(wnp.array([2.0, 0.0]))
Array([0.5, inf], dtype=float32)

reduce_and
>>> lax.reduce_and(wnp.array([[True, False], [True, True]]), (1,))
Array([False,  True], dtype=bool)

reduce_max
>>> lax.reduce_max(wnp.array([[4, 2], [3, 7]]), (0,))
Array([4, 7], dtype=int32)

reduce_min
>>> lax.reduce_min(wnp.array([[4, 2], [3, 7]]), (0,))
Array([3, 2], dtype=int32)

reduce_or
>>> lax.reduce_or(wnp.array([0b001, 0b100]), (0,))
Array(5, dtype=int32)

reduce_precision
>>> lax.reduce_precision(wnp.array([1.1, 1000.1]), exponent_bits=8, mantissa_bits=7)
Array([   1.1015625, 1000.       ], dtype=float32)

reduce_prod
>>> lax.reduce_prod(wnp.array([[1, 2], [3, 4]]), (0, 1))
Array(24, dtype=int32)

reduce_window_shape_tuple
>>> lax.reduce_window_shape_tuple((8, 9), (2, 2), (2, 2), [(0, 0), (0, 1)])
(4, 5)

reduce_xor
>>> lax.reduce_xor(wnp.array([0b011, 0b110]), (0,))
Array(5, dtype=int32)

rem
>>> lax.rem(wnp.array([7, -7]), 3)
Array([ 1, -1], dtype=int32)

rng_uniform
>>> lax.rng_uniform(0.0, 1.0, (2, 3)).shape
(2, 3)

round
>>> (
...     lax.round(wnp.array([0.5, 2.5])),
...     lax.round(wnp.array([0.5, 2.5]), lax.RoundingMethod.TO_NEAREST_EVEN),
... )
(Array([1., 3.], dtype=float32), Array([0., 2.], dtype=float32))

rsqrt
>>> lax.rsqrt(wnp.array([4.0, 0.0]))
Array([0.5, inf], dtype=float32)

scatter_sub
>>> how = lax.ScatterDimensionNumbers((), (0,), (0,))
>>> lax.scatter_sub(wnp.array([5, 5, 5]), wnp.array([[1], [1]]), wnp.array([1, 2]), how)
Array([5, 2, 5], dtype=int32)

shape_as_value
>>> lax.shape_as_value((2, 3))
array([2, 3], dtype=int32)

shift_left
>>> lax.shift_left(wnp.array([1, 1]), wnp.array([3, 32]))
Array([8, 0], dtype=int32)

shift_right_arithmetic
>>> lax.shift_right_arithmetic(wnp.array([-8, 8]), 1)
Array([-4,  4], dtype=int32)

shift_right_logical
>>> lax.shift_right_logical(wnp.array([-8, 8], "int8"), wnp.array([1, 1], "int8"))
Array([124,   4], dtype=int8)

sign
>>> lax.sign(wnp.array([-2.0, -0.0, 3.0]))
Array([-1., -0.,  1.], dtype=float32)

sin
>>> lax.sin(wnp.array([0.0, wnp.pi / 2]))
Array([0., 1.], dtype=float32)

sinh
>>> lax.sinh(wnp.array([0.0, -100.0]))
Array([  0., -inf], dtype=float32)

sqrt
>>> lax.sqrt(wnp.array([4.0, -1.0]))
Array([ 2., nan], dtype=float32)

square
>>> lax.square(wnp.array([-3, 2]))
Array([9, 4], dtype=int32)

squeeze
>>> lax.squeeze(wnp.ones((1, 3, 1)), (0, 2)).shape
(3,)

stack
>>> lax.stack([wnp.array([1, 2]), wnp.array([3, 4])], axis=1)
Array([[1, 3],
       [2, 4]], dtype=int32)

stage
>>> lax.stage(wnp.arange(3))
Array([0, 1, 2], dtype=int32)

sub
>>> lax.sub(wnp.array([1], "uint8"), wnp.array([2], "uint8"))
Array([255], dtype=uint8)

tan
>>> lax.tan(wnp.array([0.0, wnp.pi / 4])).round(4)
Array([0., 1.], dtype=float32)

tanh
>>> lax.tanh(wnp.array([-wnp.inf, 0.0, wnp.inf]))
Array([-1.,  0.,  1.], dtype=float32)

transpose
>>> lax.transpose(wnp.ones((2, 3, 4)), (2, 0, 1)).shape
(4, 2, 3)

unstack
>>> lax.unstack(wnp.array([[1, 2], [3, 4]]), axis=1)
[Array([1, 3], dtype=int32), Array([2, 4], dtype=int32)]

zeta
>>> lax.zeta(2.0, 1.0).round(4)
Array(1.6449, dtype=float32, weak_type=True)

linalg.cholesky_update
>>> lax.linalg.cholesky_update(wnp.eye(2), wnp.array([0.0, wnp.sqrt(3.0)])).round(4)
Array([[1., 0.],
       [0., 2.]], dtype=float32)

linalg.geqrf
>>> packed, taus = lax.linalg.geqrf(wnp.ones((4, 2)))
>>> packed.shape, taus.shape
((4, 2), (2,))

linalg.hessenberg
>>> packed, taus = lax.linalg.hessenberg(wnp.ones((3, 3)))
>>> packed.shape, taus.shape
((3, 3), (2,))

linalg.householder_product
>>> q = lax.linalg.householder_product(*lax.linalg.geqrf(wnp.eye(3, 2)))
>>> (q.T @ q).round(4)
Array([[1., 0.],
       [0., 1.]], dtype=float32)

linalg.lu_pivots_to_permutation
>>> lax.linalg.lu_pivots_to_permutation(wnp.array([2, 1, 2]), 3)
Array([2, 1, 0], dtype=int32)

linalg.ormqr
>>> packed, taus = lax.linalg.geqrf(wnp.ones((3, 3)))
>>> lax.linalg.ormqr(packed, taus, wnp.ones((3, 1)), transpose=True).shape
(3, 1)

linalg.qdwh
>>> u, h, steps, converged = lax.linalg.qdwh(wnp.array([[0.0, 2.0], [-3.0, 0.0]]))
>>> wnp.allclose(u @ h, wnp.array([[0.0, 2.0], [-3.0, 0.0]]), atol=1e-4)
Array(True, dtype=bool)

linalg.schur
>>> t, vectors = lax.linalg.schur(wnp.array([[1.0, 2.0], [0.0, 3.0]]))
>>> t
Array([[1., 2.],
       [0., 3.]], dtype=float32)

linalg.symmetric_product
>>> lax.linalg.symmetric_product(
...     wnp.array([[1.0], [2.0]]), wnp.eye(2), beta=10.0, symmetrize_output=True
... )
Array([[11.,  2.],
       [ 2., 14.]], dtype=float32)

linalg.tridiagonal
>>> packed, d, e, taus = lax.linalg.tridiagonal(wnp.eye(3))
>>> d
Array([1., 1., 1.], dtype=float32)
""",
)

# Those of modules of their own are tested there.
__test__ = {name: example for name, example in EXAMPLES.items() if "." not in name}
