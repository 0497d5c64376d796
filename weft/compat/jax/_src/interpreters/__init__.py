"""jax._src.interpreters"""
