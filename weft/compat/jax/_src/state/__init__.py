"""jax._src.state"""
