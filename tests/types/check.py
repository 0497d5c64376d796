"""`make types`: what mypy and pyright, strictly, say of the examples and of revealed.py.

First mypy checks weft's files again without stubs: it does not read a file that has one beside it.

    python -m tests.types.check FOLDER_OF_MYPY_AND_PYRIGHT

mypy reveals the types that are written beside `reveal_type(x)  # text`. The lines that end in
`# error: …`, and no other lines, must be errors for pyright.
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


def misread(mypy: list[str]) -> list[str]:
    """The lines of revealed.py for which mypy reveals another type, or finds another mistake."""
    # weft's own rules hold for weft; a user's file is checked strictly.
    options = ["--follow-imports=silent", "--no-error-summary", "--config-file=", "--strict"]
    command = [*mypy, *options, "--hide-error-context", str(REVEALED)]
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    found: dict[int, str] = {}
    for line in run.stdout.splitlines():
        place, _, message = line.partition(": ")
        if "revealed.py:" in place:
            message = message.replace('note: Revealed type is "', "").rstrip('"')
            if message.startswith("error"):
                message = "error: " + message.rsplit("[", 1)[-1].rstrip("]")
            if not message.startswith("note"):  # what explains an error
                found[int(place.rsplit(":", 1)[-1])] = message.replace("weft.typing.", "")
    wanted = {
        number: line.split("  # ", 1)[1]
        for number, line in enumerate(REVEALED.read_text("utf-8").splitlines(), 1)
        if "  # " in line
    }
    return [
        f"{REVEALED}:{n}: mypy says {found.get(n)!r}, not {wanted.get(n)!r} {run.stderr}"
        for n in sorted(found.keys() | wanted.keys())
        if found.get(n) != wanted.get(n)
    ]


def behind_stubs(mypy: list[str]) -> bool:
    """Whether mypy accepts the package in a folder that has no stubs."""
    with tempfile.TemporaryDirectory() as folder:
        without = shutil.ignore_patterns("*.pyi", "__pycache__")
        shutil.copytree(ROOT / "weft", Path(folder) / "weft", ignore=without)
        shutil.copy(ROOT / "pyproject.toml", folder)
        return subprocess.run(mypy, cwd=folder).returncode == 0


def main(tools: str) -> int:
    mypy = [str(Path(tools).resolve() / "mypy"), "--python-executable", sys.executable]
    if not behind_stubs(mypy):
        return 1
    mistakes = misread(mypy)
    print(*mistakes, sep="\n", end="\n" if mistakes else "")
    lines = REVEALED.read_text("utf-8").splitlines()
    wanted = {(str(REVEALED), n) for n, line in enumerate(lines, 1) if "  # error: " in line}
    found = complaints(str(Path(tools) / "basedpyright"))
    for file, line in sorted(found - wanted):
        print(f"{file}:{line}: an error that should not be")
    for file, line in sorted(wanted - found):
        print(f"{file}:{line}: no error, and there should be one")
    revealed = sum("reveal_type(" in line for line in lines)
    print(f"{revealed} revealed types, {len(wanted)} mistakes, {len(found ^ wanted)} differences")
    return found != wanted or bool(mistakes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
