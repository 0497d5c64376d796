"""The examples of docs/kernels.md run as they are written."""

import re
from pathlib import Path

DOCUMENT = Path(__file__).parents[2] / "docs" / "kernels.md"


def test_the_examples_run(capsys):
    blocks = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text("utf-8"), re.DOTALL)
    assert len(blocks) > 5
    names: dict = {}
    for block in blocks:
        exec(compile(block, str(DOCUMENT), "exec"), names)
    printed = capsys.readouterr().out
    assert "data race on box" in printed
    assert "semaphore empty[0] of left(core=0) to be at least 1" in printed
