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
