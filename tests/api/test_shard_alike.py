"""shard_alike: two values that are placed alike."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import P, lax
from weft.shard_alike import shard_alike
from weft.sharding import AxisType, NamedSharding

GRID = weft.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)


@pytest.fixture
def split(rng):
    x = rng.standard_normal((8, 16)).astype(np.float32)
    return weft.device_put(x, NamedSharding(GRID, P("x", "y")))


def alike(x):
    return shard_alike(x, jnp.ones((8, 16)))[1]


def in_a_loop(x):
    step = lambda _, c: shard_alike(c[0] + 1, c[1] * 2)  # noqa: E731
    return lax.fori_loop(0, 3, step, (x, jnp.ones((8, 16))))[1]


def batched(x):
    return weft.vmap(lambda row: shard_alike(row, jnp.ones(16))[1])(x)


def mirrored(x):
    return shard_alike(jnp.ones((8, 16)), x)[0]


@pytest.mark.parametrize("partitioner", ["weft", "xla"])
@pytest.mark.parametrize("f", [alike, in_a_loop, batched, mirrored])
def test_a_value_is_split_as_the_other_one(f, split, partitioner):
    out = weft.jit(f, partitioner=partitioner)(split)
    assert out.sharding.spec == P("x", "y")
    np.testing.assert_array_equal(out, np.full((8, 16), 8.0 if f is in_a_loop else 1.0))


def test_values_and_cotangents_of_trees_pass_through(split):
    def f(tree, other):
        (a,), (b,) = shard_alike((tree,), (other,))
        return (a["v"] * b["v"]).sum()

    other = np.arange(128, dtype=np.float32).reshape(8, 16)
    a, b = weft.jit(weft.grad(f, (0, 1)))({"v": split}, {"v": other})
    np.testing.assert_array_equal(a["v"], other)
    np.testing.assert_array_equal(b["v"], split)
    assert a["v"].sharding.spec == b["v"].sharding.spec == P("x", "y")
    _, tangent = weft.jvp(lambda x: f({"v": x}, {"v": other}), (split,), (jnp.ones_like(split),))
    np.testing.assert_allclose(tangent, other.sum())


def test_without_devices_to_split_over_nothing_happens():
    x, y = shard_alike(np.arange(3), np.ones(3))
    np.testing.assert_array_equal(x, np.arange(3))
    np.testing.assert_array_equal(weft.jit(lambda x: shard_alike(x, y)[1])(x), np.ones(3))


@pytest.mark.parametrize(
    ("x", "y", "words"),
    [
        ((np.ones(3),), [np.ones(3)], "give them one"),
        (np.ones(3), np.ones((3, 1)), "leaf 0 has type .* in x and .* in y"),
    ],
)
def test_trees_of_other_structure_or_shape_are_refused(x, y, words):
    with pytest.raises(ValueError, match=words):
        shard_alike(x, y)
