"""Meshes, partition specs and shardings: which device holds which part of an array."""
