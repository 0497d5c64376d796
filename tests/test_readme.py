"""The README's example prints what stands there; `python -m tests.test_readme` rewrites it."""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PROGRAM = re.compile(r"```python\n(.*?)```", re.S)
OUTPUT = re.compile(r"(```text\n)(.*?)(```)", re.S)


def output_of(program: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "example.py").write_text(program)
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "example.py"]
        done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        text = done.stdout.replace(f"{folder}/", "")
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def test_the_example_prints_what_the_readme_says():
    text = README.read_text()
    told = OUTPUT.search(text)[2]
    printed = output_of(PROGRAM.search(text)[1])
    assert printed == told, f"run `python -m tests.test_readme`; the example prints\n{printed}"


def test_the_example_is_short():
    lines = [line for line in PROGRAM.search(README.read_text())[1].splitlines() if line.strip()]
    assert len(lines) <= 22


if __name__ == "__main__":
    text = README.read_text()
    printed = output_of(PROGRAM.search(text)[1])
    README.write_text(OUTPUT.sub(lambda m: m[1] + printed + m[3], text))
