"""Types of weft.scipy.sparse, written by `make stubs` from the definitions."""

from weft.scipy.sparse import linalg as linalg
from weft.typing import Array as Array
