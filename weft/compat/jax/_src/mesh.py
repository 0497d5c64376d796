# Tests: tests/compat/test_private_names.py
"""jax._src.mesh, for orbax, levanter and MaxText: the mesh in context, as JAX kept it before."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weft.sharding import Mesh
from weft.sharding.mesh import EMPTY_ABSTRACT_MESH as empty_abstract_mesh  # noqa: N811
from weft.sharding.mesh import get_mesh

_EMPTY = Mesh(np.empty((), object), ())


@dataclass(frozen=True)
class ResourceEnv:
    physical_mesh: Mesh

    @property
    def empty(self) -> bool:
        return self.physical_mesh.empty


EMPTY_ENV = ResourceEnv(_EMPTY)


class _ThreadResources:
    @property
    def env(self) -> ResourceEnv:
        return ResourceEnv(get_concrete_mesh())


thread_resources = _ThreadResources()


def get_concrete_mesh() -> Mesh:
    """Return the mesh in context, or one without axes."""
    return get_mesh() or _EMPTY


__all__ = [
    "EMPTY_ENV",
    "ResourceEnv",
    "empty_abstract_mesh",
    "get_concrete_mesh",
    "thread_resources",
]
