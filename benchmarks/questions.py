"""What JAX prints for the programs of docs/questions.md, run in a second process.

python -m benchmarks.questions            # compare what the page shows with what JAX prints
python -m benchmarks.questions --write    # write it into the page
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "questions.md"
BLOCKS = re.compile(
    r'```python title="JAX [\d.]+"\n(?P<code>.*?)```\n'
    r'(?:\n```text title="JAX prints"\n(?P<shown>.*?)```)?',
    re.DOTALL,
)
FLAGS = {"XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu"}


def programs(page: str) -> list[tuple[str, str]]:
    """Each program in JAX, with the lines that all begin with, and what the page says it prints."""
    first, *rest = BLOCKS.finditer(page)
    return [(f"{first['code']}\n{m['code']}", m["shown"]) for m in rest]


def printed(code: str) -> str:
    """What a program in JAX prints; XLA's warnings go elsewhere."""
    command = [sys.executable, "-W", "ignore", "-c", code]
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("WEFT_", "XLA_"))}
    done = subprocess.run(command, env=environment | FLAGS, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"a program of {PAGE.name} failed:\n{code}\n{done.stderr}")
    return done.stdout


def differences() -> list[tuple[str, str]]:
    """What the page shows and what JAX prints, where they differ."""
    found = [(shown, printed(code)) for code, shown in programs(PAGE.read_text("utf-8"))]
    return [(shown, now) for shown, now in found if shown != now]


def write() -> None:
    """Write what JAX prints into the page."""
    page = PAGE.read_text("utf-8")
    outputs = iter([printed(code) for code, _ in programs(page)])
    pattern = re.compile(r'(```text title="JAX prints"\n).*?(```)', re.DOTALL)
    page = pattern.sub(lambda m: m[1] + next(outputs) + m[2], page)
    PAGE.write_text(page, "utf-8")


if __name__ == "__main__":
    if "--write" in sys.argv:
        write()
    else:
        for shown, now in differences():
            print(f"the page shows\n{shown}JAX prints\n{now}")
