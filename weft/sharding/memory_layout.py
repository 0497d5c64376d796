# Tests: tests/test_layout.py
"""Layouts: the order in which the elements of an array's parts lie in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from weft.core.state import LAYOUTS
from weft.sharding.named import Sharding


class _Auto:
    def __repr__(self) -> str:
        return "AUTO"


@dataclass(frozen=True, slots=True)
class Layout:
    """The memory order of the elements of one device's part of an array.

    major_to_minor: all dimensions, the one whose index changes slowest first. tiling: sizes of
    tiles, outermost first; None for elements in order, as on CPUs and GPUs.
    sub_byte_element_size_in_bits: of elements that share bytes, 0 for others. `Layout.AUTO` stands
    for the layout that XLA finds best, in a `Format` for `weft.jit`.

    Raises ValueError for numbers that are not 0 to n - 1, each once, and for tiles of no size.

    >>> import weft
    >>> weft.layout.Layout((1, 0))
    Layout(major_to_minor=(1, 0), tiling=None, sub_byte_element_size_in_bits=0)
    """

    major_to_minor: tuple[int, ...]
    tiling: tuple[tuple[int, ...], ...] | None = None
    sub_byte_element_size_in_bits: int = 0

    AUTO: ClassVar[Any] = _Auto()

    def __post_init__(self) -> None:
        order = tuple(int(d) for d in self.major_to_minor)
        if sorted(order) != list(range(len(order))):
            raise ValueError(
                f"Layout: major_to_minor must name each dimension from 0 to n - 1 once, got {order}"
            )
        tiles = tuple(tuple(int(n) for n in tile) for tile in self.tiling or ())
        if any(n < 1 for tile in tiles for n in tile):
            raise ValueError(f"Layout: tiling must be of positive sizes, got {tiles}")
        object.__setattr__(self, "major_to_minor", order)
        object.__setattr__(self, "tiling", tiles or None)
        LAYOUTS.in_use = True

    def update(self, **changes: Any) -> Layout:
        """Return the layout with other fields."""
        return replace(self, **changes)

    @property
    def is_row_major(self) -> bool:
        """Tell whether the order is row-major, the default of CPUs and GPUs."""
        return self.tiling is None and self.major_to_minor == tuple(range(len(self.major_to_minor)))

    def check_compatible_aval(self, shape: Sequence[int], api: str = "") -> None:
        """Raise ValueError for an array of another rank."""
        if len(shape) != len(self.major_to_minor):
            raise ValueError(
                f"{api}{': ' if api else ''}{self!r} is for {len(self.major_to_minor)} dimensions, "
                f"the value of shape {tuple(shape)} has {len(shape)}"
            )


AUTO = Layout.AUTO


@dataclass(frozen=True, slots=True)
class Format:
    """A layout and a sharding: how an array lies in memory, and where.

    layout: a `Layout`, `Layout.AUTO`, or None for the platform's own. sharding: a Sharding; None,
    where it is free, only without a `Layout`.

    Raises TypeError for other things, ValueError for a `Layout` without a sharding.

    >>> import weft
    >>> weft.layout.Format(weft.layout.Layout.AUTO)
    Format(layout=AUTO, sharding=None)
    """

    layout: Any = None
    sharding: Any = None

    def __post_init__(self) -> None:
        if not (self.layout is None or self.layout is AUTO or isinstance(self.layout, Layout)):
            raise TypeError(
                f"Format: layout must be a Layout, Layout.AUTO or None, got {self.layout!r}"
            )
        if not (self.sharding is None or isinstance(self.sharding, Sharding)):
            raise TypeError(f"Format: sharding must be a Sharding or None, got {self.sharding!r}")
        if isinstance(self.layout, Layout) and self.sharding is None:
            raise ValueError(
                f"Format: {self.layout!r} needs a sharding, such as "
                "weft.sharding.SingleDeviceSharding(weft.devices()[0])"
            )
        LAYOUTS.in_use = True
