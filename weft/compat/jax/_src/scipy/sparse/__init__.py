"""jax._src.scipy.sparse"""
