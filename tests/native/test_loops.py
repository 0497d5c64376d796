"""Loops whose stacked results start as memory that nothing was written to."""

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import lax
from weft.sharding.mesh import Mesh
from weft.sharding.named import NamedSharding
from weft.sharding.spec import PartitionSpec as P

LENGTH, SIZE = 16, 4096


def running_sums(x, **how):
    def step(total, x):
        return total + x, (total, wnp.tanh(x))

    return lax.scan(step, wnp.zeros(x.shape[1:]), x, **how)


def expected(x, reverse):
    order = slice(None, None, -1 if reverse else 1)
    sums = np.cumsum(x[order], 0)[order]
    return x.sum(0), sums - x, np.tanh(x)


def check(result, x, reverse=False):
    total, (before, values) = result
    for got, want in zip((total, before, values), expected(x, reverse), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("unroll", [1, 3, 16])
@pytest.mark.parametrize("reverse", [False, True])
def test_every_row_of_stacked_results_is_written(rng, reverse, unroll):
    x = rng.standard_normal((LENGTH, SIZE)).astype(np.float32)
    check(weft.jit(lambda x: running_sums(x, reverse=reverse, unroll=unroll))(x), x, reverse)


def test_stacked_results_do_not_start_as_zeros(rng):
    x = rng.standard_normal((LENGTH, SIZE)).astype(np.float32)
    compiled = weft.jit(running_sums).lower(x).compile().as_text()
    assert "untouched" in compiled
    small = weft.jit(running_sums).lower(x[:, :8]).compile().as_text()
    assert "untouched" not in small


def test_carried_arrays_keep_rows_that_no_step_writes(rng):
    x = rng.standard_normal((LENGTH, SIZE)).astype(np.float32)

    @weft.jit
    def run(x):
        def step(carry, inputs):
            i, x = inputs
            return carry.at[i // 2].set(x), x + 1

        return lax.scan(step, wnp.zeros_like(x), (wnp.arange(LENGTH), x))

    kept, stacked = run(x)
    np.testing.assert_array_equal(kept[: LENGTH // 2], x[1::2])
    np.testing.assert_array_equal(kept[LENGTH // 2 :], 0)
    np.testing.assert_allclose(stacked, x + 1)


@pytest.mark.parametrize("spec", [P("d"), P(None, "d")])
@pytest.mark.parametrize("length", [LENGTH, 13])
def test_stacked_results_split_over_devices_are_complete(rng, spec, length):
    mesh = Mesh(np.array(weft.devices()[:8]), ("d",))
    x = rng.standard_normal((length, 8 * SIZE)).astype(np.float32)
    if spec[0] == "d":
        out = None, (NamedSharding(mesh, spec) if length == LENGTH else None, None)
    else:
        out = NamedSharding(mesh, P("d")), NamedSharding(mesh, spec)
    check(weft.jit(running_sums, out_shardings=out)(x), x)


def test_batches_and_gradients_of_stacked_results(rng):
    x = rng.standard_normal((3, LENGTH, SIZE)).astype(np.float32)

    def loss(x):
        _, (before, values) = running_sums(x)
        return (before * values).sum()

    gradients = weft.jit(weft.vmap(weft.grad(loss)))(x)
    for got, one in zip(gradients, x.astype(np.float64), strict=True):
        _, before, values = expected(one, False)
        after = np.cumsum(values[::-1], 0)[::-1] - values
        np.testing.assert_allclose(got, after + before * (1 - values**2), rtol=1e-4, atol=1e-4)
