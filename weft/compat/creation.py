# Tests: tests/compat/test_other_modules.py
"""jax.numpy.array and asarray of lists, which are traced where functions are."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from weft import numpy as wnp
from weft.autodiff.shape import broadcast_in_dim_p
from weft.core.state import state
from weft.core.trace import EVAL


def _traced_of_lists(make: Callable) -> Callable:
    """Stage the array of a list: programs make one to ask whether they are being traced."""

    @functools.wraps(make)
    def made(*args: Any, **options: Any) -> Any:
        x = make(*args, **options)
        # The first argument may be given by keyword, under each function's own name.
        if state.trace is EVAL or list not in map(type, (*args[:1], *options.values())):
            return x
        dims = tuple(range(x.ndim))
        return broadcast_in_dim_p.bind(x, shape=x.shape, broadcast_dimensions=dims)

    return made


array = _traced_of_lists(wnp.array)
asarray = _traced_of_lists(wnp.asarray)
