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


_PAGE = """# Libraries written for JAX, on weft

`python -m weft.as_jax -m pytest …` runs a library's tests on weft, unmodified; see
[from-jax.md](from-jax.md). This page is written by `make libraries` (`make libraries LIB=equinox`
for one; `ARGS="--resume"` continues a run), which downloads the libraries' sources from PyPI and
runs their tests on JAX {jax} and then on weft, a file at a time. Counted are the tests that pass on
JAX. The sources of equinox, jaxtyping, lineax, optimistix and diffrax come without tests; there,
programs of `benchmarks/library_programs` are run on both, and their results must be equal.
`files` counts those that both ran; a
file that took longer than its limit counts as far as JAX came. Times include starting and
compiling, on a machine that did other work at the same time. Tests that failed and were repaired
since the run of a whole library were run again alone. In the last run of flax nnx, seven of its 30
files were stopped on JAX at 120 s, which is why fewer tests count than the 1,686 of the run before.

| library | version | files | pass on JAX | of these on weft | ratio | time ÷ JAX |
|--|--|--|--|--|--|--|
{rows}

## Tried unprepared

Libraries that nobody had tried, chosen before any result was seen, for tests in their sources on
PyPI; run file by file, on JAX first, with at most 100 to 300 s a file on a loaded machine. What JAX
did not reach in that time, or did not collect there (tests that need tensorflow or helpers that the
sources lack), does not count. jaxlie 1.5.0 collects on neither.

| library | version | files that JAX ran | pass on JAX | of these on weft |
|--|--|--|--|--|
| rlax | 0.1.9 | 23 of 23 | 734 | 734 |
| gpjax | 1.0.0 | 14, every third of 55 until the time was over | 266 | 266 |
| dm_pix | 0.4.5 | 2 of 7 | 176 | 176 |
| mctx | 0.0.71 | 4 of 5 | 20 | 20 |
| kfac_jax | 0.0.8 | 1 of 6 | 10 | 10 |
| jax_md | 0.2.29 | 1 of 9, in part | 5 | 5 |

A second set, in the same way but on weft first: what failed there ran on JAX, and what fails on
both does not count. Files in a random order, 100 s each, until the time was over.

| library | version | files | passed when first run | after repairs |
|--|--|--|--|--|
| orthax | 0.2.11 | 2, then 4 of 9 | 19 of 75 (one name) | 47 of 47 |
| coordax | 0.2.8 | 4 of 6 | 172 of 174 | 173 of 174 |
| probdiffeq | 0.9.2 | 3 of 32 | 5 of 8 | 8 of 8 |
| rax | 0.4.0 | 4 of 11 | 85 of 85 | |
| tree-math | 0.2.1 | 4 of 6 | 25 of 25 | |
| interpax | 0.3.16 | 2 of 2 | 21 of 21 | |
| quadax | 0.3.1 | 4 of 10 | 20 of 20 | |
| dynamax | 1.0.3 | 3 of 18 | 11 of 11 | |
| tinygp, again | 0.3.1 | 4 of 12 | 17 of 17 | |
| quax, again | 0.4.6 | 4 of 27 | 36 of 36 | |
| distrax, again | 0.1.9 | 4 of 68 | 129 of 129 | |
| penzai, again | 0.2.5 | 4 of 29 | 9 of 9 | |
| numpyro, again | 0.22.0 | 5 of 15 | 244 of 247 | 246 of 247 |
| blackjax, again | 1.7.1 | 4 of 74 | 127 of 127 | |

A third set, each file on JAX and on weft, 100 s each: pytreeclass 0.11.1, 6 of 6 files, 237 of 237
tests when first run.

A fourth set, as the second, 45 to 90 s a file on two cores with a load of 10 to 16, so few files of
each were reached:

| library | version | files | passed when first run | after repairs |
|--|--|--|--|--|
| saiunit | 0.5.2 | 5 of 63 | 415 of 415 | |
| exponax | 0.2.0 | 2 of 21 | 122 of 122 | |
| e3nn-jax | 0.21.0 | 2 of 34 | 59 of 59 | |
| jax_dataclasses | 1.6.3 | 8 of 8 | 34 of 34 | |
| gymnax | 1.0.1 | 2 of 6 | 23 of 23 | |
| scico | 0.0.7 | 3, then 2 of 65 | 4 of 15 (`vars(jnp)`) | 15 of 15 |
| jaxoplanet | 0.2.0 | 2 of 19 | 14 of 14 | |
| brax | 0.14.2 | 3 of 38 | 13 of 13 | |
| rlax, again | 0.1.9 | 6 of 23 | 178 of 178 | |
| unxt | 1.11.4 | 4 of 22 | 0 of 53 (private names, below) | 0 |
| quaxed | 0.10.7 | 3 of 14 | 0 of 5 (private names, below) | 0 |
| brainstate | 0.5.4 | 5 of 96 | 0 (private names, below) | 0 |

quaxed, which unxt imports, took the version of jax apart into numbers, which it can now, and makes
`jax.numpy.vectorize` again of JAX's private functions; brainstate makes JAX's private `BatchTrace`
and imports saiunit's sparse arrays, which now load. These are left.

The notebooks of flax's documentation, cell by cell on both: of 347 cells that run on JAX 316 print
the same to tolerance. The others are texts of tracers, meshes and drawings of shardings, counts of
live arrays, and ten cells with a `HijaxVariable` under `jax.jit`, which weft refuses.

numpyro asks that infinity times False be 0 outside of `jit`, as XLA makes it inside of one program;
so it is now. coordax maps over a `ShapeDtypeStruct`, which has no values.

## What fails, and why

{faults}
"""


def page(records: dict[str, dict]) -> str:
    """The page of all libraries that have been run."""
    rows, faults = [], []
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
        label = f"{name} ({library.trial})" if library.trial else name
        counts = f"{len(ran)} of {len(files(library))} | {len(verdict)}"
        passed = f"{len(verdict) - len(failed)} | {ratio:.3f} | {second / first:.2f}"
        rows.append(f"| {label} | {version} | {counts} | {passed} |")
        if failed:
            # without the folder, which would read as one of weft's own
            named = {t.removeprefix("tests/"): why for t, why in failed.items()}
            lines = [f"* `{t}`: {_plain(why)}" for t, why in sorted(named.items())]
            faults.append(f"### {name}\n\n" + "\n".join(lines))
    return _PAGE.format(jax=JAX, rows="\n".join(rows), faults="\n\n".join(faults) or "Nothing.")


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
        options.write.write_text(page({name: _load(name) for name in LIBRARIES}))
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
