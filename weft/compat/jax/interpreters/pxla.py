# Tests: tests/compat/test_private_names.py
"""jax.interpreters.pxla"""

from weft.compat.jax._src.mesh import thread_resources as thread_resources
