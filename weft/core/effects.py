# Tests: tests/api/test_callback.py
"""Effects: what an equation does besides computing its results."""

from __future__ import annotations


class Effect:
    """A named effect. Ordered effects keep program order, by a token through the program."""

    __slots__ = ("name", "ordered")
    _interned: dict[tuple[str, bool], Effect] = {}

    name: str
    ordered: bool

    def __new__(cls, name: str, ordered: bool = False) -> Effect:
        self = cls._interned.get((name, ordered))
        if self is None:
            self = object.__new__(cls)
            self.name, self.ordered = name, ordered
            cls._interned[name, ordered] = self
        return self

    def __reduce__(self) -> tuple:
        return Effect, (self.name, self.ordered)

    def __repr__(self) -> str:
        return self.name + (" (ordered)" if self.ordered else "")


IO = Effect("IO")
ORDERED_IO = Effect("OrderedIO", ordered=True)
DEBUG = Effect("Debug")
ORDERED_DEBUG = Effect("OrderedDebug", ordered=True)
FFI = Effect("FFI")
WRITES = Effect("Write")  # changes a ref or a semaphore
CHECK = Effect("Check")  # may fail: weft.checkify makes the failure a result
INSPECT = Effect("Inspect")  # tells of a program when it is lowered, and does nothing at run time
