"""Reductions of segments against NumPy."""

import numpy as np
import pytest

import weft
from weft import ops

R = np.random.default_rng(1)
IDS = np.array([2, 0, 0, 3, 2, 0, 7, -1], np.int32)
KINDS = {
    "segment_sum": (np.add, 0),
    "segment_prod": (np.multiply, 1),
    "segment_max": (np.maximum, -np.inf),
    "segment_min": (np.minimum, np.inf),
}


def reference(name, data, ids, count):
    ufunc, start = KINDS[name]
    out = np.full((count, *data.shape[1:]), start, np.float64)
    inside = (ids >= 0) & (ids < count)
    ufunc.at(out, ids[inside], data[inside])
    return out


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("shape", [(8,), (8, 3)])
@pytest.mark.parametrize("bucket_size", [None, 3])
def test_segments_reduce_as_ufunc_at(name, shape, bucket_size):
    data = R.standard_normal(shape).astype(np.float32)
    got = getattr(ops, name)(data, IDS, 5, bucket_size=bucket_size)
    np.testing.assert_allclose(got, reference(name, data, IDS, 5), rtol=1e-5, atol=1e-6)


def test_the_number_of_segments_is_that_of_the_greatest():
    assert ops.segment_sum(np.ones(8, np.float32), IDS).shape == (8,)
    assert ops.segment_sum(np.ones(0, np.float32), np.zeros(0, np.int32)).shape == (0,)


def test_empty_segments_of_integers_hold_the_ends():
    data, ids = np.array([4, 5], np.int8), np.array([0, 2])
    assert ops.segment_max(data, ids).tolist() == [4, -128, 5]
    assert ops.segment_min(data, ids).tolist() == [4, 127, 5]


def test_segments_compile_batch_and_differentiate():
    data = R.standard_normal((2, 8)).astype(np.float32)
    run = weft.jit(weft.vmap(lambda d: ops.segment_sum(d, IDS, num_segments=4)))
    want = np.stack([reference("segment_sum", d, IDS, 4) for d in data])
    np.testing.assert_allclose(run(data), want, rtol=1e-5, atol=1e-6)
    weights = np.float32([1, 2, 3, 4])
    grad = weft.grad(lambda d: (ops.segment_sum(d, IDS, 4) * weights).sum())(data[0])
    inside = (IDS >= 0) & (IDS < 4)
    np.testing.assert_array_equal(grad, np.where(inside, weights[np.clip(IDS, 0, 3)], 0))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: ops.segment_sum(np.ones(3), np.ones(3)), TypeError, "must be integers"),
        (lambda: ops.segment_sum(np.ones(3), np.array([1, 2])), ValueError, "one number for each"),
        (lambda: ops.segment_sum(np.ones(2), np.array([0, 1]), -1), ValueError, "negative"),
        (
            lambda: ops.segment_sum(np.ones(2), np.array([0, 1]), bucket_size=0),
            ValueError,
            "bucket",
        ),
        (
            lambda: weft.jit(ops.segment_sum)(np.ones(2), np.array([0, 1])),
            TypeError,
            "must be given while tracing",
        ),
        (
            lambda: weft.jit(ops.segment_sum)(np.ones(2), np.array([0, 1]), 2),
            TypeError,
            "an int known while tracing",
        ),
    ],
)
def test_errors_name_the_argument(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_scalars_are_one_element():
    np.testing.assert_array_equal(ops.segment_max(np.float32(3), np.int32(1), 2), [-np.inf, 3])
    np.testing.assert_array_equal(ops.segment_sum(np.float32(3), 0, 2), [3, 0])


@pytest.mark.parametrize("spec", ["x", None])
@pytest.mark.parametrize("name", ["segment_sum", "segment_max"])
def test_the_sharding_of_the_result_decides_where_data_and_ids_are_split(name, spec):
    mesh = weft.make_mesh((4,), ("x",), axis_types=(weft.AxisType.Explicit,))
    data, ids = np.arange(8.0, dtype=np.float32), np.arange(8) % 4
    with weft.set_mesh(mesh):
        split = [weft.device_put(v, weft.P("x")) for v in (data, ids)]
        out = getattr(ops, name)(*split, 4, out_sharding=weft.P(spec))
        assert weft.typeof(out).sharding.spec.used_axes() == ({"x"} if spec else set())
    rows = data.reshape(2, 4)
    np.testing.assert_array_equal(out, rows.sum(0) if name == "segment_sum" else rows.max(0))


@pytest.mark.parametrize("name", KINDS)
def test_one_value_is_the_data_of_all_segment_ids(name):
    got = getattr(ops, name)(np.float32(3), IDS, 4)
    np.testing.assert_array_equal(got, reference(name, np.full(8, 3.0), IDS, 4))
