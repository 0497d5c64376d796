# Tests: tests/native/test_selections.py
"""Places of values in a sorted table, by halving for a block of values at once.

Bound by the caller: as for `keys`; I, the type of places; RIGHT, 1 for places behind equal
elements; READY, 1 where the table's keys are written down first, as there are more values.
"""
# mypy: ignore-errors
# ruff: noqa: F821

from __future__ import annotations

from weft.native.kernels.keys import key_of
from weft.native.language import boolean, i32, i64, outlined, parallel, ptr, stack

BLOCK = 64
SHARE = 8192


def precedes(table: ptr[U], at: i32, wanted: U) -> boolean:
    key = table[at]
    if READY == 0:
        key = key_of(key)
    if RIGHT == 1:
        return key <= wanted
    return key < wanted


@outlined
def share(k: i64, table: ptr[U], n: i64, v: ptr[U], out: ptr[I], m: i64):
    wanted = stack(U, BLOCK)
    low = stack(i32, BLOCK)
    for j in range(BLOCK):
        wanted[j] = 0
    for start in range(k * SHARE, min((k + 1) * SHARE, m), BLOCK):
        length = min(BLOCK, m - start)
        values = v + start
        for j in range(length):
            wanted[j] = key_of(values[j])
        for j in range(BLOCK):
            low[j] = 0
        rest = n
        while rest > 1:
            half = i32(rest // 2)
            for j in range(BLOCK):
                low[j] += half if precedes(table, low[j] + half - 1, wanted[j]) else 0
            rest -= rest // 2
        for j in range(BLOCK):
            low[j] += i32(1) if precedes(table, low[j], wanted[j]) else 0
        places = out + start
        for j in range(length):
            places[j] = I(low[j])


def search(x: ptr[U], v: ptr[U], out: ptr[I], keys: ptr[U], p: ptr[i64]):
    """Parameters: the table's length, how many values."""
    n = p[0]
    table = x
    if READY == 1:
        for i in range(n):
            keys[i] = key_of(x[i])
        table = keys
    parallel(share, (p[1] + SHARE - 1) // SHARE, table, n, v, out, p[1])
