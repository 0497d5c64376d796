"""RMS normalization in C++: fast, differentiable, batched and sharded without communication."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np

import weft


def _register() -> None:
    """Registers the handlers of the installed library, or compiles them from the sources."""
    here = Path(__file__).parent
    installed = here / "librms_norm.so"
    if installed.exists():
        library = ctypes.CDLL(str(installed))
        for name in ("RmsNorm", "RmsNormGrad"):
            weft.ffi.register_ffi_target(name, weft.ffi.pycapsule(getattr(library, name)))
    else:
        source = here.parent / "src" / "rms_norm.cc"
        weft.ffi.build(source, flags=["-fopenmp-simd"])
    for name in ("RmsNorm", "RmsNormGrad"):
        weft.ffi.register_ffi_target_as_batch_partitionable(name)


_register()


def _forward(eps: float, x: weft.Array) -> tuple[weft.Array, tuple[weft.Array, weft.Array]]:
    like = weft.ShapeDtypeStruct
    call = weft.ffi.ffi_call(
        "RmsNorm",
        (like(x.shape, x.dtype), like(x.shape[:-1], x.dtype)),
        vmap_method="broadcast_all",
        num_batch_dims=x.ndim - 1,
    )
    y, r = call(x, eps=np.float32(eps))
    return y, (x, r)


def _backward(
    eps: float, residuals: tuple[weft.Array, weft.Array], dy: weft.Array
) -> tuple[weft.Array]:
    x, r = residuals
    call = weft.ffi.ffi_call(
        "RmsNormGrad",
        weft.ShapeDtypeStruct(x.shape, x.dtype),
        vmap_method="broadcast_all",
        num_batch_dims=x.ndim - 1,
    )
    return (call(x, r, dy),)


_normalize = weft.ffi.differentiable(_forward, _backward, nondiff_argnums=(0,))


def rms_norm(x: weft.Array, scale: weft.Array | None = None, *, eps: float = 1e-6) -> weft.Array:
    """x divided by the root of the mean of its squares along the last dimension, times scale.

    x: float32 [..., n]. scale: float32 [n], or None for ones. Splits of the leading dimensions
    over devices are kept, forwards and backwards.
    """
    if x.ndim == 0 or x.dtype != np.float32:
        raise TypeError(f"rms_norm: x must be float32 with a last dimension, got {weft.typeof(x)}")
    y = _normalize(float(eps), x)
    return y if scale is None else y * scale
