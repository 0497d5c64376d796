# Tests: tests/native/test_sorting.py
"""Sorts of rows of 16-bit, 32-bit or 64-bit values by a quicksort in vectors.

Bound by the caller: as for `keys`; S, the signed type of a key; LANES of 32 or 64 bytes; BETWEEN,
how many vectors the space between both sides has room for as one is stored; GREATEST of the keys;
THREADS. Parts go from one buffer to the other, so that no element has to be read before another is
written (Blacher, Giesen, Sanders, Wassenberg, "Vectorized and performance-portable quicksort",
2022). Where guessed pivots split badly for long, middles of the range take their place.
"""
# mypy: ignore-errors
# ruff: noqa: F821

from __future__ import annotations

from weft.native.kernels.keys import bits_of, key_of, loses_bits, restore
from weft.native.language import (
    bitcast,
    boolean,
    i64,
    load_wide,
    outlined,
    parallel,
    ptr,
    sort_wide,
    splat,
    split_rest,
    split_wide,
    stack,
    u64,
)

GUESSES = 48


@outlined
def read(x: ptr[U], keys: ptr[S], n: i64) -> boolean:
    """Write signed keys; tell whether some value has bits that its key lacks."""
    lost = False
    for i in range(n):
        bits = x[i]
        if KIND == 2:
            lost = lost | loses_bits(bits)
        keys[i] = S(key_of(bits) ^ (U(1) << (BITS - 1)))
    return lost


@outlined
def write(out: ptr[U], n: i64):
    for i in range(n):
        out[i] = bits_of(out[i] ^ (U(1) << (BITS - 1)))


@outlined
def sort_few(keys: ptr[S], target: ptr[S], n: i64):
    """Sort up to 8 * LANES keys into a target, which may be where they are."""
    if n <= 2 * LANES:
        sort_wide(keys, target, n, 2)
    elif n <= 4 * LANES:
        sort_wide(keys, target, n, 4)
    else:
        sort_wide(keys, target, n, 8)


def middle(a: S, b: S, c: S) -> S:
    return max(min(a, b), min(max(a, b), c))


@outlined
def guess(keys: ptr[S], n: i64) -> S:
    """Return a median of some keys."""
    step = n // 9
    if n < 2048:
        a = middle(keys[0], keys[step], keys[2 * step])
        b = middle(keys[3 * step], keys[4 * step], keys[5 * step])
        return middle(a, b, middle(keys[6 * step], keys[7 * step], keys[n - 1]))
    some = stack(S, 8 * LANES)
    step = n // (8 * LANES)
    for i in range(8 * LANES):
        some[i] = keys[i * step]
    sort_few(some, some, 8 * LANES)
    return some[4 * LANES]


@outlined
def middle_of_range(keys: ptr[S], n: i64) -> S:
    """Return a pivot with keys on both sides, but where all are equal."""
    low = keys[0]
    high = low
    for i in range(n):
        low = min(low, keys[i])
        high = max(high, keys[i])
    return (low | high) - ((low ^ high) >> 1)


@outlined
def split(keys: ptr[S], target: ptr[S], n: i64, pivot: S) -> i64:
    """Write keys less than the pivot from the left, others from the right; count the former."""
    pivots = splat(pivot)
    low = 0
    high = n
    i = 0
    # AVX2 writes whole vectors on both sides: two must fit between what is there already.
    while n - i >= BETWEEN * LANES:
        count = split_wide(load_wide(keys + i), pivots, target + low, target + (high - LANES))
        low += count
        high -= LANES - count
        i += LANES
    if BETWEEN == 1:
        return low + split_rest(keys + i, n - i, pivots, target + low, target + (high - LANES))
    while i < n:
        key = keys[i]
        less = key < pivot
        high -= 0 if less else 1
        target[low if less else high] = key
        low += 1 if less else 0
        i += 1
    return low


def copy(keys: ptr[S], target: ptr[S], n: i64):
    for i in range(n):
        target[i] = keys[i]


@outlined
def quick(keys: ptr[S], spare: ptr[S], n: i64, moved: boolean, guesses: i64):
    """Sort keys; where they have moved, into the spare memory that they came from."""
    if n <= 8 * LANES:
        sort_few(keys, spare if moved else keys, n)
        return
    pivot = guess(keys, n) if guesses > 0 else middle_of_range(keys, n)
    less = split(keys, spare, n, pivot)
    if less == 0:
        # None is less than the pivot: those equal to it are done.
        equal = n
        if pivot != GREATEST:
            equal = split(keys, spare, n, pivot + 1)
        if not moved:
            copy(spare, keys, equal)
        quick(spare + equal, keys + equal, n - equal, not moved, guesses - 1)
        return
    quick(spare, keys, less, not moved, guesses - 1)
    quick(spare + less, keys + less, n - less, not moved, guesses - 1)


def rows_part(k: i64, x: ptr[U], out: ptr[U], spare: ptr[U], rows: i64, n: i64, parts: i64):
    for row in range(k * rows // parts, (k + 1) * rows // parts):
        at = row * n
        lost = read(x + at, bitcast(ptr[S], out + at), n)
        quick(bitcast(ptr[S], out + at), bitcast(ptr[S], spare + k * n), n, False, GUESSES)
        write(out + at, n)
        if KIND == 2 and lost:
            restore(x + at, out + at, n, 1)


# One long row on all threads -------------------------------------------------------------------


def share(k: i64, n: i64) -> i64:
    """Return where the k-th thread's part of n elements starts."""
    return k * n // THREADS


def read_part(k: i64, x: ptr[U], keys: ptr[S], n: i64, lost: ptr[u64]):
    start = share(k, n)
    lost[k] = u64(read(x + start, keys + start, share(k + 1, n) - start))


def split_part(k: i64, keys: ptr[S], spare: ptr[S], n: i64, pivot: S, less: ptr[i64]):
    start = share(k, n)
    less[k] = split(keys + start, spare + start, share(k + 1, n) - start, pivot)


def gather_part(k: i64, spare: ptr[S], keys: ptr[S], n: i64, less: ptr[i64]):
    """Put the two parts of a thread behind those of the threads before it."""
    low = 0
    high = 0
    for other in range(THREADS):
        if other < k:
            low += less[other]
            high -= less[other]
        high += less[other]
    start = share(k, n)
    copy(spare + start, keys + low, less[k])
    copy(spare + start + less[k], keys + start + high, share(k + 1, n) - start - less[k])


def segment(k: i64, keys: ptr[S], spare: ptr[S], ends: ptr[i64]):
    start = ends[k]
    n = ends[k + 1] - start
    quick(keys + start, spare + start, n, False, GUESSES)
    write(bitcast(ptr[U], keys + start), n)


@outlined
def divide(keys: ptr[S], spare: ptr[S], n: i64, ends: ptr[i64]) -> i64:
    """Split keys with all threads into segments between `ends`, one or more for each."""
    less = stack(i64, THREADS)
    ends[0] = 0
    ends[1] = n
    segments = 1
    while segments < 2 * THREADS:
        for s in range(segments - 1, -1, -1):
            start = ends[s]
            stop = ends[s + 1]
            total = 0
            if stop - start > 8 * LANES:
                pivot = guess(keys + start, stop - start)
                parallel(split_part, THREADS, keys + start, spare, stop - start, pivot, less)
                parallel(gather_part, THREADS, spare, keys + start, stop - start, less)
                for k in range(THREADS):
                    total += less[k]
            ends[2 * s + 2] = stop
            ends[2 * s + 1] = start + total
        segments = 2 * segments
    return segments


def sort_long(x: ptr[U], out: ptr[U], keys: ptr[S], spare: ptr[S], n: i64):
    lost = stack(u64, THREADS)
    ends = stack(i64, 4 * THREADS + 1)
    parallel(read_part, THREADS, x, keys, n, lost)
    segments = divide(keys, spare, n, ends)
    parallel(segment, segments, keys, spare, ends)
    odd: u64 = 0
    for k in range(THREADS):
        odd = odd | lost[k]
    if KIND == 2 and odd != 0:
        restore(x, out, n, 1)


def quicksort(x: ptr[U], out: ptr[U], spare: ptr[U], parameters: ptr[i64]):
    """Parameters: rows, their length, how many parts of them have spare memory; 0 for long rows."""
    rows = parameters[0]
    n = parameters[1]
    parts = parameters[2]
    if parts > 0:
        parallel(rows_part, parts, x, out, spare, rows, n, parts)
        return
    for row in range(rows):
        at = row * n
        sort_long(x + at, out + at, bitcast(ptr[S], out + at), bitcast(ptr[S], spare), n)
