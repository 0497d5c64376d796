"""jax._src.compiler, for chex."""
