"""Abstract values: the types of the language.

A `ShapedArray` carries shape, dtype, weak type, sharding (over explicit mesh axes) and the
manual-axis type `Mat`. All are interned, so equal types are the same object: comparing and
hashing them, which tracing does for every equation, costs a pointer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from weft.core.caches import interned
from weft.core.dtypes import is_extended, short_name

Axis = Any  # a mesh or vmap axis name: any hashable, usually str


class Mat:
    """The manual-axis type of a value: three disjoint sets of mesh axis names.

    varying: the value may differ along the axis. unreduced: the value is a partial sum that is
    still to be added up along the axis. reduced: equal along the axis, with a cotangent that is
    unreduced. An axis in no set is invarying: the value is the same along it.
    """

    __slots__ = ("reduced", "unreduced", "varying")
    _interned: dict[tuple, Mat] = interned({})

    varying: frozenset
    unreduced: frozenset
    reduced: frozenset

    def __new__(
        cls,
        varying: Iterable[Axis] = frozenset(),
        unreduced: Iterable[Axis] = frozenset(),
        reduced: Iterable[Axis] = frozenset(),
    ) -> Mat:
        key = (frozenset(varying), frozenset(unreduced), frozenset(reduced))
        self = cls._interned.get(key)
        if self is None:
            both = (key[0] & key[1]) | (key[0] & key[2]) | (key[1] & key[2])
            if both:
                raise ValueError(
                    f"axes {sorted(map(str, both))} stand in more than one of varying, unreduced "
                    "and reduced; each mesh axis has one manual-axis state"
                )
            self = object.__new__(cls)
            self.varying, self.unreduced, self.reduced = key
            cls._interned[key] = self
        return self

    def __reduce__(self) -> tuple:
        return Mat, (self.varying, self.unreduced, self.reduced)

    def __bool__(self) -> bool:
        return self is not NO_MAT

    def state(self, axis: Axis) -> str:
        """Return the state of one axis: 'varying', 'unreduced', 'reduced' or 'invarying'."""
        for name in ("varying", "unreduced", "reduced"):
            if axis in getattr(self, name):
                return name
        return "invarying"

    def update(self, **sets: Iterable[Axis]) -> Mat:
        """Return a copy with sets replaced."""
        old = {"varying": self.varying, "unreduced": self.unreduced, "reduced": self.reduced}
        return Mat(**{**old, **sets})

    replace = update

    @property
    def empty(self) -> bool:
        """Whether no axis is in a set."""
        return self is NO_MAT

    @property
    def vur(self) -> frozenset:
        """The axes in any of the sets."""
        return self.varying | self.unreduced | self.reduced

    def invarying(self, mesh: Any) -> frozenset:
        """Return the mesh's Manual axes that are in no set."""
        return frozenset(mesh.manual_axes) - self.vur

    def to_ct_mat(self) -> Mat:
        """Return the type of a cotangent: reduced and unreduced change places."""
        return self.update(unreduced=self.reduced, reduced=self.unreduced)

    def __repr__(self) -> str:
        parts = []
        for letter, axes in (("V", self.varying), ("U", self.unreduced), ("R", self.reduced)):
            if axes:
                parts.append(f"{letter}:{','.join(sorted(map(str, axes)))}")
        return "{" + " ".join(parts) + "}" if parts else "{}"


NO_MAT = Mat()


class ShapedArray:
    """The type of an array.

    shape: tuple of int. dtype: `np.dtype` or an extended dtype (random keys). weak_type: True
    for Python scalars and what is computed from them alone. sharding: a `NamedSharding` over the
    explicit axes of a mesh, or None. mat: the manual-axis type.
    """

    __slots__ = ("__weakref__", "dtype", "mat", "ndim", "shape", "sharding", "size", "weak_type")
    _interned: dict[tuple, ShapedArray] = interned({})

    shape: tuple[int, ...]
    dtype: Any
    weak_type: bool
    sharding: Any
    mat: Mat
    ndim: int
    size: int

    def __new__(
        cls,
        shape: Iterable[int],
        dtype: Any,
        weak_type: bool = False,
        sharding: Any = None,
        mat: Mat = NO_MAT,
    ) -> ShapedArray:
        try:
            return cls._interned[shape, dtype, weak_type, sharding, mat]  # type: ignore[index]
        except (KeyError, TypeError):
            pass
        # Dimensions of unknown size, which have a polynomial, are ints of a class of their own.
        shape = tuple(d if d.__class__ is int or hasattr(d, "poly") else int(d) for d in shape)
        if not is_extended(dtype):
            dtype = np.dtype(dtype)
        key = (shape, dtype, bool(weak_type), sharding, mat)
        self = cls._interned.get(key)
        if self is None:
            self = object.__new__(cls)
            self.shape, self.dtype, self.weak_type, self.sharding, self.mat = key
            self.ndim = len(shape)
            size = 1
            for d in shape:
                size *= d
            self.size = size
            cls._interned[key] = self
        return self

    def __reduce__(self) -> tuple:
        return ShapedArray, (self.shape, self.dtype, self.weak_type, self.sharding, self.mat)

    def update(self, **changes: object) -> ShapedArray:
        """Return a copy with the given fields changed."""
        old = {name: getattr(self, name) for name in _FIELDS}
        return ShapedArray(**{**old, **changes})

    def strip_weak_type(self) -> ShapedArray:
        return self.update(weak_type=False) if self.weak_type else self

    @property
    def vma(self) -> frozenset:
        """The mesh axes along which the value varies."""
        return self.mat.varying

    @property
    def manual_axis_type(self) -> Mat:
        """The manual-axis type, as JAX calls `mat`."""
        return self.mat

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a scalar (rank 0) array type")
        return self.shape[0]

    def str_short(self) -> str:
        """Write the type, as `f32[8@data,64]{V:model}`: dims with mesh axes, then manual axes."""
        dims = ",".join(_dim_text(self, i) for i in range(self.ndim))
        mat = self.mat
        spec = self.sharding.spec if self.sharding is not None else None
        if spec is not None and (spec.unreduced or spec.reduced):
            mat = Mat(mat.varying, mat.unreduced | spec.unreduced, mat.reduced | spec.reduced)
        return f"{short_name(self.dtype)}[{dims}]{repr(mat) if mat else ''}"

    __str__ = str_short

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.weak_type else ""
        _, _, dims = self.str_short().partition("[")
        return f"ShapedArray({self.dtype.name}[{dims}{weak})"


_FIELDS = ("shape", "dtype", "weak_type", "sharding", "mat")


def _dim_text(aval: ShapedArray, dim: int) -> str:
    axes = aval.sharding.spec_of(dim) if aval.sharding is not None else ()
    return f"{aval.shape[dim]}@{'+'.join(map(str, axes))}" if axes else str(aval.shape[dim])


def plain_type(aval: Any) -> Any:
    """Drop from a type the properties in which interchangeable values differ.

    These are weak types, and explicit shardings that split nothing: a value made without a mesh
    stands for a replicated one.
    """
    if not hasattr(aval, "strip_weak_type"):
        return aval
    aval = aval.strip_weak_type()
    sharding = getattr(aval, "sharding", None)
    if sharding is None or sharding.spec.used_axes() or sharding.spec.unreduced:
        return aval
    return aval.update(sharding=None)


class AbstractToken:
    """The type of a token: it carries an order, no data."""

    __slots__ = ()
    shape = ()
    ndim = 0
    size = 0
    mat = NO_MAT
    sharding = None
    weak_type = False
    dtype = np.dtype([])

    def str_short(self) -> str:
        return "token"

    def strip_weak_type(self) -> AbstractToken:
        return self

    def update(self, **_: object) -> AbstractToken:
        return self

    __repr__ = __str__ = str_short


TOKEN = AbstractToken()
