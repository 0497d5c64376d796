# Tests: tests/compat/test_as_jax.py
"""jax._src.compiler, for chex."""
