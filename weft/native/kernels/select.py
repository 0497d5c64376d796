# Tests: tests/native/test_sorting.py
"""Elements of rows by rank, without sorting the rest.

Bound by the caller: as for `keys`; RADIX, the width of a digit, of which there are BUCKETS values;
RANKS, how many ranks are asked for. One digit of the keys after the other, the first one first,
tells among which keys the rank is (radix selection; Knuth, "The Art of Computer Programming" 3,
5.2.2 and 5.2.5).
"""
# mypy: ignore-errors
# ruff: noqa: F821

from __future__ import annotations

from weft.native.kernels.keys import bits_of, insertion, key_of
from weft.native.language import i64, outlined, parallel, ptr, stack, u32

FEW = 48


@outlined
def count_keys(x: ptr[U], n: i64, counts: ptr[u32]):
    """Count the first digit of values, in two tables so that equal neighbors do not wait."""
    more = stack(u32, BUCKETS)
    for i in range(BUCKETS):
        counts[i] = 0
        more[i] = 0
    for i in range(0, n - 1, 2):
        counts[i64(key_of(x[i]) >> (BITS - RADIX))] += 1
        more[i64(key_of(x[i + 1]) >> (BITS - RADIX))] += 1
    if n % 2 == 1:
        counts[i64(key_of(x[n - 1]) >> (BITS - RADIX))] += 1
    for i in range(BUCKETS):
        counts[i] += more[i]


@outlined
def keep(x: ptr[U], n: i64, digit: U, kept: ptr[U]) -> i64:
    """Return the keys with a first digit."""
    count = 0
    for i in range(n):
        key = key_of(x[i])
        kept[count] = key
        count += 1 if (key >> (BITS - RADIX)) == digit else 0
    return count


@outlined
def of_rank(keys: ptr[U], n: i64, rank: i64) -> U:
    """Return the key of a rank; changes the order of the keys, whose first digit is the same."""
    shift = BITS - RADIX
    counts = stack(u32, BUCKETS)
    while n > FEW and shift > 0:
        shift = max(shift - RADIX, 0)
        by = U(shift)
        for i in range(BUCKETS):
            counts[i] = 0
        for i in range(n):
            counts[i64((keys[i] >> by) & (BUCKETS - 1))] += 1
        digit = 0
        while rank >= i64(counts[digit]):
            rank -= i64(counts[digit])
            digit += 1
        if i64(counts[digit]) < n:
            count = 0
            for i in range(n):
                key = keys[i]
                keys[count] = key
                count += 1 if ((key >> by) & (BUCKETS - 1)) == U(digit) else 0
            n = count
    if n <= FEW:
        insertion(keys, n)
        return keys[rank]
    return keys[0]


def ranks_of(x: ptr[U], kept: ptr[U], counts: ptr[u32], out: ptr[U], n: i64, p: ptr[i64]):
    for r in range(RANKS):
        rank = p[r]
        digit = 0
        while rank >= i64(counts[digit]):
            rank -= i64(counts[digit])
            digit += 1
        count = keep(x, n, U(digit), kept)
        out[r] = bits_of(of_rank(kept, count, rank))


def ranks_part(
    k: i64, x: ptr[U], out: ptr[U], scratch: ptr[U], rows: i64, n: i64, parts: i64, p: ptr[i64]
):  # fmt: skip
    counts = stack(u32, BUCKETS)
    for row in range(k * rows // parts, (k + 1) * rows // parts):
        count_keys(x + row * n, n, counts)
        ranks_of(x + row * n, scratch + k * (n + 1), counts, out + row * RANKS, n, p)


def ranks(x: ptr[U], out: ptr[U], scratch: ptr[U], p: ptr[i64]):
    """Parameters: rows, their length, parts that the scratch memory serves, ranks."""
    parallel(ranks_part, p[2], x, out, scratch, p[0], p[1], p[2], p + 3)
