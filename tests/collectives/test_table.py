"""Every collective under every transformation, over vmapped axes, mesh axes and both."""

import pytest

from tests.collectives.cases import CASES, CONTEXTS
from tests.collectives.table import check


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_collective_means_the_same_under_every_transformation(case, context, rng):
    faults = check(case, CONTEXTS[context], rng)
    assert not {name: fault for name, fault in faults.items() if fault}
