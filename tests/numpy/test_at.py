"""x.at[index]: updates against NumPy's in-place ones, modes, derivatives, dtypes, errors."""

import numpy as np
import pytest

import weft
import weft.numpy as wnp

X = np.arange(60, dtype=np.float32).reshape(3, 4, 5) + 1
A = np.array
INDICES = [
    0,
    -1,
    slice(1, 3),
    slice(None, None, -2),
    (slice(None, None, 2), slice(3, 0, -2), slice(1, 4)),
    (1, None, Ellipsis, slice(0, 2)),
    Ellipsis,
    (slice(2, 2),),
    A([0, 2, 0]),
    (slice(None), A([[0, 1], [1, 3]])),
    (A([0, 2]), slice(1, 3), A([1, 3])),
    (slice(None, None, 2), A([1, 1]), slice(None, None, -2)),
    A([True, False, True]),
    X % 3 == 0,
    (True, 0),
    (slice(None), [0, -1]),
]
UFUNCS = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "mul": np.multiply,
    "divide": np.divide,
    "power": np.power,
    "min": np.minimum,
    "max": np.maximum,
}


def values(shape):
    rng = np.random.default_rng(3)
    return rng.uniform(0.5, 2.0, shape).astype(np.float32)


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_set_and_add_equal_numpys_in_place_updates(index):
    x, y = wnp.asarray(X), values(X[index].shape)
    expected = X.copy()
    np.add.at(expected, index, y)
    np.testing.assert_allclose(x.at[index].add(y), expected, rtol=1e-6)
    np.testing.assert_allclose(weft.jit(lambda x, y: x.at[index].add(y))(x, y), expected, rtol=1e-6)
    expected = X.copy()
    expected[index] = 7
    np.testing.assert_array_equal(x.at[index].set(7), expected)
    np.testing.assert_array_equal(weft.jit(lambda x: x.at[index].set(7.0))(x), expected)


@pytest.mark.parametrize("name", UFUNCS)
@pytest.mark.parametrize("index", [(1, slice(0, 4, 3)), A([2, 0, 2])], ids=["static", "array"])
def test_other_updates_equal_numpys_ufunc_at(name, index):
    y = values(X[index].shape)
    expected = X.copy()
    UFUNCS[name].at(expected, index, y)
    out = getattr(wnp.asarray(X).at[index], name)(y)
    np.testing.assert_allclose(out, expected, rtol=1e-5)


def test_apply_calls_a_scalar_function_for_each_occurrence():
    x = wnp.asarray(X[0, 0])
    seen = []
    f = lambda v: (seen.append(v.shape), v * 10)[1]
    np.testing.assert_array_equal(x.at[1:3].apply(f), [1, 20, 30, 4, 5])
    np.testing.assert_array_equal(x.at[A([0, 0, 4])].apply(f), [100, 2, 3, 4, 50])
    assert set(seen) == {()}


def test_traced_scalars_update_one_window():
    f = weft.jit(lambda x, i, y: x.at[i, 1:3].set(y))
    y = values((2, 5))
    for i in (0, -1):
        expected = X.copy()
        expected[i, 1:3] = y
        np.testing.assert_array_equal(f(X, i, y), expected)
    np.testing.assert_array_equal(f(X, 5, y), X)


def test_updates_out_of_bounds_are_dropped_unless_clipped():
    v = wnp.arange(4.0)
    i = wnp.asarray(9)
    for index in (9, i, A([9]), -7):
        np.testing.assert_array_equal(v.at[index].set(5.0), [0, 1, 2, 3])
    for index in (9, i, A([9])):
        np.testing.assert_array_equal(v.at[index].add(5.0, mode="clip"), [0, 1, 2, 8])
    np.testing.assert_array_equal(v.at[A([-1])].set(5.0, wrap_negative_indices=False), [0, 1, 2, 3])


def test_get_chooses_what_is_read_out_of_bounds():
    v = wnp.arange(4)
    for index in (9, wnp.asarray(9)):
        assert v.at[index].get() == 3
        assert v.at[index].get(mode="fill", fill_value=-1) == -1
        assert v.at[index].get(mode="fill") == np.iinfo(np.int32).min
    np.testing.assert_array_equal(v.at[A([1, 9])].get(mode="clip"), [1, 3])
    np.testing.assert_array_equal(v.at[A([1, 9])].get(mode="fill", fill_value=7), [1, 7])


def test_values_broadcast_and_keep_the_arrays_dtype():
    x = wnp.asarray(X)
    expected = X.copy()
    expected[:, 1:3] = np.arange(5)
    np.testing.assert_array_equal(x.at[:, 1:3].set(np.arange(5)), expected)
    half = wnp.ones(3, "bfloat16").at[0].add(2.0)
    assert half.dtype == "bfloat16" and half[0] == 3
    assert wnp.arange(3, dtype="uint8").at[1].set(200).dtype == "uint8"
    with pytest.warns(FutureWarning, match="do not fit"):
        assert wnp.arange(3).at[1].set(2.7)[1] == 2


def test_updates_differentiate_in_array_and_values():
    index = (slice(0, 3, 2), 1)
    w = values(X.shape)
    y = values((2, 5))
    f = lambda x, y: (x.at[index].set(y) * w).sum()
    gx, gy = weft.grad(f, argnums=(0, 1))(X, y)
    expected = w.copy()
    expected[index] = 0
    np.testing.assert_array_equal(gx, expected)
    np.testing.assert_array_equal(gy, w[index])
    gx, gy = weft.grad(lambda x, y: (x.at[index].multiply(y) * w).sum(), argnums=(0, 1))(X, y)
    expected = w.copy()
    expected[index] *= y
    np.testing.assert_allclose(gx, expected, rtol=1e-6)
    np.testing.assert_allclose(gy, w[index] * X[index], rtol=1e-6)


def test_updates_batch_over_array_index_and_values():
    f = weft.vmap(lambda x, i, y: x.at[i].set(y))
    out = f(X[0], np.array([0, 3, -1, 2]), np.array([-1.0, -2.0, -3.0, -4.0], np.float32))
    expected = X[0].copy()
    expected[np.arange(4), [0, 3, 4, 2]] = [-1, -2, -3, -4]
    np.testing.assert_array_equal(out, expected)


def test_static_updates_need_no_scatter():
    f = lambda x: x.at[1, ::2].add(1.0).at[:, 0].set(3.0)
    names = {e.primitive.name for e in weft.make_jaxpr(f)(X).jaxpr.eqns}
    assert "dynamic_update_slice" in names and not any("scatter" in n for n in names)


def test_wrong_values_and_assignment_are_explained():
    x = wnp.asarray(X)
    with pytest.raises(ValueError, match="do not broadcast to the indexed shape"):
        x.at[0].set(np.ones(3))
    with pytest.raises(TypeError, match="must be an array or a number"):
        x.at[0].set("a")
    with pytest.raises(TypeError, match="must be a function"):
        x.at[0].apply(3)
    with pytest.raises(TypeError, match=r"x.at\[index\].set"):
        x[0] = 1
    with pytest.raises(ValueError, match="mode must be one of"):
        x.at[0].set(1, mode="wrap")


def test_methods_take_promises_and_modes_by_name_only():
    x = wnp.arange(4.0)
    options = {"indices_are_sorted": True, "unique_indices": True, "mode": "drop"}
    ones_by_two = {
        "set": 2, "add": 3, "multiply": 2, "divide": 0.5, "power": 1, "subtract": -1, "min": 1,
        "max": 2,
    }  # fmt: skip
    for method, want in ones_by_two.items():
        got = getattr(x.at[np.array([1, 9])], method)(2.0, **options)
        np.testing.assert_array_equal(got, [0, want, 2, 3])
        with pytest.raises(TypeError, match="positional"):
            getattr(x.at[1], method)(2.0, True)
        with pytest.raises(TypeError, match="unknown"):
            getattr(x.at[1], method)(2.0, unknown=1)
    got = x.at[-1].get(wrap_negative_indices=False, mode="fill", fill_value=7.0)
    assert float(got) == 7


def test_a_host_array_replaces_all():
    x, y = np.float32([1, 2]), np.float32([3, 4])
    for got in (wnp.asarray(x).at[...].set(y), weft.jit(lambda v: v.at[:].set(y))(x)):
        assert isinstance(got, weft.Array)
        np.testing.assert_array_equal(got, y)


def test_updates_keep_a_weak_type():
    x = wnp.broadcast_to(wnp.asarray(2.0), (3,))
    for y in (x.at[0].set(1), x.at[...].add(np.float32(1)), x.at[np.array([0, 0])].multiply(3)):
        assert y.weak_type
    for f in (wnp.pad, wnp.insert, wnp.full_like):
        assert f(x, 1, *[np.float32(7)] * (f is wnp.insert)).weak_type
    assert wnp.diag(x).weak_type and wnp.tril(wnp.diag(x)).weak_type


def test_formulas_of_scalars_alone_are_weakly_typed():
    for f in (wnp.hypot, wnp.heaviside, wnp.gcd):
        assert f(3, 4).weak_type and not f(np.array([True]), 4).weak_type


def test_an_update_of_all_stays_where_the_array_is():
    mesh = weft.make_mesh((8,), ("s",), axis_types=(weft.AxisType.Auto,))
    x = weft.device_put(np.zeros((4, 8), np.float32), weft.NamedSharding(mesh, weft.P(None, "s")))
    for replace in (lambda x: x.at[:].set(1), lambda x: x.at[...].set(np.ones((4, 8)))):
        for out in (replace(x), weft.jit(replace)(x)):
            assert out.sharding.is_equivalent_to(x.sharding, 2)
            np.testing.assert_array_equal(out, np.ones((4, 8)))
    with weft.set_mesh(weft.make_mesh((8,), ("s",))):
        typed = weft.reshard(wnp.zeros((8, 2)), weft.P("s"))
        assert weft.typeof(typed.at[:].set(3)).str_short() == "f32[8@s,2]"
