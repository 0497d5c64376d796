"""Object files of machine code → memory of this process, without LLVM's linker.

What kernels are compiled to refers to its own sections, to functions of the C library and to a
few addresses of this process. To load that from the cache of kernels takes a page of Python; LLVM,
which would do the same, takes 30 ms and 45 MB to load itself. What is not ELF for x86-64, or has
references of other kinds, is left to it.

Source: System V ABI, AMD64 supplement, 4.4 (relocation).
"""

from __future__ import annotations

import ctypes
import mmap
import struct
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from typing import NamedTuple

_X86_64 = b"\x7fELF\x02\x01"  # 64 bits, little-endian; the machine's number comes later
_MACHINE = 62
_SYMBOLS, _RELOCATIONS, _NO_BITS = 2, 4, 8  # types of sections
_WRITABLE, _ALLOCATED = 1, 2  # flags of sections
_PC32, _PLT32, _GOT = 2, 4, (9, 41, 42)  # types of relocations
_JUMP = b"\xff\x25\xf2\xff\xff\xff\xcc\xcc"  # to the address in the 8 bytes in front of it
_ENTRY = 8 + len(_JUMP)

_alive: list[object] = []
"""Mapped code: XLA keeps what is registered for the life of the process."""


class _Section(NamedTuple):
    name: int
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entry: int


def load(code: bytes, symbol: str, symbols: Mapping[str, int]) -> int | None:
    """Return the address of the function `symbol` of an object file, or None to have LLVM link it.

    symbols: addresses that the code may refer to, beside those of the C library.
    """
    if sys.platform != "linux" or not code.startswith(_X86_64):
        return None
    machine, table, size, count = _header(code)
    if machine != _MACHINE or size != 64:
        return None
    sections = [
        _Section(*struct.unpack_from("<IIQQQQIIQQ", code, table + 64 * i)) for i in range(count)
    ]
    # Sections behind each other, then an entry for each symbol of elsewhere.
    places, end = {}, 0
    for i, section in enumerate(sections):
        if section.flags & _ALLOCATED and section.size:
            if section.flags & _WRITABLE:
                return None
            end += -end % max(section.align, 1)
            places[i] = end
            end += section.size
    image = bytearray(end + -end % 8)
    for i, offset in places.items():
        if sections[i].type != _NO_BITS:
            image[offset : offset + sections[i].size] = _body(code, sections[i])
    names = next(s for s in sections if s.type == _SYMBOLS)
    strings = _body(code, sections[names.link])
    start = None
    known: list[int | str] = []  # places of symbols, or their names where they are of elsewhere
    for name, _, _, section, value, _ in struct.iter_unpack("<IBBHQQ", _body(code, names)):
        text = strings[name : strings.index(b"\0", name)].decode()
        known.append(places[section] + value if section in places else text)
        if text == symbol and section in places:
            start = places[section] + value
    entries: dict[str, int] = {}
    for at, kind, target, addend in _relocations(code, sections, places):
        to = known[target]
        if kind == _PLT32 or kind in _GOT:
            if isinstance(to, str):
                address = symbols.get(to) or _address(to)
                if address is None:
                    return None
                if to not in entries:
                    entries[to] = len(image)
                    image += struct.pack("<Q", address) + _JUMP
                to = entries[to] + (8 if kind == _PLT32 else 0)
            elif kind in _GOT:
                return None
        elif kind != _PC32 or isinstance(to, str):
            return None
        struct.pack_into("<i", image, at, to + addend - at)
    base = None if start is None else _mapped(bytes(image))
    return None if base is None or start is None else base + start


def _header(code: bytes) -> tuple[int, int, int, int]:
    """Return the machine, where the table of sections is, the size of a row and their number."""
    (machine,) = struct.unpack_from("<H", code, 18)
    (table,) = struct.unpack_from("<Q", code, 40)
    size, count = struct.unpack_from("<HH", code, 58)
    return machine, table, size, count


def _body(code: bytes, section: _Section) -> bytes:
    return code[section.offset : section.offset + section.size]


def _relocations(
    code: bytes, sections: list[_Section], places: Mapping[int, int]
) -> Iterator[tuple[int, int, int, int]]:
    """Yield (place in the image, type, number of the symbol, addend) of each reference."""
    for section in sections:
        if section.type == _RELOCATIONS and section.info in places:
            for offset, info, addend in struct.iter_unpack("<QQq", _body(code, section)):
                yield places[section.info] + offset, info & 0xFFFFFFFF, info >> 32, addend


@cache
def _address(name: str) -> int | None:
    """Return the address of a function of the C library or its mathematical part."""
    for library in (None, "libm.so.6"):
        try:
            function = getattr(ctypes.CDLL(library), name)
        except (OSError, AttributeError):
            continue
        return ctypes.cast(function, ctypes.c_void_p).value
    return None


def _mapped(image: bytes) -> int | None:
    """Return the address of a copy that runs and is not written; None where that is forbidden."""
    memory = mmap.mmap(-1, len(image), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.write(image)
    start = ctypes.c_char.from_buffer(memory)
    address = ctypes.addressof(start)
    protect = ctypes.CDLL(None).mprotect
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    if protect(address, len(image), mmap.PROT_READ | mmap.PROT_EXEC):
        return None
    _alive.extend((memory, start))
    return address
