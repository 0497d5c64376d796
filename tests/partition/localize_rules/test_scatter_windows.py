"""The gradient of maxima over windows of split dimensions: edges travel, not arrays."""

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft.sharding import NamedSharding
from weft.sharding import PartitionSpec as P

MESH = {"a": 4, "b": 2}


def pooled_gradient(x, window, stride, padding):
    """The gradient of sum(pool(x)²) over the two dimensions of `x`, element by element."""
    low = [p[0] for p in padding]
    wide = np.pad(x, padding, constant_values=-np.inf)
    out = np.zeros_like(wide)
    counts = [(n - w) // s + 1 for n, w, s in zip(wide.shape, window, stride, strict=True)]
    for i, j in np.ndindex(*counts):
        at = (i * stride[0], j * stride[1])
        part = wide[at[0] : at[0] + window[0], at[1] : at[1] + window[1]]
        k = np.unravel_index(np.argmax(part), part.shape)
        out[at[0] + k[0], at[1] + k[1]] += 2 * part[k]
    return out[low[0] : low[0] + x.shape[0], low[1] : low[1] + x.shape[1]]


def gradient(window, stride, padding, spec):
    mesh = weft.make_mesh((4, 2), ("a", "b"), axis_types=(weft.AxisType.Auto,) * 2)

    def loss(x):
        pooled = weft.lax.reduce_window(x, -np.inf, weft.lax.max, window, stride, padding)
        return wnp.sum(pooled**2)

    rows = NamedSharding(mesh, P(*spec))
    return weft.jit(weft.grad(loss), in_shardings=rows, out_shardings=rows, partitioner="weft")


# window, stride, padding, spec; bytes of a 16 x 12 array's exchanges where they are known
CASES = [
    ((2, 2), (2, 2), ((0, 0), (0, 0)), ("a", "b"), 0),
    ((3, 3), (2, 2), ((0, 1), (0, 1)), ("a", "b"), 84),
    ((3, 3), (2, 2), ((1, 0), (1, 0)), ("a", "b"), None),
    ((3, 3), (1, 1), ((1, 1), (1, 1)), ("a", "b"), None),
    ((4, 1), (2, 1), ((1, 1), (0, 0)), ("a", None), None),
    ((3, 3), (2, 2), ((0, 1), (0, 1)), ("b", None), None),
    ((3, 2), (3, 2), ((0, 2), (0, 0)), ("a", "b"), None),
    ((5, 3), (4, 3), ((1, 0), (0, 0)), (None, "a"), None),
]


@pytest.mark.parametrize("window, stride, padding, spec, sent", CASES)
def test_gradients_of_pools_equal_numpy(window, stride, padding, spec, sent, rng):
    x = rng.permutation(16 * 12).reshape(16, 12).astype(np.float32) - 90
    run = gradient(window, stride, padding, spec)
    np.testing.assert_array_equal(np.asarray(run(x)), pooled_gradient(x, window, stride, padding))
    if sent is not None:
        report = weft.comm(run, x)
        assert {c.kind for c in report.collectives} <= {"collective_permute"}
        assert report.total_bytes <= 4 * sent, report


def test_padding_wins_no_window_of_negative_numbers(rng):
    x = -1 - rng.permutation(16 * 12).reshape(16, 12).astype(np.float32)
    window, stride, padding = (3, 3), (2, 2), ((1, 1), (1, 1))
    for spec in [("a", "b"), (None, "b"), ()]:
        run = gradient(window, stride, padding, spec)
        np.testing.assert_array_equal(
            np.asarray(run(x)), pooled_gradient(x, window, stride, padding)
        )
