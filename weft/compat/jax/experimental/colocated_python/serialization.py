# Tests: tests/compat/test_other_modules.py
"""jax.experimental.colocated_python.serialization, for orbax: with one host, nothing is sent."""

from __future__ import annotations

from weft._xla.client import DeviceList as DeviceList
