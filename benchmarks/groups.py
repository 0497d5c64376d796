"""The files that declare cases, in the order of the table."""

import importlib

GROUPS = (
    "startup",
    "tracing",
    "dispatch",
    "devices",
    "eager",
    "training",
    "steps",
    "collectives",
    "processes",
    "partition",
    "kernels",
    "ffi",
)


def load_groups() -> None:
    """Import every group, so that its cases stand in CASES."""
    for group in GROUPS:
        importlib.import_module(f"benchmarks.{group}")
