# Tests: tests/scipy/test_spatial.py
"""Rotations of three dimensions, under the names of jax.scipy.spatial.transform."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import weft.numpy as wnp
from weft import random, tree_util
from weft.core.errors import ArgumentError
from weft.core.namespace import seal
from weft.runtime.array import Array
from weft.scipy.special.factorials import as_float, float_array

__all__ = ["Rotation", "Slerp"]


@tree_util.register_pytree_node_class
class Rotation:
    """One rotation or several, kept as unit quaternions `quat` (4,) or (n, 4); a pytree.

    Rotations are made by the `from_...` methods, composed by `*` (the right one is applied first),
    indexed like arrays, and can be differentiated and batched.

    Source: scipy.spatial.transform.Rotation.

    >>> import numpy as np
    >>> from weft.scipy.spatial.transform import Rotation
    >>> r = Rotation.from_euler("z", 90, degrees=True)
    >>> bool(np.allclose(r.apply(np.array([1.0, 0, 0])), [0, 1, 0], atol=1e-6))
    True
    """

    def __init__(self, quat: Any):
        self.quat = quat

    def tree_flatten(self) -> tuple:
        """Return the quaternions; nothing is static."""
        return (self.quat,), None

    @classmethod
    def tree_unflatten(cls, aux_data: None, children: tuple) -> Rotation:
        """Return the rotation of what `tree_flatten` gave."""
        return cls(*children)

    @classmethod
    def concatenate(cls, rotations: Sequence[Rotation]) -> Rotation:
        """Join rotations into one object with all of them."""
        return cls(wnp.concatenate([wnp.atleast_2d(r.quat) for r in rotations]))

    @classmethod
    def from_euler(cls, seq: str, angles: object, degrees: bool = False) -> Rotation:
        """Rotate by angles (...) around one axis, or (..., k) around the k axes of seq in turn.

        seq: up to three of 'xyz' (axes that stay) or of 'XYZ' (axes that turn along).
        """
        axes, extrinsic = _axes_of("from_euler", seq)
        a = float_array(angles)
        if len(axes) == 1 and a.ndim < 2:
            a = a[..., None]
        if a.ndim == 0 or a.ndim > 2 or a.shape[-1] != len(axes):
            raise ArgumentError(
                f"from_euler: angles {wnp.shape(angles)} must end with the {len(axes)} axes of "
                f"seq {seq!r}"
            )
        half = (wnp.deg2rad(a) if degrees else a) / 2
        sin, cos = wnp.sin(half), wnp.cos(half)
        total: Any = None
        for n, axis in enumerate(axes):
            unit = wnp.eye(3, dtype=a.dtype)[axis]
            turn = wnp.concatenate([sin[..., n : n + 1] * unit, cos[..., n : n + 1]], -1)
            if total is None:
                total = turn
            else:
                total = _product(turn, total) if extrinsic else _product(total, turn)
        return cls(total[0] if len(axes) == 1 and wnp.shape(angles) == (1,) else total)

    @classmethod
    def from_matrix(cls, matrix: object) -> Rotation:
        """Take rotation matrices (..., 3, 3), which must be orthogonal with determinant 1."""
        m = float_array(matrix)
        _check_shape("from_matrix", "matrix", m, (3, 3))
        (a, b, c), (d, e, f), (g, h, i) = ([m[..., r, s] for s in range(3)] for r in range(3))
        # Each row is the quaternion times four of its components (Shepperd 1978): of these, the
        # longest is the one without cancellation.
        rows = [
            [1 + a - e - i, b + d, c + g, h - f],
            [b + d, 1 - a + e - i, f + h, c - g],
            [c + g, f + h, 1 - a - e + i, d - b],
            [h - f, c - g, d - b, 1 + a + e + i],
        ]
        candidates = wnp.stack([wnp.stack(row, -1) for row in rows], -2)
        best = wnp.argmax(wnp.stack([rows[n][n] for n in range(4)], -1), -1)
        chosen = wnp.take_along_axis(candidates, best[..., None, None], -2)[..., 0, :]
        return cls(_normalized(chosen))

    @classmethod
    def from_mrp(cls, mrp: object) -> Rotation:
        """Take modified Rodrigues parameters (..., 3): the axis times the tangent of angle / 4."""
        m = float_array(mrp)
        _check_shape("from_mrp", "mrp", m, (3,))
        square = wnp.sum(m * m, -1, keepdims=True)
        return cls(wnp.concatenate([2 * m, 1 - square], -1) / (1 + square))

    @classmethod
    def from_quat(cls, quat: object) -> Rotation:
        """Take quaternions (..., 4), scalar last, which are normalized."""
        q = float_array(quat)
        _check_shape("from_quat", "quat", q, (4,))
        return cls(_normalized(q))

    @classmethod
    def from_rotvec(cls, rotvec: object, degrees: bool = False) -> Rotation:
        """Take rotation vectors (..., 3): the axis times the angle."""
        v = float_array(rotvec)
        _check_shape("from_rotvec", "rotvec", v, (3,))
        v = wnp.deg2rad(v) if degrees else v
        angle = _norm(v)
        return cls(
            wnp.concatenate([v * wnp.sinc(angle / (2 * math.pi)) / 2, wnp.cos(angle / 2)], -1)
        )

    @classmethod
    def identity(cls, num: int | None = None, dtype: object = float) -> Rotation:
        """Make the rotation that changes nothing, or num of them."""
        q = wnp.array([0, 0, 0, 1], dtype=dtype)
        return cls(q if num is None else wnp.tile(q, (num, 1)))

    @classmethod
    def random(cls, random_key: Array, num: int | None = None) -> Rotation:
        """Draw one rotation, or num of them, uniformly."""
        return cls(_normalized(random.normal(random_key, (4,) if num is None else (num, 4))))

    @property
    def single(self) -> bool:
        """Whether this is one rotation and not a sequence."""
        return self.quat.ndim == 1

    def __getitem__(self, indexer: object) -> Rotation:
        if self.single:
            raise ArgumentError("Single rotation is not subscriptable.")
        return Rotation(self.quat[indexer])

    def __len__(self) -> int:
        if self.single:
            raise ArgumentError("Single rotation has no len().")
        return self.quat.shape[0]

    def __bool__(self) -> bool:
        return True

    def __mul__(self, other: Rotation) -> Rotation:
        if not isinstance(other, Rotation):
            return NotImplemented
        return Rotation(_product(self.quat, other.quat))

    def apply(self, vectors: object, inverse: bool = False) -> Array:
        """Rotate vectors (..., 3), back if inverse; vectors and rotations broadcast."""
        v = float_array(vectors)
        _check_shape("apply", "vectors", v, (3,))
        matrix = self.as_matrix()
        return wnp.einsum("...ji,...j->...i" if inverse else "...ij,...j->...i", matrix, v)

    def as_euler(self, seq: str, degrees: bool = False) -> Array:
        """Return three angles (..., 3) of turns around seq's axes; the third is 0 in gimbal lock.

        Source: Bernardes and Viollet, Quaternion to Euler angles conversion, PLoS ONE 17 (2022).
        """
        axes, extrinsic = _axes_of("as_euler", seq)
        if len(axes) != 3 or axes[0] == axes[1] or axes[1] == axes[2]:
            raise ArgumentError(
                f"as_euler: seq must name three axes, neighbors distinct, got {seq!r}"
            )
        i, j, k = axes if extrinsic else axes[::-1]
        symmetric = i == k
        if symmetric:
            k = 3 - i - j
        sign = (i - j) * (j - k) * (k - i) // 2
        x, y, z, w = (self.quat[..., n] for n in (i, j, k, 3))
        z = z * sign
        a, b, c, d = (w, x, y, z) if symmetric else (w - y, x + z, y + w, z - x)
        middle = 2 * wnp.arctan2(wnp.hypot(c, d), wnp.hypot(a, b))
        half_sum, half_difference = wnp.arctan2(b, a), wnp.arctan2(d, c)
        tiny = 1e-7 if middle.dtype == wnp.float64 else 1e-4
        at_zero, at_pi = wnp.abs(middle) < tiny, wnp.abs(middle - math.pi) < tiny
        # In gimbal lock only the sum or the difference is defined: the user's third angle is 0.
        locked = wnp.where(at_zero, 2 * half_sum, (-2 if extrinsic else 2) * half_difference)
        free = ~(at_zero | at_pi)
        first = half_sum - half_difference
        third = half_sum + half_difference
        if extrinsic:
            first, third = wnp.where(free, first, locked), wnp.where(free, third, 0)
        else:
            first, third = wnp.where(free, first, 0), wnp.where(free, third, locked)
        if not symmetric:
            third, middle = third * sign, middle - math.pi / 2
        angles = wnp.stack([first, middle, third] if extrinsic else [third, middle, first], -1)
        angles = wnp.where(angles > math.pi, angles - 2 * math.pi, angles)
        angles = wnp.where(angles < -math.pi, angles + 2 * math.pi, angles)
        return wnp.rad2deg(angles) if degrees else angles

    def as_matrix(self) -> Array:
        """Return the rotation matrices (..., 3, 3)."""
        x, y, z, w = (self.quat[..., n] for n in range(4))
        rows = [
            [x * x - y * y - z * z + w * w, 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), -x * x + y * y - z * z + w * w, 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), -x * x - y * y + z * z + w * w],
        ]
        return wnp.stack([wnp.stack(row, -1) for row in rows], -2)

    def as_mrp(self) -> Array:
        """Return the modified Rodrigues parameters (..., 3)."""
        q = _canonical(self.quat)
        return q[..., :3] / (1 + q[..., 3:])

    def as_rotvec(self, degrees: bool = False) -> Array:
        """Return the rotation vectors (..., 3)."""
        q = _canonical(self.quat)
        sine = _norm(q[..., :3])
        small = sine < 1e-3
        safe = wnp.where(small, 1, sine)
        # 2 arcsin(s) / s, by its series where s is small.
        scale = wnp.where(small, 2 + sine * sine / 3, 2 * wnp.arctan2(safe, q[..., 3:]) / safe)
        v = scale * q[..., :3]
        return wnp.rad2deg(v) if degrees else v

    def as_quat(self, canonical: bool = False, scalar_first: bool = False) -> Array:
        """Return the quaternions (..., 4), of the two signs the one with w >= 0 if canonical."""
        q = _canonical(self.quat) if canonical else self.quat
        return wnp.roll(q, 1, -1) if scalar_first else q

    def inv(self) -> Rotation:
        """Invert."""
        return Rotation(self.quat * wnp.array([-1, -1, -1, 1], dtype=self.quat.dtype))

    def magnitude(self) -> Array:
        """Return the angles (...), from 0 to pi."""
        return 2 * wnp.arctan2(_norm(self.quat[..., :3])[..., 0], wnp.abs(self.quat[..., 3]))

    def mean(self, weights: Any | None = None) -> Rotation:
        """Return the rotation nearest to all, by weights (n,), in the sense of chordal distance.

        Source: Markley and others, Averaging Quaternions, J. Guid. Control Dyn. 30 (2007).
        """
        q = wnp.atleast_2d(self.quat)
        w = wnp.ones(q.shape[:1], q.dtype) if weights is None else as_float(weights)
        if w.shape != q.shape[:1]:
            raise ArgumentError(
                f"mean: weights {w.shape} must have one element for each of {q.shape[0]} rotations"
            )
        _, vectors = wnp.linalg.eigh(wnp.einsum("n,ni,nj->ij", w, q, q))
        return Rotation(vectors[:, -1])


@tree_util.register_pytree_node_class
class Slerp:
    """Spherical linear interpolation between rotations at times (n,), in ascending order; a pytree.

    Source: scipy.spatial.transform.Slerp.

    >>> import numpy as np
    >>> from weft.scipy.spatial.transform import Rotation, Slerp
    >>> ends = Rotation.from_euler("z", np.array([0.0, 90.0]), degrees=True)
    >>> middle = Slerp.init(np.array([0.0, 1.0]), ends)(0.5)
    >>> round(float(np.rad2deg(middle.magnitude())), 3)
    45.0
    """

    def __init__(self, times: Any, rotations: Rotation):
        if not isinstance(rotations, Rotation):
            raise ArgumentError("`rotations` must be a `Rotation` instance.")
        if rotations.single or len(rotations) < 2:
            raise ArgumentError("Slerp: rotations must be a sequence of at least 2 rotations")
        self.times, self.rotations = float_array(times), rotations
        if self.times.shape != (len(rotations),):
            raise ArgumentError(
                f"Slerp: times {self.times.shape} must have one element for each of "
                f"{len(rotations)} rotations"
            )

    @classmethod
    def init(cls, times: object, rotations: Rotation) -> Slerp:
        """Make the interpolation of rotations (n) at times (n,)."""
        return cls(times, rotations)

    def tree_flatten(self) -> tuple:
        """Return the times and rotations; nothing is static."""
        return (self.times, self.rotations), None

    @classmethod
    def tree_unflatten(cls, aux_data: None, children: tuple) -> Slerp:
        """Return the interpolation of what `tree_flatten` gave."""
        self = object.__new__(cls)
        self.times, self.rotations = children
        return self

    def __call__(self, times: Any) -> Rotation:
        """Return the rotations at times () or (m,)."""
        t = float_array(times)
        following = wnp.searchsorted(self.times, t, side="right")
        start = wnp.clip(following - 1, 0, len(self.rotations) - 2)
        before, after = self.rotations[start], self.rotations[start + 1]
        share = (t - self.times[start]) / (self.times[start + 1] - self.times[start])
        return before * Rotation.from_rotvec((before.inv() * after).as_rotvec() * share[..., None])


def _axes_of(function: str, seq: str) -> tuple[list[int], bool]:
    """Return the axes of a sequence as numbers, and whether they stay where they are."""
    extrinsic = seq.islower()
    if not 1 <= len(seq) <= 3 or set(seq) - set("xyz" if extrinsic else "XYZ"):
        raise ArgumentError(
            f"{function}: seq must be one to three of 'xyz' (extrinsic) or of 'XYZ' (intrinsic), "
            f"got {seq!r}"
        )
    return ["xyz".index(c) for c in seq.lower()], extrinsic


def _check_shape(function: str, argument: str, x: Array, end: tuple[int, ...]) -> None:
    if x.shape[-len(end) :] != end:
        raise ArgumentError(
            f"{function}: the shape of {argument} must end with {end}, got {x.shape}"
        )


def _norm(x: Array) -> Array:
    """Return the length of vectors, keeping the dimension; its derivative at 0 is 0."""
    square = wnp.sum(x * x, -1, keepdims=True)
    zero = square == 0
    return wnp.where(zero, 0, wnp.sqrt(wnp.where(zero, 1, square)))


def _normalized(q: Array) -> Array:
    return q / wnp.sqrt(wnp.sum(q * q, -1, keepdims=True))


def _canonical(q: Array) -> Array:
    return wnp.where(q[..., 3:] < 0, -q, q)


def _product(p: Array, q: Array) -> Array:
    """Return the quaternion of the rotation q and then p."""
    u, v, a, b = p[..., :3], q[..., :3], p[..., 3:], q[..., 3:]
    u, v = wnp.broadcast_arrays(u, v)
    vector = a * v + b * u + wnp.cross(u, v)
    return wnp.concatenate([vector, a * b - wnp.sum(u * v, -1, keepdims=True)], -1)


seal(globals())
