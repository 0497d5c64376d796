"""weft.layout: how arrays lie in a device's memory; see docs/sharding.md."""

from weft.core.namespace import seal
from weft.ops.layout_constraint import with_layout_constraint
from weft.sharding.memory_layout import Format, Layout

__all__ = ["Format", "Layout", "with_layout_constraint"]
seal(globals())
