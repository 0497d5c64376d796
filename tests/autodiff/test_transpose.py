"""Where cotangents are summed over devices, with explicit axes."""

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import P

mesh = weft.make_mesh((8,), ("d",))

USES = {
    "once": lambda x, g: x * g,
    "twice": lambda x, g: x * g + wnp.sin(x + g),
    "broadcast by hand": lambda x, g: (lambda wide: x * wide + wide)(wnp.broadcast_to(g, x.shape)),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_the_gradient_of_a_broadcast_operand_is_summed_where_its_rows_are(use, rng):
    rows = weft.NamedSharding(mesh, P("d"))
    x, g = rng.normal(size=(64, 16)).astype(np.float32), rng.normal(size=16).astype(np.float32)

    def loss(g, x):
        return (use(x, weft.reshard(g, P())) ** 2).sum()

    gradient = weft.jit(weft.grad(loss))
    placed = weft.device_put(g, rows), weft.device_put(x, rows)
    step = 1e-5 * rng.normal(size=16)

    def exact(g):
        wide = np.broadcast_to(g, x.shape)
        products = {"once": x * wide, "twice": x * wide + np.sin(x + wide)}
        name = next(n for n, f in USES.items() if f is use)
        return (products.get(name, x * wide + wide) ** 2).sum()

    result = gradient(*placed)
    assert weft.typeof(result).sharding.spec == P("d")
    slope = (exact(g + step) - exact(g - step)) / 2
    np.testing.assert_allclose((result * step).sum(), slope, rtol=2e-3)
    if use is not USES["broadcast by hand"]:  # two cotangents of one wide value meet in its type
        assert max(c.bytes for c in weft.comm(gradient, *placed).collectives) <= 16 * 4 * 2
