"""Spatial functions, under the names of jax.scipy.spatial."""

from weft.scipy.spatial import transform as transform

__all__ = ["transform"]
