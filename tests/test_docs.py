"""The examples of the documentation give the results that it shows."""

import doctest
import re
from pathlib import Path

import numpy as np
import pytest

import weft

DOCS = Path(__file__).parent.parent / "docs"
PAGES = sorted(p.name for p in DOCS.glob("*.md") if ">>> " in p.read_text("utf-8"))


def test_the_pages_with_examples_are_found():
    assert {"tutorial.md", "sharding.md", "debugging.md"} <= set(PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_examples_of_a_page_run_as_shown(page):
    # A fence ends an example's output; a blank line tells doctest so and keeps the line numbers.
    text = re.sub(r"^```.*$", "", (DOCS / page).read_text("utf-8"), flags=re.MULTILINE)
    test = doctest.DocTestParser().get_doctest(text, {}, page, str(DOCS / page), 0)
    assert test.examples
    report: list[str] = []
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    weft.set_mesh(None)
    try:
        result = doctest.DocTestRunner(optionflags=flags).run(test, out=report.append)
    finally:
        weft.set_mesh(None)
    assert not result.failed, "".join(report)


@pytest.mark.parametrize("page", sorted(p.name for p in DOCS.glob("*.md")))
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)\)", (DOCS / page).read_text("utf-8")):
        assert (DOCS / target).exists(), f"{page} links to {target}"


def test_the_backend_shown_to_contributors_runs_a_kernel(monkeypatch):
    from weft import pallas as pl
    from weft.pallas import ir, lower

    text = (DOCS.parent / "CONTRIBUTING.md").read_text("utf-8")
    [code] = [b for b in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "backends" in b]
    monkeypatch.setattr(ir, "backends", {})
    exec(code, shown := {})
    x = np.arange(4, dtype=np.float32)

    def axpy(x, y, out):
        out[...] = x[...] * 2 + y[...]

    monkeypatch.setitem(lower.backends, "cpu", shown["lower"])
    struct = weft.ShapeDtypeStruct((4,), np.float32)
    np.testing.assert_array_equal(weft.jit(pl.pallas_call(axpy, out_shape=struct))(x, x), 3 * x)
    with pytest.raises(ir.UnsupportedKernelError, match="axpy.*without a grid"):
        weft.jit(pl.pallas_call(axpy, out_shape=struct, grid=(2,)))(x, x)
