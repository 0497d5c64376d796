"""Softmax of rows in memory by a native kernel, against NumPy in float64."""

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import nn


def softmax(x, axis=-1):
    e = np.exp(x.astype(np.float64) - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def is_kernel(f, *operands):
    return "weft_native_softmax" in weft.jit(f).lower(*operands).compile().as_text()


@pytest.mark.parametrize("shape", [(300, 33), (70, 4, 61), (130, 1000), (65, 4099), (257, 64)])
@pytest.mark.parametrize("spread", [0.1, 10, 1000])
def test_softmax_of_rows_is_exact_to_rounding(shape, spread, rng):
    x = (rng.standard_normal(shape) * spread).astype("float32")
    assert is_kernel(nn.softmax, x)
    got = np.asarray(weft.jit(nn.softmax)(x))
    # The kernel subtracts the maximum in float32, as the definition on float32 does.
    want = softmax(x - x.max(-1, keepdims=True))
    normal = want > 2e-38
    np.testing.assert_allclose(got[normal], want[normal], rtol=1e-6)
    assert (got[~normal] <= 2e-38).all()
    np.testing.assert_allclose(got.sum(-1), 1, rtol=1e-5)


def test_rows_with_nans_and_infinities_are_nan(rng):
    x = rng.standard_normal((400, 71)).astype("float32")
    x[1, 3], x[2, 70], x[3], x[4, 5], x[5, :60] = np.nan, np.inf, -np.inf, -np.inf, -np.inf
    got = np.asarray(weft.jit(nn.softmax)(x))
    assert np.isnan(got[1:4]).all()
    np.testing.assert_allclose(got[4:], softmax(x[4:]), rtol=1e-5)
    assert (got[5, :60] == 0).all()


def test_derivatives_batches_and_shards_of_softmax(rng):
    x, c = rng.standard_normal((2, 160, 90)).astype("float32")
    y = softmax(x)
    gradient = weft.jit(weft.grad(lambda x: (nn.softmax(x) * c).sum()))(x)
    np.testing.assert_allclose(gradient, y * (c - (y * c).sum(-1, keepdims=True)), atol=1e-6)
    got = weft.jit(weft.vmap(nn.softmax, 1, 1))(x)
    np.testing.assert_allclose(got, softmax(x, 0), rtol=1e-5)
    mesh = weft.make_mesh((8,), ("x",), axis_types=(weft.AxisType.Auto,))
    for spec in (weft.P("x"), weft.P(None, "x")):
        placed = weft.device_put(wnp.tile(x, (4, 4)), weft.NamedSharding(mesh, spec))
        np.testing.assert_allclose(weft.jit(nn.softmax)(placed), np.tile(y / 4, (4, 4)), rtol=1e-5)


def test_softmax_stays_fused_with_what_makes_its_operand_and_with_products(rng):
    x = rng.standard_normal((8, 100, 100)).astype("float32")
    assert not is_kernel(lambda x: nn.softmax(x * 3), x)
    assert not is_kernel(lambda x: nn.softmax(x) @ x, x)
    assert not is_kernel(lambda x: nn.softmax(x, 1), x)
