# Tests: tests/test_testing.py
"""weft.test_util: checks of derivatives against differences; see `weft.testing`."""

from weft.core.namespace import seal
from weft.testing import check_grads, check_jvp, check_vjp

__all__ = ["check_grads", "check_jvp", "check_vjp"]

seal(globals())
