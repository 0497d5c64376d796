"""weft and jax refuse to share a process, in either order, and say why."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from weft._xla import REQUIREMENT


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


def test_importing_weft_after_jax_raises_an_import_error_that_says_why():
    code = "import sys, types; sys.modules['jax'] = types.ModuleType('jax'); import weft._xla"
    result = run(code)
    assert result.returncode != 0
    assert "weft cannot be imported after jax" in result.stderr
    assert "separate processes" in result.stderr


def test_importing_jax_after_weft_raises_an_import_error_that_says_why():
    result = run("import weft._xla\ntry:\n  import jax\nexcept ImportError as e:\n  print(e)")
    assert "jax cannot be imported after weft" in result.stdout


def test_reading_an_array_does_not_import_jax():
    code = (
        "import sys, numpy as np\n"
        "from weft.runtime.device_put import device_put\n"
        "import ml_dtypes\n"
        "print(np.asarray(device_put(np.ones(3, ml_dtypes.bfloat16))))\n"
        "print('jax' in sys.modules)"
    )
    assert run(code).stdout.splitlines() == ["[1 1 1]", "False"]


def test_importing_the_runtime_does_not_import_mlir():
    code = "import sys, weft.runtime.dispatch; print('jaxlib.mlir' in sys.modules)"
    assert run(code).stdout.strip() == "False"


@pytest.mark.parametrize("release", ["0.10.1", "0.9.2", "0.13.0", "0.13.0.dev20270101", "1.0.0"])
def test_a_jaxlib_outside_the_range_is_refused_with_the_command_that_installs_another(release):
    fake = f"sys.modules['jaxlib'] = types.SimpleNamespace(__version__='{release}')"
    result = run(f"import sys, types; {fake}; import weft._xla")
    assert result.returncode != 0
    assert f"weft cannot use jaxlib {release}; run `pip install '{REQUIREMENT}'`" in result.stderr


@pytest.mark.parametrize("release", ["0.10.2", "0.11.0", "0.12.0.1"])
def test_a_jaxlib_inside_the_range_is_taken(release):
    fake = f"sys.modules['jaxlib'] = types.SimpleNamespace(__version__='{release}')"
    result = run(f"import sys, types; {fake}; import weft._xla; print(weft._xla.release)")
    assert result.stdout.strip() == release, result.stderr


def test_the_package_asks_for_the_versions_of_jaxlib_that_it_takes():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert REQUIREMENT in project["dependencies"]
