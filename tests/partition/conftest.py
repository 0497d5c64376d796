"""Programs of these tests are small, and stay on shards, so that every rule is tried."""

import pytest

from weft.partition import replicate


@pytest.fixture(autouse=True)
def on_shards(monkeypatch):
    """No program runs whole on every device; `test_replicate.py` has a fixture of its own."""
    monkeypatch.setattr(replicate, "LARGEST", -1)
