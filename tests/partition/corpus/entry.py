"""How a program of the corpus is declared, and the meshes and shardings it is tried on."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.partition.corpus.reference import Host, leaves

Spec = tuple[Any, ...]
Layout = tuple[dict[str, int], tuple[Spec, ...]]

MESHES = ({"x": 4, "y": 2}, {"x": 2, "y": 2, "z": 2}, {"data": 8})


class Library:
    """weft or JAX for a program: all of the module, and `pin` for random constraints."""

    def __init__(self, module: Any, mesh: Any, seed: int = 0) -> None:
        self._module, self._mesh = module, mesh
        self._rng = np.random.default_rng(seed)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)

    def pin(self, x: Any, *spec: Any) -> Any:
        """Constrains `x` to `spec`, or to a random sharding where none is given."""
        entries = spec or placement(self._rng, dict(self._mesh.shape), x.shape, divide=False)
        sharding = self._module.NamedSharding(self._mesh, self._module.P(*entries))
        return self._module.lax.with_sharding_constraint(x, sharding)


@dataclass(frozen=True, slots=True)
class Entry:
    """One program: `build(np, lib)` returns the function to jit."""

    name: str
    build: Callable[[Any, Any], Callable]
    arguments: Callable[[np.random.Generator], tuple[np.ndarray, ...]]
    reference: Callable | None = None
    layouts: tuple[Layout, ...] = ()
    tolerance: float = 2e-4

    def expected(self, *args: np.ndarray) -> tuple[np.ndarray, ...]:
        """The results by NumPy on one host."""
        function = self.reference or self.build(np, Host)
        return tuple(leaves(function(*args)))


@dataclass(frozen=True, slots=True)
class Case:
    """A program on a mesh with shardings of its arguments."""

    entry: Entry
    variant: int
    sizes: dict[str, int]
    specs: tuple[Spec, ...]
    args: tuple[np.ndarray, ...]

    @property
    def name(self) -> str:
        return f"{self.entry.name}-{self.variant}"

    def function(self, module: Any, mesh: Any = None, **options: Any) -> Any:
        """The jitted program of `module` (weft or JAX)."""
        if mesh is None:
            auto = (module.sharding.AxisType.Auto,) * len(self.sizes)
            mesh = module.make_mesh(tuple(self.sizes.values()), tuple(self.sizes), auto)
        library = Library(module, mesh, zlib.crc32(self.name.encode()))
        shardings = tuple(module.NamedSharding(mesh, module.P(*s)) for s in self.specs)
        build = self.entry.build(module.numpy, library)
        return module.jit(build, in_shardings=shardings, **options)


PROGRAMS: dict[str, Entry] = {}


def program(
    *shapes: tuple[int, ...],
    reference: Callable | None = None,
    ints: Sequence[int] = (),
    positive: bool = False,
    layouts: Sequence[Layout] = (),
    tolerance: float = 2e-4,
) -> Callable:
    """Adds a program.

    shapes: of its arguments. ints: which of them hold indices below 8. positive: values above 0.5.
    layouts: (mesh, specs of the arguments) to try; by default random ones on each of MESHES.
    """

    def arguments(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
        out = []
        for i, shape in enumerate(shapes):
            if i in ints:
                out.append(rng.integers(0, 8, shape).astype(np.int32))
            else:
                value = np.asarray(rng.normal(size=shape), np.float32)
                out.append(np.abs(value) + 0.5 if positive else value)
        return tuple(out)

    def add(build: Callable) -> Callable:
        name = build.__name__
        # A doctest run imports each file twice, which is no second program.
        known = PROGRAMS.get(name)
        assert known is None or known.build.__code__.co_filename == build.__code__.co_filename, name
        PROGRAMS[name] = Entry(name, build, arguments, reference, tuple(layouts), tolerance)
        return build

    return add


def placement(
    rng: np.random.Generator, mesh: dict[str, int], shape: Sequence[int], divide: bool = True
) -> Spec:
    """A random placement of mesh axes on dimensions (that they divide), as the entries of a `P`."""
    entries: list[list[str]] = [[] for _ in shape]
    left = list(shape)
    for axis in rng.permutation(list(mesh)):
        choices = [d for d in range(len(shape)) if not divide or left[d] % mesh[axis] == 0]
        if choices and rng.random() < 0.75:
            d = int(rng.choice(choices))
            entries[d].append(str(axis))
            left[d] //= mesh[axis]
    return tuple(tuple(e) if e else None for e in entries)


@functools.cache
def case(name: str, variant: int) -> Case:
    """One program with its `variant`-th layout; always the same for the same names."""
    entry = PROGRAMS[name]
    rng = np.random.default_rng(zlib.crc32(f"{name}{variant}".encode()))
    args = entry.arguments(rng)
    if entry.layouts:
        sizes, specs = entry.layouts[variant]
    else:
        sizes = MESHES[variant]
        specs = tuple(placement(rng, sizes, a.shape) for a in args)
    return Case(entry, variant, sizes, specs, args)


def variants(entry: Entry) -> int:
    """How many layouts a program is tried with."""
    return len(entry.layouts) or len(MESHES)


def cases(every: bool = True) -> Iterator[Case]:
    """All cases, or one for each program: its layouts take turns along the names."""
    for turn, name in enumerate(sorted(PROGRAMS)):
        count = variants(PROGRAMS[name])
        for variant in range(count) if every else (turn % count,):
            yield case(name, variant)
