# Tests: tests/compat/test_other_modules.py
"""jax.lib: the version of jaxlib."""

from weft._xla import release as __version__

__all__ = ["__version__"]
