"""A library in C, loaded with ctypes: `python -m examples.ffi.c_library`."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from pathlib import Path

import numpy as np

import weft


def load() -> ctypes.CDLL:
    """Compiles saxpy.c, as the library's own build would have done."""
    out = Path(tempfile.mkdtemp()) / "libsaxpy.so"
    source = Path(__file__).with_name("saxpy.c")
    include = f"-I{weft.ffi.include_dir()}"
    subprocess.run(["cc", "-O3", "-shared", "-fPIC", include, source, "-o", out], check=True)
    return ctypes.CDLL(str(out))


library = load()
weft.ffi.register_ffi_target("Saxpy", weft.ffi.pycapsule(library.Saxpy))


@weft.custom_jvp
def saxpy(x: weft.Array, y: weft.Array) -> weft.Array:
    """2 x + y; elementwise, so any dimension may be split over devices."""
    factors = " ".join(f"d{i}" for i in range(x.ndim))
    call = weft.ffi.ffi_call(
        "Saxpy",
        weft.ShapeDtypeStruct(x.shape, x.dtype),
        vmap_method="broadcast_all",
        sharding_rule=f"{factors}, {factors} -> {factors}",
        input_output_aliases={1: 0},
    )
    return call(x, y, a=np.float32(2))


# The operation is linear: the tangent is the same function of the tangents.
saxpy.defjvp(lambda primals, tangents: (saxpy(*primals), 2 * tangents[0] + tangents[1]))


def main() -> None:
    x, y = weft.numpy.arange(4.0), weft.numpy.ones(4)
    print("saxpy", weft.jit(saxpy)(x, y))
    print("gradient", weft.grad(lambda x: (saxpy(x, y) ** 2).sum())(x))


if __name__ == "__main__":
    main()
