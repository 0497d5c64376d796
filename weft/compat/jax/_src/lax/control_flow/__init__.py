"""jax._src.lax.control_flow, for what its modules have beside public names."""
