"""Switches that make native kernels check what they do."""

from __future__ import annotations

from contextlib import AbstractContextManager

from weft.core.config import options


def enable_debug_checks(new_val: bool = True) -> AbstractContextManager[None]:
    """Native kernels traced inside check their bounds and `debug_check`, as with debug=True.

    The same as the option `pallas_enable_debug_checks` of weft.config. Source: JAX's Pallas.

    >>> import weft
    >>> pl = weft.pallas
    >>> def kernel(out):
    ...     pl.debug_check(pl.num_programs(0) == 3, "three programs")
    ...     out[...] = 1
    >>> with pl.enable_debug_checks():
    ...     pl.pallas_call(kernel, weft.ShapeDtypeStruct((), "int32"), grid=3)()
    Array(1, dtype=int32)
    """
    return options["pallas_enable_debug_checks"](new_val)


def enable_poison_buffers(new_val: bool = True) -> AbstractContextManager[None]:
    """Scratch of native kernels traced inside starts as NaN, or as the largest integer.

    What is read before it was written then shows. Interpreted kernels raise for that in any case.
    The same as the option `pallas_poison_buffers` of weft.config. Source: JAX's Pallas.

    >>> import weft
    >>> pl = weft.pallas
    >>> def kernel(out, scratch):
    ...     out[...] = scratch[...]
    >>> with pl.enable_poison_buffers():
    ...     pl.pallas_call(kernel, weft.ShapeDtypeStruct((2,), "float32"),
    ...         scratch_shapes=[pl.LOCAL((2,), "float32")])()
    Array([nan, nan], dtype=float32)
    """
    return options["pallas_poison_buffers"](new_val)
