"""Editors and type checkers see the namespaces as they are."""

import ast
import doctest
import importlib
from types import FunctionType
from typing import Any

import pytest

import weft
from tests import stubs


def test_stubs_are_what_the_definitions_say():
    for path, text in stubs.files().items():
        assert path.read_text("utf-8") == text, f"{path.name} is old: run `make stubs`"


def _bound(text: str) -> set[str]:
    """The names that a stub defines, or imports for others."""
    names = set()
    for node in ast.parse(text).body:
        if isinstance(node, ast.ImportFrom):
            names |= {a.asname for a in node.names if a.asname == a.name}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {t.id for t in targets if isinstance(t, ast.Name)}
    return names


@pytest.mark.parametrize("module", stubs.NAMESPACES)
def test_a_stub_has_each_public_name(module):
    package = importlib.import_module(module)
    public = {n for n in getattr(package, "__all__", ()) if not n.startswith("_")}
    assert public - _bound(stubs.path_of(module).read_text("utf-8")) == set()


@pytest.mark.parametrize("name", ["sum", "where", "ones", "linalg", "float32", "pi"])
def test_a_stub_names_what_a_namespace_has(name):
    text = (stubs.PACKAGE / "numpy" / "__init__.pyi").read_text("utf-8")
    assert f"def {name}(" in text or f"{name}: " in text or f"import {name} as {name}" in text


def _as_a_stub_writes(value: Any) -> str:
    """The type of a value, with Array for arrays, in tuples and lists too."""
    if isinstance(value, weft.Array):
        return "Array"
    if type(value) is tuple:
        return f"tuple[{', '.join(map(_as_a_stub_writes, value))}]"
    if type(value) is list:
        return f"list[{' | '.join(sorted(set(map(_as_a_stub_writes, value))))}]"
    return "None" if value is None else type(value).__name__


def _fits(value: Any, kind: ast.expr) -> bool:
    """Whether a value is of an annotation's type, as far as that is of arrays and containers."""
    if isinstance(kind, ast.BinOp):
        return _fits(value, kind.left) or _fits(value, kind.right)
    if isinstance(kind, ast.Subscript) and ast.unparse(kind.value) == "list":
        return type(value) is list and all(_fits(v, kind.slice) for v in value)
    if isinstance(kind, ast.Subscript) and ast.unparse(kind.value) == "tuple":
        assert isinstance(kind.slice, ast.Tuple)
        kinds = kind.slice.elts
        if ast.unparse(kinds[-1]) == "...":
            kinds = [kinds[0]] * len(value)
        pairs = zip(value, kinds, strict=True)
        return isinstance(value, tuple) and all(_fits(v, k) for v, k in pairs)
    name = ast.unparse(kind).rpartition(".")[2]
    return (
        not isinstance(value, weft.Array)
        if name in PLAIN
        else name != "Array" or (isinstance(value, weft.Array))
    )


PLAIN = ("int", "float", "bool", "str", "None", "Future", "CommReport", "Ref")


def _results(namespace: str) -> dict[str, str]:
    """The results of functions with one signature, where a stub says more than Any."""
    base = stubs.PACKAGE.parent.joinpath(*namespace.split("."))
    path = base / "__init__.pyi" if base.is_dir() else base.with_suffix(".pyi")
    found: dict[str, list[str]] = {}
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.returns is not None:
            found.setdefault(node.name, []).append(ast.unparse(node.returns))
    return {n: r[0] for n, r in found.items() if len(r) == 1 and r[0] != "Any" and r[0][0] != "_"}


# XLA takes a type's name once in a process, and doctests run the example too.
ONCE = ("register_ffi_type", "register_ffi_type_id")


@pytest.mark.parametrize("namespace", stubs.NAMESPACES)
def test_functions_give_in_their_examples_what_stubs_say(namespace, monkeypatch):
    module = importlib.import_module(namespace)
    wrong = {}
    for name, result in _results(namespace).items():
        function = getattr(module, name)
        example = doctest.DocTestParser().get_doctest(function.__doc__ or "", {}, name, None, 0)
        if type(function) is not FunctionType or not example.examples:
            continue
        if name in ONCE:
            continue

        def recorded(*args: Any, _function=function, _name=name, _result=result, **kwargs: Any):
            value = _function(*args, **kwargs)
            if not _fits(value, ast.parse(_result, mode="eval").body):
                wrong[_name] = f"{_as_a_stub_writes(value)}, and the stub says {_result}"
            return value

        monkeypatch.setattr(module, name, recorded)
        doctest.DocTestRunner().run(example, out=lambda text: None)
        monkeypatch.undo()
        weft.set_mesh(None)
    assert not wrong
