# Tests: tests/compat/test_as_jax.py
"""jax._src.public_test_util, for tinygp."""

from __future__ import annotations

import numpy as np

from weft import dtypes, tree
from weft.test_util import check_grads, check_jvp, check_vjp

__all__ = ["check_close", "check_grads", "check_jvp", "check_vjp"]


def check_close(
    xs: object,
    ys: object,
    atol: float | dict | None = None,
    rtol: float | dict | None = None,
    err_msg: str = "",
) -> None:
    """Raise AssertionError unless the arrays of two trees are equal to rounding of their dtypes.

    A tolerance may be a dict, from dtype to number.
    """

    def check(x: object, y: object) -> None:
        x, y = np.asarray(x), np.asarray(y)
        exact = not dtypes.issubdtype(x.dtype, np.inexact)
        usual = 0.0 if exact else float(dtypes.finfo(x.real.dtype).eps) ** 0.5
        bounds = [
            {np.dtype(k): v for k, v in t.items()}.get(x.dtype) if isinstance(t, dict) else t
            for t in (rtol, atol)
        ]
        rtol_, atol_ = (usual if t is None else t for t in bounds)
        np.testing.assert_allclose(x, y, rtol_, atol_, err_msg=err_msg)

    tree.map(check, xs, ys)
