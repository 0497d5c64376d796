"""Dtypes: predicates, promotion, `float0`."""

from weft.core.dtypes import (
    TypePromotionError,
    canonicalize_dtype,
    finfo,
    float0,
    iinfo,
    issubdtype,
)

__all__ = [
    "TypePromotionError",
    "canonicalize_dtype",
    "extended",
    "finfo",
    "float0",
    "iinfo",
    "issubdtype",
    "prng_key",
    "result_type",
]


class extended:  # noqa: N801
    """The abstract type of dtypes whose elements are small arrays."""

    _extended = True


class prng_key(extended):  # noqa: N801
    """The abstract type of random keys: `issubdtype(key.dtype, prng_key)`."""


def result_type(*args: object) -> object:
    """The dtype that the arguments promote to; see `weft.numpy.result_type`.

    >>> import weft
    >>> weft.dtypes.result_type("int32", "bfloat16")
    dtype(bfloat16)
    """
    from weft.numpy import result_type as rule

    return rule(*args)
