"""The files and names that code, comments and documentation mention exist."""

import functools
import importlib
import re
from pathlib import Path

import pytest

import weft

ROOT = Path(__file__).parent.parent
FOLDERS = ("weft", "docs", "examples", "benchmarks")
TEXTS = sorted(
    p
    for p in [*ROOT.glob("*.md"), *(p for f in FOLDERS for p in (ROOT / f).rglob("*"))]
    if p.suffix in (".py", ".md")
)
FILE = re.compile(r"(?:weft|tests|docs|examples|benchmarks)/[\w/.\-]*\w\.(?:py|md|cc)\b")
NAME = re.compile(r"(?<![\w./\-])weft(?:\.[A-Za-z_]\w*)+(?![\w{])")
# Attributes of operations in MLIR, and a plural.
OTHERS = {"weft.attributes", "weft.kernel", "weft.ShapeDtypeStructs"}
# Misspelt, or of old versions of JAX, on purpose in the table of mistakes:
OTHERS |= {"weft.vmapp", "weft.nn.rellu", "weft.device_put_sharded"}
# Attributes of operations:
OTHERS |= {"weft.why", "weft.started", "weft.done", "weft.kept", "weft.written", "weft.site"}


@functools.cache
def exists(name):
    value, parts = weft, name.split(".")
    for i, part in enumerate(parts[1:], 2):
        if not hasattr(value, part):
            try:
                importlib.import_module(".".join(parts[:i]))
            except ImportError:
                return False
        value = getattr(value, part)
    return True


def test_texts_are_found():
    assert {"README.md", "sharding.md", "jit.py", "gpt.py"} <= {p.name for p in TEXTS}
    assert exists("weft.numpy.linalg.norm") and not exists("weft.numpy.linalg.normal")


@pytest.mark.parametrize("folder", ["*.md", *FOLDERS])
def test_files_and_names_that_are_mentioned_exist(folder):
    wrong = []
    for path in TEXTS:
        place = path.relative_to(ROOT)
        if (place.parts[0] if len(place.parts) > 1 else "*.md") != folder:
            continue
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            files = [f for f in FILE.findall(line) if not (ROOT / f).exists()]
            names = [n for n in NAME.findall(line) if n not in OTHERS and not exists(n)]
            wrong += [f"{place}:{number}: {found}" for found in files + names]
    assert not wrong, "\n".join(wrong)
