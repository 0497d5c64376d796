"""The diffs of CONTRIBUTING.md, applied to a copy of the checkout, where their tests then run."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
DIFFS = re.findall(r"```diff\n--- a/(\S+)\n\+\+\+ b/\S+\n(.*?)```", TEXT, re.DOTALL)


def apply(text: str, diff: str) -> str:
    """Returns the file with the additions, beside the lines that the diff shows or at its end."""
    for part in re.split(r"(?m)^@@.*\n", diff):
        lines = part.splitlines()
        context = [line[1:] for line in lines if line.startswith(" ")]
        assert all(line[:1] in ("+", " ", "") for line in lines), "the guide only adds lines"
        if not context:
            text = text.rstrip("\n") + "\n\n\n" + "\n".join(x[1:] for x in lines) + "\n"
            continue
        shown = "\n".join(context)
        assert text.count(f"\n{shown}\n") == 1, f"the file has no single place {shown!r}"
        text = text.replace(f"\n{shown}\n", "\n" + "\n".join(x[1:] for x in lines) + "\n")
    return text


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy of the checkout with every diff of the guide."""
    folder = tmp_path_factory.mktemp("checkout")
    unneeded = shutil.ignore_patterns("__pycache__", "*.pyc")
    for name in ("weft", "tests", "benchmarks"):
        shutil.copytree(ROOT / name, folder / name, ignore=unneeded)
    for name in ("conftest.py", "pyproject.toml"):
        shutil.copy(ROOT / name, folder / name)
    for path, diff in DIFFS:
        file = folder / path
        file.write_text(apply(file.read_text("utf-8"), diff), "utf-8")
    return folder


def run(checkout: Path, *command: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=checkout,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def pytest_in(checkout: Path, *arguments: str) -> int:
    """Runs tests of the copy and returns how many passed."""
    out = run(checkout, "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", *arguments)
    return int(re.search(r"(\d+) passed", out)[1])


def test_the_guide_shows_diffs_of_an_op_and_of_a_collective():
    assert {path.split("/")[1] for path, _ in DIFFS if path.startswith("weft")} == {
        "ops",
        "collectives",
    }


def test_an_op_added_as_shown_passes_the_tests_that_walk_all_ops(checkout):
    files = ["tests/ops/test_composite.py", "tests/ops/test_table.py"]
    assert pytest_in(checkout, *files, "-k", "softsign or rules or table") > 5


def test_a_collective_added_as_shown_passes_its_table(checkout):
    assert pytest_in(checkout, "tests/collectives/test_table.py", "-k", "with_halo") > 0


def test_code_added_as_shown_satisfies_the_linter(checkout):
    files = [path for path, _ in DIFFS]
    run(checkout, "ruff", "check", "--no-cache", "--isolated", "--select", "F", *files)


def test_a_benchmark_added_as_shown_runs(checkout):
    [code] = [b for b in re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL) if "@case" in b]
    assert '@case("x + y"' in code
    file = checkout / "benchmarks/eager.py"
    renamed = code.replace("x + y", "x plus y").replace("def add(", "def add_shown(")
    file.write_text(f"{file.read_text('utf-8')}\n\n{renamed}", "utf-8")
    assert "x plus y" in run(checkout, "benchmarks", "--library", "weft", "x plus y")
