"""Joins, paddings and repetitions, by the kernel of copies or by XLA, against NumPy's."""

import numpy as np
import pytest

import weft
import weft.numpy as wnp

CASES = {
    "roll": (lambda np, x: np.roll(x, 1717), (50_000,)),
    "roll of two dimensions": (lambda np, x: np.roll(x, (3, -5), (0, 1)), (300, 400)),
    "pad": (lambda np, x: np.pad(x, 8), (300, 400)),
    "pad of four dimensions": (
        lambda np, x: np.pad(x, ((1, 2), (0, 3), (4, 0), (0, 0)), constant_values=7),
        (20, 30, 8, 40),
    ),
    "pad by edges": (lambda np, x: np.pad(x, 8, mode="edge"), (300, 400)),
    "pad by reflection": (lambda np, x: np.pad(x, ((9, 0), (3, 4)), mode="reflect"), (300, 400)),
    "pad by wrapping": (lambda np, x: np.pad(x, ((9, 0), (3, 4)), mode="wrap"), (300, 400)),
    "tile": (lambda np, x: np.tile(x, 7), (5001,)),
    "tile of two dimensions": (lambda np, x: np.tile(x, (5, 3)), (50, 40)),
    "concatenate": (
        lambda np, x: np.concatenate([x[:90], x, np.zeros((30, 400), x.dtype), x[5:]]),
        (300, 400),
    ),
    "concatenate columns": (lambda np, x: np.concatenate([x[:, 7:], x], 1), (300, 400)),
    "stack": (lambda np, x: np.stack([x, x[::-1], x], 1), (300, 400)),
    "block": (lambda np, x: np.block([[x, x], [x, x]]), (300, 400)),
    "insert": (lambda np, x: np.insert(x, 1000, 3), (50_000,)),
    "delete": (lambda np, x: np.delete(x, slice(40, 45), 1), (300, 400)),
    "nine arrays": (lambda np, x: np.concatenate([x[k:] for k in range(9)]), (50_000,)),
}


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "complex64", "float16"])
@pytest.mark.parametrize("case", CASES)
def test_elements_go_where_numpy_has_them(case, dtype, rng):
    function, shape = CASES[case]
    x = (rng.standard_normal(shape) * 50).astype(dtype)
    result = weft.jit(lambda x: function(wnp, x))(x)
    np.testing.assert_array_equal(result, function(np, x))


@pytest.mark.parametrize("case", CASES)
def test_results_in_memory_are_one_copy(case, rng):
    function, shape = CASES[case]
    x = rng.standard_normal(shape).astype(np.float32)
    text = weft.jit(lambda x: function(wnp, x)).lower(x).compile().as_text()
    assert text.count("weft_native_moves") == text.count("custom-call(") == 1


def test_what_reads_a_copy_and_derivatives_are_right(rng):
    x = rng.standard_normal((300, 400)).astype(np.float32)
    laplacian = weft.jit(lambda x: wnp.roll(x, 1, 0) + wnp.roll(x, -1, 1) - 2 * x)
    expected = np.roll(x, 1, 0) + np.roll(x, -1, 1) - 2 * x
    np.testing.assert_allclose(laplacian(x), expected, rtol=1e-5, atol=1e-6)
    weights = rng.standard_normal((316, 416)).astype(np.float32)
    grad = weft.jit(weft.grad(lambda x: (wnp.pad(x, 8) * weights).sum()))(x)
    np.testing.assert_array_equal(grad, weights[8:-8, 8:-8])
    batch = weft.jit(weft.vmap(lambda row: wnp.roll(row, 3)))(x)
    np.testing.assert_array_equal(batch, np.roll(x, 3, 1))


def test_shards_are_moved_as_any(rng):
    x = rng.standard_normal((64, 4000)).astype(np.float32)
    mesh = weft.make_mesh((8,), ("x",), axis_types=(weft.AxisType.Auto,))
    spec = weft.sharding.NamedSharding(mesh, weft.P("x"))
    placed = weft.device_put(x, spec)
    np.testing.assert_array_equal(weft.jit(lambda x: wnp.roll(x, 5, 1))(placed), np.roll(x, 5, 1))
    np.testing.assert_array_equal(weft.jit(lambda x: wnp.roll(x, 5, 0))(placed), np.roll(x, 5, 0))
    np.testing.assert_array_equal(weft.jit(lambda x: wnp.pad(x, 3))(placed), np.pad(x, 3))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "float64", "complex64"])
@pytest.mark.parametrize(
    ("shape", "taken"), [((301, 129), (170,)), ((50, 7, 131), (9, 11)), ((3, 5000), (17,))]
)
def test_rows_taken_by_their_indices(shape, taken, dtype, rng):
    with weft.enable_x64(True):
        x = (rng.standard_normal(shape) * 100).astype(wnp.dtype(dtype))
        i = rng.integers(-shape[0], shape[0], taken)
        for index in (i.astype(np.int32), i.astype(np.int64)):
            compiled = weft.jit(lambda x, i: x[i]).lower(x, index).compile()
            assert "weft_native_take" in compiled.as_text()
            np.testing.assert_array_equal(compiled(x, index), x[index])


def test_indices_out_of_bounds_take_the_nearest_row_or_none(rng):
    x = rng.standard_normal((90, 300)).astype("float32")
    i = np.array([0, 89, 90, -91, 2**31 - 1, -(2**31), 5, -1], np.int32)
    clipped = weft.jit(lambda x, i: wnp.take(x, i, 0, mode="clip"))(x, i)
    np.testing.assert_array_equal(clipped, x[np.clip(i, 0, 89)])
    filled = weft.jit(lambda x, i: wnp.take(x, i, 0, mode="fill"))(x, i)
    inside = (i >= -90) & (i < 90)
    np.testing.assert_array_equal(filled, np.where(inside[:, None], x[i * inside], np.nan))


def test_rows_that_are_read_by_a_loop_are_taken_in_it_and_have_derivatives(rng):
    x = rng.standard_normal((200, 130)).astype("float32")
    i, c = rng.integers(0, 200, 300), rng.standard_normal((300, 130)).astype("float32")
    f = weft.jit(lambda x, i: (x[i] * 2 + c).sum(1))
    assert "weft_native_take" not in f.lower(x, i).compile().as_text()
    np.testing.assert_allclose(f(x, i), (x[i] * 2 + c).sum(1), rtol=1e-4, atol=1e-4)
    want = np.zeros_like(x)
    np.add.at(want, i, c)
    gradient = weft.jit(weft.grad(lambda x: wnp.vdot(x[i], c)))(x)
    np.testing.assert_allclose(gradient, want, rtol=1e-4, atol=1e-4)
    got = weft.jit(weft.vmap(lambda x, i: x[i]))(np.stack([x, -x]), np.stack([i, i[::-1]]))
    np.testing.assert_array_equal(got, np.stack([x[i], -x[i[::-1]]]))
    mesh = weft.make_mesh((8,), ("x",), axis_types=(weft.AxisType.Auto,))
    for spec in (weft.P("x"), weft.P(None, "x")):
        placed = weft.device_put(np.tile(x, (1, 8)), weft.NamedSharding(mesh, spec))
        np.testing.assert_array_equal(weft.jit(lambda x, i: x[i])(placed, i), np.tile(x[i], 8))
