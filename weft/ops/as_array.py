# Tests: tests/ops/test_promote.py
"""Any array-like value as an array or tracer of the current trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from weft.core.state import state
from weft.core.trace import EVAL, Tracer, array_method, aval_of, typeof
from weft.runtime.transfers import put_host

if TYPE_CHECKING:
    from weft.typing import ArrayLike


def as_array(x: ArrayLike) -> Any:
    """Return the value as an Array (eagerly) or unchanged where it is traced already.

    Python and NumPy scalars and NumPy arrays are put on the default device.
    """
    if isinstance(x, Tracer):
        return x
    if isinstance(x, bool | int | float | complex | np.ndarray | np.generic):
        if state.trace is EVAL:
            aval = typeof(x)
            return put_host(np.array(x, aval.dtype), weak_type=aval.weak_type)
        return x
    method = None if x.__class__ in aval_of else array_method(x)
    return x if method is None else method()
