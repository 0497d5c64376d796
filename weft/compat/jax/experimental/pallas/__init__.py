# Tests: tests/compat/test_pallas_tpu.py
"""jax.experimental.pallas: its names are weft.pallas'; the modules are those of other devices."""
