"""Runs the examples of JAX's own docstrings on JAX and on weft, and compares what they print.

    python -m benchmarks.jax_examples              # all, about half an hour
    python -m benchmarks.jax_examples numpy/fft    # those of files with this in their path
    python -m benchmarks.jax_examples --of numpy scipy.linalg optax   # of these modules instead

The examples are read from the JAX in the environment of `make libraries`, where both run, each side
in one process. In those of NumPy and SciPy `numpy` and `scipy` stand for JAX's modules of these
names; what JAX lacks raises on both sides. Two outputs are equal where their texts are, but for
spaces, addresses, and numbers that are close; two errors where `except` with JAX's class catches
weft's.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import doctest
import functools
import importlib
import inspect
import io
import json
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SECONDS = 60  # for one statement
_NUMBER = re.compile(r"-?\d+\.?\d*(?:e[+-]?\d+)?")


def examples(folder: Path, part: str) -> Iterator[dict[str, Any]]:
    """The statements of each docstring that has some."""
    parser = doctest.DocTestParser()
    for path in sorted(folder.rglob("*.py")):
        file = str(path.relative_to(folder))
        if part not in file or re.search("test|mosaic|tpu|^tools", file):
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
                doc, name = ast.get_docstring(node), getattr(node, "name", "")
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
                doc, name = node.value.value, ast.unparse(node.targets[0])
            else:
                continue
            if isinstance(doc, str) and ">>>" in doc:
                with contextlib.suppress(ValueError):  # no doctest
                    statements = [e.source for e in parser.get_examples(doc)]
                    yield {"file": file, "name": name, "statements": statements}


def of_modules(out: str, *modules: str) -> None:
    """Write the statements in the docstrings of these modules' names, of classes' methods too."""
    parser, seen, found = doctest.DocTestParser(), set(), []
    for module in map(importlib.import_module, modules):
        named = [(n, getattr(module, n, None)) for n in dir(module) if not n.startswith("_")]
        for name, cls in [x for x in named if inspect.isclass(x[1])]:
            public = [n for n in dir(cls) if not n.startswith("_")]
            named += [(f"{name}.{n}", getattr(cls, n, None)) for n in public]
        for name, value in named:
            doc = getattr(value, "__doc__", None)
            if not isinstance(doc, str) or ">>>" not in doc or doc in seen:
                continue
            seen.add(doc)
            with contextlib.suppress(ValueError):  # no doctest
                statements = [_HEAD, *(e.source for e in parser.get_examples(doc))]
                for theirs, jax in _IN_JAX.items():
                    statements[1:] = [s.replace(theirs, jax) for s in statements[1:]]
                found.append({"file": module.__name__, "name": name, "statements": statements})
    Path(out).write_text(json.dumps(found))


_HEAD = "import jax.numpy as np\n"
_IN_JAX = {
    "import numpy as np": "import jax.numpy as np",
    "from scipy": "from jax.scipy",
    "import scipy": "import jax.scipy as scipy",
}


def run(source: str, out: str) -> None:
    """Run all statements in this process, where `import jax` is one side or the other."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    def stop(*_: object) -> None:
        raise TimeoutError(f"{SECONDS} s")

    signal.signal(signal.SIGALRM, stop)
    names = {"jax": jax, "jnp": jnp, "np": np, "lax": jax.lax, "partial": functools.partial}
    names |= {"vmap": jax.vmap, "grad": jax.grad, "jit": jax.jit, "random": jax.random}
    with open(out, "w") as file:
        for docstring in json.loads(Path(source).read_text()):
            scope, rows = {**names, "__name__": "__main__"}, []
            for statement in docstring["statements"]:
                printed = io.StringIO()
                signal.alarm(SECONDS)
                try:
                    with contextlib.redirect_stdout(printed):
                        exec(compile(statement, "<example>", "single"), scope)
                    rows.append((None, printed.getvalue()))
                except BaseException as e:  # noqa: BLE001  (SystemExit too is an answer)
                    rows.append(([c.__name__ for c in type(e).__mro__], str(e)[:300]))
                signal.alarm(0)
            print(json.dumps(rows), file=file, flush=True)


def are_equal(jax: tuple, weft: tuple) -> bool:
    """Compare (classes of the error or None, text) of both sides."""
    if jax[0] or weft[0]:
        return bool(jax[0] and weft[0]) and jax[0][0] in weft[0]
    a, b = (re.sub(r"0x[0-9a-f]+|\s", "", text) for _, text in (jax, weft))
    if _NUMBER.sub("#", a) != _NUMBER.sub("#", b):
        return False
    pairs = zip(*([float(x) for x in _NUMBER.findall(text)] for text in (a, b)), strict=True)
    return all(abs(x - y) <= 1e-4 * max(1, abs(x)) for x, y in pairs)


def main() -> None:
    from benchmarks.libraries import ROOT, python

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("part", nargs="?", default="", help="a part of the files' paths")
    parser.add_argument("--of", nargs="+", metavar="MODULE", help="modules instead of JAX's files")
    options = parser.parse_args()
    where = [python(), "-c", "import jax; print(jax.__path__[0])"]
    folder = Path(subprocess.run(where, capture_output=True, text=True, check=True).stdout.strip())
    with tempfile.TemporaryDirectory() as temporary:
        source = Path(temporary) / "examples.json"
        if options.of:
            command = [python(), __file__, "--list", str(source), *options.of]
            subprocess.run(command, check=True)
            found = json.loads(source.read_text())
        else:
            found = list(examples(folder, options.part))
            source.write_text(json.dumps(found))
        results = []
        for side in ("jax", "weft"):
            out = Path(temporary) / side
            env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
            env["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
            as_jax = []
            if side == "weft":
                env["PYTHONPATH"], as_jax = str(ROOT), ["-m", "weft.as_jax"]
            command = [python(), *as_jax, __file__, "--run", str(source), str(out)]
            subprocess.run(command, env=env, check=True, stderr=subprocess.DEVNULL)
            results.append([json.loads(line) for line in out.read_text().splitlines()])
    equal = total = 0
    for docstring, *rows in zip(found, *results, strict=True):
        for statement, jax, weft in zip(docstring["statements"], *rows, strict=True):
            total += 1
            if are_equal(jax, weft):
                equal += 1
            else:
                print(f"--- {docstring['file']} {docstring['name']}\n{statement.strip()[:300]}")
                for side, (error, text) in (("JAX", jax), ("weft", weft)):
                    print(f"  {side}: {error[0] + ': ' if error else ''}{text.strip()[:300]}")
    print(f"{equal} of {total} statements of {len(found)} docstrings give the same")


if __name__ == "__main__":
    import sys

    if sys.argv[1:2] == ["--run"]:
        run(*sys.argv[2:])
    elif sys.argv[1:2] == ["--list"]:
        of_modules(*sys.argv[2:])
    else:
        main()
