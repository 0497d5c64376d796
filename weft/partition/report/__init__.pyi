"""Types of weft.partition.report, written by `make stubs` from the definitions."""

from collections.abc import Sequence
from typing import Any

from weft.partition.report.communication import CommReport as CommReport
from weft.typing import Array as Array

def format_bytes(count: float) -> str:
    """Return bytes with a unit, three digits: `3.2 MB` (powers of ten)."""

def format_flops(count: float) -> str:
    """Return floating-point operations with a unit, three digits."""

def format_seconds(seconds: float | None) -> str:
    """Return seconds with a unit, three digits; a dash where there are none."""

def report(
    stages: Any,
    *,
    hardware_model: Any = ...,
    memory: Any = ...,
    extra_stages: Sequence[tuple[str, str]] = ...,
    names: Sequence[str] = ...,
    notes: Sequence[str] = ...,
) -> CommReport:
    """Return the report of a partitioned program; needs no devices."""
