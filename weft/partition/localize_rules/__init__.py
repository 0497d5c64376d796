"""The localization rules, one small function per operation family: the table `localize.RULES`."""

from weft.partition.localize_rules import (  # noqa: F401
    calls,
    collectives,
    control,
    convolution,
    dot,
    elementwise,
    indexing,
    linalg,
    reduction,
    scatter_windows,
    shape,
    windowed,
)
