# Tests: tests/compat/test_pallas_tpu.py
"""jax.experimental.pallas.triton: hints for GPUs, beside the names of weft.pallas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft import lax

if TYPE_CHECKING:
    from weft.typing import ArrayLike


def approx_tanh(x: ArrayLike) -> Any:
    """tanh, to full precision."""
    return lax.tanh(x)


def debug_barrier() -> None:
    """Let the threads of a program meet: they run as one here."""


def max_contiguous(x: Any, values: object) -> Any:
    """x: its addresses' form is read from the index maps."""
    return x
