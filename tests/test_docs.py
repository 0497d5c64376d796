"""The examples of the documentation give the results that it shows."""

import doctest
import importlib.util
import inspect
import re
from pathlib import Path

import numpy as np
import pytest

import weft
from tests.gpu_machine import use_libtpu, use_plugin

DOCS = Path(__file__).parent.parent / "docs"
PAGES = sorted(p.name for p in DOCS.glob("*.md") if ">>> " in p.read_text("utf-8"))
# Pages that compile for devices which are described, not there.
DESCRIBED = {p for p in PAGES if re.search("h100|v5e", (DOCS / p).read_text("utf-8"))}


def test_the_pages_with_examples_are_found():
    assert {"tutorial.md", "sharding.md", "debugging.md"} <= set(PAGES)


@pytest.mark.parametrize(
    "page",
    [pytest.param(p, marks=[pytest.mark.accelerators] if p in DESCRIBED else []) for p in PAGES],
)
def test_examples_of_a_page_run_as_shown(page):
    # A fence ends an example's output; a blank line tells doctest so and keeps the line numbers.
    text = re.sub(r"^```.*$", "", (DOCS / page).read_text("utf-8"), flags=re.MULTILINE)
    test = doctest.DocTestParser().get_doctest(text, {}, page, str(DOCS / page), 0)
    assert test.examples
    report: list[str] = []
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    if page in DESCRIBED:
        use_plugin(), use_libtpu()
    weft.set_mesh(None)
    try:
        result = doctest.DocTestRunner(optionflags=flags).run(test, out=report.append)
    finally:
        weft.set_mesh(None)
    assert not result.failed, "".join(report)


def test_every_python_block_of_the_documentation_is_run_by_a_test():
    """Pages with a prompt are run above, the blocks of these by their own tests."""
    elsewhere = {"kernels.md", "ffi.md", "mistakes.md"}
    for page in DOCS.glob("*.md"):
        blocks = re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
        assert page.name in elsewhere or all(b.startswith(">>> ") for b in blocks), page.name


def test_the_handler_shown_is_built_and_called(tmp_path, monkeypatch):
    # A name keeps its handler for the life of a process, and others may use the page's.
    text = (DOCS / "ffi.md").read_text("utf-8").replace("Scale", "ScaleOfThePage")
    source, *_ = re.findall(r"```cpp\n(.*?)```", text, re.DOTALL)
    calls = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (tmp_path / "scale.cc").write_text(source)
    monkeypatch.chdir(tmp_path)
    x = np.arange(4, dtype=np.float32)
    exec(calls[0], names := {})
    np.testing.assert_array_equal(weft.jit(lambda x: names["scale"](x, 3.0))(x), 3 * x)

    # What the page shows of rules and derivatives, with this handler in place of those it names.
    normalize = next(c for c in calls if "differentiable" in c)
    names["forward_call"] = lambda x: names["scale"](x, 2.0)
    names["backward_call"] = lambda x, ct: names["scale"](ct, 2.0)
    exec(normalize, names)
    np.testing.assert_array_equal(weft.grad(lambda x: names["normalize"](x).sum())(x), [2.0] * 4)
    rule = next(c for c in calls if "ShardingRule" in c).replace("CumSum", "ScaleOfThePage")
    names["shape"] = weft.ShapeDtypeStruct((2, 4), np.float32)
    exec(rule.replace("weft.ffi.ffi_call(", "call = weft.ffi.ffi_call("), names)
    rows = np.ones((2, 4), np.float32)
    np.testing.assert_array_equal(names["call"](rows, by=np.float32(2)), 2 * rows)


@pytest.mark.parametrize("page", sorted(p.name for p in DOCS.glob("*.md")))
def test_links_between_pages_lead_somewhere(page):
    text = re.sub(r"`[^`\n]+`", "", (DOCS / page).read_text("utf-8"))  # f(x)[0](y) is no link
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
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


def load_gather():
    """The module that gathers the site's pages."""
    spec = importlib.util.spec_from_file_location("gather", DOCS / "gather.py")
    assert spec is not None and spec.loader is not None
    gather = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(gather)
    return gather


def test_the_site_shows_every_page_and_every_public_name(tmp_path):
    load_gather().gather(tmp_path)
    pages = {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*.md")}
    shown = set(re.findall(r"(?:: |- )(\S+\.md)$", (DOCS.parent / "mkdocs.yml").read_text(), re.M))
    assert shown == pages
    for page in sorted(pages):
        text = re.sub(r"```.*?```", "", (tmp_path / page).read_text("utf-8"), flags=re.DOTALL)
        for target in re.findall(r"(?<!\\)\]\(([^)#:\s]+\.md)(?:#[^)]*)?\)", text):
            assert (tmp_path / page).parent.joinpath(target).exists(), f"{page} links to {target}"
    # Of another name or place, the offline plugin makes each page fetch one from the network.
    assert "polyfills: [iframe-worker.js]" in (DOCS.parent / "mkdocs.yml").read_text()
    assert (tmp_path / "iframe-worker.js").exists()
    shown_names = (tmp_path / "reference" / "weft.numpy.md").read_text("utf-8")
    for name in weft.numpy.__all__:
        heading = name.replace("__", r"\_\_")  # two underscores would be emphasis
        assert f"## {heading} {{" in shown_names or inspect.ismodule(getattr(weft.numpy, name)), (
            name
        )
    assert ">>> weft.jit(lambda x: x + 1)(2)" in (tmp_path / "reference" / "weft.md").read_text()


def public_errors() -> set[type[Exception]]:
    """The classes of errors in the namespaces that the site shows, but for NumPy's own."""
    gather = load_gather()
    modules = map(importlib.import_module, gather.NAMESPACES)
    values = (getattr(m, name) for m in modules for name in gather.public_names(m))
    return {
        v
        for v in values
        if isinstance(v, type)
        and issubclass(v, Exception)
        and not issubclass(v, Warning)
        and not v.__module__.startswith("numpy")
    }


def test_every_public_error_class_has_a_section():
    headings = re.findall(r"^## (.*)$", (DOCS / "errors.md").read_text("utf-8"), re.MULTILINE)
    classes = public_errors()
    assert {weft.errors.ShapeError, weft.checkify.OOBError, weft.pallas.DataRaceError} < classes
    checkify_error = weft.checkify.JaxRuntimeError
    names = {c.__name__ if c is not checkify_error else "checkify.JaxRuntimeError" for c in classes}
    assert names == set(headings)
    assert len(headings) == len(set(headings))
