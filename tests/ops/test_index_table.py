"""Slices, gather and scatter in the table of numeric checks: values, vmap and two derivatives."""

import numpy as np
import pytest

from tests.ops.numerics import Case, check
from weft import lax

R = np.random.default_rng(3)
X = R.permutation(20).reshape(4, 5) / 7.0
ROWS = np.array([[2], [0], [2]], np.int32)
DISTINCT = np.array([[2], [0], [1]], np.int32)
UPDATES = (R.permutation(15).reshape(3, 5) + 0.5) / 7.0
AT = lax.GatherDimensionNumbers((1,), (0,), (0,))
TO = lax.ScatterDimensionNumbers((1,), (0,), (0,))
START = np.int32(1)


def scatter(name):
    return lambda x, i, u: getattr(lax, name)(x, i, u, TO)


def folded(ufunc):
    def run(x, i, u):
        out = np.array(x)
        ufunc.at(out, i[:, 0], u)
        return out

    return run


def replaced(x, i, u):
    out = np.array(x)
    out[i[:, 0]] = u
    return out


def updated(x, u, i):
    out = np.array(x)
    out[i : i + u.shape[0], 2 : 2 + u.shape[1]] = u
    return out


CASES = [
    Case(
        "slice", lambda x: lax.slice(x, (1, 0), (4, 5), (2, 3)), lambda x: x[1:4:2, ::3], (X,), (0,)
    ),
    Case(
        "dynamic_slice",
        lambda x, i: lax.dynamic_slice(x, (i, np.int32(2)), (2, 3)),
        lambda x, i: x[i : i + 2, 2:5],
        (X, START),
        (0,),
    ),
    Case(
        "dynamic_update_slice",
        lambda x, u, i: lax.dynamic_update_slice(x, u, (i, np.int32(2))),
        updated,
        (X, UPDATES[:2, :3], START),
        (0, 1),
    ),
    Case(
        "gather",
        lambda x, i: lax.gather(x, i, AT, (1, 5)),
        lambda x, i: x[i[:, 0]],
        (X, ROWS),
        (0,),
    ),
    Case(
        "scatter",
        scatter("scatter"),
        replaced,
        (X, DISTINCT, UPDATES),
        (0, 2),
    ),
    Case("scatter-add", scatter("scatter_add"), folded(np.add), (X, ROWS, UPDATES), (0, 2)),
    Case("scatter_sub", scatter("scatter_sub"), folded(np.subtract), (X, ROWS, UPDATES), (0, 2)),
    Case("scatter-mul", scatter("scatter_mul"), folded(np.multiply), (X, ROWS, UPDATES), (0, 2)),
    Case("scatter-min", scatter("scatter_min"), folded(np.minimum), (X, ROWS, UPDATES), (0, 2)),
    Case("scatter-max", scatter("scatter_max"), folded(np.maximum), (X, ROWS, UPDATES), (0, 2)),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_values_batches_and_derivatives(case, rng):
    check(case, rng)
