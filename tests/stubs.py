"""Writes the stubs by which editors and type checkers see the namespaces that load lazily.

    make stubs        # write weft/**/__init__.pyi again, after a change of a signature

A stub is made from the definitions: the parameters of each public function with their own
annotations, and, where a definition says `Any`, the type that the table `PARAMETERS` gives to a
parameter of that name. `RESULTS` names what is no Array. tests/test_stubs.py compares the files.
"""

from __future__ import annotations

import importlib
import inspect
import keyword
import re
import sys
import textwrap
import tomllib
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import weft
from tests.test_layering import PACKAGE

TABLE = tomllib.loads(Path(__file__).with_name("stubs.toml").read_text("utf-8"))
PARAMETERS: dict[str, str] = TABLE["parameters"]
RESULTS: dict[str, dict[str, str]] = TABLE["results"]
TEXTS: dict[str, dict[str, str]] = TABLE["texts"]
NAMESPACES: list[str] = TABLE["namespaces"]
"""Packages whose names load when they are first used."""

HEADER = '''"""Types of {module}, written by `make stubs` from the definitions."""

import builtins
import contextlib
from contextlib import AbstractContextManager
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, ParamSpec, Protocol, TypeVar, overload

import numpy as np

from weft.driver.stages import Lowered, Traced
{classes}from weft.typing import Array as Array, ArrayLike, DTypeLike
'''
CLASSES = {
    "CommReport": "weft.communication",
    "Ref": "weft.refs.api",
    "Device": "weft.runtime.backend",
    "AbstractMesh": "weft.sharding.mesh",
    "Mesh": "weft.sharding.mesh",
}
"""Classes that signatures name, imported where the namespace has none of the name."""
VARIABLES = """
_P = ParamSpec("_P")
_T = TypeVar("_T")
_R = TypeVar("_R")
_R_co = TypeVar("_R_co", covariant=True)
_F = TypeVar("_F", bound=Callable[..., Any])
"""
UFUNCS = '''
class _Ufunc:
    """A function of scalars over arrays, with NumPy's ufunc methods."""

    nin: int
    nout: int
    def reduce(self, a: ArrayLike, axis: int | None = 0, **options: Any) -> Array: ...
    def accumulate(self, a: ArrayLike, axis: int = 0, **options: Any) -> Array: ...
    def outer(self, a: ArrayLike, b: ArrayLike, **options: Any) -> Array: ...
    def reduceat(self, a: ArrayLike, indices: ArrayLike, **options: Any) -> Array: ...
    def at(self, a: ArrayLike, indices: Any, b: ArrayLike | None = None) -> Array: ...

class _Unary(_Ufunc):
    def __call__(self, x: ArrayLike, /, out: None = None, where: None = None) -> Array: ...

class _Binary(_Ufunc):
    def __call__(
        self, x1: ArrayLike, x2: ArrayLike, /, out: None = None, where: None = None
    ) -> Array: ...
'''
KNOWN = {
    *("Any", "Array", "ArrayLike", "DTypeLike", "Literal", "np", "contextlib", "None", "Ellipsis"),
    *("Callable", "Iterable", "Iterator", "Mapping", "Sequence", "True", "False"),
    *("int", "float", "bool", "str", "complex", "tuple", "list", "dict", "type", "set", "object"),
    *("Mesh", "AbstractMesh", "Device", "CommReport", "Ref", "Array"),
    *("frozenset", "bytes", "AbstractContextManager", "ndarray", "dtype", "generic", "number"),
}


GENERIC = {
    **dict.fromkeys(("Sequence", "Iterable", "Iterator", "list", "type", "set"), "Any"),
    **{"tuple": "Any, ...", "Callable": "..., Any", "dict": "Any, Any", "Mapping": "Any, Any"},
}
"""What stands in brackets behind a generic type that an annotation gives without."""


def known_annotation(annotation: Any) -> str | None:
    """The annotation as text, if all its names are known in a stub."""
    if annotation is inspect.Parameter.empty:
        return None
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    text = text.replace("builtins.", "").replace("collections.abc.", "").replace("typing.", "")
    if text == "Any":
        return None
    for generic, arguments in GENERIC.items():
        text = re.sub(rf"\b{generic}\b(?!\[)", f"{generic}[{arguments}]", text)
    names = set(re.findall(r"(?<![\w.'\"])[A-Za-z_]\w*", re.sub(r"'[^']*'|\"[^\"]*\"", "", text)))
    return text if names <= KNOWN else None


def parameter_text(parameter: inspect.Parameter) -> str:
    """A parameter as a stub writes it."""
    stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    kind = known_annotation(parameter.annotation) or PARAMETERS.get(stars + parameter.name, "Any")
    default = "" if parameter.default is parameter.empty else " = ..."
    if default and "None" not in kind and parameter.default is None and kind != "Any":
        kind += " | None"
    return f"{stars}{parameter.name}: {kind}{default}"


def function_text(name: str, function: Any, results: dict[str, str], default: str) -> str:
    """A function as a stub writes it: its signature, and the first line of its docstring."""
    signature = inspect.signature(function)
    words: list[str] = []
    before = None
    for p in signature.parameters.values():
        if before is p.POSITIONAL_ONLY and p.kind is not p.POSITIONAL_ONLY:
            words.append("/")
        if p.kind is p.KEYWORD_ONLY and before not in (p.KEYWORD_ONLY, p.VAR_POSITIONAL):
            words.append("*")
        words.append(parameter_text(p))
        before = p.kind
    if before is inspect.Parameter.POSITIONAL_ONLY:
        words.append("/")
    result = results.get(name) or known_annotation(signature.return_annotation) or default
    doc = (inspect.getdoc(function) or "").split("\n")[0].replace("\\", "\\\\").replace('"', "'")
    doc = textwrap.shorten(doc, 88, placeholder=" …")
    return f'def {name}({", ".join(words)}) -> {result}:\n    """{doc}"""\n'


def is_scalar(value: Any) -> bool:
    """Whether a name of weft.numpy is one of its dtypes, which its module makes in a loop."""
    return type(value).__name__ == "ScalarType"


def home_of(package: ModuleType, name: str) -> str | None:
    """The module that defines a name of a namespace which loads lazily."""
    for table in ("_NAMES", "_HOME", "_LAZY"):
        homes = getattr(package, table, {})
        home = homes.get(name) if isinstance(homes, dict) else None
        if home is not None:
            return home if home.startswith("weft") else f"{package.__name__}.{home}"
    return None


def stub(module: str) -> str:
    """The text of a namespace's stub."""
    package = importlib.import_module(module)
    results, texts = RESULTS.get(module, {}), TEXTS.get(module, {})
    default = "Any" if module in ("weft", "weft.debug", "weft.pallas") else "Array"
    imports, bodies = [], []
    for name in sorted(dir(package)):
        if keyword.iskeyword(name) or name.startswith("_"):
            continue
        if name in texts:
            bodies.append(texts[name].strip() + "\n")
            continue
        value = getattr(package, name)
        home = home_of(package, name)
        if isinstance(value, ModuleType):
            if value.__name__.startswith("weft."):
                parent, _, last = value.__name__.rpartition(".")
                imports.append(f"from {parent} import {last} as {name}")
        elif type(value).__name__ == "ufunc":
            bodies.append(f"{name}: {'_Binary' if value.nin == 2 else '_Unary'}\n")
        elif isinstance(value, FunctionType):
            bodies.append(function_text(name, value, results, default))
        elif value is weft.Array:
            imports.append("from weft.typing import Array as Array")
        elif is_scalar(value):
            bodies.append(f"{name}: ScalarType\n")
        elif home is not None and hasattr(importlib.import_module(home), name):
            imports.append(f"from {home} import {name} as {name}")
        elif isinstance(value, float | int | str | None):
            bodies.append(f"{name}: {'None' if value is None else type(value).__name__}\n")
        else:
            bodies.append(f"{name}: Any\n")
    others = {n: home for n, home in CLASSES.items() if n not in dir(package)}
    classes = "".join(f"from {home} import {n}\n" for n, home in others.items())
    head = HEADER.format(module=module, classes=classes)
    for shadowed in {"bool", "int", "float"} & set(dir(package)):  # a dtype of the same name
        builtin = rf"(?<=[\[:>|,] ){shadowed}\b|(?<=\[){shadowed}\b"
        bodies = [re.sub(builtin, f"builtins.{shadowed}", text) for text in bodies]
    if module == "weft.numpy":
        imports.append("from weft.numpy.scalar_types import ScalarType")
    if module == "weft.numpy":
        bodies.insert(0, UFUNCS)
    if module == "weft":
        imports.append("__version__: str")
        imports.append("__version_info__: tuple[int, int, int]")
    return "\n".join([head, *imports, VARIABLES, *bodies])


def files() -> dict[Path, str]:
    """Path → text of every stub, formatted."""
    import subprocess

    written = {}
    for module in NAMESPACES:
        base = PACKAGE.parent.joinpath(*module.split("."))
        path = base / "__init__.pyi" if base.is_dir() else base.with_suffix(".pyi")
        command = [sys.executable, "-m", "ruff"]
        text = stub(module)
        for step in (["check", "--select", "I,F401", "--fix-only", "-q"], ["format", "-q"]):
            run = [*command, *step, "--stdin-filename", str(path), "-"]
            text = subprocess.run(run, input=text, text=True, capture_output=True).stdout
        written[path] = text
    return written


if __name__ == "__main__":
    weft.config.update("num_cpu_devices", 1)
    for path, text in files().items():
        path.write_text(text, "utf-8")
        print(path)
