"""Kernels over mutable references."""
