"""Products rounded to MXFP8 and NVFP4: exact where the format is, close elsewhere."""

import ml_dtypes
import numpy as np
import pytest

import weft
from weft import nn

R = np.random.default_rng(6)
DIMS = (((1,), (1,)), ((), ()))


def rounded(x, mode):
    """The operand after rounding, by the definition of the format."""
    size, dtype, top = {
        "mxfp8": (32, ml_dtypes.float8_e4m3fn, 448.0),
        "nvfp4": (16, ml_dtypes.float4_e2m1fn, 6.0),
    }[mode]
    blocks = x.reshape(*x.shape[:-1], -1, size)
    scale = np.abs(blocks).max(-1, keepdims=True) / top
    if mode == "mxfp8":
        scale = np.exp2(np.ceil(np.log2(scale)))
    else:
        scale = scale.astype(ml_dtypes.float8_e4m3fn).astype(np.float32)
    values = np.clip(blocks / scale, -top, top).astype(dtype).astype(np.float32)
    return (values * scale).reshape(x.shape)


@pytest.mark.parametrize("mode", ["mxfp8", "nvfp4"])
def test_products_are_those_of_the_rounded_operands(mode):
    x, y = (R.standard_normal((n, 64)).astype(np.float32) for n in (3, 5))
    configs = [nn.get_scaled_dot_general_config(mode)] * 3
    got = nn.scaled_dot_general(x, y, DIMS, configs=configs)
    want = rounded(x, mode) @ rounded(y, mode).T
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_batch_and_free_dimensions_may_stand_anywhere():
    x = R.integers(-4, 5, (32, 2, 3)).astype(np.float32)
    y = R.integers(-4, 5, (4, 2, 32)).astype(np.float32)
    configs = [nn.get_scaled_dot_general_config("mxfp8")] * 3
    got = nn.scaled_dot_general(x, y, (((0,), (2,)), ((1,), (1,))), configs=configs)
    np.testing.assert_allclose(got, np.einsum("kbm,nbk->bmn", x, y), rtol=1e-6)


def test_gradients_are_those_of_the_product_up_to_rounding():
    x, y = (R.standard_normal((n, 32)).astype(np.float32) for n in (32, 32))
    ct = R.standard_normal((32, 32)).astype(np.float32)
    configs = [nn.get_scaled_dot_general_config("mxfp8")] * 3
    loss = lambda x, y: (nn.scaled_dot_general(x, y, DIMS, configs=configs) * ct).sum()
    dx, dy = weft.grad(loss, argnums=(0, 1))(x, y)
    for got, want in ((dx, ct @ y), (dy, ct.T @ x)):
        assert np.abs(np.asarray(got) - want).max() < 0.06 * np.abs(want).max()


def test_without_configurations_nothing_is_rounded():
    x = R.standard_normal((3, 7)).astype(np.float32)
    np.testing.assert_allclose(nn.scaled_dot_general(x, x, DIMS), x @ x.T, rtol=1e-5)


def test_errors_say_what_the_format_needs():
    with pytest.raises(ValueError, match="'nvfp4' or 'mxfp8'"):
        nn.get_scaled_dot_general_config("fp8")
    x = np.ones((2, 30), np.float32)
    configs = [nn.get_scaled_dot_general_config("mxfp8")] * 3
    with pytest.raises(ValueError, match="multiple of the block size 32"):
        nn.scaled_dot_general(x, x, DIMS, configs=configs)
