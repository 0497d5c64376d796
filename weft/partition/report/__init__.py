"""Reports of a partitioned program: tables, pages, times, memory, and the lines they name."""

from weft.core.namespace import load_on_use

__getattr__, _NAMES = load_on_use(
    globals(), {"communication": "CommReport format_bytes format_flops format_seconds report"}
)
