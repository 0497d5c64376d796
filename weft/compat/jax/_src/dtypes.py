"""jax._src.dtypes, for equinox and flax."""

from typing import Any

from weft.dtypes import TypePromotionError, canonicalize_dtype, extended, finfo, issubdtype

DType = Any
ExtendedDType = extended


def supports_inf(dtype: Any) -> bool:
    """Whether the dtype has an infinity."""
    import numpy as np

    with np.errstate(all="ignore"):
        return bool(np.isinf(np.asarray(np.inf, dtype).astype(np.float32)))


__all__ = [
    "DType",
    "ExtendedDType",
    "TypePromotionError",
    "canonicalize_dtype",
    "extended",
    "finfo",
    "issubdtype",
    "supports_inf",
]
