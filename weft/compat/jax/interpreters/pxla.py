# Tests: tests/compat/test_as_jax.py
"""jax.interpreters.pxla"""
