"""weft and jax refuse to share a process, in either order, and say why."""

import subprocess
import sys


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
