"""Examples of the functions of weft.scipy, which their docstrings end with."""

from weft.core.namespace import examples_of

EXAMPLES = examples_of(
    "from weft import numpy as wnp; from weft.scipy import *",
    r"""
fft.dct
>>> round(float(fft.dct(wnp.array([1.0, 2.0]))[0]), 3)
6.0

fft.dctn
>>> round(float(fft.dctn(wnp.ones((2, 2)))[0, 0]), 3)
16.0

fft.idct
>>> [round(float(v), 3) for v in fft.idct(fft.dct(wnp.array([1.0, 2.0])))]
[1.0, 2.0]

fft.idctn
>>> round(float(fft.idctn(fft.dctn(wnp.ones((2, 2))))[0, 0]), 3)
1.0

integrate.trapezoid
>>> integrate.trapezoid(wnp.array([1.0, 3.0]))
Array(2., dtype=float32)

ndimage.map_coordinates
>>> ndimage.map_coordinates(wnp.array([0.0, 10.0]), [wnp.array([0.25])], order=1)
Array([2.5], dtype=float32)

optimize.minimize
>>> result = optimize.minimize(lambda x: ((x - 3) ** 2).sum(), wnp.zeros(2), method='BFGS')
>>> [round(float(v), 3) for v in result.x]
[3.0, 3.0]

signal.convolve
>>> signal.convolve(wnp.array([1.0, 2.0]), wnp.array([1.0, 1.0]))
Array([1., 3., 2.], dtype=float32)

signal.convolve2d
>>> signal.convolve2d(wnp.ones((2, 2)), wnp.ones((2, 2)), mode='same')
Array([[1., 2.],
       [2., 4.]], dtype=float32)

signal.correlate
>>> signal.correlate(wnp.array([1.0, 2.0]), wnp.array([0.0, 1.0]))
Array([1., 2., 0.], dtype=float32)

signal.correlate2d
>>> signal.correlate2d(wnp.ones((2, 2)), wnp.ones((2, 2)), mode='valid')
Array([[4.]], dtype=float32)

signal.csd
>>> f, p = signal.csd(wnp.ones(64), wnp.ones(64), nperseg=16)
>>> p.shape
(9,)

signal.detrend
>>> abs(signal.detrend(wnp.array([1.0, 2.0, 3.0]))).max() < 1e-6
Array(True, dtype=bool)

signal.fftconvolve
>>> [round(float(v), 3) for v in signal.fftconvolve(wnp.array([1.0, 2.0]), wnp.array([1.0, 1.0]))]
[1.0, 3.0, 2.0]

signal.istft
>>> f, t, z = signal.stft(wnp.ones(64), nperseg=16)
>>> signal.istft(z, nperseg=16)[1].shape
(64,)

signal.stft
>>> f, t, z = signal.stft(wnp.ones(64), nperseg=16)
>>> z.shape
(9, 9)

signal.welch
>>> f, p = signal.welch(wnp.ones(64), nperseg=16)
>>> p.shape
(9,)

sparse.bicgstab
>>> a = wnp.diag(wnp.array([2.0, 4.0]))
>>> x, _ = sparse.linalg.bicgstab(a, wnp.ones(2))
>>> [round(float(v), 3) for v in x]
[0.5, 0.25]

sparse.cg
>>> a = wnp.diag(wnp.array([2.0, 4.0]))
>>> x, _ = sparse.linalg.cg(a, wnp.ones(2))
>>> [round(float(v), 3) for v in x]
[0.5, 0.25]

sparse.gmres
>>> a = wnp.diag(wnp.array([2.0, 4.0]))
>>> x, _ = sparse.linalg.gmres(a, wnp.ones(2))
>>> [round(float(v), 3) for v in x]
[0.5, 0.25]

vq.vq
>>> cluster.vq.vq(wnp.array([[0.0], [5.0]]), wnp.array([[4.0], [1.0]]))[0]
Array([1, 0], dtype=int32)
""",
)
__test__ = EXAMPLES
