# Tests: tests/compat/test_as_jax.py
"""Runs programs and libraries that were written for JAX on weft, unmodified.

`weft.as_jax()` makes `import jax`, and all modules below it, find weft in this process and in those
that it starts. From the shell:

    python -m weft.as_jax script.py args…
    python -m weft.as_jax -m pytest …
    python -m weft.as_jax -c "import jax; print(jax.__version__)"

For processes that others start, set the environment: `WEFT_AS_JAX=1` and the folder that
`python -m weft.as_jax --path` prints in front of PYTHONPATH; or run `python -m weft.as_jax
--install` once, after which `WEFT_AS_JAX=1` alone is enough in that Python (`--uninstall` ends it).
"""

from __future__ import annotations

import os
import runpy
import sys
from types import ModuleType
from typing import Any

from weft.compat import finder

_STARTUP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "compat", "startup")


def as_jax() -> None:
    """Make `import jax` find weft, in this process and in its child processes.

    Call it before anything imports jax: one process holds either JAX or weft. `jax.__version__`
    is the version whose names weft has, with `+weft`; `importlib.metadata` says the same, whether
    JAX is installed or not.

    >>> import subprocess, sys
    >>> program = "import weft; weft.as_jax(); import jax; print(jax.numpy.arange(3))"
    >>> print(subprocess.check_output([sys.executable, "-c", program], text=True), end="")
    [0 1 2]
    """
    finder.install()
    if "jax" not in sys.modules:
        for name in ("jax.core", "jax._src.sharding_impls"):
            sys.modules.pop(name, None)  # what stands there for others to ask
    os.environ["WEFT_AS_JAX"] = "1"
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if _STARTUP not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([_STARTUP, *filter(None, paths)])


_PTH = "weft_as_jax.pth"


def _pth_file() -> str:
    import sysconfig

    return os.path.join(sysconfig.get_path("purelib"), _PTH)


def _install() -> int:
    """Write a file that Python reads when it starts, to run the hook where the variable is set."""
    hook = os.path.join(_STARTUP, "sitecustomize.py")
    line = (
        "import os, runpy; os.environ.get('WEFT_AS_JAX', '0') not in ('', '0') "
        f"and runpy.run_path({hook!r})\n"
    )
    with open(_pth_file(), "w", encoding="utf-8") as f:
        f.write(line)
    print(f"wrote {_pth_file()}: with WEFT_AS_JAX=1, `import jax` finds weft")
    return 0


def _uninstall() -> int:
    if os.path.exists(_pth_file()):
        os.remove(_pth_file())
    return 0


def _main(words: list[str]) -> int:
    if words == ["--path"]:
        print(_STARTUP)
        return 0
    if words in (["--install"], ["--uninstall"]):
        return _install() if words == ["--install"] else _uninstall()
    if not words or words[0] in ("-h", "--help"):
        print(__doc__)
        return 0 if words else 2
    as_jax()
    if words[0] == "-m" and words[1:]:
        sys.argv = words[1:]
        sys.path[0] = os.getcwd()
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    elif words[0] == "-c" and words[1:]:
        sys.argv = ["-c", *words[2:]]
        exec(compile(words[1], "<string>", "exec"), {"__name__": "__main__"})
    elif os.path.exists(words[0]):
        sys.argv = words
        sys.path[0] = os.path.dirname(os.path.abspath(words[0]))
        runpy.run_path(words[0], run_name="__main__")
    else:
        print(f"python -m weft.as_jax: there is no file {words[0]!r}", file=sys.stderr)
        return 2
    return 0


class _Entrance(ModuleType):
    """The module is what `weft.as_jax` names: called, it is its function."""

    def __call__(self) -> None:
        as_jax()


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
_module: Any = sys.modules[__name__]
_module.__class__ = _Entrance
