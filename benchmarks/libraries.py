"""`make libraries`: the test suites of libraries written for JAX, run on JAX and then on weft.

The libraries are installed beside JAX in an environment of their own, and their sources, with the
tests, are downloaded from PyPI. Each file of tests runs in a process of its own with a time limit,
and its results are kept as they come, so a run that ends early is continued by `--resume`. JAX's
results are kept until a version changes. What passes on JAX is what weft is measured by.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import numpy as np

from benchmarks.library_suites import JAX, LIBRARIES, Library

ROOT = Path(__file__).parent.parent
HOME = Path(os.environ.get("WEFT_LIBRARIES", ROOT / ".venv" / "libraries"))
SIDES = ("jax", "weft")
# What tests of the libraries ask for, and the devices of an example.
ENVIRONMENT = {"EINOPS_TEST_BACKENDS": "numpy,jax"}
EXAMPLES = {"XLA_FLAGS": "--xla_force_host_platform_device_count=8"}
TEST_SECONDS = 180


def python() -> str:
    """The interpreter of the environment, where the libraries are installed."""
    path = HOME / "bin" / "python"
    if not path.exists():
        subprocess.run([sys.executable, "-m", "venv", HOME], check=True)
    needed = {"pytest", "pytest-timeout", "hypothesis", "llvmlite", f"jax=={JAX}", f"jaxlib=={JAX}"}
    for library in LIBRARIES.values():
        needed |= {library.requirement, *library.also}
    installed = HOME / "installed.json"
    if not installed.exists() or set(json.loads(installed.read_text())) != needed:
        pip = [path, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *sorted(needed)], check=True)
        installed.write_text(json.dumps(sorted(needed)))
    return str(path)


def sources(library: Library) -> Path:
    """The folder of the library's sources, with its tests."""
    folder = HOME / "sources"
    name, _, version = library.requirement.partition("==")
    unpacked = folder / f"{re.sub(r'[^a-z0-9]', '_', name)}-{version}"
    if not unpacked.exists():
        only = ["--no-deps", "--no-binary", name, "--dest", str(folder)]
        command = [python(), "-m", "pip", "download", "--quiet", *only, f"{name}=={version}"]
        subprocess.run(command, check=True)
        archive = next(
            p
            for p in folder.glob(f"*-{version}.tar.gz")
            if re.sub(r"[^a-z0-9]", "_", p.name.lower()).startswith(unpacked.name.partition("-")[0])
        )
        with tarfile.open(archive) as opened:
            opened.extractall(folder, filter="data")
        inner = folder / archive.name.removesuffix(".tar.gz")
        if inner != unpacked:
            inner.rename(unpacked)
    return unpacked / library.folder


def files(library: Library) -> list[str]:
    """What is run of a library, each in a process of its own."""
    if library.cases:
        return list(library.cases)
    folder = sources(library)
    found = {
        str(path.relative_to(folder)): None
        for pattern in library.tests
        for path in sorted(folder.glob(pattern))
        if not any(path.match(p) for p in library.without)
    }
    return list(found)


def run(library: Library, file: str, side: str, seconds: float) -> dict:
    """Results of one file on one side: test -> None if it passed, else the reason."""
    out = HOME / "results" / f"{library.requirement} {file.replace('/', '.')} on {side}"
    out.parent.mkdir(exist_ok=True)
    out.unlink(missing_ok=True)
    prefix = [python(), *(["-m", "weft.as_jax"] if side == "weft" else [])]
    if library.cases:
        where, command = ROOT, [f"benchmarks.library_programs.{file}", str(out)]
    else:
        where = sources(library)
        flags = ["-q", "-p", "no:cacheprovider", "-p", "benchmarks.library_programs.recorder"]
        command = ["pytest", *flags, f"--timeout={TEST_SECONDS}", "--tb=short", file]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"} | ENVIRONMENT
    if file == "example_cases":
        env |= EXAMPLES
    env["LIBRARY_RESULTS"] = str(out)
    started, ended = time.monotonic(), True
    with open(f"{out}.log", "w") as log:
        streams = {"stdout": log, "stderr": subprocess.STDOUT, "stdin": subprocess.DEVNULL}
        try:
            subprocess.run(
                [*prefix, "-m", *command], cwd=where, env=env, timeout=seconds, **streams
            )
        except subprocess.TimeoutExpired:
            ended = False
    lines = out.read_text() if out.exists() else ""
    results: dict = {}
    for test, value in map(json.loads, lines.splitlines()):
        results[test] = results.get(test) or value
    took = time.monotonic() - started
    return {"seconds": took, "ended": ended, "results": results}


def verdicts(library: Library, sides: dict[str, dict]) -> dict[str, str | None]:
    """What passes on JAX -> None if it passes on weft, else why not; of the files that both ran."""
    verdict: dict[str, str | None] = {}
    for file in files(library):
        if not all(file in sides.get(side, {}) for side in SIDES):
            continue
        first, second = (sides[side][file]["results"] for side in SIDES)
        if library.cases:
            for case, value in first.items():
                if not (isinstance(value, str) and re.match(r"\w+: ", value)):
                    other = second.get(case)
                    equal = _equal(value, other)
                    verdict[case] = None if equal else str(other)[:160].partition("\n")[0]
            continue
        missing = second.get(file) or "did not run"
        if not sides["weft"][file]["ended"]:
            missing = "not reached in the time of the file"
        for test, fault in first.items():
            if fault is None:
                verdict[test] = second.get(test, missing)
    return verdict


def _equal(a: object, b: object) -> bool:
    """Whether results are equal to rounding of float32."""
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(_equal, a, b))
    if isinstance(a, int | float) and isinstance(b, int | float):
        return bool(np.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True))
    return a == b


_HEAD = "| library | version | files | pass on JAX | of these on weft | ratio | time ÷ JAX |"
_FAULTS = "## What fails, and why"


def page(text: str, records: dict[str, dict]) -> str:
    """The page, with the rows and failures of the libraries that have been run put in."""
    before, _, rest = text.partition(_HEAD)
    rule, *table = rest.partition("\n\n")[0].strip().splitlines()
    middle, _, told = rest.partition("\n\n")[2].partition(_FAULTS)
    rows = {row.split(" | ")[0].strip("| "): row for row in table}
    faults = {part.partition("\n")[0]: part.strip() for part in told.split("### ")[1:]}
    for name, library in LIBRARIES.items():
        record = records.get(name, {})
        ran = [f for f in record.get("jax", {}) if f in record.get("weft", {})]
        if not ran:
            continue
        verdict = verdicts(library, record)
        first, second = (sum(record[s][f]["seconds"] for f in ran) for s in SIDES)
        failed = {t: why for t, why in verdict.items() if why is not None}
        ratio = 1 - len(failed) / max(1, len(verdict))
        version = library.requirement.partition("==")[2]
        counts = f"{len(ran)} of {len(files(library))} | {len(verdict)}"
        passed = f"{len(verdict) - len(failed)} | {ratio:.3f} | {second / first:.2f}"
        rows[name] = f"| {name} | {version} | {counts} | {passed} |"
        # without the folder, which would read as one of weft's own
        named = {t.removeprefix("tests/"): why for t, why in failed.items()}
        lines = [f"* `{t}`: {_plain(why)}" for t, why in sorted(named.items())]
        faults[name] = f"{name}\n\n" + "\n".join(lines) if lines else ""
    table = "\n".join([_HEAD, rule, *rows.values()])
    told = "".join(f"\n\n### {part}" for part in faults.values() if part) or "\n\nNothing."
    return f"{before}{table}\n\n{middle.strip()}\n\n{_FAULTS}{told}\n"


def _plain(reason: str) -> str:
    """A reason as text of the page, without what a reader's machine has no part in."""
    return re.sub(r"/\S*/", "…/", reason).replace("|", "/").replace("`", "'")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.libraries", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(LIBRARIES)}; default: all")
    parser.add_argument("--side", choices=SIDES, help="run one side; the other is as last run")
    parser.add_argument("--only", default="", help="files whose names contain this")
    parser.add_argument("--resume", action="store_true", help="keep results of weft's side too")
    parser.add_argument("--again", action="store_true", help="run JAX's side again")
    parser.add_argument("--seconds", type=float, default=900, help="that one file may take")
    parser.add_argument("--write", type=Path, help="the page to write")
    options = parser.parse_args()
    names = [n for n in LIBRARIES if not options.names or any(w in n for w in options.names)]
    if not names:
        parser.error(f"no library of these names; there are {', '.join(LIBRARIES)}")
    HOME.mkdir(parents=True, exist_ok=True)
    for name in names:
        library = LIBRARIES[name]
        for file in files(library):
            if options.only not in file:
                continue
            for side in [options.side] if options.side else SIDES:
                kept = not options.again if side == "jax" else options.resume
                if not (kept and file in _load(name).get(side, {})):
                    # weft may take longer than JAX: what is not reached counts as failed
                    seconds = options.seconds * (1 + (side == "weft"))
                    result = run(library, file, side, seconds)
                    _store(name, side, file, result)
            _tell(library, file, _load(name))
    if options.write:
        records = {name: _load(name) for name in LIBRARIES}
        options.write.write_text(page(options.write.read_text(), records))
    return 0


def _tell(library: Library, file: str, record: dict) -> None:
    """Prints what fails of one file."""
    sides = {side: {f: r for f, r in record.get(side, {}).items() if f == file} for side in SIDES}
    verdict = verdicts(library, sides)
    failed = {t: why for t, why in verdict.items() if why is not None}
    seconds = [f"{side} {r['seconds']:.0f} s" for side in SIDES for r in sides[side].values()]
    print(f"{file}: {len(failed)} of {len(verdict)} fail on weft ({', '.join(seconds)})")
    print("".join(f"  {t}: {why}\n" for t, why in failed.items()), end="", flush=True)


def _path(name: str) -> Path:
    library = LIBRARIES[name]
    return HOME / "records" / f"{name} {library.requirement}.json"


def _load(name: str) -> dict:
    return json.loads(_path(name).read_text()) if _path(name).exists() else {}


def _store(name: str, side: str, file: str, result: dict) -> None:
    record = _load(name)
    record.setdefault(side, {})[file] = result
    _path(name).parent.mkdir(exist_ok=True)
    _path(name).write_text(json.dumps(record))


if __name__ == "__main__":
    sys.exit(main())
