# Tests: tests/compat/test_private_names.py
"""jax._src.random, for what libraries use beside public names."""

from collections.abc import Sequence

Shape = Sequence[int]
