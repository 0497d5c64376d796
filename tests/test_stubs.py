"""Editors and type checkers see the namespaces as they are."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests import stubs

REVEALED = Path(__file__).parent / "types" / "revealed.py"


def test_stubs_are_what_the_definitions_say():
    for path, text in stubs.files().items():
        assert path.read_text("utf-8") == text, f"{path.name} is old: run `make stubs`"


@pytest.mark.parametrize("name", ["sum", "where", "ones", "linalg", "float32", "pi"])
def test_a_stub_names_what_a_namespace_has(name):
    text = (stubs.PACKAGE / "numpy" / "__init__.pyi").read_text("utf-8")
    assert f"def {name}(" in text or f"{name}: " in text or f"import {name} as {name}" in text


def test_a_type_checker_reveals_the_types_that_are_written_beside():
    """Each `reveal_type(x)  # text` of tests/types/revealed.py; each `# error: code` is one."""
    command = [sys.executable, "-m", "mypy", "--follow-imports=silent", "--no-error-summary"]
    # weft's own rules hold for weft; a user's file is checked strictly.
    run = subprocess.run(
        [*command, "--config-file=", "--strict", "--hide-error-context", str(REVEALED)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parent.parent,
    )
    found: dict[int, str] = {}
    for line in run.stdout.splitlines():
        place, _, message = line.partition(": ")
        if place.startswith("tests/types/revealed.py:") or "revealed.py:" in place:
            number = int(place.rsplit(":", 1)[-1])
            message = message.replace('note: Revealed type is "', "").rstrip('"')
            if message.startswith("error"):
                message = "error: " + message.rsplit("[", 1)[-1].rstrip("]")
            if not message.startswith("note"):  # what explains an error
                found[number] = message.replace("weft.typing.", "")
    wanted = {}
    for number, line in enumerate(REVEALED.read_text("utf-8").splitlines(), 1):
        if "  # " in line:
            wanted[number] = line.split("  # ", 1)[1]
    assert len(wanted) > 100
    assert found == wanted, run.stdout + run.stderr
