"""Debugging: printing and callbacks from compiled programs, pictures of shardings."""

from weft.core.namespace import load_on_use

__getattr__, _NAMES = load_on_use(
    globals(),
    {
        "weft.api.callback": "callback print",
        "stop": "breakpoint",
        "logged": "log",
        "weft.driver.inspect_sharding": "visualize_array_sharding inspect_array_sharding",
        "weft.runtime.visualize": "visualize_sharding",
    },
    aliases={"callback": "debug_callback", "print": "debug_print"},
)
