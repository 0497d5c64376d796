"""jax.interpreters.pxla"""
