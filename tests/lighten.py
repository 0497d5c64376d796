"""Take out of the tests' environment what nothing there uses: `make env` runs it.

Symbols for debuggers in the largest libraries, where the machine has `strip`; the tests of NumPy
and SciPy; setuptools, as packages are built in environments of their own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

SITE = Path(sysconfig.get_path("platlib"))
LIBRARIES = ("jaxlib/libjax_common.so", "llvmlite/binding/libllvmlite.so", "tensorstore/*.so")


def strip(library: Path) -> None:
    """Replace a library by one without symbols; processes that have it open keep the old one."""
    tool = shutil.which("strip")
    if tool is None:
        return
    lighter = library.with_suffix(".stripped")
    if subprocess.run([tool, "--strip-unneeded", "-o", lighter, library]).returncode == 0:
        os.replace(lighter, library)
    else:
        lighter.unlink(missing_ok=True)


def main() -> None:
    for pattern in LIBRARIES:
        for library in SITE.glob(pattern):
            strip(library)
    for package in ("numpy", "scipy"):
        for folder in [*(SITE / package).rglob("tests")]:
            shutil.rmtree(folder, ignore_errors=True)
    if (SITE / "setuptools").exists():
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
        subprocess.run([*pip, "uninstall", "--yes", "setuptools"], check=True)


if __name__ == "__main__":
    main()
