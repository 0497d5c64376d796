"""Types of weft.scipy.spatial, written by `make stubs` from the definitions."""

from weft.scipy.spatial import transform as transform
from weft.typing import Array as Array
