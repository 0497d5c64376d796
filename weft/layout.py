"""weft.layout: how arrays lie in a device's memory; see docs/sharding.md."""

from weft.core.namespace import seal
from weft.sharding.layout import Format, Layout

__all__ = ["Format", "Layout"]
seal(globals())
