"""Functions that JAX exported are read, called and differentiated."""

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from tests.export.jax_files import read
from weft.sharding import AxisType, NamedSharding

X = np.arange(3, dtype=np.float32)


def exported(name):
    return weft.export.deserialize(read(name))


def test_a_function_says_what_it_takes_is_called_and_differentiated():
    sine = exported("sine")
    assert sine.platforms == ("cpu",) and sine.nr_devices == 1
    assert sine.in_avals[0].shape == (3,) and sine.out_avals[0].dtype == np.float32
    np.testing.assert_allclose(sine.call(X), 2 * X * np.sin(X), rtol=1e-6)
    gradient = weft.jit(weft.grad(lambda x: sine.call(x).sum()))(X)
    np.testing.assert_allclose(gradient, 2 * np.sin(X) + 2 * X * np.cos(X), rtol=1e-5)
    with pytest.raises(ValueError, match=r"argument \[0\]\[0\] has type f32\[4\]"):
        sine.call(wnp.ones(4))


def test_what_was_read_is_written_in_wefts_own_format():
    again = weft.export.deserialize(exported("sine").serialize(vjp_order=1))
    np.testing.assert_allclose(again.call(X), 2 * X * np.sin(X), rtol=1e-6)
    assert again.has_vjp()


def test_structures_of_arguments_and_results_are_those_of_the_function():
    out = exported("tree").call({"a": np.ones((2, 3)), "b": [np.ones((3, 2))]}, k=np.int32(5))
    np.testing.assert_array_equal(out["s"], np.full((2, 2), 3))
    assert int(out["t"][0]) == 5 and out["t"][1] is None


def test_the_program_of_this_platform_is_chosen():
    assert exported("platforms").platforms == ("tpu", "cpu", "cuda")
    np.testing.assert_allclose(exported("platforms").call(X), np.sin(X), rtol=1e-6)


def test_random_keys_are_arguments_and_arguments_without_use_are_left_out():
    np.testing.assert_array_equal(exported("key").call(weft.random.key(7)), [1, 8])
    out = exported("unused").call(X, X, X.astype(wnp.bfloat16))
    np.testing.assert_array_equal(np.asarray(out, np.float32), X + 1)


def test_programs_for_several_devices_run_on_a_mesh_like_theirs():
    mesh = weft.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    x = np.arange(32, dtype=np.float32).reshape(8, 4)
    out = exported("sharded").call(weft.device_put(x, NamedSharding(mesh, weft.P("x", "y"))))
    np.testing.assert_array_equal(out, 2 * x.sum(0))
    line = weft.make_mesh((8,), ("x",))
    y = weft.device_put(np.arange(8, dtype=np.float32), NamedSharding(line, weft.P("x")))
    total = exported("shard_map")
    np.testing.assert_array_equal(total.call(y), [28])
    gradient = weft.grad(lambda y: (3 * total.call(y)).sum())(y)
    np.testing.assert_array_equal(gradient, np.full(8, 3))


@pytest.mark.parametrize(
    ("name", "use", "message"),
    [
        ("symbolic", lambda e: e, r"symbolic shape \(a\).*for given sizes, or again with weft"),
        (
            "integers",
            lambda e: weft.grad(lambda x: e.call(x, np.arange(3, dtype=np.int32)).sum())(X),
            "integers beside its VJP.*export its gradient",
        ),
    ],
)
def test_what_cannot_be_called_says_what_to_do(name, use, message):
    with pytest.raises(ValueError, match=message):
        use(exported(name))


def test_files_that_are_cut_off_are_refused():
    data = read("sine")
    for size in range(1, len(data) // 2, 97):
        with pytest.raises(ValueError, match=r"deserialize: |StableHLO artifact"):
            weft.export.deserialize(data[:size]).call(X)
    for size in range(0, 64, 7):
        with pytest.raises(ValueError, match="neither by weft's"):
            weft.export.deserialize(bytes(range(size)))
