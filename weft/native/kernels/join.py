# Tests: tests/native/test_uneven.py
"""Two parts of a vector. Bound by the caller: U, unsigned numbers as wide as an element."""
# mypy: ignore-errors
# ruff: noqa: F821

from __future__ import annotations

from weft.native.language import i32, i64, parallel, ptr

SHARE = 65536


def share(k: i64, x: ptr[U], out: ptr[U], n: i64):
    for i in range(k * SHARE, min((k + 1) * SHARE, n)):
        out[i] = x[i]


def join(x: ptr[U], y: ptr[U], out: ptr[U], p: ptr[i64]):
    """Parameters: the length of the first vector, of both, and what is left out of the second."""
    parallel(share, (p[0] + SHARE - 1) // SHARE, x, out, p[0])
    rest = p[1] - p[0]
    parallel(share, (rest + SHARE - 1) // SHARE, y + p[2], out + p[0], rest)


def starts(first: ptr[i32], second: ptr[i32], p: ptr[i64]):
    """Write two numbers that XLA does not know as it compiles."""
    first[0] = i32(p[0])
    second[0] = i32(p[1])


def untouched(p: ptr[i64]):
    """Return results that somebody else fills."""
