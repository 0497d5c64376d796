# Tests: tests/compat/test_private_names.py
"""jax._src.state.indexing, for haliax: slices of a size and a start that may be traced."""

from weft.refs.indexing import Slice as Slice

__all__ = ["Slice"]
