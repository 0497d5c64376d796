# Tests: tests/native/test_sorting.py
"""Stable orders of keys of up to 32 bits: words of a key and its index, sorted in vectors.

Bound by the caller: as for `quick`, with S of 64 bits; THREADS. No two words are equal.
"""
# mypy: ignore-errors
# ruff: noqa: F821

from __future__ import annotations

from weft.native.kernels.keys import key_of
from weft.native.kernels.quick import divide, quick, share
from weft.native.language import i64, outlined, parallel, ptr, stack, u32

GUESSES = 48
ORDER, CARRY = 1, 2  # of what goes along: an order given, with keys in that order; any values


@outlined
def pack(x: ptr[U], along: ptr[u32], mode: i64, words: ptr[S], start: i64, stop: i64):
    if mode == ORDER:
        for i in range(start, stop):
            words[i] = ((i64(key_of(x[along[i]])) - 2147483648) << 32) | i
    else:
        for i in range(start, stop):
            words[i] = ((i64(key_of(x[i])) - 2147483648) << 32) | i


@outlined
def unpack(words: ptr[S], along: ptr[u32], mode: i64, out: ptr[u32], start: i64, stop: i64):
    if mode == 0:
        for i in range(start, stop):
            out[i] = u32(words[i])
    else:
        for i in range(start, stop):
            out[i] = along[u32(words[i])]


def rows_part(
    k: i64, x: ptr[U], along: ptr[u32], mode: i64, out: ptr[u32], words: ptr[S], rows: i64, n: i64,
    parts: i64,
):  # fmt: skip
    some = words + 2 * k * n
    for row in range(k * rows // parts, (k + 1) * rows // parts):
        at = row * n
        pack(x + at, along + at, mode, some, 0, n)
        quick(some, some + n, n, False, GUESSES)
        unpack(some, along + at, mode, out + at, 0, n)


def pack_part(k: i64, x: ptr[U], along: ptr[u32], mode: i64, words: ptr[S], n: i64):
    pack(x, along, mode, words, share(k, n), share(k + 1, n))


def segment(
    k: i64, words: ptr[S], spare: ptr[S], ends: ptr[i64], along: ptr[u32], mode: i64, out: ptr[u32]
):
    start = ends[k]
    stop = ends[k + 1]
    quick(words + start, spare + start, stop - start, False, GUESSES)
    unpack(words, along, mode, out, start, stop)


def words(x: ptr[U], along: ptr[u32], out: ptr[u32], words: ptr[S], p: ptr[i64]):
    """Parameters: rows, their length, how many parts have memory, 0 for long rows, the mode."""
    rows = p[0]
    n = p[1]
    parts = p[2]
    mode = p[3]
    if parts > 0:
        parallel(rows_part, parts, x, along, mode, out, words, rows, n, parts)
        return
    ends = stack(i64, 4 * THREADS + 1)
    for row in range(rows):
        at = row * n
        parallel(pack_part, THREADS, x + at, along + at, mode, words, n)
        segments = divide(words, words + n, n, ends)
        parallel(segment, segments, words, words + n, ends, along + at, mode, out + at)
