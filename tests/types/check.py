"""`make types`: what pyright says, strictly, of the examples and of tests/types/revealed.py.

First mypy checks weft's files again without stubs: it does not read a file that has one beside it.

    python -m tests.types.check PATH_OF_PYRIGHT

The lines of revealed.py that end in `# error: …`, and no other lines, must be errors.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
REVEALED = Path(__file__).with_name("revealed.py")


def complaints(pyright: str) -> set[tuple[str, int]]:
    """File and line of each of pyright's errors, with the options of pyproject.toml."""
    run = subprocess.run(
        [pyright, "--outputjson", "-p", str(ROOT)], capture_output=True, text=True, cwd=ROOT
    )
    found = json.loads(run.stdout)["generalDiagnostics"]
    for each in found:
        if each["severity"] == "error":
            place = f"{each['file']}:{each['range']['start']['line'] + 1}"
            print(place, each["message"].splitlines()[0], file=sys.stderr)
    return {
        (each["file"], each["range"]["start"]["line"] + 1)
        for each in found
        if each["severity"] == "error"
    }


def behind_stubs() -> bool:
    """Whether mypy accepts the package in a folder that has no stubs."""
    with tempfile.TemporaryDirectory() as folder:
        without = shutil.ignore_patterns("*.pyi", "__pycache__")
        shutil.copytree(ROOT / "weft", Path(folder) / "weft", ignore=without)
        shutil.copy(ROOT / "pyproject.toml", folder)
        return subprocess.run([sys.executable, "-m", "mypy"], cwd=folder).returncode == 0


def main(pyright: str) -> int:
    if not behind_stubs():
        return 1
    lines = REVEALED.read_text("utf-8").splitlines()
    wanted = {(str(REVEALED), n) for n, line in enumerate(lines, 1) if "  # error: " in line}
    found = complaints(pyright)
    for file, line in sorted(found - wanted):
        print(f"{file}:{line}: an error that should not be")
    for file, line in sorted(wanted - found):
        print(f"{file}:{line}: no error, and there should be one")
    revealed = sum("reveal_type(" in line for line in lines)
    print(f"{revealed} revealed types, {len(wanted)} mistakes, {len(found ^ wanted)} differences")
    return found != wanted


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
