"""Gradients of convolutions on a mesh with an idle axis equal central differences on the host."""

from examples import counted_twice


def test_weights_gradients_are_counted_once():
    found = counted_twice.errors("weft")
    assert len(found) == 8
    assert max(found.values()) < 1e-5, found
