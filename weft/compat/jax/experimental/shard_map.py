# Tests: tests/compat/test_other_modules.py
"""jax.experimental.shard_map"""

from weft import shard_map as shard_map
