"""jax.experimental.pallas.ops, for keras: one of its kernels."""
