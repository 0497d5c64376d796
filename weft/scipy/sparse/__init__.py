"""Linear systems that are given as functions: weft.scipy.sparse.linalg."""

from weft.scipy.sparse import linalg as linalg

__all__ = ["linalg"]
