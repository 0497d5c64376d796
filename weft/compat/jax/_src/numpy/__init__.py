# Tests: tests/compat/test_options.py
"""jax._src.numpy, for what its modules have beside public names."""
