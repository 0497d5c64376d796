"""jax.experimental.colocated_python.func, for orbax, which patches it where it has the parts."""
