# Tests: tests/test_export.py
"""Exported programs as bytes: a header with version, length and checksum, then JSON and modules."""

from __future__ import annotations

import hashlib
import json
import struct
from typing import Any

import ml_dtypes
import numpy as np

import weft.export.jax_file as jax_file
import weft.export.template as template
import weft.export.trees as trees
from weft._xla import portable
from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.effects import Effect
from weft.export.checks import DisabledSafetyCheck
from weft.export.exported import Exported
from weft.export.exported import maximum_supported_calling_convention_version as NEWEST
from weft.export.symbolic import SymbolicDim, symbolic_shape
from weft.sharding.mesh import AbstractMesh, AxisType
from weft.sharding.named import NamedSharding
from weft.sharding.spec import UNCONSTRAINED, PartitionSpec

_MAGIC = b"WEFT-EXP"
_HEADER = struct.Struct("<8sHQ32s")  # magic, version, bytes that follow, their SHA-256
_LENGTH = struct.Struct("<Q")


def write(exported: Exported, vjp_order: int) -> bytes:
    if not isinstance(vjp_order, int) or vjp_order < 0:
        raise ValueError(f"serialize: vjp_order must be an integer from 0 on, got {vjp_order!r}")
    differentiable = vjp_order > 0 and exported.has_vjp()
    if vjp_order > 0 and not differentiable:
        exported.vjp()  # raises
    blobs = list(dict.fromkeys(exported._modules.values()))
    if differentiable:
        blobs.append(write(exported.vjp(), vjp_order - 1))
    meta = {
        "stablehlo": portable.target_version(),
        "fun_name": exported.fun_name,
        "in_tree": trees.as_json(exported.in_tree),
        "out_tree": trees.as_json(exported.out_tree),
        "in_types": [_type(a) for a in exported._in_types],
        "out_types": [_type(a) for a in exported._out_types],
        "in_shardings": [_sharding(s) for s in exported._in_shardings],
        "out_shardings": [_sharding(s) for s in exported._out_shardings],
        "mesh": _mesh(exported._mesh),
        "shardy": exported._shardy,
        "kept": exported._kept,
        "nr_devices": exported.nr_devices,
        "modules": {p: blobs.index(m) for p, m in exported._modules.items()},
        "disabled": [c._impl for c in exported.disabled_safety_checks],
        "effects": [e.name for e in exported.unordered_effects],
        "has_vjp": differentiable,
        "symbolic": exported._symbolic is not None,
    }
    parts = [json.dumps(meta).encode(), *blobs]
    body = b"".join(_LENGTH.pack(len(p)) + p for p in parts)
    # The checksum is over the header before it as well.
    version = 1 if exported._symbolic is None else NEWEST
    head = _HEADER.pack(_MAGIC, version, len(body), bytes(32))
    return _HEADER.pack(_MAGIC, version, len(body), _checksum(head, body)) + body


def deserialize(blob: bytes | bytearray) -> Exported:
    """Return the function that `Exported.serialize` wrote, or JAX's.

    Of files of JAX, those whose shapes have numbers alone are read.

    Raises:
      ValueError: the bytes are no exported function, not all of it, changed since, or written by a
        newer version.

    >>> import weft
    >>> data = weft.export.export(weft.jit(weft.numpy.cos))(0.0).serialize()
    >>> float(weft.export.deserialize(data).call(0.0))
    1.0
    """
    if not isinstance(blob, bytes | bytearray | memoryview):
        raise TypeError(f"deserialize: blob must be bytes, got {type(blob).__name__}")
    data = bytes(blob)
    if data[: len(_MAGIC)] != _MAGIC[: len(data)] or not data:
        if jax_file.looks_like_one(data):
            return jax_file.read(data)
        raise ValueError(
            "deserialize: these bytes were written neither by weft's Exported.serialize nor by "
            "JAX's; export the function again, and read the file as binary"
        )
    if len(data) < _HEADER.size:
        raise ValueError(f"deserialize: the file is cut off: it has {len(data)} bytes")
    magic, version, size, checksum = _HEADER.unpack_from(data)
    if version > NEWEST:
        raise ValueError(
            f"deserialize: the file has format version {version}, this weft reads up to {NEWEST}; "
            "use a newer weft, or export it with an older one"
        )
    body = data[_HEADER.size :]
    if len(body) != size:
        raise ValueError(
            f"deserialize: the file is cut off or has more appended: {len(body)} bytes follow its "
            f"header, which says {size}"
        )
    if _checksum(_HEADER.pack(magic, version, size, bytes(32)), body) != checksum:
        raise ValueError("deserialize: the file is damaged: its checksum does not fit its content")
    return _read(body)


def _checksum(head: bytes, body: bytes) -> bytes:
    return hashlib.sha256(head + body).digest()


def _read(body: bytes) -> Exported:
    # A file is a list of parts with their lengths: JSON first, then modules and the VJP.
    parts, at = [], 0
    while at < len(body):
        (size,) = _LENGTH.unpack_from(body, at)
        at += _LENGTH.size
        parts.append(body[at : at + size])
        at += size
    meta, blobs = json.loads(parts[0]), parts[1:]
    # StableHLO promises that newer readers take older programs, not the reverse.
    if _numbers(meta["stablehlo"]) > _numbers(portable.current_version()):
        raise ValueError(
            f"deserialize: the program is StableHLO {meta['stablehlo']}, this jaxlib reads up to "
            f"{portable.current_version()}; use a newer jaxlib"
        )
    mesh = _read_mesh(meta["mesh"])
    vjp = deserialize(blobs[-1]) if meta["has_vjp"] else None
    scope = None
    if meta.get("symbolic"):
        scope, templates = template.read(blobs[0])
    in_types = [_read_type(t, scope) for t in meta["in_types"]]
    out_types = [_read_type(t, scope) for t in meta["out_types"]]
    symbolic = None
    if scope is not None:
        symbolic = template.Symbolic(scope, templates, in_types, out_types)
    return Exported(
        fun_name=meta["fun_name"],
        in_tree=trees.from_json(meta["in_tree"]),
        out_tree=trees.from_json(meta["out_tree"]),
        in_types=in_types,
        out_types=out_types,
        in_shardings=[_read_sharding(s, mesh) for s in meta["in_shardings"]],
        out_shardings=[_read_sharding(s, mesh) for s in meta["out_shardings"]],
        mesh=mesh,
        shardy=meta["shardy"],
        kept=meta["kept"],
        nr_devices=meta["nr_devices"],
        modules={p: blobs[i] for p, i in meta["modules"].items()},
        disabled=[DisabledSafetyCheck(c) for c in meta["disabled"]],
        effects=[Effect(name) for name in meta["effects"]],
        get_vjp=None if vjp is None else lambda: vjp,
        symbolic=symbolic,
    )


def _numbers(version: str) -> list[int]:
    return [int(n) for n in version.split(".")]


# Types and shardings ------------------------------------------------------------------------------


def _type(aval: ShapedArray) -> list:
    dtype: Any = dtypes.short_name(aval.dtype)
    if dtypes.is_extended(aval.dtype):
        generator = getattr(aval.dtype, "generator", None)
        if generator is None:
            raise ValueError(f"serialize: values of dtype {dtype} cannot be serialized")
        dtype = {"key": generator.name}
    elif aval.dtype == dtypes.float0:
        raise ValueError("serialize: values of dtype float0 hold nothing; leave them out")
    else:
        dtype = np.dtype(aval.dtype).name
    typed = aval.sharding
    shape = [str(d) if isinstance(d, SymbolicDim) else d for d in aval.shape]
    return [shape, dtype, aval.weak_type, typed and [_mesh(typed.mesh), _sharding(typed)]]


def _read_type(value: list, scope: Any = None) -> ShapedArray:
    from weft.random import key_dtype

    shape, name, weak, typed = value
    dtype = (
        key_dtype(name["key"])
        if isinstance(name, dict)
        else np.dtype(getattr(ml_dtypes, name, name))
    )
    sharding = typed and _read_sharding(typed[1], _read_mesh(typed[0]))
    read = lambda d: symbolic_shape(d, scope=scope)[0] if isinstance(d, str) else d
    return ShapedArray(tuple(map(read, shape)), dtype, weak, sharding)


def _mesh(mesh: AbstractMesh | None) -> Any:
    if mesh is None:
        return None
    if not all(isinstance(n, str) for n in mesh.axis_names):
        raise ValueError(f"serialize: names of mesh axes must be strings, got {mesh.axis_names}")
    return [mesh.axis_sizes, mesh.axis_names, [t.name for t in mesh.axis_types]]


def _read_mesh(value: list | None) -> AbstractMesh | None:
    if value is None:
        return None
    sizes, names, types = value
    return AbstractMesh(tuple(sizes), tuple(names), tuple(AxisType[t] for t in types))


def _sharding(sharding: NamedSharding | None) -> Any:
    if sharding is None:
        return None
    spec = sharding.spec
    entries = ["?" if e is UNCONSTRAINED else _names(e) for e in spec.partitions]
    return [entries, sorted(spec.unreduced), sorted(spec.reduced), sharding.memory_kind]


def _names(entry: object) -> list | None:
    if entry is None:
        return None
    return list(entry) if isinstance(entry, tuple) else [entry]


def _read_sharding(value: list | None, mesh: AbstractMesh | None) -> Any:
    if value is None:
        return None
    entries, unreduced, reduced, memory = value
    spec = PartitionSpec(
        *(UNCONSTRAINED if e == "?" else e and tuple(e) for e in entries),
        unreduced=unreduced,
        reduced=reduced,
    )
    return NamedSharding(mesh, spec, memory_kind=memory)
