"""Writes the stubs by which editors and type checkers see the namespaces that load lazily.

    make stubs        # write weft/**/__init__.pyi again, after a change of a signature

A stub is made from the definitions: the parameters of each public function with their own
annotations, and, where a definition says `Any`, the type that the table `PARAMETERS` gives to a
parameter of that name. `RESULTS` names what is no Array. tests/test_stubs.py compares the files.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import itertools
import keyword
import re
import sys
import textwrap
import tomllib
from enum import Enum
from pathlib import Path
from types import FunctionType, GenericAlias, ModuleType
from typing import Any, Generic

import weft
from tests.test_layering import PACKAGE

TABLE = tomllib.loads(Path(__file__).with_name("stubs.toml").read_text("utf-8"))
PARAMETERS: dict[str, str] = TABLE["parameters"]
RESULTS: dict[str, dict[str, str]] = TABLE["results"]
TEXTS: dict[str, dict[str, str]] = TABLE["texts"]
FLAGS: dict[str, dict[str, dict[str, str]]] = TABLE["flags"]
TREES: list[str] = TABLE["trees"]
NAMESPACES: list[str] = TABLE["namespaces"]
ARRAYS = (
    "weft.numpy",
    "weft.lax",
    "weft.nn",
    "weft.random",
    "weft.scipy",
    "weft.image",
    "weft.ode",
)
"""Namespaces whose functions give arrays, where nothing else is said."""

HEADER = '''"""Types of {module}, written by `make stubs` from the definitions."""

import builtins
import contextlib
from contextlib import AbstractContextManager
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum, IntEnum
from typing import Any, Generic, Literal, NamedTuple, ParamSpec, Protocol, TypeVar, overload

import numpy as np

from weft.driver.ahead_of_time import Lowered, Traced
{imported}from weft.typing import Array as Array, ArrayLike, DTypeLike
'''
CLASSES = {
    "Future": "weft.collectives.async_",
    "PyTreeDef": "weft.typing",
    "ClosedJaxpr": "weft.core.jaxpr",
    "ModeResult": "weft.scipy.stats.samples",
    **dict.fromkeys(("EighResult", "EigResult", "SVDResult"), "weft.numpy.decompositions"),
    "SlogdetResult": "weft.numpy.determinants",
    "CommReport": "weft.communication",
    "Ref": "weft.refs.api",
    "Device": "weft.runtime.backend",
    "AbstractMesh": "weft.sharding.mesh",
    "Mesh": "weft.sharding.mesh",
}
"""Classes that signatures name, imported where the namespace has none of the name."""
VARIABLES = {
    "_P": 'ParamSpec("_P")',
    "_T": 'TypeVar("_T")',
    "_R": 'TypeVar("_R")',
    "_R_co": 'TypeVar("_R_co", covariant=True)',
    "_F": 'TypeVar("_F", bound=Callable[..., Any])',
    # Arguments of a function: those of a lambda are Any, of which checkers say nothing.
    "_First": 'TypeVarWithDefault("_First", bound=Any, default=Any)',
    "_Second": 'TypeVarWithDefault("_Second", bound=Any, default=Any)',
    "_Key": 'TypeVar("_Key")',
    "_Leaf": 'TypeVar("_Leaf", bound=ArrayLike)',
}
"""Type variables, written where a stub uses them."""
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
    *(
        "Any",
        "Array",
        "ArrayLike",
        "DTypeLike",
        "Literal",
        "np",
        "_T",
        "Never",
        "_R",
        "contextlib",
        "None",
        "Ellipsis",
    ),
    *("Callable", "Iterable", "Iterator", "Mapping", "Sequence", "True", "False"),
    *("int", "float", "bool", "str", "complex", "tuple", "list", "dict", "type", "set", "object"),
    *("Future", "PyTreeDef", "ClosedJaxpr", "OptimizeResults", "ModeResult"),
    *("EighResult", "EigResult", "SVDResult", "SlogdetResult"),
    *("Mesh", "AbstractMesh", "Device", "CommReport", "Ref", "Array"),
    *("frozenset", "bytes", "AbstractContextManager", "ndarray", "dtype", "generic", "number"),
}


KNOWN_BASES = {
    **{n: n for n in ("Enum", "IntEnum", "NamedTuple", "Protocol", "Exception", "ValueError")},
    "partial": "functools.partial[Any]",
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
    if text in ("Any", "object"):  # passed on as it is: the table may know more
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


def documented(text: str) -> str:
    """Repeat the docstring of the first overload: an editor shows that of any."""
    doc = re.search(r'"""(.*?)"""', text, re.DOTALL)
    if doc is None or not text.startswith(("@overload", "class Jitted")):
        return text
    line = text[: doc.start()].rsplit("\n", 1)[-1] + doc[0]
    if text.startswith("class"):
        line, *_ = [x for x in text.split("\n") if '"""Compile' in x]
    return re.sub(r"(?<=:) \.\.\.(?=\n@overload|$)", "\n" + line, text)


def flagged(name: str, function: Any, flags: dict[str, str], result: str) -> str:
    """Write the overloads of a function by its boolean flags: what a flag that is flipped gives.

    "+" instead of a type says that each flag adds an Array to a tuple.
    """
    signature = inspect.signature(function)
    signs = {flag: signature.parameters[flag].default for flag in flags}
    adding = set(flags.values()) == {"+"}
    texts = []
    for flipped in itertools.product((False, True), repeat=len(flags)):
        chosen = [f for f, flip in zip(flags, flipped, strict=True) if flip]
        if len(chosen) > 1 and not adding:
            continue
        gives = result if not chosen else flags[chosen[0]]
        if adding and chosen:
            gives = "tuple[" + ", ".join(["Array"] * (1 + len(chosen))) + "]"
        parameters = []
        for p in signature.parameters.values():
            if p.name in flags:
                value = signs[p.name] != (p.name in chosen)
                p = p.replace(annotation=f"Literal[{value}]")
            if chosen and (
                p.name == chosen[0] or (parameters and parameters[-1].kind is p.KEYWORD_ONLY)
            ):
                p = p.replace(kind=p.KEYWORD_ONLY)
            if p.name in chosen:
                p = p.replace(default=p.empty)
            parameters.append(p)
        texts.append((signature.replace(parameters=parameters), gives))
    texts.append((signature, "Any"))
    return "".join("@overload\n" + function_text(name, function, {name: g}, g, s) for s, g in texts)


ARGNUMS = {
    "Literal[0] = 0": ("_First", "_First"),
    "Literal[1]": ("_First, _Second", "_Second"),
    "tuple[Literal[0]]": ("_First", "tuple[_First]"),
    "tuple[Literal[0], Literal[1]]": ("_First, _Second", "tuple[_First, _Second]"),
}
"""The types of argnums whose gradients have a type of their own: the parameters that a function
begins with, and the gradient."""


def gradient(name: str, function: Any) -> str:
    """Write `grad` or `value_and_grad`: a gradient has the type of its argument."""
    with_value = name == "value_and_grad"
    doc = (inspect.getdoc(function) or "").split("\n")[0]
    texts = []
    for argnums, (leading, given) in {**ARGNUMS, "int | Sequence[int] = 0": ("", "Any")}.items():
        for aux in (False, True):
            parameters = f"Concatenate[{leading}, _P]" if leading else "_P"
            result = "tuple[Any, _R]" if aux else "_R" if with_value else "Any"
            gives = given
            if with_value:
                gives = f"tuple[{'tuple[Any, _R]' if aux else '_R'}, {given}]"
            elif aux:
                gives = f"tuple[{given}, _R]"
            flag = "*, has_aux: Literal[True]" if aux else "has_aux: Literal[False] = False"
            others = ["holomorphic: bool = False", "allow_int: bool = False"]
            others.append("reduce_axes: Sequence[Any] = ()")
            words = [f"fun: Callable[{parameters}, {result}]", f"argnums: {argnums}", flag, *others]
            texts.append(
                f"@overload\ndef {name}({', '.join(words)}) -> Callable[{parameters}, {gives}]:\n"
                f'    """{doc}"""\n'
            )
    return "".join(texts)


def tree_map(name: str, function: Any) -> str:
    """Write `tree.map`: what a function gives of the leaves stands in their places."""
    doc = (inspect.getdoc(function) or "").split("\n")[0]
    first, any_function = "Callable[Concatenate[_Leaf, ...], _R]", "Callable[..., _R]"
    two, rest = "Callable[[_Leaf, Any], _R]", ", *rest: Any"
    rows = [
        (
            "Callable[Concatenate[Any, ...], Any]",
            f"Never{rest}",
            "Any",
        ),  # what is Any, and nothing else
        (two, "dict[_Key, _Leaf], other: Any, /, *", "dict[_Key, _R]"),
        (two, "list[_Leaf], other: Any, /, *", "list[_R]"),
        (first, f"_Leaf{rest}", "_R"),
        (first, f"dict[_Key, _Leaf]{rest}", "dict[_Key, _R]"),
        (first, f"list[_Leaf]{rest}", "list[_R]"),
        (any_function, f"dict[_Key, _Leaf]{rest}", "dict[_Key, _R]"),
        (any_function, f"list[_Leaf]{rest}", "list[_R]"),
        ("Callable[..., Array]", f"_T{rest}", "_T"),  # a tree of arrays, of any classes
        ("Callable[..., Any]", f"Any{rest}", "Any"),
    ]
    return "".join(
        f"@overload\ndef {name}(f: {f}, tree: {tree}, "
        f"is_leaf: Callable[[Any], bool] | None = None) -> {gives}:\n"
        f'    """{textwrap.shorten(doc, 84, placeholder=" …")}"""\n'
        for f, tree, gives in rows
    )


WRITERS = {
    ("weft", "grad"): gradient,
    ("weft", "value_and_grad"): gradient,
    ("weft.tree", "map"): tree_map,
    ("weft.tree_util", "tree_map"): tree_map,
}


def tree_function(name: str, function: Any) -> str:
    """Write a function that gives the tree it is given: an Array for what is like one."""
    signature = inspect.signature(function)
    first, *rest = signature.parameters.values()
    texts = []
    for kind, result in (("Never", "Any"), ("ArrayLike", "Array"), ("_T", "_T")):
        given = signature.replace(parameters=[first.replace(annotation=kind), *rest])
        texts.append("@overload\n" + function_text(name, function, {name: result}, result, given))
    return "".join(texts)


def function_text(
    name: str,
    function: Any,
    results: dict[str, str],
    default: str,
    signature: inspect.Signature | None = None,
) -> str:
    """A function as a stub writes it: its signature, and the first line of its docstring."""
    signature = signature or inspect.signature(function)
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
    if default == "Array" and result.startswith(("tuple[", "list[")) and name not in results:
        result = re.sub(r"\bAny\b", "Array", result)
    doc = (inspect.getdoc(function) or "").split("\n")[0].replace("\\", "\\\\").replace('"', "'")
    doc = textwrap.shorten(doc, 84, placeholder=" …")
    body = f'\n    """{doc}"""' if doc else " ..."
    return f"def {name}({', '.join(words)}) -> {result}:{body}\n"


def is_scalar(value: Any) -> bool:
    """Whether a name of weft.numpy is one of its dtypes, which its module makes in a loop."""
    return type(value).__name__ == "ScalarType"


def home_of(package: ModuleType, name: str) -> tuple[str, str] | None:
    """Return the module, and the name there, of what a namespace loads lazily or imports."""
    for table in ("_NAMES", "_HOME", "_LAZY"):
        homes = getattr(package, table, {})
        home = homes.get(name) if isinstance(homes, dict) else None
        if home is not None:
            return home if home.startswith("weft") else f"{package.__name__}.{home}", name
    for node in ast.parse(inspect.getsource(package)).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                if name == (alias.asname or alias.name):
                    return node.module, alias.name
    return None


def base_text(base: type, package: ModuleType) -> str | None:
    """The name of a base in the stub; None where it has none, for nothing may derive from Any."""
    if base.__name__ in KNOWN_BASES:
        return KNOWN_BASES[base.__name__]
    if issubclass(base, BaseException):
        return "Exception"
    return next((name for name, value in vars(package).items() if value is base), None)


def class_text(name: str, cls: type, package: ModuleType) -> str:
    """Write a class that a namespace defines itself: bases, fields and public methods."""
    special = ("__init__", "__call__", "__getitem__", "__len__", "__enter__", "__exit__")
    lines = []
    if issubclass(cls, Enum):
        lines = [f"{member} = ..." for member in cls.__members__]
    fields = [] if issubclass(cls, tuple | Enum) else vars(cls).get("__annotations__", {})
    if issubclass(cls, tuple):
        lines += [f"{f}: {known_annotation(cls.__annotations__[f]) or 'Any'}" for f in cls._fields]  # type: ignore[attr-defined]
    for field in fields:
        lines.append(f"{field}: {known_annotation(fields[field]) or 'Any'}")
    for member, value in vars(cls).items():
        if issubclass(cls, tuple | Enum) or (member.startswith("_") and member not in special):
            continue
        own = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        if isinstance(value, property):
            result = known_annotation(inspect.signature(value.fget).return_annotation) or "Any"  # type: ignore[arg-type]
            lines.append(f"@property\ndef {member}(self) -> {result}: ...")
        elif isinstance(own, FunctionType):
            text = function_text(member, own, {"__init__": "None"}, "Any")
            first = next(iter(inspect.signature(own).parameters), "")
            text = re.sub(rf"\({first}: [^,)]*", f"({first}", text, count=1)
            kind = type(value).__name__
            lines.append(f"@{kind}\n{text}" if own is not value else text)
    named = [base_text(b, package) for b in cls.__bases__ if b not in (object, Generic)]
    bases = ["NamedTuple"] if issubclass(cls, tuple) else [b for b in named if b]
    doc = (inspect.getdoc(cls) or "").split("\n")[0].replace('"', "'")
    doc = textwrap.shorten(doc, 88, placeholder=" …")
    body = textwrap.indent("\n".join([f'"""{doc}"""', *lines]), "    ")
    return f"class {name}{'(' + ', '.join(bases) + ')' if bases else ''}:\n{body}\n"


def binding_text(name: str, cls: type) -> str:
    """Write a class of jaxlib's bindings, which have no types: its members are Any."""
    lines = ["def __init__(self, *args: Any, **kwargs: Any) -> None: ..."]
    for member, value in sorted(vars(cls).items()):
        # Types inside appear as a process runs: nanobind adds one for each iterator it makes.
        if member.startswith("_") or isinstance(value, type):
            continue
        if callable(value) and not isinstance(value, cls):
            lines.append(f"def {member}(self, *args: Any, **kwargs: Any) -> Any: ...")
        else:
            lines.append(f"{member}: Any")
    return f"class {name}:\n" + textwrap.indent("\n".join(lines), "    ") + "\n"


def stub(module: str) -> str:
    """The text of a namespace's stub."""
    package = importlib.import_module(module)
    results, texts = RESULTS.get(module, {}), TEXTS.get(module, {})
    default = "Array" if module.startswith(ARRAYS) else "Any"
    imports, bodies = [], []
    public = getattr(package, "__all__", None) or dir(package)
    for name in sorted(public):
        if keyword.iskeyword(name) or name.startswith("_"):
            continue
        if name in texts:
            bodies.append(documented(texts[name].strip()) + "\n" if texts[name] else "")
            continue
        if not hasattr(package, name):
            continue
        value = getattr(package, name)
        home = home_of(package, name)
        if isinstance(value, ModuleType) and value.__spec__ is None:  # made of a class or a table
            functions = [
                (n, f)
                for n, f in vars(value).items()
                if isinstance(f, FunctionType) and n[0] != "_"
            ]
            methods = [f"@staticmethod\n{function_text(n, f, {}, default)}" for n, f in functions]
            bodies.append(f"class {name}:\n" + textwrap.indent("".join(methods), "    "))
        elif isinstance(value, ModuleType):
            if value.__name__.startswith("weft.") and name in public:
                parent, _, last = value.__name__.rpartition(".")
                imports.append(f"from {parent} import {last} as {name}")
        elif type(value).__name__ == "ufunc":
            bodies.append(f"{name}: {'_Binary' if value.nin == 2 else '_Unary'}\n")
        elif (module, name) in WRITERS:
            bodies.append(WRITERS[module, name](name, value))
        elif isinstance(value, FunctionType) and name in TREES:
            bodies.append(tree_function(name, value))
        elif isinstance(value, FunctionType) and name in FLAGS.get(module, {}):
            bodies.append(flagged(name, value, FLAGS[module][name], results.get(name, default)))
        elif isinstance(value, FunctionType):
            bodies.append(function_text(name, value, results, default))
        elif value is weft.Array or name == "PyTreeDef":
            own = "Array" if value is weft.Array else name
            if own == name:
                imports.append(f"from weft.typing import {own} as {name}")
            else:
                bodies.append(f"{name} = {own}\n")
        elif is_scalar(value):
            bodies.append(f"{name}: ScalarType\n")
        elif value is Any or isinstance(value, GenericAlias):
            bodies.append(f"{name} = {re.sub(r'[a-z_.]+[.](?=[A-Z])', '', str(value))}\n")
        elif isinstance(value, type) and value.__module__.startswith("jaxlib"):
            bodies.append(binding_text(name, value))
        elif home is not None and hasattr(importlib.import_module(home[0]), home[1]):
            if home[1] == name:
                imports.append(f"from {home[0]} import {name} as {name}")
            else:  # under another name an import is a stub's own
                imports.append(f"from {home[0]} import {home[1]} as _{name}")
                bodies.append(f"{name} = _{name}\n")
        elif isinstance(value, type):
            bodies.append(class_text(name, value, package))
        elif isinstance(value, float | int | str | None):
            bodies.append(f"{name}: {'None' if value is None else type(value).__name__}\n")
        else:
            bodies.append(f"{name}: Any\n")
    others = {n: home for n, home in CLASSES.items() if n not in dir(package)}
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
    text = "\n".join(bodies)
    imported = "".join(f"from {home} import {n}\n" for n, home in others.items())
    if "functools." in text:
        imported += "import functools\n"
    if re.search(r"\bNever\b", text):
        imported += "from typing import Never\n"
    if "Concatenate[" in text:
        imported += "from typing import Concatenate\n"
        imported += "from typing_extensions import TypeVar as TypeVarWithDefault\n"
    head = HEADER.format(module=module, imported=imported)
    used = [f"{n} = {kind}" for n, kind in VARIABLES.items() if re.search(rf"\b{n}\b", text)]
    return "\n".join([head, *imports, "", *used, "", text])


def path_of(module: str) -> Path:
    """The path of a namespace's stub."""
    base = PACKAGE.parent.joinpath(*module.split("."))
    return base / "__init__.pyi" if base.is_dir() else base.with_suffix(".pyi")


def files() -> dict[Path, str]:
    """Path → text of every stub, formatted."""
    import subprocess

    written = {}
    for module in NAMESPACES:
        path = path_of(module)
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
