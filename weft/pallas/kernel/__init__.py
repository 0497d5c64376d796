"""Kernels between the user's functions and the backends: what all backends share."""
