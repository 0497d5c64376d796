# Tests: tests/runtime/test_dlpack.py
"""Sharing memory with other array libraries through DLPack."""

import weft.numpy.methods  # noqa: F401  (the methods of the arrays that this gives)
from weft.core.namespace import seal
from weft.runtime.dlpack import from_dlpack as from_dlpack
from weft.runtime.dlpack import is_supported_dtype as is_supported_dtype

__all__ = ["from_dlpack", "is_supported_dtype"]
seal(globals())
