"""Types of weft.scipy.cluster, written by `make stubs` from the definitions."""

from weft.scipy.cluster import vq as vq
from weft.typing import Array as Array
