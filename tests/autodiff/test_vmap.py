"""vmap: axes as trees, names, sizes, nesting, and what stays unbatched."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from tests.api.helpers import close
from weft import P, lax
from weft.sharding import AxisType

X = np.arange(12, dtype=np.float32).reshape(3, 4)
ROW = np.array([1.0, -1.0, 2.0, 0.5], np.float32)


@pytest.mark.parametrize("in_axis", [0, 1, -1, -2])
@pytest.mark.parametrize("out_axis", [0, 1, -1, -2])
def test_every_pair_of_axes_moves_the_batch_dimension(in_axis, out_axis):
    got = weft.vmap(lambda x: x * 2 + jnp.sum(x), in_axes=in_axis, out_axes=out_axis)(X)
    rows = np.moveaxis(X, in_axis, 0)
    close(got, np.stack([r * 2 + r.sum() for r in rows], axis=out_axis))


def combine(p, y):
    return {"sum": p["a"] + p["b"][0] * y, "scaled": p["b"][1]}


ALL_MAPPED = ({"a": X, "b": (X, X)}, X)


def example(i):
    return {"a": X[i], "b": (X[i], X[i])}, X[i]


IN_AXES = {
    "one for all": (0, ALL_MAPPED, example),
    "one for each argument": ((0, None), (ALL_MAPPED[0], 2.0), lambda i: (example(i)[0], 2.0)),
    "a list": ([0, 0], ALL_MAPPED, example),
    "a whole tree": (
        ({"a": 0, "b": (None, 1)}, -1),
        ({"a": X, "b": (ROW, X.T)}, X.T),
        lambda i: ({"a": X[i], "b": (ROW, X[i])}, X[i]),
    ),
}


@pytest.mark.parametrize("name", IN_AXES)
@pytest.mark.parametrize("wrap", [lambda f: f, weft.jit], ids=["eager", "jit"])
def test_in_axes_are_a_prefix_of_the_arguments(name, wrap):
    in_axes, args, example = IN_AXES[name]
    want = [combine(*example(i)) for i in range(3)]
    got = wrap(weft.vmap(combine, in_axes=in_axes))(*args)
    close(got, {k: np.stack([w[k] for w in want]) for k in ("sum", "scaled")})


def test_a_prefix_entry_stands_for_a_whole_subtree():
    f = lambda p, y: p["a"] * y + p["b"][0] - p["b"][1]
    got = weft.vmap(f, in_axes=({"a": None, "b": 1}, 0))({"a": 2.0, "b": (X, 3 * X)}, ROW)
    close(got, np.stack([2 * ROW[i] + X[:, i] - 3 * X[:, i] for i in range(4)]))


def test_out_axes_are_a_prefix_of_the_result():
    f = lambda x: {"x": x, "pair": (x * 2, jnp.sum(x)), "none": None}
    got = weft.vmap(f, out_axes={"x": 1, "pair": (-1, 0), "none": None})(X)
    close(got, {"x": X.T, "pair": (2 * X.T, X.sum(1)), "none": None})


def test_results_that_are_not_batched_stay_so_or_are_broadcast():
    f = lambda x, y: (x * y, y + 1, 3.0)
    got = weft.vmap(f, in_axes=(0, None), out_axes=(0, None, None))(X, 2.0)
    close(got, (2 * X, 3.0, 3.0))
    got = weft.vmap(f, in_axes=(0, None))(X, ROW)
    close(got, (X * ROW, np.stack([ROW + 1] * 3), [3.0] * 3))
    close(weft.vmap(lambda x: ROW, out_axes=1)(X), np.stack([ROW] * 3, 1))


def test_results_made_of_host_values_are_arrays():
    for f in (lambda x: x, lambda x: ROW, lambda x: lax.axis_index("i")):
        assert isinstance(weft.vmap(f, axis_name="i")(X), weft.Array)


def test_keyword_arguments_are_mapped_over_their_leading_axis():
    close(weft.vmap(lambda x, *, y: x @ y["z"], in_axes=(0,))(X, y={"z": X}), np.sum(X * X, 1))


def test_none_among_the_arguments_has_no_axis():
    close(weft.vmap(lambda t: t[0] * 2)((X, None)), 2 * X)
    close(weft.vmap(lambda x, t: x if t is None else -x, in_axes=(0, None))(X, None), X)


def test_arguments_that_are_not_mapped_may_be_anything():
    f = lambda x, how: -x if how == "negate" else x
    close(weft.vmap(f, in_axes=(0, None))(X, "negate"), -X)


def test_axis_size_serves_where_nothing_is_mapped():
    close(weft.vmap(lambda: 2.0, axis_size=3)(), [2.0] * 3)
    close(weft.vmap(lambda x: x, in_axes=None, axis_size=2)(ROW), [ROW, ROW])
    close(weft.vmap(lambda x: x, in_axes=None, out_axes=None, axis_size=2)(ROW), ROW)
    close(weft.vmap(lambda x: x + 1, axis_size=3)(X), X + 1)


def test_an_axis_of_size_zero_gives_empty_results():
    got = weft.vmap(lambda x: jnp.sin(x) @ jnp.ones(4))(np.zeros((0, 4), np.float32))
    assert got.shape == (0,)
    got = weft.vmap(weft.grad(lambda x: jnp.sum(x**2)))(np.zeros((0, 4), np.float32))
    assert got.shape == (0, 4)


def test_nested_maps_are_outer_products():
    table = weft.vmap(weft.vmap(lambda a, b: a * 10 + b, in_axes=(None, 0)), in_axes=(0, None))
    close(table(ROW, X[0]), ROW[:, None] * 10 + X[0][None])
    deep = weft.vmap(weft.vmap(weft.vmap(jnp.sin, out_axes=-1), in_axes=1, out_axes=1))
    y = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    close(deep(y), np.sin(y), 1e-4)


def test_named_axes_carry_collectives():
    close(weft.vmap(lambda x: x / lax.psum(x, "i"), axis_name="i")(ROW), ROW / ROW.sum())
    close(weft.vmap(lambda x: lax.pmax(x, "i"), axis_name="i", out_axes=None)(ROW), 2.0)
    close(weft.vmap(lambda x: lax.axis_index("i"), axis_name="i")(ROW), np.arange(4))
    assert int(weft.vmap(lambda x: lax.axis_size("i"), axis_name="i", out_axes=None)(ROW)) == 4
    close(weft.vmap(lambda x: lax.all_gather(x, "i"), axis_name="i")(ROW), np.stack([ROW] * 4))
    close(
        weft.vmap(lambda x: lax.ppermute(x, "i", [(k, (k + 1) % 4) for k in range(4)]),
                  axis_name="i")(ROW),
        np.roll(ROW, 1),
    )  # fmt: skip


def test_names_of_nested_maps_are_told_apart():
    f = lambda x: (lax.psum(x, "i"), lax.psum(x, "j"), lax.psum(x, ("i", "j")))
    inner = weft.vmap(f, axis_name="j", out_axes=(0, None, None))
    got = weft.vmap(inner, axis_name="i", out_axes=(None, 0, None))(X)
    close(got, (X.sum(0), X.sum(1), X.sum()))
    shadowed = weft.vmap(weft.vmap(lambda x: lax.psum(x, "i"), axis_name="i", out_axes=None),
                         axis_name="i")  # fmt: skip
    close(shadowed(X), X.sum(1))


def test_collectives_of_unmapped_values_count_the_axis():
    close(weft.vmap(lambda x: lax.psum(1, "i"), axis_name="i", out_axes=None)(ROW), 4)
    close(weft.vmap(lambda x, y: lax.psum(y, "i"), in_axes=(0, None), axis_name="i")(ROW, 2.0),
          [8.0] * 4)  # fmt: skip


def test_gradients_of_collectives_under_vmap():
    f = lambda x: lax.psum(x**2, "i")
    total = lambda x: jnp.sum(weft.vmap(f, axis_name="i")(x))
    close(weft.grad(total)(ROW), 4 * 2 * ROW)
    # Each example's own derivative: the cotangents of all copies of the sum come back.
    close(weft.vmap(weft.grad(f), axis_name="i")(ROW), 4 * 2 * ROW)


def test_spmd_axis_name_shards_the_new_dimension():
    mesh = weft.make_mesh((4, 2), ("x", "y"), axis_types=(weft.sharding.AxisType.Auto,) * 2)

    def f(x):
        return lax.with_sharding_constraint(x * 2, weft.NamedSharding(mesh, weft.P("y")))

    x = np.arange(32, dtype=np.float32).reshape(8, 4)
    out = weft.jit(weft.vmap(f, spmd_axis_name="x"))(x)
    close(out, 2 * x)
    assert out.sharding.spec == weft.P("x", "y")


def test_static_shapes_and_dtypes_inside_are_those_of_one_example():
    seen = []

    def f(x, y):
        seen.append((x.shape, x.ndim, x.dtype, y.shape, x.size, len(x)))
        return x

    weft.vmap(f, in_axes=(1, 0))(X, ROW)
    assert seen == [((3,), 1, np.dtype("float32"), (), 3, 3)]


def test_random_keys_are_batched_by_their_own_shape():
    keys = weft.random.split(weft.random.key(0), 3)
    got = weft.vmap(lambda k: weft.random.uniform(k, (2,)))(keys)
    want = [np.asarray(weft.random.uniform(k, (2,))) for k in keys]
    close(got, np.stack(want))


def test_vmap_of_an_update_at_an_index():
    index = np.array([0, 3, 1])
    close(weft.vmap(lambda x, i: x.at[i].set(9.0))(X, index),
          [np.where(np.arange(4) == i, 9.0, x) for x, i in zip(X, index, strict=True)])  # fmt: skip
    close(weft.vmap(lambda x, i: x[i])(X, index), X[np.arange(3), index])
    close(weft.vmap(lambda x, i: lax.dynamic_slice(x, (i,), (2,)))(X, np.array([0, 2, 9])),
          [X[0, :2], X[1, 2:], X[2, 2:]])  # fmt: skip


def test_the_wrapped_function_keeps_its_name():
    def loss(x):
        """Squares."""
        return x**2

    assert weft.vmap(loss).__name__ == "loss" and weft.vmap(loss).__doc__ == "Squares."


@pytest.mark.parametrize("run", [lambda f: f, weft.jit], ids=["eager", "jit"])
def test_sum_match_adds_up_mapped_results_that_have_no_out_axis(run):
    x = np.arange(6, dtype=np.float32).reshape(3, 2)

    def f(v):
        return {"sum": v * 2, "each": v, "same": np.float32(5)}

    out = run(weft.vmap(f, out_axes={"sum": None, "each": 0, "same": None}, sum_match=True))(x)
    np.testing.assert_array_equal(out["sum"], 2 * x.sum(0))
    np.testing.assert_array_equal(out["each"], x)
    assert out["same"] == 5
    total = run(weft.vmap(lambda v: v, in_axes=1, out_axes=None, sum_match=True))(x)
    np.testing.assert_array_equal(total, x.sum(1))


def test_without_sum_match_a_mapped_result_needs_an_axis():
    with pytest.raises(ValueError, match=r"out_axes is None for result.*sum_match=True"):
        weft.vmap(lambda v: v, out_axes=None)(np.ones(3))


@pytest.mark.parametrize("types", ["EE", "EA"])
@pytest.mark.parametrize("spec", [P(None, "x"), P()], ids=repr)
def test_explicit_axes_of_spmd_axis_name_that_split_no_argument_have_no_effect(types, spec):
    kinds = {"E": AxisType.Explicit, "A": AxisType.Auto}
    mesh = weft.make_mesh((4, 2), ("x", "y"), axis_types=tuple(kinds[t] for t in types))
    x = np.arange(64, dtype=np.float32).reshape(8, 8) / 9
    gradient = weft.grad(lambda v: jnp.sum(jnp.sin(v)))
    given = weft.device_put(x, weft.NamedSharding(mesh, spec))
    out = weft.jit(weft.vmap(gradient, spmd_axis_name="x"))(given)
    assert str(weft.typeof(out)) == str(weft.typeof(given))
    np.testing.assert_allclose(out, np.cos(x), rtol=1e-5, atol=1e-6)
