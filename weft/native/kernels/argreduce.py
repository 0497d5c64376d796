# Tests: tests/native/test_reductions.py
"""Indices of extrema along the middle dimension of x[outer, n, inner].

Bound by the caller: U, the unsigned type of an element's bits; S, the signed one; E, its own, where
the language has it, else NARROW is 1; SUMMED, 1 for floats that it has; PLACES, 0 where values of
such rows are enough; BITS, its width; LANES of vectors; KIND, 0 for unsigned integers, 1 for signed
ones, 2 for floats; LEAST, 1 for minima; I, the type of indices. What zeros and NaNs may decide is
decided by unsigned keys, the greatest of which wins: those of NaNs are the greatest of all.
"""
# mypy: ignore-errors
# ruff: noqa: F821

from __future__ import annotations

from weft.native.language import (
    bitcast,
    first_equal,
    i64,
    load_wide,
    max_wide,
    min_wide,
    outlined,
    parallel,
    ptr,
    splat,
    stack,
    sum_wide,
    u32,
)

BLOCK = 64
WIDE = 4096
WIDTH = 512


def key_of(bits: U) -> U:
    """Map a number to an unsigned key, greatest for the extremum; both zeros have one key."""
    key = bits
    top = U(1) << (BITS - 1)
    if KIND == 1:
        key = bits ^ top
    if KIND == 2:
        key = bits ^ ((U(0) - (bits >> (BITS - 1))) | top)
        key = top if (bits & (top - 1)) == 0 else key
    if LEAST == 1:
        key = ~key
    if KIND == 2:
        key = ~U(0) if (bits & (top - 1)) > U(INFINITY) else key
    return key


def greatest(x: ptr[U], n: i64) -> U:
    best = U(0)
    for i in range(n):
        best = max(best, key_of(x[i]))
    return best


def careful_winner(x: ptr[U], n: i64) -> i64:
    """Find the first index of the greatest key: its block by blocks' greatest, then itself."""
    best = greatest(x, min(n, BLOCK))
    start = 0
    for block in range(BLOCK, n, BLOCK):
        key = greatest(x + block, min(n - block, BLOCK))
        if key > best:
            best = key
            start = block
    while key_of(x[start]) != best:
        start += 1
    return start


def near_key(bits: S) -> S:
    """Act as `key_of` in fewer steps, but for zeros and NaNs of floats."""
    key = bits
    if KIND == 2:
        key = bits ^ S(U(bits >> (BITS - 1)) >> 1)
    if LEAST == 1:
        key = ~key
    return key


def near_ends(x: ptr[S], n: i64, extrema: ptr[S]):
    high = near_key(x[0])
    low = high
    for i in range(n):
        high = max(high, near_key(x[i]))
        low = min(low, near_key(x[i]))
    extrema[0] = high
    extrema[1] = low


def near_winner(x: ptr[S], n: i64) -> i64:
    """Act as `row_winner` by `near_key`, for elements without arithmetic and for short rows."""
    extrema = stack(S, 2)
    near_ends(x, n, extrema)
    best = extrema[0]
    if KIND == 2:
        doubtful = (best > S(INFINITY)) | (extrema[1] < -S(INFINITY) - 1)
        if doubtful | (best == 0) | (best == -1):
            return careful_winner(bitcast(ptr[U], x), n)
    start = 0
    if n > BLOCK:
        near_ends(x, BLOCK, extrema)
        while extrema[0] != best:
            start += BLOCK
            near_ends(x + start, min(n - start, BLOCK), extrema)
    while near_key(x[start]) != best:
        start += 1
    return start


def extremum(x: ptr[E], n: i64, sums: ptr[E]) -> E:
    """Find that of LANES elements or more, and add floats up: their sum is NaN where one is."""
    tops = load_wide(x)
    total = tops
    for i in range(LANES, n, LANES):
        part = load_wide(x + min(i, n - LANES))
        if LEAST == 1:
            tops = min(tops, part)
        else:
            tops = max(tops, part)
        if SUMMED == 1:
            total = total + part
    if SUMMED == 1:
        sums[0] += sum_wide(total)
        if sums[0] != sums[0]:
            return x[0]
    if LEAST == 1:
        return min_wide(tops)
    return max_wide(tops)


@outlined
def row_winner(bits: ptr[U], n: i64) -> i64:
    """Find the first index of the greatest key; look again where zeros and NaNs may decide."""
    if KIND != 0 and (NARROW == 1 or n < LANES):
        return near_winner(bitcast(ptr[S], bits), n)
    if n < LANES:
        return careful_winner(bits, n)
    x = bitcast(ptr[E], bits)
    best = stack(E, 1)
    start = best_block(x, n, best)
    if start < 0:
        return careful_winner(bits, n)
    lane = first_equal(load_wide(x + start), splat(best[0]))
    while lane == LANES:
        start = min(start + LANES, n - LANES)
        lane = first_equal(load_wide(x + start), splat(best[0]))
    return start + lane


def best_block(x: ptr[E], n: i64, best_value: ptr[E]) -> i64:
    """Find the extremum of LANES elements or more and where its block starts.

    Return -1 where zeros and NaNs may decide.
    """
    sums = stack(E, 1)
    sums[0] = E(0)
    start = 0
    best = extremum(x, min(n, WIDE), sums)
    for block in range(WIDE, n, WIDE):
        first = min(block, n - WIDE)
        other = extremum(x + first, WIDE, sums)
        if (other > best and LEAST == 0) or (other < best and LEAST == 1):
            best = other
            start = first
    best_value[0] = best
    if SUMMED == 1 and ((sums[0] != sums[0]) | (best == E(0))):
        return -1
    return start


@outlined
def row_value(x: ptr[U], n: i64) -> U:
    """Return the first extremum of a row."""
    if n >= LANES:
        best = stack(E, 1)
        if best_block(bitcast(ptr[E], x), n, best) >= 0:
            return bitcast(U, best[0])
    return x[row_winner(x, n)]


def rows_part(k: i64, x: ptr[U], values: ptr[U], indices: ptr[I], outer: i64, n: i64, parts: i64):
    for row in range(k * outer // parts, (k + 1) * outer // parts):
        if PLACES == 0:
            values[row] = row_value(x + row * n, n)
            continue
        winner = row_winner(x + row * n, n)
        values[row] = x[row * n + winner]
        indices[row] = I(winner)


def segment(k: i64, x: ptr[U], n: i64, parts: i64, winners: ptr[i64]):
    start = k * n // parts
    winners[k] = start + row_winner(x + start, (k + 1) * n // parts - start)


def columns_part(
    k: i64, x: ptr[U], values: ptr[U], indices: ptr[I], n: i64, inner: i64, blocks: i64
):
    """Update one block of columns: the greatest keys so far, and where they are."""
    keys = stack(U, WIDTH)
    winners = stack(u32, WIDTH)
    first = (k % blocks) * WIDTH
    width = min(WIDTH, inner - first)
    source = x + (k // blocks) * n * inner + first
    for j in range(width):
        keys[j] = key_of(source[j])
        winners[j] = 0
    for i in range(1, n):
        row = source + i * inner
        index = u32(i)
        for j in range(width):
            key = key_of(row[j])
            better = key > keys[j]
            keys[j] = key if better else keys[j]
            winners[j] = index if better else winners[j]
    at = (k // blocks) * inner + first
    for j in range(width):
        indices[at + j] = I(winners[j])
        values[at + j] = source[i64(winners[j]) * inner + j]


def argreduce(x: ptr[U], values: ptr[U], indices: ptr[I], parameters: ptr[i64]):
    outer = parameters[0]
    n = parameters[1]
    inner = parameters[2]
    if inner > 1:
        blocks = (inner + WIDTH - 1) // WIDTH
        parallel(columns_part, outer * blocks, x, values, indices, n, inner, blocks)
        return
    if n < 65536 or outer >= THREADS:
        parts = min(outer, 4 * THREADS) if outer * n > 131072 else 1
        parallel(rows_part, parts, x, values, indices, outer, n, parts)
        return
    winners = stack(i64, THREADS)
    for row in range(outer):
        source = x + row * n
        parallel(segment, THREADS, source, n, THREADS, winners)
        winner = winners[0]
        for k in range(1, THREADS):
            if key_of(source[winners[k]]) > key_of(source[winner]):
                winner = winners[k]
        values[row] = source[winner]
        indices[row] = I(winner)
