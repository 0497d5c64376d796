"""jax._src.lax, for what its modules have beside public names."""
