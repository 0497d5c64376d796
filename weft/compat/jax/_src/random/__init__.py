"""The names below jax._src.random that libraries use."""
