"""The examples of docs/collectives.md run as they are written."""

import doctest
from pathlib import Path

import pytest

from tests.gpu_machine import use_plugin
from weft.core.manual_states import TABLE

PAGE = Path(__file__).parents[2] / "docs" / "collectives.md"


@pytest.mark.accelerators
def test_examples_run():
    use_plugin()  # the page shows overlap on GPUs
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    found = doctest.testfile(str(PAGE), module_relative=False, optionflags=flags)
    assert found.attempted and not found.failed


def test_the_table_names_every_transition():
    text = PAGE.read_text("utf-8")
    for row in TABLE:
        if row.op != "all_slice":  # "the own part"
            line = next(
                (s for s in text.splitlines() if f"`{row.op}" in s and row.after in s), None
            )
            assert line, row
            assert f"{row.before} → {row.after}" in text
