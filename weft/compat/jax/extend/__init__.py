"""jax.extend"""
