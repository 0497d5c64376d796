# Tests: tests/native/test_sorting.py
"""Sorts of many short rows at once: one row in each lane of vectors.

Bound by the caller: as for `keys`, and LANES. Batcher's merge exchange (Knuth, "The Art of Computer
Programming" 3, 5.2.2 M) compares whole vectors, so that no branch depends on the values; it takes
any length. The array is x[outer, n, inner], sorted along n.
"""
# mypy: ignore-errors
# ruff: noqa: F821

from __future__ import annotations

from weft.native.kernels.keys import bits_of, key_of, loses_bits, restore
from weft.native.language import i64, outlined, parallel, ptr

NEAR = 8192  # bytes of keys that are sorted before they are merged with others


@outlined
def exchange(a: ptr[U], b: ptr[U], count: i64):
    """Return the lesser of each pair to a, the greater to b."""
    for i in range(count):
        x = a[i]
        y = b[i]
        a[i] = min(x, y)
        b[i] = max(x, y)


@outlined
def merge(keys: ptr[U], n: i64, p: i64):
    """Sorted runs of p vectors become sorted runs of 2p."""
    k = p
    while k > 0:
        j = 0 if k == p else k
        while j + k < n:
            if j // (2 * p) == (j + k) // (2 * p):
                exchange(keys + j * LANES, keys + (j + k) * LANES, min(k, n - j - k) * LANES)
            j += 2 * k
        k = k >> 1


@outlined
def sort_vectors(keys: ptr[U], n: i64):
    near = NEAR * 8 // (BITS * LANES)
    for start in range(0, n, near):
        p = 1
        while p < min(near, n - start):
            merge(keys + start * LANES, min(near, n - start), p)
            p = 2 * p
    p = near
    while p < n:
        merge(keys, n, p)
        p = 2 * p


@outlined
def read_across(x: ptr[U], keys: ptr[U], n: i64, pitch: i64, lanes: i64) -> boolean:
    """Make the keys of columns side by side; tell whether a value has bits its key lacks."""
    lost = False
    for i in range(n):
        row = x + i * pitch
        target = keys + i * LANES
        for lane in range(lanes):
            bits = row[lane]
            if KIND == 2:
                lost = lost | loses_bits(bits)
            target[lane] = key_of(bits)
        for lane in range(lanes, LANES):
            target[lane] = 0
    return lost


@outlined
def read_rows(x: ptr[U], keys: ptr[U], n: i64, lanes: i64) -> boolean:
    """Act as `read_across` for rows, a line of memory at a time."""
    lost = False
    for start in range(0, n, LANES):
        stop = min(start + LANES, n)
        for lane in range(LANES):
            row = x + min(lane, lanes - 1) * n
            target = keys + lane
            for i in range(start, stop):
                bits = row[i]
                if KIND == 2:
                    lost = lost | loses_bits(bits)
                target[i * LANES] = key_of(bits)
    return lost


@outlined
def write_across(keys: ptr[U], out: ptr[U], n: i64, pitch: i64, lanes: i64):
    for i in range(n):
        row = out + i * pitch
        source = keys + i * LANES
        for lane in range(lanes):
            row[lane] = bits_of(source[lane])


@outlined
def write_rows(keys: ptr[U], out: ptr[U], n: i64, lanes: i64):
    for start in range(0, n, LANES):
        stop = min(start + LANES, n)
        for lane in range(lanes):
            row = out + lane * n
            source = keys + lane
            for i in range(start, stop):
                row[i] = bits_of(source[i * LANES])


def columns_part(
    k: i64, x: ptr[U], out: ptr[U], scratch: ptr[U], rows: i64, n: i64, inner: i64, parts: i64
):  # fmt: skip
    keys = scratch + k * n * LANES
    groups = (inner + LANES - 1) // LANES
    total = groups * rows
    for group in range(k * total // parts, (k + 1) * total // parts):
        first = (group % groups) * LANES
        at = (group // groups) * n * inner + first
        lanes = min(inner - first, LANES)
        lost = read_across(x + at, keys, n, inner, lanes)
        sort_vectors(keys, n)
        write_across(keys, out + at, n, inner, lanes)
        if KIND == 2 and lost:
            for lane in range(lanes):
                restore(x + at + lane, out + at + lane, n, inner)


def rows_part(k: i64, x: ptr[U], out: ptr[U], scratch: ptr[U], rows: i64, n: i64, parts: i64):
    keys = scratch + k * n * LANES
    groups = (rows + LANES - 1) // LANES
    for group in range(k * groups // parts, (k + 1) * groups // parts):
        at = group * LANES * n
        lanes = min(rows - group * LANES, LANES)
        lost = read_rows(x + at, keys, n, lanes)
        sort_vectors(keys, n)
        write_rows(keys, out + at, n, lanes)
        if KIND == 2 and lost:
            for lane in range(lanes):
                restore(x + at + lane * n, out + at + lane * n, n, 1)


def network(x: ptr[U], out: ptr[U], scratch: ptr[U], parameters: ptr[i64]):
    """Parameters: rows, their length, elements behind it, parts that the scratch memory serves."""
    rows = parameters[0]
    n = parameters[1]
    inner = parameters[2]
    parts = parameters[3]
    if inner > 1:
        parallel(columns_part, parts, x, out, scratch, rows, n, inner, parts)
    else:
        parallel(rows_part, parts, x, out, scratch, rows, n, parts)
