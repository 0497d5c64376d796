"""A handler compiled by Numba, which weft does not need: `python -m examples.ffi.numba_handler`.

`@cfunc` makes a C function of Python code. It reads XLA's call frame, laid out as
xla/ffi/api/c_api.h says, in words; seen to work with Numba 0.68 and llvmlite 0.50.
"""

from __future__ import annotations

import numba
import numpy as np
from numba import carray
from numba.core import types
from numba.extending import intrinsic

import weft

EXTENSION, OPERANDS, RESULTS = 1, 9, 14  # words of the call frame
DATA, DIMENSIONS = 3, 5  # words of a buffer


@intrinsic
def at(typingctx, address):
    """The pointer to an address."""

    def code(context, builder, signature, args):
        return builder.inttoptr(args[0], context.get_value_type(signature.return_type))

    return types.voidptr(types.intp), code


@numba.njit
def words(address):
    """The words that stand at an address."""
    return carray(at(address), (16,), np.intp)


@numba.cfunc("intp(CPointer(intp))")
def cube(frame):
    if frame[EXTENSION] != 0:  # a question for metadata: the version of the interface is 0.3
        metadata = words(words(frame[EXTENSION])[3])
        metadata[3] = 3 << 32
        return 0
    x, y = words(words(frame[OPERANDS])[0]), words(words(frame[RESULTS])[0])
    count = words(x[DIMENSIONS])[0]
    xs = carray(at(x[DATA]), (count,), np.float32)
    ys = carray(at(y[DATA]), (count,), np.float32)
    for i in range(count):
        ys[i] = xs[i] ** 3
    return 0


weft.ffi.register_ffi_target("NumbaCube", weft.ffi.pycapsule(cube.address))


def main() -> None:
    x = weft.numpy.arange(5.0)
    print("cube", weft.jit(weft.ffi.ffi_call("NumbaCube", x))(x))


if __name__ == "__main__":
    main()
