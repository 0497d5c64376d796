"""jax.interpreters"""
