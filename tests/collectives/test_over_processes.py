"""The table of collectives over 2 processes with 4 devices, and 4 with 2, as on one process."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.collectives.cases import CASES
from tests.processes import HANGS


@pytest.mark.parametrize(("count", "devices"), [(2, 4), (4, 2)])
def test_collectives_over_processes_equal_the_reference_machine(count, devices):
    ended = subprocess.run(
        [sys.executable, "-m", "weft", "launch", "-n", str(count)]
        + ["--devices-per-process", str(devices), "-m", "tests.collectives.over_processes"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=HANGS,
    )
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-3000:]
    said = re.findall(r"COMPARED (\d+) cases, (\d+) shards here, 0 wrong", ended.stdout)
    assert len(said) == count, ended.stdout[-3000:]
    assert all(int(cases) == len(CASES) and int(shards) > 0 for cases, shards in said), said
