"""Whole programs through weft's partitioner equal NumPy, whatever the mesh and the shardings.

Each program runs on one of its layouts; `WEFT_PARTITION_LAYOUTS=all` runs every one.
"""

import os

import numpy as np
import pytest

import weft
from benchmarks.hlo_bytes import count_bytes
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
    """Passes where nothing raises."""
    lowered = case.function(weft, partitioner="weft").lower(*case.args)
    with mlir.context(), mlir.unknown_location():
        check(partition(lowered._program.module, keep_stages=False))


SOME = ("transformer_step", "experts_step", "rnn", "jacobi", "scatter_add", "convolution")


@pytest.mark.parametrize("name", SOME)
def test_xlas_partitioner_agrees(name):
    case = corpus.case(name, 0)
    got = case.function(weft, partitioner="xla")(*case.args)
    for a, b in zip(weft.tree.leaves(got), case.entry.expected(*case.args), strict=True):
        np.testing.assert_allclose(np.asarray(a), b, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize(
    "name, most",
    [
        ("transformer_step-3", 0.7),
        ("wave_equation-2", 0.5),
        ("multi_head_attention-1", 0.5),
        ("layers_in_a_scan-0", 1.0),
        ("uneven_softmax-0", 1.0),
        ("depthwise_gradients-4", 1.0),
        ("inverted_bottleneck-1", 1.0),
        ("selective_scan_gradient-2", 0.9),
    ],
)
def test_weft_sends_at_most_this_share_of_what_xla_sends(name, most):
    program, _, variant = name.rpartition("-")
    case = corpus.case(program, int(variant))
    sent = {}
    for who in ("weft", "xla"):
        lowered = case.function(weft, partitioner=who).lower(*case.args)
        sent[who] = sum(count_bytes(lowered.compile().as_text()).values())
    assert sent["weft"] <= most * sent["xla"], sent


def test_the_corpus_is_large():
    assert len(corpus.PROGRAMS) >= 100
