"""Both libraries start as they do where they are installed: from compiled bytecode."""

import compileall
import os
from pathlib import Path

WEFT = Path(__file__).parent.parent / "weft"


def compile_weft() -> None:
    """Write the bytecode that pip writes for what it installs, such as JAX.

    In a checkout Python writes it at the first import, unless `PYTHONDONTWRITEBYTECODE` is set;
    each process would compile weft's files anew, which is half of what it does at its start.
    """
    if not compileall.compile_dir(WEFT, quiet=1, workers=os.cpu_count() or 1):
        raise SystemExit(f"{WEFT}: some files do not compile")
