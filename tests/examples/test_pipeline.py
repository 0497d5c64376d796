"""The pipeline computes its layers in order, and sums the gradient of weights once."""

import numpy as np

import weft
from examples import pipeline
from weft import P


def layers(weights, x):
    for matrix, bias in zip(*weights, strict=True):
        y = x @ matrix + bias
        x = x + y / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (y + 0.044715 * y**3)))
    return x


def test_microbatches_pass_through_all_layers_and_gradients_are_summed_once(rng):
    mesh = weft.make_mesh((4, 2), ("stage", "data"), axis_types=(weft.AxisType.Auto,) * 2)
    weights = [np.asarray(w) for w in pipeline.init(weft.random.key(0))]
    x = rng.standard_normal((3, 4, pipeline.WIDTH)).astype(np.float32)
    forward = pipeline.over(mesh)

    @weft.jit
    def both(weights, x):
        out, pull = weft.vjp(forward, weights, x)
        return out, *pull(weft.numpy.ones_like(out))

    placed = weft.device_put(tuple(weights), weft.NamedSharding(mesh, P("stage")))
    batches = weft.device_put(x, weft.NamedSharding(mesh, P(None, "data")))
    out, (of_matrices, of_biases), _ = both(placed, batches)
    np.testing.assert_allclose(out, layers(weights, x), rtol=1e-4, atol=1e-4)
    assert of_matrices.sharding.spec == P("stage")
    exact = [w.astype(float) for w in weights]
    step = rng.standard_normal(exact[1].shape)
    sums = [layers((exact[0], exact[1] + sign * 1e-5 * step), x).sum() for sign in (1, -1)]
    np.testing.assert_allclose((of_biases * step).sum(), (sums[0] - sums[1]) / 2e-5, rtol=1e-3)
    over_data = [c for c in weft.comm(both, placed, batches).collectives if c.axes == ("data",)]
    assert [c.trips for c in over_data] == [1]
