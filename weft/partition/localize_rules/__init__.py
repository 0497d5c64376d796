"""The localization rules, one small function per operation family: the table `localize.RULES`."""

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
