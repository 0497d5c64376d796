"""Files of caches that several processes and machines share."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import secrets
from pathlib import Path


def write_whole(path: Path, data: bytes) -> None:
    """Writes a file, and its folder: others see all of it or nothing, and may read it.

    Raises OSError; then nothing is left behind.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".new-{secrets.token_hex(8)}")
    try:
        with open(temporary, "xb") as file:
            file.write(data)
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


@functools.cache
def host_cpu() -> str:
    """What this machine's processor can do, which decides the machine code made for it."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        import platform

        return platform.processor()
    found = re.search(r"^(flags|Features)\s*:.*$", text, re.MULTILINE)
    return found.group(0) if found else ""
