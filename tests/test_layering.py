"""Imports inside weft point one way, only weft._xla imports jaxlib, and nothing imports jax."""

import ast
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "weft"

# The rooms from the bottom up: a room imports those below it and itself. A room that is not named
# here (numpy, nn, random, …) is a library: it stands above all of these, and none imports it.
LAYERS = (
    "_xla",
    "core",
    "sharding",
    "lowering",
    "partition",
    "runtime",
    "native",
    "autodiff",
    "ops",
    "collectives",
    "refs",
    "driver",
    "formulas",
    "api",
    "ffi",
    "pallas",
)
LIBRARY = len(LAYERS)

# Upward imports that stand inside functions, so that importing the lower room never loads the
# higher one: (importing room, imported room) → why the lower room needs it.
DEFERRED = {
    ("pallas", "lax"): "what linear algebra and transforms in kernels stand for",
    ("pallas", "numpy"): "the same: it is written in the language",
}


@dataclass(frozen=True)
class Import:
    """One import of `target` (a dotted name) in `file`."""

    file: Path
    line: int
    target: str
    deferred: bool  # inside a function

    def __str__(self) -> str:
        return f"{self.file.relative_to(ROOT)}:{self.line} imports {self.target}"

    @property
    def source_room(self) -> str:
        return self.file.relative_to(PACKAGE).with_suffix("").parts[0]

    @property
    def target_room(self) -> str:
        parts = self.target.split(".")
        return parts[1] if len(parts) > 1 else "__init__"


def imports_of(file: Path, tree: ast.AST) -> list[Import]:
    """Every import of a file but those for type checkers only, which load nothing."""
    found: list[Import] = []
    package = ["weft", *file.relative_to(PACKAGE).parent.parts]

    def visit(node: ast.AST, deferred: bool) -> None:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for child in node.orelse:
                visit(child, deferred)
            return
        if isinstance(node, ast.Import):
            found.extend(Import(file, node.lineno, name.name, deferred) for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package[: len(package) - node.level + 1]
                base = ".".join([*above, base] if base else above)
            # `from weft import x` names the room x.
            names = [f"weft.{n.name}" for n in node.names] if base == "weft" else [base]
            found.extend(Import(file, node.lineno, name, deferred) for name in names)
        inner = deferred or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        for child in ast.iter_child_nodes(node):
            visit(child, inner)

    visit(tree, False)
    return found


def all_imports() -> list[Import]:
    files = sorted(PACKAGE.rglob("*.py"))
    return [i for file in files for i in imports_of(file, ast.parse(file.read_text("utf-8")))]


IMPORTS = all_imports()


def rank(room: str) -> int:
    return LAYERS.index(room) if room in LAYERS else LIBRARY


def upward() -> list[Import]:
    """Imports between rooms that do not point down, library to library aside."""
    inside = [i for i in IMPORTS if i.target == "weft" or i.target.startswith("weft.")]
    return [
        i
        for i in inside
        if i.source_room != i.target_room
        and rank(i.source_room) < LIBRARY
        and rank(i.target_room) > rank(i.source_room)
    ]


def listing(imports: list[Import]) -> str:
    return "\n".join(map(str, imports))


def test_imports_between_rooms_point_down():
    wrong = [i for i in upward() if not (i.deferred and (i.source_room, i.target_room) in DEFERRED)]
    assert not wrong, f"these point up the layers {' < '.join(LAYERS)}:\n{listing(wrong)}"


def test_every_deferred_import_that_is_allowed_is_used():
    used = {(i.source_room, i.target_room) for i in upward()}
    assert set(DEFERRED) <= used


def test_only_xla_imports_jaxlib():
    wrong = [i for i in IMPORTS if i.target.split(".")[0] == "jaxlib" and i.source_room != "_xla"]
    assert not wrong, listing(wrong)


def test_nothing_imports_jax():
    wrong = [i for i in IMPORTS if i.target.split(".")[0] == "jax"]
    assert not wrong, listing(wrong)


@pytest.mark.parametrize(
    ("text", "target", "deferred"),
    [
        ("from weft.ops import shape", "weft.ops", False),
        ("from weft import ops", "weft.ops", False),
        ("from ..ops import shape", "weft.ops", False),
        ("from . import jvp", "weft.autodiff", False),
        ("def f():\n    import weft.autodiff.shape", "weft.autodiff.shape", True),
    ],
)
def test_imports_are_found_in_all_their_forms(text, target, deferred):
    (found,) = imports_of(PACKAGE / "autodiff" / "vmap.py", ast.parse(text))
    assert (found.target, found.deferred) == (target, deferred)


def test_imports_for_type_checkers_do_not_count():
    text = "if TYPE_CHECKING:\n    import jax"
    assert imports_of(PACKAGE / "api.py", ast.parse(text)) == []


def test_no_package_waits_for_a_module_that_waits_for_it():
    """Python locks a module, then imports its package; a package that loads modules waits for them.

    Two threads, of which one began with the package and one with a module of it, wait for each
    other, and Python gives one of them half a module. So a package that loads modules of its own is
    named by none of them, and they by nothing outside: whoever imports one has the package.
    """
    circles = []
    for init in PACKAGE.glob("*/**/__init__.py"):  # the root is loaded before all that runs here
        package = ".".join(init.relative_to(ROOT).parent.parts)
        loaded = _loaded_with(init, package)
        if not loaded or package == "weft._xla":
            continue
        for module in PACKAGE.rglob("*.py"):
            if module == init:
                continue
            imports = imports_of(module, ast.parse(module.read_text("utf-8")))
            if init.parent in module.parents:
                waits = [i for i in imports if i.target == package and not i.deferred]
            else:
                waits = [i for i in imports if i.target in loaded]
            circles += [f"{i} and {package} wait for each other" for i in waits]
    assert not circles, "\n".join(circles)


def _loaded_with(init: Path, package: str) -> set[str]:
    """The modules of a package that are loaded when it is imported."""
    loaded: set[str] = set()
    paths = [init]
    while paths:
        path = paths.pop()
        for found in imports_of(path, ast.parse(path.read_text("utf-8"))):
            target = ROOT.joinpath(*found.target.split(".")).with_suffix(".py")
            is_own = found.target.startswith(f"{package}.") and target.exists()
            if is_own and not found.deferred and found.target not in loaded:
                loaded.add(found.target)
                paths.append(target)
    return loaded
