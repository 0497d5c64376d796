# Tests: tests/test_export.py
"""StableHLO as portable artifacts: bytes that other versions of jaxlib read, too."""

from __future__ import annotations

from jaxlib import _jax
from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import _stablehlo

from weft._xla import mlir


def current_version() -> str:
    """Return the newest StableHLO version that this jaxlib reads."""
    return _stablehlo.get_current_version()


def target_version() -> str:
    """Return a StableHLO version that jaxlibs of the last three months read."""
    return _stablehlo.get_version_from_compatibility_requirement(
        _stablehlo.StablehloCompatibilityRequirement.WEEK_12
    )


def serialize(module: ir.Module, version: str, *, shardings: bool) -> bytes:
    """Return the module as an artifact of that StableHLO version; shardings: it holds Shardy's."""
    return _jax.mlir.serialize_portable_artifact(mlir.bytecode(module), version, shardings)


def deserialize(artifact: bytes) -> ir.Module:
    """Return the module of an artifact; ValueError if it is none, or of a newer version."""
    try:
        return _stablehlo.deserialize_portable_artifact(mlir.context(), artifact)
    except (ir.MLIRError, RuntimeError) as e:
        raise ValueError(f"this is no StableHLO artifact that jaxlib can read: {e}") from None
