# Tests: tests/native/test_uneven.py
"""Two vectors behind each other. Bound by the caller: U, unsigned numbers as wide as an element."""
# mypy: ignore-errors
# ruff: noqa: F821

from __future__ import annotations

from weft.native.language import i64, parallel, ptr

SHARE = 65536


def share(k: i64, x: ptr[U], out: ptr[U], n: i64):
    for i in range(k * SHARE, min((k + 1) * SHARE, n)):
        out[i] = x[i]


def join(x: ptr[U], y: ptr[U], out: ptr[U], p: ptr[i64]):
    """Parameters: the length of the first vector, and of both."""
    parallel(share, (p[0] + SHARE - 1) // SHARE, x, out, p[0])
    for i in range(p[1] - p[0]):
        out[p[0] + i] = y[i]


def untouched(p: ptr[i64]):
    """Results that somebody else fills."""
