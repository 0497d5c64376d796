# Tests: tests/native/test_selections.py
"""Eight truths to a byte and back, eight at once in a word of 64 bits.

Bound: PACK, of which a product has the truths of eight bytes in its last byte; TAKE, a bit of each
byte, the one that becomes this byte; THREADS.
"""
# mypy: ignore-errors
# ruff: noqa: F821

from __future__ import annotations

from weft.native.language import i64, parallel, ptr, u8, u64

SHARED = 65536
EACH, SEVENS = 0x0101010101010101, 0x7F7F7F7F7F7F7F7F


def pack_part(k: i64, x: ptr[u64], out: ptr[u8], n: i64, parts: i64):
    for i in range(k * n // parts, (k + 1) * n // parts):
        out[i] = u8((x[i] * u64(PACK)) >> u64(56))


def unpack_part(k: i64, x: ptr[u8], out: ptr[u64], n: i64, parts: i64):
    for i in range(k * n // parts, (k + 1) * n // parts):
        taken = (u64(x[i]) * u64(EACH)) & u64(TAKE)
        out[i] = ((taken + u64(SEVENS)) >> u64(7)) & u64(EACH)


def packbits(x: ptr[u64], out: ptr[u8], p: ptr[i64]):
    """Parameters: how many bytes are packed."""
    parts = THREADS if p[0] >= SHARED else 1
    parallel(pack_part, parts, x, out, p[0], parts)


def unpackbits(x: ptr[u8], out: ptr[u64], p: ptr[i64]):
    """Parameters: how many bytes are taken apart."""
    parts = THREADS if p[0] >= SHARED else 1
    parallel(unpack_part, parts, x, out, p[0], parts)
