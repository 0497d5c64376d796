# Tests: tests/compat/test_other_modules.py
"""jax.experimental.colocated_python.func, for orbax, which patches it where it has the parts."""
