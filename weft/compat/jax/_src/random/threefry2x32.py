# Tests: tests/compat/test_other_modules.py
"""jax._src.random.threefry2x32, for quax: the generator's functions of raw keys."""

from weft.random.threefry import bits as threefry_random_bits
from weft.random.threefry import fold_in as threefry_fold_in
from weft.random.threefry import seed as threefry_seed
from weft.random.threefry import split as threefry_split

__all__ = ["threefry_fold_in", "threefry_random_bits", "threefry_seed", "threefry_split"]
