"""Types of weft.scipy.spatial.transform, written by `make stubs` from the definitions."""

from typing import Any

from weft.typing import Array as Array
from weft.typing import DTypeLike

class Rotation:
    """One rotation or several, kept as unit quaternions `quat` (4,) or (n, 4); a pytree."""
    def __init__(self, quat: Any) -> None: ...
    def tree_flatten(self) -> tuple[Any, ...]:
        """Return the quaternions; nothing is static."""

    @classmethod
    def tree_unflatten(cls, aux_data: None, children: tuple[Any, ...]) -> Any:
        """Return the rotation of what `tree_flatten` gave."""

    @classmethod
    def concatenate(cls, rotations: Any) -> Any:
        """Join rotations into one object with all of them."""

    @classmethod
    def from_euler(cls, seq: str, angles: Any, degrees: bool = ...) -> Any:
        """Rotate by angles (...) around one axis, or (..., k) around the k axes of seq in …"""

    @classmethod
    def from_matrix(cls, matrix: Any) -> Any:
        """Take rotation matrices (..., 3, 3), which must be orthogonal with determinant 1."""

    @classmethod
    def from_mrp(cls, mrp: Any) -> Any:
        """Take modified Rodrigues parameters (..., 3): the axis times the tangent of angle / …"""

    @classmethod
    def from_quat(cls, quat: Any) -> Any:
        """Take quaternions (..., 4), scalar last, which are normalized."""

    @classmethod
    def from_rotvec(cls, rotvec: Any, degrees: bool = ...) -> Any:
        """Take rotation vectors (..., 3): the axis times the angle."""

    @classmethod
    def identity(cls, num: int | None = ..., dtype: DTypeLike | None = ...) -> Any:
        """Make the rotation that changes nothing, or num of them."""

    @classmethod
    def random(cls, random_key: Array, num: int | None = ...) -> Any:
        """Draw one rotation, or num of them, uniformly."""

    @property
    def single(self) -> bool: ...
    def __getitem__(self, indexer: Any) -> Any: ...
    def __len__(self) -> int: ...
    def apply(self, vectors: Any, inverse: bool = ...) -> Array:
        """Rotate vectors (..., 3), back if inverse; vectors and rotations broadcast."""

    def as_euler(self, seq: str, degrees: bool = ...) -> Array:
        """Return three angles (..., 3) of turns around seq's axes; the third is 0 in gimbal …"""

    def as_matrix(self) -> Array:
        """Return the rotation matrices (..., 3, 3)."""

    def as_mrp(self) -> Array:
        """Return the modified Rodrigues parameters (..., 3)."""

    def as_rotvec(self, degrees: bool = ...) -> Array:
        """Return the rotation vectors (..., 3)."""

    def as_quat(self, canonical: bool = ..., scalar_first: bool = ...) -> Array:
        """Return the quaternions (..., 4), of the two signs the one with w >= 0 if canonical."""

    def inv(self) -> Any:
        """Invert."""

    def magnitude(self) -> Array:
        """Return the angles (...), from 0 to pi."""

    def mean(self, weights: Any | None = ...) -> Any:
        """Return the rotation nearest to all, by weights (n,), in the sense of chordal …"""

class Slerp:
    """Spherical linear interpolation between rotations at times (n,), in ascending order; a …"""
    def __init__(self, times: Any, rotations: Any) -> None: ...
    @classmethod
    def init(cls, times: Any, rotations: Any) -> Any:
        """Make the interpolation of rotations (n) at times (n,)."""

    def tree_flatten(self) -> tuple[Any, ...]:
        """Return the times and rotations; nothing is static."""

    @classmethod
    def tree_unflatten(cls, aux_data: None, children: tuple[Any, ...]) -> Any:
        """Return the interpolation of what `tree_flatten` gave."""

    def __call__(self, times: Any) -> Any:
        """Return the rotations at times () or (m,)."""
