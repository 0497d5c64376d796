# Tests: tests/compat/test_as_jax.py
"""jax._src.ad_util, for lineax."""

from weft.autodiff.zeros import stop_gradient_p
from weft.compat.primitive import Zero

__all__ = ["Zero", "stop_gradient_p"]
