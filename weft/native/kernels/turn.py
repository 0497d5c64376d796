# Tests: tests/native/test_dense.py, tests/native/test_filters.py
"""Copies of matrices whose rows become columns.

Bound by the caller: T, the dtype; LANES, how many of them a vector holds.
"""
# mypy: ignore-errors
# ruff: noqa: F821

from __future__ import annotations

from weft.native.language import i64, ptr, turn_wide


def turn(
    source: ptr[T], apart: i64, step: i64, target: ptr[T], pitch: i64, rows: i64, columns: i64
):
    """target[j, i] = source[i, j] of some rows and columns, which are any distance apart."""
    done_rows = 0
    done_columns = 0
    if step == 1:
        done_rows = rows // LANES * LANES
        done_columns = columns // LANES * LANES
        for i in range(0, done_rows, LANES):
            for j in range(0, done_columns, LANES):
                turn_wide(source + i * apart + j, apart, target + j * pitch + i, pitch)
    if done_rows == rows and done_columns == columns:
        return
    if apart < step:
        for j in range(columns):
            for i in range(rows):
                target[j * pitch + i] = source[i * apart + j * step]
    else:
        for i in range(rows):
            for j in range(done_columns if i < done_rows else 0, columns):
                target[j * pitch + i] = source[i * apart + j * step]
