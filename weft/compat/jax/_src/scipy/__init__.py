"""jax._src.scipy, for what its modules have beside public names."""
