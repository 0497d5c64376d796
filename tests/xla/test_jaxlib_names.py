"""Every name of jaxlib that weft/_xla uses, also in functions that few runs reach, exists there.

A new version of jaxlib that renames something fails here, by name, and not in a user's program.
"""

import ast
import importlib
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "weft" / "_xla"


def imported(tree):
    """Local name -> dotted name, of what a file imports from jaxlib."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "jaxlib":
            found |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
    # `_pytree = _jax.pytree` and such
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = dotted(node.value, found)
            if name is not None:
                found[node.targets[0].id] = name
    return found


def dotted(node, names):
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute):
        base = dotted(node.value, names)
        return None if base is None else f"{base}.{node.attr}"
    return None


def look_up(name):
    """The object of a dotted name: the longest prefix that is a module, then attributes."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            found = getattr(found, part)
        return found
    raise AttributeError(name)


def uses():
    """(file, dotted name, keywords it is called with) of each use."""
    for path in sorted(FOLDER.glob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        names = imported(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and (name := dotted(node.func, names)) is not None:
                keywords = {k.arg for k in node.keywords if k.arg is not None}
                yield path.name, name, frozenset(keywords)
            elif isinstance(node, ast.Attribute) and (name := dotted(node, names)) is not None:
                yield path.name, name, frozenset()


USES = sorted(set(uses()), key=str)


def test_the_uses_of_jaxlib_are_found():
    names = {name for _, name, _ in USES}
    assert {
        "jaxlib._jax.batched_device_put",
        "jaxlib._jax.make_mpi_collectives",
        "jaxlib._jax.config.Config",
        "jaxlib._profiler.ProfilerSession",
        "jaxlib.mlir._mlir_libs._sdy.MeshAttr",
    } <= names
    assert any(len(keywords) > 3 for *_, keywords in USES)


@pytest.mark.parametrize("file", sorted({file for file, *_ in USES}))
def test_what_is_used_of_jaxlib_exists_and_takes_the_keywords(file):
    for _, name, keywords in (use for use in USES if use[0] == file):
        found = look_up(name)
        text = getattr(found.__init__ if isinstance(found, type) else found, "__doc__", None) or ""
        for keyword in keywords:
            assert f"{keyword}:" in text, f"{name} takes no {keyword}: {text}"
