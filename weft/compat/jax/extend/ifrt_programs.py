# Tests: tests/compat/test_other_modules.py
"""jax.extend.ifrt_programs: programs for runtimes of other makers, as jaxlib has them."""

from weft._xla.client import ifrt_programs as ifrt_programs
