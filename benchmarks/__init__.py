"""Ratios of weft to JAX: every case is written once, against a namespace, and run by both."""
