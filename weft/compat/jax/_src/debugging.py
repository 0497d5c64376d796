# Tests: tests/compat/test_private_names.py
"""jax._src.debugging, for blackjax and numpyro's progress bars."""

from weft.debug import callback as debug_callback
from weft.debug import print as debug_print

__all__ = ["debug_callback", "debug_print"]
