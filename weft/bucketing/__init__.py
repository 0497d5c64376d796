"""Bucketed shapes: `weft.jit(bucket=)` compiles a function for a few sizes instead of for each."""

from weft.core.namespace import load_on_use

__getattr__, _NAMES = load_on_use(globals(), {"sizes": "powers_of_two"})
