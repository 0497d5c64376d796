"""Comparing trees of arrays with NumPy results."""

import numpy as np

import weft


def close(got, want, tolerance=1e-5):
    """Asserts that every array of `got` equals what stands in its place in `want`, shape too.

    Lists of numbers in `want` stand for arrays.
    """
    leaves, tree = weft.tree.flatten(got)
    for g, w in zip(leaves, tree.flatten_up_to(want), strict=True):
        g, w = np.asarray(g), np.asarray(w)
        assert g.shape == w.shape, f"shape {g.shape}, expected {w.shape}"
        if g.dtype.kind == "V":  # bfloat16
            g = g.astype(np.float32)
        np.testing.assert_allclose(g, w, rtol=tolerance, atol=tolerance)
