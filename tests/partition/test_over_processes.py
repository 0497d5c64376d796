"""A sample of the corpus over 2 processes with 4 devices, and 4 with 2, equals NumPy."""

import re
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(("count", "devices"), [(2, 4), (4, 2)])
def test_programs_over_processes_equal_numpy(count, devices):
    ended = subprocess.run(
        [sys.executable, "-m", "weft", "launch", "-n", str(count)]
        + ["--devices-per-process", str(devices), "-m", "tests.partition.over_processes"]
        + ["--every", "40"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=800,
    )
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-3000:]
    said = re.findall(r"RIGHT (\d+) of (\d+) programs, (\d+) shards", ended.stdout)
    assert len(said) == count, ended.stdout[-3000:]
    assert all(right == total and int(shards) > 0 for right, total, shards in said), said
