# Tests: tests/compat/test_module_names.py
"""Finds the names of JAX that a package uses and weft lacks: the command `weft compat`."""

from __future__ import annotations

import ast
import importlib.util
import os
from collections.abc import Iterator
from types import ModuleType

from weft.compat import modules


def missing_names(target: str) -> dict[str, list[str]]:
    """Name of JAX -> the lines `file:line` that use it, for all that weft lacks.

    place: a file, a folder, or the name of a package that is installed.
    """
    root = target if os.path.exists(target) else _folder_of(target)
    uses: dict[str, list[str]] = {}
    for path in _files(root):
        with open(path, encoding="utf-8") as f:
            try:
                tree = ast.parse(f.read(), path)
            except SyntaxError:
                continue
        for name, line in _uses(tree):
            lacking = _lacking(name)
            where = f"{path}:{line}"
            if lacking is not None and where not in uses.setdefault(lacking, []):
                uses[lacking].append(where)
    return dict(sorted(uses.items()))


def _folder_of(package: str) -> str:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise FileNotFoundError(f"there is no file, folder or package {package!r}")
    folders = spec.submodule_search_locations
    return folders[0] if folders else spec.origin


def _files(root: str) -> Iterator[str]:
    if os.path.isfile(root):
        yield root
    for folder, _, names in os.walk(root):
        yield from (os.path.join(folder, n) for n in sorted(names) if n.endswith(".py"))


def _uses(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Dotted names below `jax` and their lines; what an alias stands for is written out."""
    aliases: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for item in node.names:
                if item.name.partition(".")[0] == "jax":
                    aliases[item.asname or "jax"] = item.name if item.asname else "jax"
                    yield item.name, node.lineno
        elif isinstance(node, ast.ImportFrom) and not node.level:
            base = node.module or ""
            for item in node.names if base.partition(".")[0] == "jax" else ():
                full = base if item.name == "*" else f"{base}.{item.name}"
                aliases[item.asname or item.name] = full
                yield full, node.lineno
    inner = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and id(node) not in inner:
            dotted = _dotted(node, aliases)
            if dotted is not None:
                yield dotted, node.lineno


def _dotted(node: ast.AST, aliases: dict[str, str]) -> str | None:
    if isinstance(node, ast.Name):
        return aliases.get(node.id)
    if isinstance(node, ast.Attribute):
        base = _dotted(node.value, aliases)
        return base and f"{base}.{node.attr}"
    return None


def _lacking(name: str) -> str | None:
    """Return the shortest part of a dotted name that weft lacks; values' members are ignored."""
    space: ModuleType | None = None
    prefix = ""
    for part in name.split("."):
        prefix = f"{prefix}.{part}" if prefix else part
        if space is None:
            value = importlib.import_module("jax")
        elif not hasattr(space, part):
            return prefix
        else:
            value = getattr(space, part)
        if not isinstance(value, ModuleType):
            return None
        space = value
    return None


def report(target: str) -> str:
    """Return the names with their lines, as text."""
    from weft.as_jax import as_jax

    as_jax()
    names = missing_names(target)
    if not names:
        return f"{target}: weft has every name of JAX that it uses"
    lines = [f"{target} uses {len(names)} names of JAX that weft lacks"]
    for name, uses in names.items():
        lines.append(modules.missing(name).removeprefix("weft has no "))
        lines += [f"    {use}" for use in uses]
    return "\n".join(lines)
