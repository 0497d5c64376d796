# Tests: tests/native/test_sorting.py
"""Stable sorts by radix: values alone, or the order of values as indices.

Bound by the caller: U, the unsigned type of a key's bits; BITS, its width; KIND, 0 for unsigned
integers, 1 for signed ones, 2 for floats; RADIX, the width of a digit, of which there are DIGITS
with BUCKETS values; THREADS. Floats are ordered by value, zeros of both signs
as equals, NaNs last. Least significant digits first (Knuth, "The Art of Computer Programming" 3,
5.2.5); digits that all keys share are skipped.
"""
# mypy: ignore-errors
# ruff: noqa: F821

from __future__ import annotations

from weft.native.kernels.keys import bits_of, insertion, key_of, loses_bits, restore
from weft.native.language import boolean, i64, outlined, parallel, ptr, stack, u32, u64

FEW = 32


# One row ---------------------------------------------------------------------------------------


def insertion_order(keys: ptr[U], order: ptr[u32], n: i64):
    for i in range(1, n):
        key = keys[i]
        index = order[i]
        j = i
        while j > 0 and keys[j - 1] > key:
            keys[j] = keys[j - 1]
            order[j] = order[j - 1]
            j -= 1
        keys[j] = key
        order[j] = index


@outlined
def count_all(x: ptr[U], n: i64, counts: ptr[u32]) -> boolean:
    """Count every digit of the keys; tell whether some value has bits that its key lacks."""
    for i in range(DIGITS * BUCKETS):
        counts[i] = 0
    lost = False
    for i in range(n):
        bits = x[i]
        if KIND == 2:
            lost = lost | loses_bits(bits)
        key = key_of(bits)
        for d in range(DIGITS):
            counts[d * BUCKETS + i64(key & (BUCKETS - 1))] += 1
            if DIGITS > 1:
                key = key >> RADIX
    return lost


def is_shared(counts: ptr[u32], n: i64) -> boolean:
    """Return whether one digit is that of all keys."""
    for i in range(BUCKETS):
        if counts[i] != 0:
            return i64(counts[i]) == n
    return True


def starts(counts: ptr[u32]):
    """Turn counts into the places of the first key with each digit."""
    total: u32 = 0
    for i in range(BUCKETS):
        count = counts[i]
        counts[i] = total
        total += count


@outlined
def scatter(
    x: ptr[U], out: ptr[U], n: i64, places: ptr[u32], shift: i64, first: boolean, last: boolean
):
    """Move keys to the places of their digit. `first` reads values, `last` writes them."""
    by = U(shift)
    for i in range(n):
        key = x[i]
        if first:
            key = key_of(key)
        digit = i64((key >> by) & (BUCKETS - 1))
        slot = places[digit]
        places[digit] = slot + 1
        if last:
            key = bits_of(key)
        out[slot] = key


@outlined
def sort_row(x: ptr[U], out: ptr[U], spare: ptr[U], n: i64):
    if n <= FEW:
        lost = False
        for i in range(n):
            if KIND == 2:
                lost = lost | loses_bits(x[i])
            out[i] = key_of(x[i])
        insertion(out, n)
        for i in range(n):
            out[i] = bits_of(out[i])
        if KIND == 2 and lost:
            restore(x, out, n, 1)
        return
    counts = stack(u32, DIGITS * BUCKETS)
    lost = count_all(x, n, counts)
    left = 0
    for d in range(DIGITS):
        left += 0 if is_shared(counts + d * BUCKETS, n) else 1
    if left == 0:
        for i in range(n):
            out[i] = x[i]
        return
    first = True
    source = x
    for d in range(DIGITS):
        if not is_shared(counts + d * BUCKETS, n):
            target = out if (left & 1) == 1 else spare
            starts(counts + d * BUCKETS)
            scatter(source, target, n, counts + d * BUCKETS, d * RADIX, first, left == 1)
            source = target
            first = False
            left -= 1
    if KIND == 2 and lost:
        restore(x, out, n, 1)


@outlined
def order_row(
    x: ptr[U], prior: ptr[u32], has_prior: boolean, order: ptr[u32], spare: ptr[u32],
    keys: ptr[U], more_keys: ptr[U], n: i64,
):  # fmt: skip
    """Order a row; equal values keep the order of `prior`, by keys that matter less."""
    if n <= FEW:
        for i in range(n):
            index = u32(i)
            if has_prior:
                index = prior[i]
            order[i] = index
            keys[i] = key_of(x[index])
        insertion_order(keys, order, n)
        return
    counts = stack(u32, DIGITS * BUCKETS)
    count_all(x, n, counts)
    # A digit that all keys share needs no pass.
    left = 0
    for d in range(DIGITS):
        left += 0 if is_shared(counts + d * BUCKETS, n) else 1
    if left == 0:
        for i in range(n):
            index = u32(i)
            if has_prior:
                index = prior[i]
            order[i] = index
        return
    first = True
    from_keys = keys
    from_order = order
    for d in range(DIGITS):
        if not is_shared(counts + d * BUCKETS, n):
            # Buffers alternate so that the last pass writes `order`.
            to_keys = keys if (left & 1) == 1 else more_keys
            to_order = order if (left & 1) == 1 else spare
            starts(counts + d * BUCKETS)
            if first:
                scatter_first(
                    x, prior, has_prior, to_keys, to_order, 0, n, counts + d * BUCKETS, d * RADIX
                )
            else:
                scatter_order(
                    from_keys, from_order, to_keys, to_order, 0, n, counts + d * BUCKETS, d * RADIX
                )
            from_keys = to_keys
            from_order = to_order
            first = False
            left -= 1


@outlined
def scatter_first(
    x: ptr[U], prior: ptr[u32], has_prior: boolean, keys: ptr[U], order: ptr[u32],
    start: i64, stop: i64, places: ptr[u32], shift: i64,
):  # fmt: skip
    by = U(shift)
    for i in range(start, stop):
        index = u32(i)
        if has_prior:
            index = prior[i]
        key = key_of(x[index])
        digit = i64((key >> by) & (BUCKETS - 1))
        slot = places[digit]
        places[digit] = slot + 1
        keys[slot] = key
        order[slot] = index


@outlined
def scatter_order(
    from_keys: ptr[U], from_order: ptr[u32], keys: ptr[U], order: ptr[u32],
    start: i64, stop: i64, places: ptr[u32], shift: i64,
):  # fmt: skip
    by = U(shift)
    for i in range(start, stop):
        key = from_keys[i]
        digit = i64((key >> by) & (BUCKETS - 1))
        slot = places[digit]
        places[digit] = slot + 1
        keys[slot] = key
        order[slot] = from_order[i]


# One long row on all threads -------------------------------------------------------------------


def part(k: i64, n: i64) -> i64:
    """Return where the k-th thread's part of a row starts."""
    return k * n // THREADS


def count_part(k: i64, x: ptr[U], n: i64, counts: ptr[u32], lost: ptr[u64]):
    start = part(k, n)
    odd = count_all(x + start, part(k + 1, n) - start, counts + k * (DIGITS * BUCKETS))
    lost[k] = u64(odd)


def count_digit(
    k: i64, x: ptr[U], prior: ptr[u32], mode: i64, n: i64, shift: i64, counts: ptr[u32]
):
    """Count one digit of a part. mode: 1 for values, 2 for values in prior order."""
    places = counts + k * BUCKETS
    for i in range(BUCKETS):
        places[i] = 0
    by = U(shift)
    for i in range(part(k, n), part(k + 1, n)):
        index = i
        if mode == 2:
            index = i64(prior[i])
        key = x[index]
        if mode != 0:
            key = key_of(key)
        places[i64((key >> by) & (BUCKETS - 1))] += 1


def start_parts(counts: ptr[u32]):
    """Turn counts of all parts into places, by digit and then by part."""
    total: u32 = 0
    for digit in range(BUCKETS):
        for k in range(THREADS):
            count = counts[k * BUCKETS + digit]
            counts[k * BUCKETS + digit] = total
            total += count


def scatter_part(
    k: i64, x: ptr[U], out: ptr[U], n: i64, counts: ptr[u32], shift: i64, first: boolean,
    last: boolean,
):  # fmt: skip
    start = part(k, n)
    scatter(x + start, out, part(k + 1, n) - start, counts + k * BUCKETS, shift, first, last)


def scatter_order_part(
    k: i64, x: ptr[U], prior: ptr[u32], mode: i64, from_order: ptr[u32], keys: ptr[U],
    order: ptr[u32], n: i64, counts: ptr[u32], shift: i64,
):  # fmt: skip
    start = part(k, n)
    stop = part(k + 1, n)
    if mode == 0:
        scatter_order(x, from_order, keys, order, start, stop, counts + k * BUCKETS, shift)
    else:
        scatter_first(x, prior, mode == 2, keys, order, start, stop, counts + k * BUCKETS, shift)


def count_long(x: ptr[U], n: i64, counts: ptr[u32], total: ptr[u32]) -> boolean:
    """Count all digits with all threads into `total`; tell of bits that keys lack."""
    lost = stack(u64, THREADS)
    parallel(count_part, THREADS, x, n, counts, lost)
    odd: u64 = 0
    for k in range(THREADS):
        odd = odd | lost[k]
    for i in range(DIGITS * BUCKETS):
        sum: u32 = 0
        for k in range(THREADS):
            sum += counts[k * (DIGITS * BUCKETS) + i]
        total[i] = sum
    return odd != 0


@outlined
def sort_long_row(x: ptr[U], out: ptr[U], spare: ptr[U], counts: ptr[u32], n: i64):
    total = stack(u32, DIGITS * BUCKETS)
    lost = count_long(x, n, counts, total)
    left = 0
    for d in range(DIGITS):
        left += 0 if is_shared(total + d * BUCKETS, n) else 1
    if left == 0:
        for i in range(n):
            out[i] = x[i]
        return
    first = True
    source = x
    for d in range(DIGITS):
        if not is_shared(total + d * BUCKETS, n):
            target = out if (left & 1) == 1 else spare
            mode = 1 if first else 0
            parallel(count_digit, THREADS, source, counts, mode, n, d * RADIX, counts)
            start_parts(counts)
            last = left == 1
            parallel(scatter_part, THREADS, source, target, n, counts, d * RADIX, first, last)
            source = target
            first = False
            left -= 1
    if KIND == 2 and lost:
        restore(x, out, n, 1)


@outlined
def order_long_row(
    x: ptr[U], prior: ptr[u32], has_prior: boolean, order: ptr[u32], spare: ptr[u32],
    keys: ptr[U], more_keys: ptr[U], counts: ptr[u32], n: i64,
):  # fmt: skip
    total = stack(u32, DIGITS * BUCKETS)
    count_long(x, n, counts, total)
    left = 0
    for d in range(DIGITS):
        left += 0 if is_shared(total + d * BUCKETS, n) else 1
    if left == 0:
        for i in range(n):
            index = u32(i)
            if has_prior:
                index = prior[i]
            order[i] = index
        return
    mode = 2 if has_prior else 1
    from_keys = x
    from_order = order
    for d in range(DIGITS):
        if not is_shared(total + d * BUCKETS, n):
            to_keys = keys if (left & 1) == 1 else more_keys
            to_order = order if (left & 1) == 1 else spare
            parallel(count_digit, THREADS, from_keys, prior, mode, n, d * RADIX, counts)
            start_parts(counts)
            parallel(
                scatter_order_part, THREADS, from_keys, prior, mode, from_order, to_keys, to_order,
                n, counts, d * RADIX,
            )  # fmt: skip
            from_keys = to_keys
            from_order = to_order
            mode = 0
            left -= 1


# Entries: parameters are the number of rows and their length -----------------------------------


def sort_rows_part(k: i64, x: ptr[U], out: ptr[U], spare: ptr[U], rows: i64, n: i64, parts: i64):
    for row in range(k * rows // parts, (k + 1) * rows // parts):
        sort_row(x + row * n, out + row * n, spare + row * n, n)


def sort(x: ptr[U], out: ptr[U], spare: ptr[U], counts: ptr[u32], parameters: ptr[i64]):
    rows = parameters[0]
    n = parameters[1]
    parts = min(rows, 4 * THREADS) if rows * n > 4096 else 1
    parallel(sort_rows_part, parts, x, out, spare, rows, n, parts)


def sort_long(x: ptr[U], out: ptr[U], spare: ptr[U], counts: ptr[u32], parameters: ptr[i64]):
    n = parameters[1]
    for row in range(parameters[0]):
        sort_long_row(x + row * n, out + row * n, spare + row * n, counts, n)


def order_rows_part(
    k: i64, x: ptr[U], prior: ptr[u32], has_prior: boolean, order: ptr[u32], spare: ptr[u32],
    keys: ptr[U], more_keys: ptr[U], rows: i64, n: i64, parts: i64,
):  # fmt: skip
    for row in range(k * rows // parts, (k + 1) * rows // parts):
        at = row * n
        order_row(
            x + at, prior + at, has_prior, order + at, spare + at, keys + at, more_keys + at, n
        )


def order(
    x: ptr[U], prior: ptr[u32], order: ptr[u32], spare: ptr[u32], keys: ptr[U], more_keys: ptr[U],
    counts: ptr[u32], parameters: ptr[i64],
):  # fmt: skip
    """Sort indices; `prior` is any array where the parameters tell that there is none."""
    rows = parameters[0]
    n = parameters[1]
    has_prior = parameters[2] != 0
    parts = min(rows, 4 * THREADS) if rows * n > 4096 else 1
    parallel(
        order_rows_part, parts, x, prior, has_prior, order, spare, keys, more_keys, rows, n, parts
    )


def order_long(
    x: ptr[U], prior: ptr[u32], order: ptr[u32], spare: ptr[u32], keys: ptr[U], more_keys: ptr[U],
    counts: ptr[u32], parameters: ptr[i64],
):  # fmt: skip
    n = parameters[1]
    has_prior = parameters[2] != 0
    for row in range(parameters[0]):
        at = row * n
        order_long_row(
            x + at, prior + at, has_prior, order + at, spare + at, keys + at, more_keys + at,
            counts, n,
        )  # fmt: skip


def take_part(k: i64, x: ptr[U], order: ptr[u32], out: ptr[U], rows: i64, n: i64, parts: i64):
    size = rows * n
    start = k * size // parts
    stop = (k + 1) * size // parts
    row = start // n
    while start < stop:
        end = min((row + 1) * n, stop)
        from_row = x + row * n
        for i in range(start, end):
            out[i] = from_row[order[i]]
        start = end
        row += 1


def take(x: ptr[U], order: ptr[u32], out: ptr[U], parameters: ptr[i64]):
    """Return rows in the order of their indices."""
    rows = parameters[0]
    n = parameters[1]
    parts = THREADS if rows * n > 16384 else 1
    parallel(take_part, parts, x, order, out, rows, n, parts)
