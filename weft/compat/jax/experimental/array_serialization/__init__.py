"""jax.experimental.array_serialization: arrays in TensorStore, written in a thread."""
