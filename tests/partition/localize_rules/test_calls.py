"""Calls of LAPACK run on the batches that devices hold, also where these do not divide."""

import numpy as np
import pytest

import weft
from weft import NamedSharding, P

MESH = weft.make_mesh((8,), ("data",), (weft.AxisType.Auto,))


@pytest.mark.parametrize("count", [6, 8, 11])
def test_batches_of_systems_are_solved_where_they_are(count, rng):
    a = (np.tril(rng.normal(size=(count, 5, 5))) + 4 * np.eye(5)).astype(np.float32)
    b = rng.normal(size=(count, 5, 3)).astype(np.float32)
    split = NamedSharding(MESH, P("data"))

    @weft.jit
    def solve(a, b):
        a, b = weft.lax.with_sharding_constraint((a, b), split)
        return weft.lax.linalg.triangular_solve(a, b, left_side=True, lower=True)

    sent = weft.comm(solve, a, b).collectives
    assert [(c.kind, c.operand_bytes) for c in sent] in (
        [],
        [("all_gather", -(-count // 8) * 5 * 3 * 4)],  # the result alone
    )
    np.testing.assert_allclose(solve(a, b), np.linalg.solve(a, b), rtol=1e-4, atol=1e-5)
