"""jax._src: private names that libraries use, each file with the libraries that need it."""
