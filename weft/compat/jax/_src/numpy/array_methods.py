# Tests: tests/compat/test_private_names.py
"""jax._src.numpy.array_methods, of which unxt derives its own"""

from weft.numpy.at import At as _IndexUpdateHelper  # noqa: F401
from weft.numpy.at import AtIndex as _IndexUpdateRef  # noqa: F401
