# Tests: tests/compat/test_as_jax.py
"""Builds the modules that `import jax` finds: their names are looked up in weft.

A module of JAX takes its names from the module of weft with the same name, `jax.numpy.linalg` from
`weft.numpy.linalg`, and then from the file of the same name in `weft/compat/jax`, if there is one.
What stands in `jax.experimental` or `jax.example_libraries` may stand one level up in weft. A
private module, `jax._src.flatten_util`, has the names of the public one.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import os
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from weft.compat.finder import REFERENCE

_MIRROR = "weft.compat.jax"
_MIRROR_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "jax")

# JAX's module -> weft's, both without the package's name, where they differ.
_RENAMED = {
    "experimental.pallas": "pallas",
    "experimental.pallas.tpu": "pallas",
    "experimental.pallas.triton": "pallas",
    "experimental.pallas.mosaic_gpu": "pallas",
    **{
        f"experimental.sparse.{name}": "sparse"
        for name in "_base ad api bcoo bcsr coo csr random transform util".split()  # noqa: SIM905
    },
}

_LAX = (
    "ann control_flow control_flow.conditionals control_flow.loops control_flow.solves convolution "
    "fft lax other parallel slicing special utils windowed_reductions"
)
_PALLAS = "core pallas_call primitives"
_NUMPY = (
    "array_creation array_methods indexing lax_numpy reductions setops sorting ufuncs util "
    "vectorize"
)
_SHARDING = "mesh named_sharding partition_spec sharding sharding_impls"

# Private module below `jax._src` -> the public one that has its names, where they differ.
_PUBLIC = {
    **dict.fromkeys(
        ("api", "array", "basearray", "callback", "config", "environment_info", "xla_bridge"), ""
    ),
    "xla_metadata_lib": "",
    **{f"lax.{name}": "lax" for name in _LAX.split()},
    **{f"numpy.{name}": "numpy" for name in _NUMPY.split()},
    **dict.fromkeys(_SHARDING.split(), "sharding"),
    **{f"pallas.{name}": "experimental.pallas" for name in _PALLAS.split()},
    **dict.fromkeys(("scipy.optimize.bfgs", "scipy.optimize.minimize"), "scipy.optimize"),
    "export._export": "export",
    "image.scale": "image",
    "lib.mlir": "extend.mlir",
    "lib.mlir.dialects": "extend.mlir.dialects",
    "nn.functions": "nn",
    "ops.scatter": "ops",
    "ops.special": "scipy.special",
    "prng": "_src.random.prng",
    "public_test_util": "test_util",
    "random.core": "random",
    "random.prng": "extend.random",
    "scipy.stats._core": "scipy.stats",
}

# Rooms of weft that no module of JAX's is named after.
_OWN = frozenset(("as_jax", "collectives", "communication", "partition", "testing"))

_ABOVE = ("experimental.", "example_libraries.")

_hidden: dict[str, bool] = {}


class _Loader:
    """Makes the module and leaves its names to its `__getattr__`."""

    @staticmethod
    def create_module(spec: ModuleSpec) -> ModuleType:
        return build(spec.name, spec.loader_state)

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        if module.__name__ == "jax":  # array_api_compat (SciPy) asks `sys.modules` for its Tracer
            importlib.import_module("jax.core")


def find_spec(name: str) -> ModuleSpec:
    """Return the spec of a module of JAX's; ModuleNotFoundError says what weft has instead."""
    homes = homes_of(name)
    if not homes:
        raise ModuleNotFoundError(f"{missing(name)}; {_ADVICE}", name=name)
    spec = ModuleSpec(name, _Loader(), is_package=True, loader_state=homes)  # type: ignore[arg-type]
    spec.origin = getattr(importlib.import_module(homes[0]), "__file__", None)
    return spec


_ADVICE = (
    f"programs written for JAX {REFERENCE} run on weft here, and `weft compat PACKAGE` lists the "
    "names of JAX that a package uses and weft lacks"
)


def homes_of(name: str) -> list[str]:
    """Return weft's modules with the names of a module of JAX's, the one of aliases last."""
    rest = name.partition(".")[2]
    mirrored = [".".join(filter(None, (_MIRROR, rest)))] if _mirrored(rest) else []
    if not rest:
        return [*mirrored, "weft"]
    if rest.startswith("_src."):
        public = _public_homes(rest.removeprefix("_src."))
        return [*mirrored, *(h for h in public if h not in mirrored)]
    candidates = [rest, *(rest.removeprefix(p) for p in _ABOVE if rest.startswith(p))]
    if rest in _RENAMED:  # where a name means something else to a TPU's kernels, that comes first
        return [*mirrored, f"weft.{_RENAMED[rest]}"]
    return [*(f"weft.{c}" for c in candidates if _is_public(c)), *mirrored]


def _public_homes(private: str) -> list[str]:
    """Return the modules of weft that have the public names of the module `jax._src.private`."""
    if private in _PUBLIC:
        return homes_of(f"jax.{_PUBLIC[private]}".rstrip("."))
    levels = ("", "experimental.", "extend.", "interpreters.")
    return [home for level in levels for home in homes_of(f"jax.{level}{private}")]


def _mirrored(rest: str) -> bool:
    path = os.path.join(_MIRROR_FOLDER, *rest.split("."))
    return os.path.isfile(path + ".py") or os.path.isfile(os.path.join(path, "__init__.py"))


def _is_public(name: str) -> bool:
    import weft

    package: Any = weft
    first = name.partition(".")[0]
    if first not in package._PACKAGES or first in _OWN:
        return False
    if f"weft.{name}" in sys.modules:
        return True
    try:
        return importlib.util.find_spec(f"weft.{name}") is not None
    except ModuleNotFoundError:  # what should hold it is no package
        return False


def is_module(name: str) -> bool:
    """Return whether weft has names for a module of JAX's."""
    cached = _hidden.get(name)
    if cached is None:
        cached = _hidden[name] = bool(homes_of(name))
    return cached


_loaded = vars(ModuleType)["__dict__"].__get__


class _Module(ModuleType):
    """A module whose names are looked up when first used; its `__dict__` looks up all of them."""

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        for name in dir(self):
            getattr(self, name, None)
        names: dict[str, Any] = _loaded(self)
        return names

    def __dir__(self) -> list[str]:
        return list(_loaded(self)["__dir__"]())

    def __delattr__(self, name: str) -> None:
        """Delete a name, which tests do, and do not look it up again."""
        super().__delattr__(name)
        _loaded(self)["__deleted__"].add(name)


def build(name: str, homes: list[str]) -> ModuleType:
    """Return a module whose names are those of the modules `homes`, looked up when first used."""
    if name == "jax":
        from weft.compat import members

        members.install()
    first = importlib.import_module(homes[0])
    module = _Module(name, first.__doc__)
    names = _loaded(module)

    deleted: set[str] = set()

    def lookup(attribute: str) -> Any:
        if attribute in deleted:
            raise AttributeError(f"module {name!r} has no attribute {attribute!r}: it was deleted")
        value = _find(name, homes, attribute)
        names[attribute] = value
        return value

    def listed() -> list[str]:
        of_weft = {n for home in homes for n in dir(importlib.import_module(home))}
        return sorted(n for n in of_weft | set(names) if not n.startswith("_"))

    names.update(__getattr__=lookup, __dir__=listed, __deleted__=deleted)
    if getattr(first, "__file__", None):
        module.__file__ = first.__file__
    return module


_ABSENT = object()

# The names with underscores that a module says of itself; the others are the import system's.
_SAID_OF_MODULES = ("__version", "__array_")

# JAX's name -> module and name of what stands there, where weft's function of this name differs.
_INSTEAD = {
    "jax.numpy.array": ("weft.compat.creation", "array"),
    "jax.numpy.asarray": ("weft.compat.creation", "asarray"),
    "jax.numpy.finfo": ("weft.numpy.scalar_types", "finfo_of_numpy_scalars"),
}


def _find(name: str, homes: list[str], attribute: str) -> Any:
    if attribute == "__all__":
        return importlib.import_module(name).__dir__()
    if attribute.startswith("__") and not attribute.startswith(_SAID_OF_MODULES):
        raise AttributeError(f"module {name!r} has no attribute {attribute!r}")
    instead = _INSTEAD.get(f"{name}.{attribute}")
    if instead is not None:
        return getattr(importlib.import_module(instead[0]), instead[1])
    value: Any = _ABSENT
    for home in () if name == "jax" and attribute in _OWN else homes:
        try:
            value = getattr(importlib.import_module(home), attribute)
            break
        except AttributeError:
            continue
    inner = f"{name}.{attribute}"
    if value is _ABSENT and name.startswith("jax._src.") and attribute.endswith("_p"):
        # Libraries import primitives from the files that define them in JAX.
        value = getattr(importlib.import_module("jax.extend.core.primitives"), attribute, _ABSENT)
    if (value is _ABSENT or isinstance(value, ModuleType)) and is_module(inner):
        return importlib.import_module(inner)
    if value is _ABSENT:
        raise AttributeError(f"{missing(inner)}; {_ADVICE}", name=attribute)
    if attribute.endswith("_p") and hasattr(value, "bind"):
        from weft.compat.equations import take_params_of_jax

        take_params_of_jax(value)
    if isinstance(value, type) and value.__name__ == attribute:
        _name_after_jax(value, name)
    return value


def _name_after_jax(cls: type, module: str) -> None:
    """Make a class of weft's say that it is of JAX's module, by which libraries know its values."""
    if cls.__module__.startswith("weft.") and not issubclass(cls, BaseException):
        cls.__module__ = module


_SPARSE = "sparse arrays are made of plain operations here: call bcoo_dot_general and its like"
_TPU = "it is of TPUs: move data between devices by jax.lax collectives around the kernel"
_TPU_BITS = "it is of TPUs: draw by jax.random from a key, inside of the kernel or outside"

# The start of JAX's name -> why weft has nothing there, and what to write.
_WHY = {
    "jax.experimental.jet.": "weft.jet derives rules itself: give custom_jvp to what has none",
    "jax.experimental.mosaic": "it is one compiler's for GPUs: write kernels for pl.pallas_call",
    "jax.experimental.pallas.BoundedSlice": "blocks of a kernel have one size: fetch pl.ds(i, n)",
    "jax.experimental.pallas.Indirect": "index a ref with an array of positions in the kernel",
    "jax.experimental.pallas.get_global": "give the kernel the ref as an argument or as scratch",
    "jax.experimental.pallas.lower_as_mlir": "jax.jit(f).lower(x).as_text() shows a program",
    "jax.experimental.pallas.select_ref": "read both refs and choose by jnp.where, or by lax.cond",
    "jax.experimental.pallas.fuser": "write what shall be fused in one kernel",
    "jax.experimental.pallas.mosaic_gpu.": "write kernels for pl.pallas_call or pallas.triton",
    "jax.experimental.pallas.ops": "copy the kernels you need, and call jax.nn.softmax or "
    "jax.nn.dot_product_attention for the others",
    "jax.experimental.pallas.tpu.async_remote_copy": _TPU,
    "jax.experimental.pallas.tpu.get_barrier_semaphore": _TPU,
    "jax.experimental.pallas.tpu.make_async_remote_copy": _TPU,
    "jax.experimental.pallas.tpu.prng_": _TPU_BITS,
    "jax.experimental.pallas.tpu.sample_block": _TPU_BITS,
    "jax.experimental.pallas.tpu.stateful_": _TPU_BITS,
    "jax.experimental.pallas.tpu.matmul_": "it is of TPUs: write jnp.dot",
    "jax.experimental.pallas.tpu.Buffered": "pl.emit_pipeline and pl.Buffered make the buffers",
    "jax.experimental.pallas.tpu_sc": "it is of one unit of TPUs: write a kernel without it",
    "jax.experimental.roofline": "weft.comm and f.lower(x).compile().cost_analysis() estimate",
    "jax.experimental.sparse.bco": _SPARSE,
    "jax.experimental.sparse.bcs": _SPARSE,
    "jax.tools": "f.lower(x).as_text(dialect='hlo') gives HLO",
}


def missing(name: str) -> str:
    """Name in a sentence what weft lacks, and the nearest that it has, or why there is none."""
    parent, _, last = name.rpartition(".")
    text = f"weft has no {name}"
    reason = next((why for start, why in _WHY.items() if name.startswith(start)), None)
    if reason is not None:
        return f"{text}: {reason}"
    if not is_module(parent):
        return text
    close = difflib.get_close_matches(last, dir(importlib.import_module(parent)), n=1)
    return f"{text}: did you mean {parent}.{close[0]}?" if close else text
