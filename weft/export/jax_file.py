"""Files that JAX's `Exported.serialize` wrote: a flatbuffer around a StableHLO artifact.

The layout is that of JAX 0.10 (versions 3 to 11 of its schema); fields are named by their numbers.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

import weft.export.trees as trees
from weft._xla import portable
from weft._xla.mlir import ir
from weft.core.aval import ShapedArray
from weft.export.checks import DisabledSafetyCheck
from weft.export.exported import Exported
from weft.lowering.context import parse_attr
from weft.sharding.mesh import AbstractMesh, AxisType
from weft.sharding.named import NamedSharding
from weft.sharding.spec import PartitionSpec

# In the order of their numbers; those without values here are None.
_DTYPES: tuple[str | None, ...] = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128", "bfloat16", "int4", "uint4"),
    *("float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"),
    *(None, "float8_e4m3", "float8_e3m4", "float8_e8m0fnu", "float4_e2m1fn"),
)
_KEYS = {27: "threefry2x32", 28: "rbg", 29: "unsafe_rbg"}
_FLOAT0 = 22
_AXIS_TYPES = (AxisType.Auto, AxisType.Auto, AxisType.Explicit, AxisType.Manual)
_LEAF, _NONE, _TUPLE, _LIST, _DICT, _CUSTOM = range(6)


@dataclass(frozen=True, slots=True)
class _Table:
    """A table of a flatbuffer: fields by number, found through its vtable."""

    data: bytes
    at: int

    def _number(self, kind: str, at: int) -> Any:
        if at < 0:
            raise struct.error("a negative offset")
        return struct.unpack_from(f"<{kind}", self.data, at)[0]

    def _place(self, field: int) -> int | None:
        vtable = self.at - self._number("i", self.at)
        entry = 4 + 2 * field
        offset = self._number("H", vtable + entry) if entry < self._number("H", vtable) else 0
        return self.at + offset if offset else None

    def number(self, field: int, kind: str = "b") -> int:
        offset = self._place(field)
        return 0 if offset is None else self._number(kind, offset)

    def _vector(self, field: int) -> tuple[int, int]:
        """Return where the elements of a vector or string start, and how many there are."""
        offset = self._place(field)
        if offset is None:
            return 0, 0
        start = offset + self._number("I", offset)
        return start + 4, self._number("I", start)

    def bytes(self, field: int) -> bytes:
        start, size = self._vector(field)
        if start + size > len(self.data):
            raise struct.error("cut off")
        return self.data[start : start + size]

    def text(self, field: int) -> str:
        return self.bytes(field).decode()

    def numbers(self, field: int, kind: str) -> list[int]:
        start, count = self._vector(field)
        return list(struct.unpack_from(f"<{count}{kind}", self.data, start))

    def _targets(self, field: int) -> list[int]:
        start, count = self._vector(field)
        places = range(start, start + 4 * count, 4)
        return [at + self._number("I", at) for at in places]

    def tables(self, field: int) -> list[_Table]:
        return [_Table(self.data, at) for at in self._targets(field)]

    def texts(self, field: int) -> list[str]:
        starts = self._targets(field)
        return [self.data[s + 4 : s + 4 + self._number("I", s)].decode() for s in starts]

    def table(self, field: int) -> _Table | None:
        offset = self._place(field)
        return None if offset is None else _Table(self.data, offset + self._number("I", offset))

    def needed(self, field: int) -> _Table:
        table = self.table(field)
        if table is None:
            raise struct.error(f"field {field} is missing")
        return table


def looks_like_one(data: bytes) -> bool:
    """Return whether the bytes are a flatbuffer with the fields of an exported function."""
    try:
        root = _root(data)
        return root.number(0, "H") in range(1, 100) and bool(root.texts(9)) and bool(root.bytes(13))
    except (struct.error, UnicodeDecodeError, MemoryError):
        return False


def read(data: bytes) -> Exported:
    """Return the function of such a file; ValueError for what weft cannot call."""
    try:
        return _read(_root(data))
    except (struct.error, UnicodeDecodeError, IndexError, KeyError) as e:
        raise ValueError(f"deserialize: the file of JAX is damaged or cut off ({e})") from None


def _root(data: bytes) -> _Table:
    return _Table(data, struct.unpack_from("<I", data)[0])


def _refuse(name: str, problem: str, remedy: str) -> ValueError:
    return ValueError(
        f"deserialize: {name} of a file of JAX {problem}, which weft cannot call; {remedy}"
    )


def _read(root: _Table) -> Exported:
    # Fields are read by their numbers in JAX's schema of the file.
    name = root.text(1)
    effects = [t.text(0) for field in (10, 11) for t in root.tables(field)]
    if effects:
        raise _refuse(name, f"has effects ({', '.join(effects)})", "export what has none")
    meshes = [_mesh(t) for t in root.tables(20)]
    shardings = [_sharding(t, meshes) for t in root.tables(21)]
    # Older files have the number of devices in a field of 16 bits only.
    nr_devices = root.number(18, "I") or root.number(6, "h")
    if nr_devices > 1 and len(meshes) != 1:
        raise _refuse(
            name,
            f"is for {nr_devices} devices over {len(meshes)} meshes",
            "export it over one mesh",
        )
    avals = root.tables(19)
    in_avals, in_shardings = _types(root, name, avals, shardings, 22, 3, 24)
    out_avals, out_shardings = _types(root, name, avals, shardings, 23, 5, 25)
    platforms = root.texts(9)
    artifact = root.bytes(13)
    several = nr_devices > 1
    # One module serves several platforms by branching on a number, which is fixed here.
    modules = {platforms[0]: artifact}
    if len(platforms) > 1:
        modules = {p: _of_platform(artifact, i, several) for i, p in enumerate(platforms)}
    vjp = root.table(17)
    exported = Exported(
        fun_name=name,
        in_tree=trees.from_json(_tree(root.needed(2))),
        out_tree=trees.from_json(_tree(root.needed(4))),
        in_types=in_avals,
        out_types=out_avals,
        in_shardings=in_shardings,
        out_shardings=out_shardings,
        mesh=meshes[0] if several else None,
        shardy=True,
        kept=root.numbers(15, "H"),
        nr_devices=nr_devices,
        modules=modules,
        disabled=[_check(t) for t in root.tables(12)],
        effects=[],
        get_vjp=None,
    )
    # The derivative's file is as large as the function's: it is read when it is asked for.
    if vjp is not None:
        exported._get_vjp = functools.cache(_vjp(vjp, exported))
    return exported


def _vjp(table: _Table, of: Exported) -> Callable[[], Exported]:
    """Return the VJP: cotangents are placed as what they belong to, which the file leaves open."""

    def get() -> Exported:
        kinds = {t.number(2) for t in table.tables(19) or (*table.tables(3), *table.tables(5))}
        if _FLOAT0 in kinds:
            problem = "has arguments or results of integers beside its VJP"
            raise _refuse(of.fun_name, problem, "export its gradient")
        return _read(table)._replaced(
            in_types=(*of._in_types, *of._out_types),
            out_types=of._in_types,
            in_shardings=(*of._in_shardings, *of._out_shardings),
            out_shardings=of._in_shardings,
        )

    return get


def _types(
    root: _Table, name: str, avals: list, shardings: list, by_index: int, plain: int, placed: int
) -> tuple[list, list]:
    """Read types and shardings of arguments or results: by index, or in older files one by one."""
    indices = root.numbers(by_index, "I")
    tables = [avals[i] for i in indices] if indices else root.tables(plain)
    places = root.numbers(placed, "I") or [0] * len(tables)
    chosen = [shardings[i - 1] if i else None for i in places]
    return [_type(t, s, name) for t, s in zip(tables, chosen, strict=True)], chosen


def _type(table: _Table, sharding: NamedSharding | None, name: str) -> ShapedArray:
    from weft.random import key_dtype

    shape, kind = table.texts(1), table.number(2)
    if not all(size.isdigit() for size in shape):
        raise _refuse(
            name,
            f"has the symbolic shape ({', '.join(shape)})",
            "export it in JAX for given sizes, or again with weft",
        )
    dtype: Any
    if kind in _KEYS:
        dtype = key_dtype(_KEYS[kind])
    elif (word := dict(enumerate(_DTYPES)).get(kind)) is not None:
        dtype = np.dtype(getattr(ml_dtypes, word, word))
    else:
        raise _refuse(name, f"has values of the dtype numbered {kind}", "leave them out")
    explicit = sharding is not None and AxisType.Explicit in sharding.mesh.axis_types
    return ShapedArray(tuple(map(int, shape)), dtype, False, sharding if explicit else None)


def _mesh(table: _Table) -> AbstractMesh:
    types = tuple(_AXIS_TYPES[n] for n in table.numbers(2, "b"))
    return AbstractMesh(tuple(table.numbers(0, "I")), tuple(table.texts(1)), types)


def _sharding(table: _Table, meshes: list[AbstractMesh]) -> NamedSharding:
    spec, mesh = table.needed(1), table.table(0)
    entries = [_entry(t.texts(0)) for t in spec.tables(0)]
    partitions = PartitionSpec(*entries, reduced=spec.texts(1), unreduced=spec.texts(2))
    chosen = _mesh(mesh) if mesh is not None else meshes[table.number(3, "I")]
    return NamedSharding(chosen, partitions, memory_kind=table.text(2) or None)


def _entry(axes: list[str]) -> Any:
    return None if not axes else axes[0] if len(axes) == 1 else tuple(axes)


def _check(table: _Table) -> DisabledSafetyCheck:
    if table.number(0) == 1:
        return DisabledSafetyCheck.custom_call(table.text(1))
    return DisabledSafetyCheck.platform()


def _tree(table: _Table) -> Any:
    """Return a structure as `trees.from_json` takes it."""
    kind = table.number(0)
    if kind == _LEAF:
        return "*"
    children = [_tree(t) for t in table.tables(1)]
    if kind == _CUSTOM:
        return [f"registered {table.text(3)}", table.bytes(4).hex(), children]
    name = {_NONE: "none", _TUPLE: "tuple", _LIST: "list", _DICT: "dict"}[kind]
    return [name, table.texts(2) if kind == _DICT else None, children]


def _of_platform(artifact: bytes, index: int, shardings: bool) -> bytes:
    """Return the program of one platform: `@main` of several takes its index first."""
    module = portable.deserialize(artifact)
    main = next(op for op in module.body.operations if op.attributes["sym_name"].value == "main")
    block = main.regions[0].blocks[0]
    with module.context, ir.Location.unknown(), ir.InsertionPoint.at_block_begin(block):
        first = block.arguments[0]
        value = parse_attr(f"dense<{index}> : {first.type}")
        constant = ir.Operation.create(
            "stablehlo.constant", results=[first.type], attributes={"value": value}
        )
        first.replace_all_uses_with(constant.result)
        block.erase_argument(0)
        kind = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
        narrower = ir.FunctionType.get(kind.inputs[1:], kind.results)
        main.attributes["function_type"] = ir.TypeAttr.get(narrower)
        if "arg_attrs" in main.attributes:
            del main.attributes["arg_attrs"]
    return portable.serialize(module, portable.target_version(), shardings=shardings)
