# Tests: tests/native/test_moves.py
"""An array put together from boxes or rows of others. Bound: U, unsigned numbers as wide as an
element, and of rows I, the type of their indices.

A box is a run of neighbors that three loops repeat: which source it is of, whether one element
fills it, where it starts there and here, and count, step there and step here of each loop.
"""
# mypy: ignore-errors
# ruff: noqa: F821

from __future__ import annotations

from weft.native.language import i64, memcpy, outlined, parallel, ptr

BOX = 14


def move(x: ptr[U], out: ptr[U], run: i64, fills: i64):
    if fills != 0:
        for i in range(run):
            out[i] = x[0]
    else:
        memcpy(out, x, run)


@outlined
def rows(x: ptr[U], out: ptr[U], box: ptr[i64], first: i64, count: i64):
    """Move `count` runs of a box."""
    k = first % box[10]
    j = first // box[10] % box[7]
    i = first // box[10] // box[7]
    run = box[13]
    for _ in range(count):
        source = x + (i * box[5] + j * box[8] + k * box[11])
        move(source, out + (i * box[6] + j * box[9] + k * box[12]), run, box[1])
        k += 1
        if k == box[10]:
            k = 0
            j += 1
            if j == box[7]:
                j = 0
                i += 1


def share(
    part: i64, x0: ptr[U], x1: ptr[U], x2: ptr[U], x3: ptr[U], x4: ptr[U], x5: ptr[U], x6: ptr[U],
    x7: ptr[U], out: ptr[U], boxes: ptr[i64], count: i64, parts: i64,
):  # fmt: skip
    for b in range(count):
        box = boxes + b * BOX
        s = box[0]
        low = x0 if s == 0 else (x1 if s == 1 else (x2 if s == 2 else x3))
        high = x4 if s == 4 else (x5 if s == 5 else (x6 if s == 6 else x7))
        x = (low if s < 4 else high) + box[2]
        target = out + box[3]
        total = box[4] * box[7] * box[10]
        run = box[13]
        if total >= 4 * parts:
            first = part * total // parts
            rows(x, target, box, first, (part + 1) * total // parts - first)
        elif parts == 1:
            rows(x, target, box, 0, total)
        else:
            start = part * run // parts
            length = (part + 1) * run // parts - start
            for i in range(box[4]):
                for j in range(box[7]):
                    for k in range(box[10]):
                        source = x + (i * box[5] + j * box[8] + k * box[11])
                        written = target + (i * box[6] + j * box[9] + k * box[12])
                        if box[1] != 0:
                            move(source, written + start, length, 1)
                        else:
                            move(source + start, written + start, length, 0)


def moves(
    x0: ptr[U], x1: ptr[U], x2: ptr[U], x3: ptr[U], x4: ptr[U], x5: ptr[U], x6: ptr[U],
    x7: ptr[U], out: ptr[U], p: ptr[i64],
):  # fmt: skip
    """Parameters: how many threads share the boxes, how many boxes there are, boxes."""
    parallel(share, p[0], x0, x1, x2, x3, x4, x5, x6, x7, out, p + 2, p[1], p[0])


def take_part(
    part: i64, x: ptr[U], index: ptr[I], out: ptr[U], count: i64, run: i64, last: i64, parts: i64
):
    for k in range(part * count // parts, (part + 1) * count // parts):
        row = min(max(i64(index[k]), 0), last)
        memcpy(out + k * run, x + row * run, run)


def take(x: ptr[U], index: ptr[I], out: ptr[U], p: ptr[i64]):
    """Parameters: how many rows are taken, their length, the last that there is, parts."""
    parallel(take_part, p[3], x, index, out, p[0], p[1], p[2], p[3])
