"""A product whose left rows lie on many devices: each part is multiplied while the next arrives.

Instead of an all_gather and then one product, rows go round the ring of devices; the kernel of one
step needs nothing of the next, so the transfer hides behind it. Source: S. Wang et al., "Overlap
communication with dependent computation via decomposition in large deep learning models", ASPLOS
2023.
"""

from collections.abc import Callable

import weft
import weft.numpy as wnp
from examples.kernels.matmul import matmul
from weft import lax


def all_gather_matmul(x: weft.Array, w: weft.Array, axis: str) -> weft.Array:
    """all_gather(x) @ w inside shard_map: x[m, k] rows of this device, w[k, n] its columns."""
    size, me = lax.axis_size(axis), lax.axis_index(axis)
    m = x.shape[0]
    out = wnp.zeros((size * m, w.shape[1]), x.dtype)
    to_left = [(i, (i - 1) % size) for i in range(size)]
    for step in range(size):
        following = lax.ppermute(x, axis, to_left) if step < size - 1 else x
        part = matmul(x, w, block_m=min(128, m), block_n=min(128, w.shape[1]))
        out = lax.dynamic_update_slice(out, part, ((me + step) % size * m, 0))
        x = following
    return out


def sharded_product(mesh: weft.Mesh, axis: str) -> Callable[[weft.Array, weft.Array], weft.Array]:
    """x @ w for x with its rows and w with its columns spread over an axis of the mesh."""
    return weft.shard_map(
        lambda x, w: all_gather_matmul(x, w, axis),
        mesh=mesh,
        in_specs=(weft.P(axis), weft.P(None, axis)),
        out_specs=weft.P(None, axis),
        check_vma=False,
    )
