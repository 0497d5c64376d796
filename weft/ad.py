# Tests: tests/refs/test_accumulate.py
"""weft.ad: what `with_refs` of a function that `weft.vjp` gives takes and returns beside refs."""

from weft.core.namespace import seal
from weft.refs.accumulate import DidntWant, DontWant, GradRef, GradValue

__all__ = ["DidntWant", "DontWant", "GradRef", "GradValue"]

seal(globals())
