"""Faults of jaxlib and XLA that weft works around: which are still there."""

import json
import re
import subprocess
import sys
import warnings
from pathlib import Path

import jaxlib.version
import pytest

from weft._xla import quirks

ROOT = Path(__file__).parents[2]
ENTRIES = {n: v for n, v in vars(quirks).items() if isinstance(v, quirks.Quirk)}
DATED = re.compile(r"(?:jaxlib|XLA|XLA:CPU|Shardy)['s]*,? \(?0\.1\d|\(0\.1\d\.\d\)")
# Facts about versions that are no faults: protocols, sources and requirements.
FACTS = {"dispatch.py", "transport.py", "frame.py", "native_errors.py", "tpu.py", "propagate.py"}


def _sources():
    for path in sorted((ROOT / "weft").rglob("*.py")):
        if path.name != "quirks.py":
            yield path, path.read_text("utf-8")


@pytest.fixture(scope="module")
def outcomes():
    command = [sys.executable, "-m", "tests.xla.quirk_probes"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_every_entry_has_a_probe_or_says_why_it_has_none(outcomes):
    assert set(outcomes) == {name for name, entry in ENTRIES.items() if not entry.unprobed}


def test_faults_are_still_there_or_their_workarounds_can_go(outcomes):
    others = {n: o for n, o in outcomes.items() if o not in ("there", "gone")}
    assert not others, "these probes failed for another reason"
    gone = [name for name, outcome in outcomes.items() if outcome == "gone"]
    if jaxlib.version.__version__ == "0.10.2":
        assert not gone, "delete these entries and what refers to them"
    elif gone:  # older versions need the workaround still
        warnings.warn(f"gone in jaxlib {jaxlib.version.__version__}: {gone}", stacklevel=1)


def test_tests_that_entries_name_are_there():
    for name, entry in ENTRIES.items():
        for path in re.findall(r"tests/[\w/.]+", entry.unprobed):
            assert (ROOT / path).exists(), f"{name}: {path}"


def test_code_and_entries_refer_to_each_other():
    named = set()
    for path, text in _sources():
        for name in re.findall(r"quirks\.([A-Z][A-Z_0-9]*)", text):
            assert name in ENTRIES, f"{path}: quirks.{name} is no entry"
            named.add(name)
    assert not set(ENTRIES) - named, "nothing refers to these entries"


def test_dated_faults_stand_in_the_table_only():
    wrong = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path, text in _sources()
        for line in text.splitlines()
        if path.name not in FACTS and DATED.search(line)
    ]
    assert not wrong, "make it an entry of weft/_xla/quirks.py and refer to that"
