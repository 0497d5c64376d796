# Tests: tests/native/test_selections.py
"""Rows, or their indices, around the element of one rank.

Bound by the caller: as for `quick`; I, the type of indices.
"""
# mypy: ignore-errors
# ruff: noqa: F821

from __future__ import annotations

from weft.native.kernels.keys import key_of, restore
from weft.native.kernels.quick import (
    copy,
    guess,
    middle_of_range,
    quick,
    read,
    sort_few,
    split,
    write,
)
from weft.native.language import bitcast, i64, outlined, parallel, ptr

GUESSES = 48


@outlined
def select(keys: ptr[S], spare: ptr[S], n: i64, rank: i64):
    """Move keys less than that of a rank in front of it, others behind it (Hoare's FIND)."""
    start = 0
    stop = n
    guesses = GUESSES
    while stop - start > 8 * LANES:
        some = keys + start
        length = stop - start
        pivot = guess(some, length) if guesses > 0 else middle_of_range(some, length)
        guesses -= 1
        less = split(some, spare, length, pivot)
        if less > 0:
            copy(spare, some, length)
            if rank < start + less:
                stop = start + less
            else:
                start += less
        else:
            # None is less than the pivot: those equal to it are in their place.
            if pivot == GREATEST:
                return
            equal = split(some, spare, length, pivot + 1)
            copy(spare, some, length)
            if rank < start + equal:
                return
            start += equal
    sort_few(keys + start, keys + start, stop - start)


def values_part(
    k: i64, x: ptr[U], out: ptr[U], spare: ptr[S], rows: i64, n: i64, parts: i64, rank: i64
):
    for row in range(k * rows // parts, (k + 1) * rows // parts):
        at = row * n
        keys = bitcast(ptr[S], out + at)
        lost = read(x + at, keys, n)
        if lost:
            quick(keys, spare + k * n, n, False, GUESSES)
        else:
            select(keys, spare + k * n, n, rank)
        write(out + at, n)
        if KIND == 2 and lost:
            restore(x + at, out + at, n, 1)


def values(x: ptr[U], out: ptr[U], spare: ptr[U], p: ptr[i64]):
    """Parameters: rows, their length, how many parts of them have spare memory, the rank."""
    parallel(values_part, p[2], x, out, bitcast(ptr[S], spare), p[0], p[1], p[2], p[3])


@outlined
def order(x: ptr[U], out: ptr[I], n: i64, pivot: S):
    """Write the indices of keys less than the pivot, of equal ones, of greater ones."""
    top = U(1) << (BITS - 1)
    less = 0
    equal = 0
    for i in range(n):
        key = S(key_of(x[i]) ^ top)
        less += 1 if key < pivot else 0
        equal += 1 if key == pivot else 0
    greater = less + equal
    equal = less
    less = 0
    for i in range(n):
        key = S(key_of(x[i]) ^ top)
        slot = less if key < pivot else (equal if key == pivot else greater)
        out[slot] = I(i)
        less += 1 if key < pivot else 0
        equal += 1 if key == pivot else 0
        greater += 1 if key > pivot else 0


def indices_part(
    k: i64, x: ptr[U], out: ptr[I], spare: ptr[S], rows: i64, n: i64, parts: i64, rank: i64
):
    keys = spare + 2 * k * n
    for row in range(k * rows // parts, (k + 1) * rows // parts):
        at = row * n
        read(x + at, keys, n)
        select(keys, keys + n, n, rank)
        order(x + at, out + at, n, keys[rank])


def indices(x: ptr[U], out: ptr[I], spare: ptr[U], p: ptr[i64]):
    """Act as `values`: indices, in each of three parts in the order of these."""
    parallel(indices_part, p[2], x, out, bitcast(ptr[S], spare), p[0], p[1], p[2], p[3])
