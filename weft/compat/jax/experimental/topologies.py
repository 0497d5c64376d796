# Tests: tests/compat/test_other_modules.py
"""jax.experimental.topologies: names beside those of weft.topologies."""

from weft import Device as Device

__all__ = ["Device"]
