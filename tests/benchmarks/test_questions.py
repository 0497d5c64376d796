"""The page of questions shows what JAX prints."""

import re
from importlib.metadata import version

from benchmarks import questions

PAGE = questions.PAGE.read_text("utf-8")


def test_the_page_shows_what_jax_prints():
    programs = questions.programs(PAGE)
    assert len(programs) == PAGE.count('```text title="JAX prints"') >= 8
    [recorded] = set(re.findall(r'title="JAX ([\d.]+)"', PAGE))
    found = questions.differences()  # on another version the programs still run
    assert not found or version("jax") != recorded
