"""jax.experimental.pallas.ops.tpu, for keras: one of its kernels."""
