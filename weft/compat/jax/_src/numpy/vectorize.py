# Tests: tests/compat/test_other_modules.py
"""jax._src.numpy.vectorize, for quaxed: the parts that `vectorize` is made of."""

from weft.numpy.vectorization import check_results as _check_output_dims
from weft.numpy.vectorization import fix_arguments as _apply_excluded
from weft.numpy.vectorization import input_dimensions as _parse_input_dimensions
from weft.numpy.vectorization import parse_signature as _parse_gufunc_signature

__all__ = [
    "_apply_excluded",
    "_check_output_dims",
    "_parse_gufunc_signature",
    "_parse_input_dimensions",
]
