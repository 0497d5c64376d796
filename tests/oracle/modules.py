"""Writes modules.json: the public names of all of JAX's modules, those that each module defines.

Run it with JAX installed:  python tests/oracle/modules.py
With --check it writes nothing, and fails if the file is not what JAX has, where the version of JAX
that it was made with is installed. Modules that need packages which are not there are left out, as
are the tools of conversion and MLIR's bindings.
"""

import ast
import importlib
import inspect
import json
import pkgutil
import sys
import types
import warnings
from pathlib import Path

import jax

SKIPPED = (
    *(".tools", ".collect_profile", ".jax2tf", ".experimental.mosaic", ".mlir", ".pallas.ops"),
    *(".mosaic_gpu", ".roofline", ".source_mapper", ".test_util", ".pytree_serialization"),
)


def own_names(module):
    """The names in __all__, or those that the module's text defines or exports as themselves."""
    if getattr(module, "__all__", None):
        return sorted(module.__all__)
    try:
        body = ast.parse(inspect.getsource(module)).body
    except (OSError, TypeError):
        return []
    names = set()
    for outer in body:
        for node in outer.body if isinstance(outer, ast.If | ast.Try) else [outer]:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                names.add(node.name)
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                names |= {t.id for t in targets if isinstance(t, ast.Name)}
            elif isinstance(node, ast.ImportFrom | ast.Import):
                names |= {a.name for a in node.names if a.asname == a.name}
    public = (n for n in names if not n.startswith("_") and hasattr(module, n))
    return sorted(n for n in public if not isinstance(getattr(module, n), types.ModuleType))


def walk(name, found):
    skipped = any(s in name for s in SKIPPED)
    if skipped or any(part.startswith("_") for part in name.split(".")):
        return
    try:
        module = importlib.import_module(name)
    except ImportError:
        return
    found[name] = own_names(module)
    for inner in pkgutil.iter_modules(getattr(module, "__path__", ())):
        walk(f"{name}.{inner.name}", found)


def main():
    warnings.simplefilter("ignore")
    found = {}
    walk("jax", found)
    lines = ",\n".join(f"{json.dumps(m)}: {json.dumps(n)}" for m, n in sorted(found.items()))
    text = f'{{"jax": "{jax.__version__}", "modules": {{\n{lines}\n}}}}\n'
    path = Path(__file__).with_suffix(".json")
    if "--check" in sys.argv:
        recorded = json.loads(path.read_text())
        same_version = recorded["jax"] == jax.__version__
        # Other packages that are installed decide which modules there are.
        differ = [m for m in found if found[m] != recorded["modules"].get(m, found[m])]
        wrong = f"{path.name} is not what JAX {jax.__version__} has: {differ}"
        sys.exit(wrong if same_version and differ else 0)
    path.write_text(text)


if __name__ == "__main__":
    main()
