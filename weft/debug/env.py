"""`python -m weft.debug.env`: versions, devices and options, to paste into a bug report."""

from __future__ import annotations

import os
import platform
import sys

from weft._xla import release
from weft.runtime.cpu_run_limit import cpu_count


def describe() -> str:
    """List facts, one a line: versions, machine, devices, options that differ from defaults."""
    import ml_dtypes
    import numpy

    import weft

    lines = [
        f"weft {weft.__version__}",
        f"jaxlib {release}, numpy {numpy.__version__}, ml_dtypes {ml_dtypes.__version__}",
        f"python {sys.version.split()[0]} on {platform.platform()}",
        f"cores {cpu_count()} of {os.cpu_count()}",
        f"devices {', '.join(map(str, weft.devices()))}",
    ]
    for name in ("XLA_FLAGS", "PJRT_NPROC", *(k for k in os.environ if k.startswith("WEFT_"))):
        if name in os.environ:
            lines.append(f"{name}={os.environ[name]}")
    return "\n".join(lines)


if __name__ == "__main__":
    print(describe())
