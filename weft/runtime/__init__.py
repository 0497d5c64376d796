"""Backends, arrays, transfers, compilation and dispatch."""
