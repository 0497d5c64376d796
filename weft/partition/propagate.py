"""Sharding propagation and explicit collectives, by Shardy's passes (stages 3 and 4)."""

from __future__ import annotations

import weft.partition.shardy_workarounds as shardy_workarounds
from weft._xla import passes
from weft._xla.mlir import ir
from weft.partition.origins import record, sources
from weft.partition.simplify import simplify
from weft.partition.validate import validate


def propagate(module: ir.Module, *, origins: bool = False) -> ir.Module:
    """Give every operation of the module a sharding, in place.

    User priorities, sharding groups, constraints, barriers, manual computations and custom
    sharding rules are Shardy's and act as its documentation says.

    Args:
      module: StableHLO with `sdy.mesh` and some shardings.
      origins: record for every axis which sharding it came from, for reports.

    Returns:
      The module.

    Raises:
      ValueError: a sharding that names an unknown mesh or axis, uses an axis twice, has the wrong
        rank, or the like; Shardy itself would end the process on some of these.

    >>> import weft
    >>> mesh = weft.make_mesh((4,), ("x",), axis_types=(weft.AxisType.Auto,))
    >>> rows = weft.NamedSharding(mesh, weft.P("x"))
    >>> x = weft.ShapeDtypeStruct((8, 4), "float32", sharding=rows)
    >>> module = propagate(weft.jit(lambda x: (x * 2).T).lower(x).compiler_ir())
    >>> str(module).count('[{?}, {"x", ?}]')  # the transpose and the result
    2
    """
    validate(module)
    passes.run(module, "func.func(stablehlo-legalize-composite-to-call),inline,symbol-dce")
    with module.context, ir.Location.unknown(module.context):
        shardy_workarounds.push_unreduced_into_ops(module)
        simplify(module)
        shardy_workarounds.wrap_unsupported(module)
    passes.run(module, "func.func(chlo-legalize-to-stablehlo),sdy-import-pipeline")
    before = sources(module) if origins else None
    passes.run(module, "sdy-user-priority-propagate")
    if before is not None:
        record(module, before)
    return module


def make_explicit(module: ir.Module) -> ir.Module:
    """Turn every disagreement between shardings into an sdy collective, in place.

    >>> import weft
    >>> mesh = weft.make_mesh((4,), ("x",), axis_types=(weft.AxisType.Auto,))
    >>> rows = weft.NamedSharding(mesh, weft.P("x"))
    >>> x = weft.ShapeDtypeStruct((8, 4), "float32", sharding=rows)
    >>> module = weft.jit(lambda x: x.sum(0)).lower(x).compiler_ir()
    >>> 'sdy.all_reduce {"x"}' in str(make_explicit(propagate(module)))
    True
    """
    passes.run(module, _EXPLICIT)
    with module.context, ir.Location.unknown(module.context):
        shardy_workarounds.restore(module)
    return module


def _canonicalize(patterns: str) -> str:
    options = f"enable-patterns={patterns} max-iterations=10 region-simplify=aggressive"
    return f"canonicalize{{{options} top-down=false}}"


# What Shardy's export pipeline does in jaxlib 0.10.2, without what it does since:
# quirks.SHARDY_EXPORT.
_EXPLICIT = ",".join(
    (
        "func.func(sdy-constant-or-scalar-merger,sdy-sink-data-flow-edges)",
        "sdy-remove-sharding-groups",
        "func.func(sdy-sharding-constraint-to-reshard)",
        "sdy-update-non-divisible-input-output-shardings",
        "sdy-remove-sub-axes-in-input-output-shardings",
        "sdy-close-shardings",
        "func.func(sdy-insert-explicit-reshards{enable-full-version=true})",
        _canonicalize("sdy-reshard"),
        "func.func(sdy-reshard-to-collectives)",
        _canonicalize("sdy-collective"),
        "func.func(sdy-drop-sharding-rules)",
    )
)
