# Tests: tests/compat/test_private_names.py
"""jax._src.interpreters.ad, for awkward: values with tangents are of one class."""

from weft.autodiff.jvp import JVPTracer

LinearizeTracer = JVPTracer

__all__ = ["JVPTracer", "LinearizeTracer"]
