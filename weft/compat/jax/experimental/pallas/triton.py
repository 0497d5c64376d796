# Tests: tests/compat/test_pallas_tpu.py
"""jax.experimental.pallas.triton: what differs there from the names of weft.pallas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft import lax, pallas

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


def load(ref: Any, *, mask: Any = None, other: Any = None, **hints: Any) -> Any:
    """Return the value of a ref, or of the part that ref.at[...] is, where the mask is true."""
    return pallas.load(ref, ..., mask=mask, other=other, **hints)


def store(ref: Any, val: Any, *, mask: Any = None, **hints: Any) -> None:
    """Replace the value of a ref, or of the part that ref.at[...] is, where the mask is true."""
    pallas.store(ref, ..., val, mask=mask, **hints)
