# Tests: tests/native/test_sorting.py
"""Keys: unsigned numbers that are ordered as values are, and back.

Bound by the caller: U, the unsigned type of a value's bits; BITS, its width; KIND, 0 for unsigned
integers, 1 for signed ones, 2 for floats; INFINITY, its bits. Floats are ordered by value, zeros of
both signs as equals, NaNs last.
"""
# mypy: ignore-errors
# ruff: noqa: F821

from __future__ import annotations

from weft.native.language import boolean, i64, ptr


def key_of(bits: U) -> U:
    """Return an unsigned number that is ordered as the value is."""
    if KIND == 0:
        return bits
    top = U(1) << (BITS - 1)
    if KIND == 1:
        return bits ^ top
    magnitude = bits & (top - 1)
    key = bits ^ ((U(0) - (bits >> (BITS - 1))) | top)
    key = top if magnitude == 0 else key
    return ~U(0) if magnitude > U(INFINITY) else key


def bits_of(key: U) -> U:
    """Return the value of a key; that of zeros and NaNs has a sign of its own."""
    if KIND == 0:
        return key
    top = U(1) << (BITS - 1)
    if KIND == 1:
        return key ^ top
    return key ^ (((key >> (BITS - 1)) - 1) | top)


def loses_bits(bits: U) -> boolean:
    """Return whether the key does not tell all bits: negative zero, NaN."""
    top = U(1) << (BITS - 1)
    return (bits == top) | ((bits & (top - 1)) > U(INFINITY))


def restore(x: ptr[U], out: ptr[U], n: i64, step: i64):
    """Give zeros and NaNs of a sorted row their own bits, in the order they came in."""
    top = U(1) << (BITS - 1)
    low = 0
    high = n
    while low < high:
        middle = (low + high) >> 1
        if key_of(out[middle * step]) < top:
            low = middle + 1
        else:
            high = middle
    nans = n
    while nans > 0 and (out[(nans - 1) * step] & (top - 1)) > U(INFINITY):
        nans -= 1
    for i in range(n):
        bits = x[i * step]
        if (bits & (top - 1)) == 0:
            out[low * step] = bits
            low += 1
        if (bits & (top - 1)) > U(INFINITY):
            out[nans * step] = bits
            nans += 1


def insertion(keys: ptr[U], n: i64):
    """Sort a few keys."""
    for i in range(1, n):
        key = keys[i]
        j = i
        while j > 0 and keys[j - 1] > key:
            keys[j] = keys[j - 1]
            j -= 1
        keys[j] = key
