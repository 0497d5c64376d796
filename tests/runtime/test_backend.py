"""Platforms and devices."""

import subprocess
import sys

import pytest

from weft.core.config import config
from weft.runtime import backend


def test_devices_are_counted_and_belong_to_this_process():
    assert backend.device_count() == backend.local_device_count() == 8
    assert [d.id for d in backend.devices()] == list(range(8))
    assert backend.devices("cpu") == backend.local_devices() == backend.local_devices(0)
    assert (backend.process_index(), backend.process_count()) == (0, 1)
    assert backend.process_indices() == [0]
    assert backend.default_backend() == "cpu" and backend.started()


def test_an_unknown_platform_is_refused_with_those_there_are():
    with pytest.raises(RuntimeError, match="unknown platform 'abacus'.*cpu"):
        backend.devices("abacus")
    with pytest.raises(ValueError, match="no process 7"):
        backend.local_devices(7)


def test_the_number_of_devices_is_fixed_once_used():
    backend.devices()
    with pytest.raises(RuntimeError, match="WEFT_NUM_CPU_DEVICES"):
        config.update("num_cpu_devices", 3)


@pytest.mark.parametrize(
    "environment, code, count",
    [
        ({}, "", 1),
        ({"WEFT_NUM_CPU_DEVICES": "3"}, "", 3),
        ({"XLA_FLAGS": "--xla_force_host_platform_device_count=5"}, "", 5),
        ({}, "config.update('num_cpu_devices', 2);", 2),
    ],
)
def test_the_number_of_virtual_devices_is_configured(environment, code, count):
    program = (
        f"from weft.core.config import config; {code}"
        "from weft.runtime import backend; print(backend.device_count())"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True
    )
    assert result.stdout.strip() == str(count), result.stderr
