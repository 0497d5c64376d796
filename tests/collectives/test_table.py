"""Every collective under every transformation, over vmapped axes, mesh axes and both."""

import pytest

from tests.collectives.cases import CASES
from tests.collectives.table import CONTEXTS, INSIDE, check

FEW = {
    "shard_map, check_vma=False": ("scan",),
    "vmap in shard_map": ("vmap of another axis", "scan"),
    "shard_map in vmap": (),
    "partly manual shard_map": ("jit",),
    "explicit mesh": (),
}
"""The transformations inside, where not all are taken: `python -m tests.collectives.table` is."""


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_collective_means_the_same_under_every_transformation(case, context, rng):
    faults = check(case, CONTEXTS[context], rng, FEW.get(context, INSIDE))
    assert not {name: fault for name, fault in faults.items() if fault}
