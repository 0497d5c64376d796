"""Small libraries that show how larger ones are written: optimizers, stax."""

from weft.core.namespace import seal
from weft.example_libraries import optimizers as optimizers
from weft.example_libraries import stax as stax

__all__ = ["optimizers", "stax"]
seal(globals())
