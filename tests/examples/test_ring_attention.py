"""Ring attention: causal softmax attention, by messages between neighbours alone."""

import numpy as np

import weft
from examples import ring_attention
from weft import P


def attention(q, k, v):
    scores = np.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1])
    scores = np.where(np.tri(q.shape[1], dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("bhqk,bkhd->bqhd", weights / weights.sum(-1, keepdims=True), v)


def test_it_is_causal_attention_and_so_is_its_derivative(rng):
    mesh = weft.make_mesh((4,), ("ring",), axis_types=(weft.AxisType.Auto,))
    ring = ring_attention.over(mesh)
    q, k, v, ct = (rng.standard_normal((2, 16, 2, 4)).astype(np.float32) for _ in range(4))

    @weft.jit
    def both(q, k, v, ct):
        out, pull = weft.vjp(ring, q, k, v)
        return out, pull(ct)

    placed = weft.device_put((q, k, v, ct), weft.NamedSharding(mesh, P(None, "ring")))
    out, grads = both(*placed)
    np.testing.assert_allclose(out, attention(q, k, v), rtol=1e-4, atol=1e-5)
    # A derivative in a random direction, by differences of the reference in double precision.
    for i, grad in enumerate(grads):
        direction = rng.standard_normal(q.shape)
        moved = [[x.astype(float) for x in (q, k, v)] for _ in range(2)]
        moved[0][i] += 1e-5 * direction
        moved[1][i] -= 1e-5 * direction
        slope = ((attention(*moved[0]) - attention(*moved[1])) * ct).sum() / 2e-5
        np.testing.assert_allclose((grad * direction).sum(), slope, rtol=1e-3, atol=1e-3)
    counts = weft.comm(both, *placed).counts()
    assert set(counts) == {"collective_permute"}
