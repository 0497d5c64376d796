"""Whole programs through weft's partitioner equal NumPy, whatever the mesh and the shardings.

Each program runs on one of its layouts; `WEFT_PARTITION_LAYOUTS=all` runs every one.
"""

import os

import numpy as np
import pytest

import weft
from tests.partition import corpus
from weft._xla import mlir
from weft.partition import partition
from weft.partition.check import check

EVERY = os.environ.get("WEFT_PARTITION_LAYOUTS") == "all"


@pytest.mark.parametrize("case", list(corpus.cases(EVERY)), ids=lambda case: case.name)
def test_sharded_programs_equal_numpy(case):
    got = case.function(weft, partitioner="weft")(*case.args)
    expected = case.entry.expected(*case.args)
    for a, b in zip(weft.tree.leaves(got), expected, strict=True):
        scale = case.entry.tolerance
        np.testing.assert_allclose(np.asarray(a), b, rtol=scale, atol=scale / 10)


@pytest.mark.parametrize("case", list(corpus.cases(EVERY)), ids=lambda case: case.name)
def test_the_local_program_type_checks(case):
    lowered = case.function(weft, partitioner="weft").lower(*case.args)
    with mlir.context(), mlir.unknown_location():
        check(partition(lowered._program.module, keep_stages=False))


def test_the_corpus_is_large():
    assert len(corpus.PROGRAMS) >= 100
