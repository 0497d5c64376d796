# Tests: tests/native/test_sorting.py
"""The greatest elements of rows and their indices.

Bound by the caller: U, the unsigned type of an element's bits; BITS, its width; KIND, 0 for
unsigned integers, 1 for signed ones, 2 for floats. Blocks without an element above the least of the
greatest so far, which are most of them, are only looked at as vectors. Floats are in the total
order of their bits, and of equal elements the first comes first.
"""
# mypy: ignore-errors
# ruff: noqa: F821

from __future__ import annotations

from weft.native.language import i32, i64, parallel, ptr, stack

BLOCK = 64
MOST = 64


def total_key(bits: U) -> U:
    """Return an unsigned number in the order of values, -NaN first and NaN last."""
    if KIND == 0:
        return bits
    top = U(1) << (BITS - 1)
    if KIND == 1:
        return bits ^ top
    return bits ^ ((U(0) - (bits >> (BITS - 1))) | top)


def greatest(x: ptr[U], n: i64) -> U:
    best = U(0)
    for i in range(n):
        best = max(best, total_key(x[i]))
    return best


def row(x: ptr[U], values: ptr[U], indices: ptr[i32], n: i64, count: i64, keys: ptr[U]):
    """Return the keys of the `count` greatest elements so far are kept in order."""
    filled = 0
    for start in range(0, n, BLOCK):
        size = min(BLOCK, n - start)
        if filled < count or greatest(x + start, size) > keys[count - 1]:
            for i in range(start, start + size):
                key = total_key(x[i])
                if filled < count or key > keys[count - 1]:
                    j = filled if filled < count else count - 1
                    while j > 0 and keys[j - 1] < key:
                        keys[j] = keys[j - 1]
                        indices[j] = indices[j - 1]
                        j -= 1
                    keys[j] = key
                    indices[j] = i32(i)
                    filled = min(filled + 1, count)
    for j in range(count):
        values[j] = x[indices[j]]


def rows_part(
    k: i64, x: ptr[U], values: ptr[U], indices: ptr[i32], rows: i64, n: i64, count: i64, parts: i64
):  # fmt: skip
    keys = stack(U, MOST)
    for r in range(k * rows // parts, (k + 1) * rows // parts):
        row(x + r * n, values + r * count, indices + r * count, n, count, keys)


def topk(x: ptr[U], values: ptr[U], indices: ptr[i32], p: ptr[i64]):
    """Parameters: rows, their length, how many elements of each."""
    parts = min(p[0], 4 * THREADS) if p[0] * p[1] > 16384 else 1
    parallel(rows_part, parts, x, values, indices, p[0], p[1], p[2], parts)
