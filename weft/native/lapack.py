"""LAPACK's routines for small matrices on one thread of OpenBLAS.

OpenBLAS shares what takes microseconds, and its threads spin for each other: a Cholesky
decomposition of a 512×512 matrix took six times the CPU time of one thread, and on a busy machine
a hundred times its time. A wrapper around jaxlib's handler sets the number of threads to one for
the length of a call. Where two calls meet, only the one that found more than one sets it again.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from weft._xla import ffi
from weft._xla.mlir import ir
from weft.lowering.limits import LARGE_MATRIX, SHARED_MATRIX
from weft.native import engine
from weft.native.calls import has_compiler
from weft.native.parallel import threads
from weft.partition.emit import Emitter

_TEXT = """
declare i32 @openblas_threads()
declare void @set_openblas_threads(i32)
declare ptr @{name}(ptr)

define ptr @handler(ptr %frame) #0 {{
  %threads = call i32 @openblas_threads()
  %many = icmp sgt i32 %threads, 1
  br i1 %many, label %alone, label %plain
alone:
  call void @set_openblas_threads(i32 1)
  %error = call ptr @{name}(ptr %frame)
  call void @set_openblas_threads(i32 %threads)
  ret ptr %error
plain:
  %same = call ptr @{name}(ptr %frame)
  ret ptr %same
}}
"""


@cache
def _openblas() -> dict[str, int]:
    """Return addresses of the functions of SciPy's OpenBLAS; none where it has another library."""
    scipy = find_spec("scipy")
    assert scipy is not None and scipy.origin is not None
    for path in Path(scipy.origin).parents[1].glob("scipy.libs/*openblas*"):
        library = ctypes.CDLL(str(path))
        names = {"openblas_threads": "get_num_threads", "set_openblas_threads": "set_num_threads"}
        if hasattr(library, "scipy_openblas_get_num_threads"):
            functions = {ours: getattr(library, f"scipy_openblas_{f}") for ours, f in names.items()}
            return {k: ctypes.cast(f, ctypes.c_void_p).value or 0 for k, f in functions.items()}
    return {}


@cache
def _target(name: str) -> str:
    """Return the wrapper's target."""
    symbols = {**_openblas(), name: ffi.lapack_handler(name)}
    text = _TEXT.format(name=name)
    address = engine.compile_keyed(engine.key_of(text), lambda: text, "handler", 2, symbols)
    ffi.register_target(f"weft_native_{name}", ffi.capsule(address), "cpu", 1)
    return f"weft_native_{name}"


def lapack(e: Emitter, op: ir.Operation, _: int) -> Sequence[ir.Value] | None:
    """Make a call of LAPACK go through its wrapper."""
    rows, columns = list(op.operands[0].type.shape)[-2:]
    if (
        SHARED_MATRIX < rows * columns <= LARGE_MATRIX // threads()
        and has_compiler()
        and _openblas()
    ):
        name = _target(op.attributes["call_target_name"].value)
        op.attributes["call_target_name"] = ir.StringAttr.get(name, context=e.context)
    return None
