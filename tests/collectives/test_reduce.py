"""psum and pmean: constants, booleans, dtypes, positional axes and pytrees."""

import numpy as np
import pytest

import weft
from tests.collectives.harness import mesh_of
from tests.spmd_reference import Machine
from weft import P, lax

N = 4
X = np.arange(1.0, N + 1, dtype=np.float32)
UNEQUAL = [[0, 2, 3], [1]]


def over_devices(body):
    mesh = mesh_of(Machine(i=N), ("i",))
    return weft.shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=P("i"))


def over_examples(body):
    return weft.vmap(lambda v: body(v[None])[0], axis_name="i")


both = pytest.mark.parametrize("over", [over_devices, over_examples])


@both
def test_the_sum_of_a_python_number_is_a_python_number(over):
    def body(v):
        one, half = lax.psum(1, "i"), lax.psum(0.5, "i")
        assert (type(one), one, type(half), half) == (int, N, float, N / 2)
        assert lax.psum(True, "i") == N
        assert lax.psum(1j, "i") == 4j
        return v

    weft.make_jaxpr(over(body))(X)


@both
def test_the_sum_of_a_constant_array_is_a_multiple_of_it(over):
    def body(v):
        return v * lax.psum(np.array([1.0, 2.0], np.float32), "i").sum()

    jaxpr = weft.make_jaxpr(over(body))(X)
    assert "psum" not in str(jaxpr)
    np.testing.assert_array_equal(over(body)(X), 12 * X)


@both
def test_the_sum_of_one_in_unequal_groups_is_the_size_of_the_own_group(over):
    out = over(lambda v: v * lax.psum(1, "i", axis_index_groups=UNEQUAL))(X)
    np.testing.assert_array_equal(out, [3, 2, 9, 12])


@both
def test_the_mean_in_unequal_groups_divides_by_the_size_of_the_own_group(over):
    out = over(lambda v: lax.pmean(v, "i", axis_index_groups=UNEQUAL))(X)
    np.testing.assert_allclose(out, [8 / 3, 2, 8 / 3, 8 / 3], rtol=1e-6)


@both
def test_booleans_are_counted(over):
    out = over(lambda v: lax.psum(v > 1, "i"))(X)
    assert out.dtype == np.int32
    np.testing.assert_array_equal(out, [3] * N)


@both
@pytest.mark.parametrize("dtype", ["int8", "uint8", "bfloat16", "complex64", "float32"])
def test_the_sum_keeps_the_dtype(over, dtype):
    x = weft.numpy.asarray(X).astype(dtype)
    out = over(lambda v: lax.psum(v, "i"))(x)
    assert str(out.dtype) == dtype
    np.testing.assert_array_equal(np.asarray(out).astype(np.complex64), [10] * N)


@both
def test_the_mean_of_integers_is_a_float(over):
    out = over(lambda v: lax.pmean(v.astype(int), "i"))(X)
    assert out.dtype == np.float32
    np.testing.assert_array_equal(out, [2.5] * N)


@both
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_the_mean_of_small_integers_does_not_wrap_around(over, dtype):
    x = np.array([100, 127, 90, 101], dtype)
    np.testing.assert_array_equal(over(lambda v: lax.pmean(v, "i"))(x), [x.mean()] * N)
    np.testing.assert_array_equal(
        over(lambda v: lax.pmean(v[:, None].repeat(2, 1), ("i", 1)))(x), [x.mean()] * N
    )


def test_positional_axes_are_summed_along_with_named_ones():
    x = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)

    def body(v):
        total = lax.psum(v, ("i", 1))
        return total, lax.pmean(v, (0, "i")), lax.psum(v, 0)

    total, mean, own = weft.vmap(body, axis_name="i", out_axes=(None, None, 0))(x)
    np.testing.assert_array_equal(total, x.sum((0, 2)))
    np.testing.assert_allclose(mean, x.mean((0, 1)))
    np.testing.assert_array_equal(own, x.sum(1))


def test_a_pytree_is_summed_leaf_by_leaf():
    def body(v):
        return lax.psum({"v": v, "more": (2 * v, [3.0])}, "i")

    out = weft.vmap(body, axis_name="i", out_axes=None)(X)
    assert out["v"] == 10 and out["more"][0] == 20 and out["more"][1] == [12.0]


def test_a_value_that_is_equal_already_is_promoted_and_counted_once_for_each_device():
    out = over_devices(lambda v: v + lax.psum(lax.psum(v, "i"), "i"))(X)
    np.testing.assert_array_equal(out, X + 40)


@both
def test_second_derivatives_of_a_sum(over):
    def f(x):
        return over(lambda v: lax.psum(v**3, "i") * v)(x).sum()

    def reference(x):  # f = S(x³) · S(x)
        return np.diag(6 * x * x.sum()) + 3 * (x**2)[:, None] + 3 * (x**2)[None]

    hessian = weft.jacfwd(weft.grad(f))(X)
    np.testing.assert_allclose(hessian, reference(X), rtol=1e-5)


def test_a_sum_over_an_axis_of_examples_and_one_of_devices_at_once():
    x = np.arange(12.0, dtype=np.float32).reshape(N, 3)

    def body(v):
        return weft.vmap(lambda w: w + lax.psum(w, ("j", "i")), 1, 1, axis_name="j")(v)

    np.testing.assert_array_equal(over_devices(body)(x), x + x.sum())
