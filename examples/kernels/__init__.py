"""Kernels: small programs over blocks of arrays, compiled by weft.pallas."""
