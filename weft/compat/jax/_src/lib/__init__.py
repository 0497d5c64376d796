# Tests: tests/compat/test_other_modules.py
"""jax._src.lib, for what its modules have beside public names."""
