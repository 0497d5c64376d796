"""Type-checks a local program: replicas agree, and no device waits for one that never comes."""

from __future__ import annotations

import numpy as np

from weft.partition.classes import Typer, join, tile_classes, varying
from weft.partition.partitioner import Stages
from weft.partition.walk import functions


def check(stages: Stages) -> list[tuple[str, ...]]:
    """Check `stages.local` against the layouts of its arguments and results.

    Returns:
      For each result, the mesh axes over which it varies.

    Raises:
      TypeError: a result differs between devices that must hold copies of one shard, or a
        collective stands under a condition on which the devices of a group may disagree. Names the
        mesh axes and the source line.
    """
    mesh = stages.mesh
    checker = Typer(mesh, functions(stages.local))
    argument_classes = [tile_classes(layout) for layout in stages.arguments]
    results = checker.function("main", argument_classes)
    for number, (got, layout) in enumerate(zip(results, stages.results, strict=True)):
        wanted = tile_classes(layout)
        if len(np.unique(join(got, wanted))) > len(np.unique(wanted)):
            copied = set(mesh.axes) - set(varying(wanted, mesh))
            extra = [a for a in varying(got, mesh) if a in copied] or list(copied)
            raise TypeError(
                f"result {number} must be equal along {', '.join(sorted(copied))}, where its"
                f" layout {layout} has copies, but varies over {', '.join(extra)}"
            )
    return [varying(c, mesh) for c in results]
