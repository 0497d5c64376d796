"""Small libraries that show how larger ones are written: optimizers."""

from weft.core.namespace import seal
from weft.example_libraries import optimizers as optimizers

__all__ = ["optimizers"]
seal(globals())
