"""Whole programs through `weft.jit` with weft's partitioner equal NumPy, whatever the sharding."""

import numpy as np
import pytest

import weft
from tests.partition.corpus import CORPUS, shardings
from weft import NamedSharding, P

MESHES = ({"x": 4, "y": 2}, {"x": 2, "y": 2, "z": 2}, {"data": 8})


@pytest.mark.parametrize("variant", range(len(MESHES)))
@pytest.mark.parametrize("name", sorted(CORPUS))
def test_sharded_programs_equal_numpy(name, variant, rng):
    entry, sizes = CORPUS[name], MESHES[variant]
    mesh = weft.make_mesh(tuple(sizes.values()), tuple(sizes), (weft.AxisType.Auto,) * len(sizes))
    args = entry.arguments(rng)
    specs = tuple(NamedSharding(mesh, P(*shardings(rng, sizes, a.shape))) for a in args)
    function = weft.jit(entry.run(weft.numpy), in_shardings=specs, partitioner="weft")
    got = function(*args)
    got = got if isinstance(got, tuple) else (got,)
    for a, b in zip(got, entry.expected(*args), strict=True):
        np.testing.assert_allclose(np.asarray(a), b, rtol=2e-4, atol=2e-5)
