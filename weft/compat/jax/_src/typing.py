# Tests: tests/compat/test_private_names.py
"""jax._src.typing, for cuthbert, probdiffeq and others: the names of annotations."""

from collections.abc import Sequence
from typing import Any

import numpy as np

DType = np.dtype
DimSize = int
Shape = Sequence[int]
StaticScalar = np.bool_ | np.number | bool | int | float | complex
DuckTypedArray = Any
