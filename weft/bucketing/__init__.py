"""Bucketed shapes: `weft.jit(bucket=)` compiles a function for a few sizes instead of for each."""

from weft.bucketing.sizes import powers_of_two

__all__ = ["powers_of_two"]
