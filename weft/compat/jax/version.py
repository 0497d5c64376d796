# Tests: tests/compat/test_as_jax.py
"""jax.version"""

from weft.compat.jax import __version__ as __version__
from weft.compat.jax import __version_info__ as __version_info__
