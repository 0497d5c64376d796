# Tests: tests/partition/test_localize.py
"""Fills `localize.RULES`: importing it loads all rules."""

from weft.partition.localize_rules import (  # noqa: F401
    calls,
    collectives,
    control,
    convolution,
    factored,
    indexing,
    scatter_windows,
    shape,
    windowed,
)
