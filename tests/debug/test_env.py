"""The facts that a bug report begins with."""

import importlib.metadata
import platform

import weft
from weft.debug.env import describe


def test_the_facts_are_the_versions_that_run_and_every_device():
    text = describe()
    for package in ("jaxlib", "numpy", "ml_dtypes"):
        assert f"{package} {importlib.metadata.version(package)}" in text
    assert f"python {platform.python_version()} on " in text
    assert all(str(device) in text for device in weft.devices())


def test_variables_that_change_what_runs_are_among_the_facts(monkeypatch):
    monkeypatch.setenv("WEFT_MADE_UP", "7")
    assert "WEFT_MADE_UP=7" in describe().splitlines()
