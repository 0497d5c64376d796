"""Clustering: weft.scipy.cluster.vq."""

from weft.scipy.cluster import vq as vq

__all__ = ["vq"]
