"""The table of operations on the CPU: rows agree between libraries, and ratios are as written."""

import numpy as np
import pytest

import weft
from benchmarks import operations
from benchmarks.operations import TABLE

RANDOM = {"permutation", "random normal"}
OTHER_RESULT = {
    "top_k 10",
    "depthwise conv gradient",
    "qr",
    "unique",
}  # several arrays, signs, sizes


@pytest.mark.parametrize("name", sorted(n for n in TABLE if TABLE[n].numpy and n not in RANDOM))
def test_weft_computes_what_numpy_does(name, rng):
    operation = TABLE[name]
    inputs = operation.inputs(rng, operation.shapes[0])
    out = weft.jit(operation.xx(weft))(*inputs)
    if name not in OTHER_RESULT:
        expected = operation.numpy(np)(*inputs)
        np.testing.assert_allclose(
            np.ravel(out)[:900], np.ravel(expected)[:900], rtol=2e-3, atol=1e-3
        )


def test_the_ratio_is_to_the_best_of_the_others():
    rows = [
        ("sort", "large", {"weft": 1.0, "jax": 4.0, "numpy": 2.0}),
        ("top_k", "large", {"jax": 1.0}),
    ]
    text = operations.as_markdown(rows, ["weft", "jax", "numpy"])
    assert "| sort | large | 1 s | 4 s | 2 s | 0.50× |" in text
    assert "Geometric mean 0.50×; 1 of 1 are ≤ 1.1×." in text
