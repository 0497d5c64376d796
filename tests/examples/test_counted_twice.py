"""Gradients that XLA's partitioner gets wrong equal central differences on the host."""

from examples import counted_twice


def test_gradients_equal_central_differences():
    found = counted_twice.errors("weft")
    assert len(found) == 10
    assert max(found.values()) < 1e-5, found
