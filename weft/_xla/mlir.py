"""The one MLIR context, with parsing, printing and cached types. Imported lazily by lowering."""

from __future__ import annotations

import functools
import importlib
import io
import math
import threading
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import (
    _chlo,
    _jax_mlir_ext,
    _mlirHlo,
    _mosaic_gpu_ext,
    _sdy,
    _stablehlo,
    _triton_ext,
)

__all__ = [
    "bytecode",
    "context",
    "dialect",
    "dtype_of",
    "element_type",
    "file_location",
    "ir",
    "parse",
    "tensor_type",
    "text",
    "unknown_location",
    "verify",
]


_LARGEST = 2**63 - 1

_making = threading.Lock()
_contexts: list[ir.Context] = []


def context() -> ir.Context:
    """Return the process-wide context, into which nothing is loaded after it is made.

    A context may be read by any number of threads, XLA's among them, while none loads a dialect.
    """
    try:
        return _contexts[0]
    except IndexError:
        with _making:  # threads that lower their first programs at once share one, too
            if not _contexts:
                _contexts.append(_new_context())
        return _contexts[0]


def _new_context() -> ir.Context:
    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    context = ir.Context()
    context.append_dialect_registry(registry)
    _stablehlo.register_dialect(context)
    _chlo.register_dialect(context)
    _sdy.register_dialect(context)
    _triton_ext.register_dialect(context)
    # XLA:CPU would load it as it compiles: quirks.MHLO_DIALECT.
    _mlirHlo.register_mhlo_dialect(context)
    # Without this extension the `inline` pass refuses func.call.
    _mosaic_gpu_ext.register_inliner_extensions(context)
    context.load_all_available_dialects()
    return context


@functools.cache
def unknown_location() -> ir.Location:
    """Return the location of operations that stem from no user line."""
    return ir.Location.unknown(context())


@functools.lru_cache(maxsize=8192)
def file_location(file: str, line: int, column: int = 0, name: str | None = None) -> ir.Location:
    """Return a cached ``file:line:column`` location, named after the primitive if it is given."""
    location = ir.Location.file(file, line, column, context())
    return location if name is None else ir.Location.name(name, location, context())


def dialect(name: str) -> ModuleType:
    """jaxlib's constructors of a dialect's operations, which weft itself makes by name."""
    return importlib.import_module(f"jaxlib.mlir.dialects.{name}")


def parse(source: str | bytes) -> ir.Module:
    """Return a module from MLIR text or bytecode."""
    return ir.Module.parse(source, context())


def verify(module: ir.Module) -> None:
    """Raise ``ir.MLIRError`` when an operation of the module violates its dialect's rules."""
    module.operation.verify()


def text(module: ir.Module, *, locations: bool = False, large_constants: bool = False) -> str:
    """Return the module as MLIR text; constants over 16 elements are abbreviated by default."""
    return module.operation.get_asm(
        enable_debug_info=locations,
        large_elements_limit=None if large_constants else 16,
    )


def bytecode(module: ir.Module) -> bytes:
    """Return the module as MLIR bytecode, without locations that change between its runs."""
    buffer = io.BytesIO()
    module.operation.write_bytecode(buffer)
    return buffer.getvalue()


# NumPy dtype name -> MLIR element type. Signless integers stand for signed ones, as in StableHLO.
_ELEMENT_TYPES = {
    "bool": "i1",
    "int2": "i2",
    "int4": "i4",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint2": "ui2",
    "uint4": "ui4",
    "uint8": "ui8",
    "uint16": "ui16",
    "uint32": "ui32",
    "uint64": "ui64",
    "float4_e2m1fn": "f4E2M1FN",
    "float8_e3m4": "f8E3M4",
    "float8_e4m3": "f8E4M3",
    "float8_e4m3b11fnuz": "f8E4M3B11FNUZ",
    "float8_e4m3fn": "f8E4M3FN",
    "float8_e4m3fnuz": "f8E4M3FNUZ",
    "float8_e5m2": "f8E5M2",
    "float8_e5m2fnuz": "f8E5M2FNUZ",
    "float8_e8m0fnu": "f8E8M0FNU",
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    "complex64": "complex<f32>",
    "complex128": "complex<f64>",
}


@functools.cache
def element_type(dtype) -> ir.Type:
    """Return the MLIR element type of a NumPy (or ml_dtypes) dtype."""
    name = np.dtype(dtype).name
    spelling = _ELEMENT_TYPES.get(name)
    if spelling is None:
        raise TypeError(f"dtype {name} has no MLIR type; supported: {', '.join(_ELEMENT_TYPES)}")
    return ir.Type.parse(spelling, context())


@functools.lru_cache(maxsize=16384)
def tensor_type(shape: tuple[int, ...], dtype) -> ir.RankedTensorType:
    """Return the ranked tensor type ``tensor<shape x dtype>``."""
    if math.prod(max(n, 1) for n in shape) * np.dtype(dtype).itemsize > _LARGEST:
        # quirks.SIZE_OVERFLOW; dynamic sizes are negative.
        raise ValueError(
            f"an array of shape {tuple(shape)} and dtype {np.dtype(dtype).name} is too large: its "
            "size in bytes does not fit into 64 bits"
        )
    return ir.RankedTensorType.get(shape, element_type(dtype), loc=unknown_location())


@functools.cache
def _numpy_dtypes() -> dict[str, np.dtype]:
    by_type = {}
    for name, spelling in _ELEMENT_TYPES.items():
        scalar = getattr(np, "bool_" if name == "bool" else name, None)
        by_type[spelling] = np.dtype(scalar if scalar is not None else getattr(ml_dtypes, name))
    return by_type


def dtype_of(mlir_type: ir.Type) -> np.dtype:
    """Return the NumPy dtype of an MLIR element type or of a tensor type's elements."""
    is_tensor = isinstance(mlir_type, ir.RankedTensorType)
    dtype = _numpy_dtypes().get(str(mlir_type.element_type if is_tensor else mlir_type))
    if dtype is None:
        raise TypeError(f"MLIR type {mlir_type} has no NumPy dtype")
    return dtype


def to_hlo(module: ir.Module) -> Any:
    """Return the unoptimized HLO that XLA makes of a StableHLO module, as an `XlaComputation`."""
    from jaxlib import _jax

    return _jax.mlir.mlir_module_to_xla_computation(bytecode(module))


def to_hlo_text(module: ir.Module, *, metadata: bool = False) -> str:
    """Return the unoptimized HLO that XLA makes of a StableHLO module, on request with sources."""
    computation = to_hlo(module)
    if not metadata:
        return computation.as_hlo_text()
    return computation.get_hlo_module().to_string()
