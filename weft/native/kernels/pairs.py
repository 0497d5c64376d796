# Tests: tests/native/test_sorting.py
"""Stable sorts of long rows of 32-bit keys, each in one word with 32 bits that go along.

Bound by the caller: as for `keys`, with U of 32 bits, and THREADS; DISTINCT, whether the low bits
are an index and small buckets go to the quicksort, with what is bound for `quick`. The most
significant digit comes first, so that what follows takes place in cache, bucket by bucket on all
threads; where keys are spread out, two digits leave single elements (McIlroy, Bostic, McIlroy,
"Engineering radix sort", 1993).
"""
# mypy: ignore-errors
# ruff: noqa: F821

from __future__ import annotations

from weft.native.kernels.keys import key_of
from weft.native.kernels.quick import quick
from weft.native.kernels.sort import start_parts
from weft.native.language import bitcast, i64, outlined, parallel, ptr, stack, u32, u64

FEW, QUICK = 24, 80
BUCKETS, LEFT = 1024, 22  # the first digit has 10 bits
CHUNK = 16

ORDER, CARRY = 1, 2  # of what goes along: an order given, with keys in that order; any values


def insertion(pairs: ptr[u64], n: i64):
    for i in range(1, n):
        pair = pairs[i]
        j = i
        while j > 0 and (pairs[j - 1] >> 32) > (pair >> 32):
            pairs[j] = pairs[j - 1]
            j -= 1
        pairs[j] = pair


@outlined
def sort_bucket(pairs: ptr[u64], spare: ptr[u64], n: i64, left: i64):
    """Sort pairs whose keys differ in the last `left` bits only."""
    if DISTINCT != 0:  # noqa: SIM102 decided as the kernel is compiled
        if n <= QUICK:
            quick(bitcast(ptr[S], pairs), bitcast(ptr[S], spare), n, False, GUESSES)
            return
    if n <= FEW:
        insertion(pairs, n)
        return
    if left == 0:
        return
    width = min(left, 11 if n > 512 else 8)
    by = u64(32 + left - width)
    last = (u64(1) << u64(width)) - 1
    ends = stack(u32, 2048)
    for d in range(1 << width):
        ends[d] = 0
    for i in range(n):
        ends[i64((pairs[i] >> by) & last)] += 1
    total: u32 = 0
    most: u32 = 0
    for d in range(1 << width):
        count = ends[d]
        most = max(most, count)
        ends[d] = total
        total += count
    # All pairs have one digit: nothing moves.
    if i64(most) == n:
        sort_bucket(pairs, spare, n, left - width)
        return
    for i in range(n):
        pair = pairs[i]
        digit = i64((pair >> by) & last)
        slot = ends[digit]
        ends[digit] = slot + 1
        spare[slot] = pair
    for i in range(n):
        pairs[i] = spare[i]
    # No bucket is large, so no pair is far from its place.
    if most <= 16:
        insertion(pairs, n)
        return
    start = 0
    for d in range(1 << width):
        stop = i64(ends[d])
        if stop - start > 1:
            sort_bucket(pairs + start, spare + start, stop - start, left - width)
        start = stop


def share(k: i64, n: i64) -> i64:
    """Return where the k-th thread's part of a row starts."""
    return k * n // THREADS


def count_part(k: i64, x: ptr[U], along: ptr[u32], mode: i64, n: i64, counts: ptr[u32]):
    places = counts + k * BUCKETS
    for i in range(BUCKETS):
        places[i] = 0
    if mode == ORDER:
        for i in range(share(k, n), share(k + 1, n)):
            places[i64(key_of(x[along[i]]) >> LEFT)] += 1
    else:
        for i in range(share(k, n), share(k + 1, n)):
            places[i64(key_of(x[i]) >> LEFT)] += 1


def scatter_part(
    k: i64, x: ptr[U], along: ptr[u32], mode: i64, n: i64, counts: ptr[u32], pairs: ptr[u64]
):  # fmt: skip
    places = counts + k * BUCKETS
    for i in range(share(k, n), share(k + 1, n)):
        index = i
        low = u32(i)
        if mode == ORDER:
            index = i64(along[i])
        if DISTINCT == 0 and mode != 0:
            low = along[i]
        key = key_of(x[index])
        slot = places[key >> LEFT]
        places[key >> LEFT] = slot + 1
        pairs[slot] = (u64(key) << 32) | u64(low)


def buckets_part(
    k: i64, ends: ptr[u32], pairs: ptr[u64], spare: ptr[u64], along: ptr[u32], mode: i64,
    out: ptr[u32],
):  # fmt: skip
    start = 0
    if k > 0:
        start = i64(ends[k * CHUNK - 1])
    for d in range(k * CHUNK, (k + 1) * CHUNK):
        stop = i64(ends[d])
        sort_bucket(pairs + start, spare + start, stop - start, LEFT)
        if DISTINCT != 0 and mode != 0:
            for i in range(start, stop):
                out[i] = along[u32(pairs[i])]
        else:
            for i in range(start, stop):
                out[i] = u32(pairs[i])
        start = stop


def pairs(
    x: ptr[U], along: ptr[u32], out: ptr[u32], words: ptr[u64], spare: ptr[u64], counts: ptr[u32],
    p: ptr[i64],
):  # fmt: skip
    """Parameters: rows, their length, what goes along: 0 for the index, ORDER, CARRY."""
    n = p[1]
    for row in range(p[0]):
        keys = x + row * n
        lows = along + row * n
        parallel(count_part, THREADS, keys, lows, p[2], n, counts)
        start_parts(counts)
        parallel(scatter_part, THREADS, keys, lows, p[2], n, counts, words)
        ends = counts + (THREADS - 1) * BUCKETS
        parallel(buckets_part, BUCKETS // CHUNK, ends, words, spare, lows, p[2], out + row * n)
