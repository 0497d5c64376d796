"""Install the built wheel and sdist with each supported Python and jaxlib, and use them.

python -m tests.matrix                       # all that this machine has a Python for
python -m tests.matrix 3.12                  # one Python
python -m tests.matrix 3.11 0.10.2 wheel     # one cell
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
PYTHONS = ("3.11", "3.12", "3.13")
# jaxlib 0.11 and later need Python 3.12.
JAXLIBS = {"0.10.2": PYTHONS, "0.11.2": PYTHONS[1:], "0.12.0": PYTHONS[1:]}
KINDS = ("wheel", "sdist")

# A user's first program, run away from the sources: eight devices, a gradient, a collective, types.
PROGRAM = """
import os
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
import pathlib, weft, weft.numpy as wnp
from weft.sharding import PartitionSpec as P
root = pathlib.Path(weft.__file__).parent
assert "site-packages" in str(root), root
for shipped in ("py.typed", "__init__.pyi", "numpy/__init__.pyi", "ffi/include/weft/ffi.h"):
    assert (root / shipped).exists(), shipped
weft.set_mesh(weft.make_mesh((8,), ("x",)))
total = weft.jit(weft.shard_map(lambda x: weft.lax.psum(x, "x"), in_specs=P("x"), out_specs=P()))
assert total(weft.reshard(wnp.arange(8.0), P("x"))).item() == 28
assert weft.grad(lambda x: (x ** 3).sum())(wnp.ones(2)).tolist() == [3.0, 3.0]
"""


def call(*command: str | Path, **options) -> None:
    """Run a command; what it prints is shown if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, **options)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}"[-4000:])


def build(out: Path) -> dict[str, Path]:
    """Build both distributions from a copy of the tracked files, with setuptools alone."""
    source = out / "source"
    call("git", "checkout-index", "--all", f"--prefix={source}/", cwd=ROOT)
    call(sys.executable, "-m", "venv", out / "build")
    python = out / "build" / "bin" / "python"
    call(python, "-m", "pip", "install", "--quiet", "build")
    call(python, "-m", "build", "--outdir", out / "dist", cwd=source)
    [wheel], [sdist] = (out / "dist").glob("*.whl"), (out / "dist").glob("*.tar.gz")
    return {"wheel": wheel, "sdist": sdist}


def try_cell(interpreter: str, jaxlib: str, distribution: Path, out: Path) -> None:
    """Install a distribution in a clean environment and run the program and `weft env` there."""
    bin_folder = out / "bin"
    call(interpreter, "-m", "venv", "--clear", out)
    call(
        bin_folder / "python", "-m", "pip", "install", "--quiet", distribution, f"jaxlib=={jaxlib}"
    )
    outside = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    call(bin_folder / "python", "-c", PROGRAM, cwd=out, env=outside)
    call(bin_folder / "weft", "env", cwd=out, env=outside)


def runs(interpreter: str) -> bool:
    """Tell whether a Python is there; version managers leave names that start nothing."""
    found = shutil.which(interpreter)
    return (
        found is not None and not subprocess.run([found, "-c", ""], capture_output=True).returncode
    )


def main(wanted: list[str]) -> int:
    """Try all cells that match the words given; the number of failures."""
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        distributions = build(Path(folder))
        for jaxlib, kind in itertools.product(JAXLIBS, KINDS):
            for version in JAXLIBS[jaxlib]:
                cell = (version, jaxlib, kind)
                if not set(wanted) <= set(cell):
                    continue
                text = f"Python {version}, jaxlib {jaxlib}, {kind}"
                if not runs(f"python{version}"):
                    print(f"{text}: python{version} is not there", flush=True)
                    continue
                try:
                    try_cell(f"python{version}", jaxlib, distributions[kind], Path(folder) / "cell")
                    print(f"{text}: works", flush=True)
                except RuntimeError as error:
                    failures += 1
                    print(f"{text}: fails\n{error}", flush=True)
    return failures


if __name__ == "__main__":
    sys.exit(bool(main(sys.argv[1:])))
