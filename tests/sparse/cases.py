"""Arrays with zeros, and how their sparse forms are compared with NumPy."""

import numpy as np

from weft.sparse import BCOO

LAYOUTS = [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0)]
"""(n_batch, n_dense)"""


def holes(rng, *shape, share=0.5):
    """Floats of which a share are zero."""
    x = rng.normal(size=shape) * (rng.random(shape) >= share)
    return x.astype(np.float32)


def padded(x, n_batch=0, n_dense=0, more=3):
    """A BCOO that stores padding, and some elements in two parts."""
    m = BCOO.fromdense(x, n_batch=n_batch, n_dense=n_dense)
    m = BCOO.fromdense(x, n_batch=n_batch, n_dense=n_dense, nse=m.nse + more)
    bufs = [np.concatenate([np.asarray(b), np.asarray(b)], n_batch) for b in m._bufs]
    return BCOO((bufs[0] / np.float32(2), bufs[1]), shape=x.shape)


def close(got, want, **options):
    dense = got.todense() if hasattr(got, "todense") else got
    np.testing.assert_allclose(dense, want, **{"rtol": 1e-5, "atol": 1e-5, **options})
