"""Programs written for JAX: `python -m weft.as_jax -m examples.jax.mlp` runs one on weft."""
