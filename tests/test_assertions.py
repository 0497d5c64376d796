"""Every test asserts something, or says that it passes where nothing raises.

A test asserts by itself, by `pytest.raises`, by a helper of tests that does, or by a command that
must succeed. One that is there to see that nothing raises begins its docstring with these words:
Passes where nothing raises.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent
WORDS = "Passes where nothing raises"
Function = ast.FunctionDef | ast.AsyncFunctionDef


def asserts(function: ast.AST) -> bool:
    """Whether a body has an assertion of its own."""
    for node in ast.walk(function):
        if isinstance(node, (ast.Assert, ast.Raise)):
            return True
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if name.startswith("assert_") or name in ("raises", "warns", "fail", "check_call"):
                return True
            if name == "run" and any(k.arg == "check" for k in node.keywords):
                return True
    return False


class Module:
    """The functions that a file of tests defines and the names that it imports from others."""

    def __init__(self, name: str, text: str):
        tree = ast.parse(text)
        nodes = list(ast.walk(tree))
        self.name = name
        self.functions = [n for n in nodes if isinstance(n, Function)]
        self.imports: dict[str, str] = {}
        for node in nodes:
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tests"):
                for alias in node.names:
                    self.imports[alias.asname or alias.name] = f"{node.module}.{alias.name}"

    def used(self, function: Function) -> Iterator[str]:
        """Dotted names of the functions that a body may call: names, methods and fixtures."""
        for argument in function.args.args:
            yield f"{self.name}.{argument.arg}"
        for node in ast.walk(function):
            if isinstance(node, ast.Name):
                yield self.imports.get(node.id, f"{self.name}.{node.id}")
            elif isinstance(node, ast.Attribute):
                # A method of a class of this file, whatever the object; or a function of a module.
                yield f"{self.name}.{node.attr}"
                if isinstance(node.value, ast.Name) and node.value.id in self.imports:
                    yield f"{self.imports[node.value.id]}.{node.attr}"


def without_assertion(modules: list[Module]) -> list[str]:
    """The tests that neither assert nor say that they pass where nothing raises."""
    functions = [(m, f, f"{m.name}.{f.name}") for m in modules for f in m.functions]
    checking = {name for _, f, name in functions if asserts(f)}
    rest = [(name, set(m.used(f))) for m, f, name in functions if name not in checking]
    size = -1
    # Helpers of helpers: until no function is found any more that calls one that asserts.
    while size != len(checking):
        size = len(checking)
        checking |= {name for name, used in rest if not checking.isdisjoint(used)}
    return [
        name
        for _, f, name in functions
        if f.name.startswith("test_")
        and name not in checking
        and not (ast.get_docstring(f) or "").startswith(WORDS)
    ]


def test_every_test_asserts_or_says_that_it_passes_where_nothing_raises():
    modules = [
        Module(".".join(p.relative_to(ROOT.parent).with_suffix("").parts), p.read_text("utf-8"))
        for p in sorted(ROOT.rglob("*.py"))
    ]
    assert not without_assertion(modules)


@pytest.mark.parametrize(
    ("body", "passes"),
    [
        ("assert f()", True),
        ("check(f())", True),
        ("close(f())", True),
        ("f()", False),
        ("'''Passes where nothing raises.'''; f()", True),
        ("'''Does something.'''; f()", False),
    ],
)
def test_assertions_are_found_where_they_are(body, passes):
    helpers = Module("tests.helpers", "def close(x):\n    assert x")
    text = f"from tests.helpers import close\ndef check(x): close(x)\ndef test_one(): {body}"
    found = without_assertion([helpers, Module("tests.test_it", text)])
    assert found == ([] if passes else ["tests.test_it.test_one"])
