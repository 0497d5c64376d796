# Tests: tests/native/test_small_matrices.py
"""LU decompositions of many small matrices, one in each lane of vectors, and their systems solved.

Bound by the caller: T, the dtype; N, the size of the matrices; LANES; THREADS. Rows are exchanged
for the greatest pivot of a column, the first of equal ones, as by LAPACK's getrf. Where fewer than
LANES matrices are left, the last one fills the other lanes.
"""
# mypy: ignore-errors
# ruff: noqa: F821

from __future__ import annotations

from weft.native.language import absolute, i32, i64, parallel, ptr, stack

SIZE = 1024  # lanes for up to eight rows and columns


def decompose(a: ptr[T], order: ptr[i32], pivots: ptr[i32]):
    """Factor a[N, N, LANES]; order and pivots are [N, LANES]."""
    best = stack(T, LANES)
    for i in range(N):
        for lane in range(LANES):
            order[i * LANES + lane] = i32(i)
    for k in range(N):
        diagonal = a + k * (N + 1) * LANES
        row = a + k * N * LANES
        winners = pivots + k * LANES
        for lane in range(LANES):
            best[lane] = absolute(diagonal[lane])
            winners[lane] = i32(k)
        # Every lane has a pivot of its own: rows are exchanged where it is the winner.
        for i in range(k + 1, N):
            column = a + (i * N + k) * LANES
            for lane in range(LANES):
                better = absolute(column[lane]) > best[lane]
                best[lane] = absolute(column[lane]) if better else best[lane]
                winners[lane] = i32(i) if better else winners[lane]
        for i in range(k + 1, N):
            other = a + i * N * LANES
            for j in range(N):
                for lane in range(LANES):
                    swapped = winners[lane] == i32(i)
                    x = row[j * LANES + lane]
                    y = other[j * LANES + lane]
                    row[j * LANES + lane] = y if swapped else x
                    other[j * LANES + lane] = x if swapped else y
            for lane in range(LANES):
                swapped = winners[lane] == i32(i)
                p = order[k * LANES + lane]
                q = order[i * LANES + lane]
                order[k * LANES + lane] = q if swapped else p
                order[i * LANES + lane] = p if swapped else q
        # Below the pivot: factors, and what is left of the matrix without their multiples.
        for i in range(k + 1, N):
            other = a + i * N * LANES
            for lane in range(LANES):
                divisor = diagonal[lane] if diagonal[lane] != T(0) else T(1)
                other[k * LANES + lane] = other[k * LANES + lane] / divisor
            for j in range(k + 1, N):
                for lane in range(LANES):
                    product = other[k * LANES + lane] * row[j * LANES + lane]
                    other[j * LANES + lane] = other[j * LANES + lane] - product


def load(a: ptr[T], matrices: ptr[T], count: i64):
    """Read a matrix into each lane of a[N, N, LANES]."""
    for lane in range(LANES):
        matrix = matrices + min(lane, count - 1) * N * N
        for e in range(N * N):
            a[e * LANES + lane] = matrix[e]


def lu_part(
    k: i64, x: ptr[T], packed: ptr[T], pivots: ptr[i32], order: ptr[i32], batch: i64, parts: i64
):
    a = stack(T, SIZE)
    swaps = stack(i32, SIZE)
    permutation = stack(i32, SIZE)
    groups = (batch + LANES - 1) // LANES
    for group in range(k * groups // parts, (k + 1) * groups // parts):
        first = group * LANES
        count = min(LANES, batch - first)
        load(a, x + first * N * N, count)
        decompose(a, permutation, swaps)
        for lane in range(count):
            at = first + lane
            for e in range(N * N):
                packed[at * N * N + e] = a[e * LANES + lane]
            for i in range(N):
                pivots[at * N + i] = swaps[i * LANES + lane]
                order[at * N + i] = permutation[i * LANES + lane]


def lu(x: ptr[T], packed: ptr[T], pivots: ptr[i32], order: ptr[i32], p: ptr[i64]):
    """Parameters: how many matrices, how many parts of them."""
    parallel(lu_part, p[1], x, packed, pivots, order, p[0], p[1])


def substitute(a: ptr[T], y: ptr[T], transposed: i64):
    """Solve L U y = y, or its transpose, for one column y[N, LANES]."""
    for step in range(2 * N):
        # The lower triangle first, from its top; transposed, the upper one.
        down = step < N
        i = step if down else 2 * N - 1 - step
        unit = down == (transposed == 0)
        start = 0 if down else i + 1
        stop = i if down else N
        target = y + i * LANES
        for j in range(start, stop):
            entry = a + ((i * N + j) if transposed == 0 else (j * N + i)) * LANES
            known = y + j * LANES
            for lane in range(LANES):
                target[lane] = target[lane] - entry[lane] * known[lane]
        if not unit:
            diagonal = a + i * (N + 1) * LANES
            for lane in range(LANES):
                target[lane] = target[lane] / diagonal[lane]


def solve_part(
    k: i64, packed: ptr[T], order: ptr[i32], b: ptr[T], out: ptr[T], batch: i64, columns: i64,
    transposed: i64, parts: i64,
):  # fmt: skip
    a = stack(T, SIZE)
    y = stack(T, SIZE)
    groups = (batch + LANES - 1) // LANES
    for group in range(k * groups // parts, (k + 1) * groups // parts):
        first = group * LANES
        count = min(LANES, batch - first)
        load(a, packed + first * N * N, count)
        for c in range(columns):
            for lane in range(LANES):
                at = first + min(lane, count - 1)
                rows = order + at * N
                column = b + at * N * columns + c
                for i in range(N):
                    source = i64(rows[i]) if transposed == 0 else i
                    y[i * LANES + lane] = column[source * columns]
            substitute(a, y, transposed)
            for lane in range(count):
                at = first + lane
                rows = order + at * N
                column = out + at * N * columns + c
                for i in range(N):
                    target = i64(rows[i]) if transposed != 0 else i
                    column[target * columns] = y[i * LANES + lane]


def solve(packed: ptr[T], order: ptr[i32], b: ptr[T], out: ptr[T], p: ptr[i64]):
    """Parameters: how many systems, their right-hand sides, 1 for transposed ones, parts."""
    parallel(solve_part, p[3], packed, order, b, out, p[0], p[1], p[2], p[3])
