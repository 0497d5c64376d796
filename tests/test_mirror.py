"""Every module's tests can be found: at the module's own path below tests/, or by its first line.

`weft/ops/conv.py` has its tests in `tests/ops/test_conv.py`, and `weft/ops/control` in
`tests/ops/test_control.py`. A module whose tests are those of several modules says so in its first
line: `# Tests: tests/ops/test_conv.py`, with a comma between several files.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "weft"
MODULES = [p for p in sorted(PACKAGE.rglob("*.py")) if p.name != "__init__.py"]


def mirror(module: Path) -> Path:
    """The path of a module's own tests; underscores that make names private do not count."""
    *folders, name = (part.strip("_") for part in module.relative_to(PACKAGE).with_suffix("").parts)
    return ROOT.joinpath("tests", *folders, f"test_{name}.py")


def named(text: str) -> list[Path]:
    """The files of tests that a module's text names in its first line."""
    match = re.match(r"# Tests: (.+)\n", text)
    return [ROOT / name for name in match[1].split(", ")] if match else []


def fault(module: Path, text: str) -> str:
    """Why a reader does not find the tests of a module; empty where they are found."""
    files = named(text)
    missing = [str(f.relative_to(ROOT)) for f in files if not re.match("test_.*py$", f.name)]
    missing += [str(f.relative_to(ROOT)) for f in files if not f.is_file()]
    if missing:
        return f"names {', '.join(missing)}, which is no file of tests"
    if mirror(module).is_file():
        return "names the file where its tests are looked for" if mirror(module) in files else ""
    return "" if files else f"has no {mirror(module).relative_to(ROOT)} and names no tests"


def test_the_tests_of_every_module_can_be_found():
    faults = {str(m.relative_to(ROOT)): fault(m, m.read_text("utf-8")) for m in MODULES}
    assert not {name: text for name, text in faults.items() if text}


def test_first_lines_that_name_no_tests_are_faults():
    own, without = PACKAGE / "driver/jit.py", PACKAGE / "ops/joining.py"
    assert not fault(own, '"""Doc."""\n')
    assert "names no tests" in fault(without, '"""Doc."""\n')
    assert "no file of tests" in fault(without, "# Tests: tests/ops/test_none.py\n")
    assert "no file of tests" in fault(without, "# Tests: tests/conftest.py\n")
    assert not fault(without, "# Tests: tests/ops/test_sort.py, tests/ops/test_table.py\n")


@pytest.mark.parametrize(
    "package",
    [*("driver", "formulas", "native", "partition", "runtime"), *("pallas/cpu", "pallas/formulas")],
)
def test_a_package_that_lists_its_files_lists_each(package):
    folder = PACKAGE / package
    words = set(re.findall(r"\w+", (folder / "__init__.py").read_text("utf-8")))
    assert not {p.stem for p in folder.glob("*.py")} - words - {"__init__"}
