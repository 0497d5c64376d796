"""`make libraries`: the test suites of libraries written for JAX, run on JAX and then on weft.

The libraries are installed beside JAX in an environment of their own, and their sources, with the
tests, are downloaded from PyPI. Where these come without tests, `benchmarks.library_programs` has
programs whose results on both are compared. What passes on JAX is what weft is measured by.
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
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parent.parent
HOME = Path(os.environ.get("WEFT_LIBRARIES", ROOT / ".venv" / "libraries"))
JAX = "0.10.2"
SIDES = ("jax", "weft")
ENVIRONMENT = {"EINOPS_TEST_BACKENDS": "numpy,jax"}  # which their tests ask for
SECONDS = 3600  # that a suite may take


@dataclass(frozen=True)
class Library:
    """A library and what is run of it: tests of its sources, or cases of `library_programs`."""

    requirement: str
    folder: str = ""  # in the sources, where the tests run
    tests: tuple[str, ...] = ()
    cases: str = ""
    also: tuple[str, ...] = ()  # requirements of its tests
    trial: bool = False  # run without having been prepared for


LIBRARIES = {
    "examples": Library(
        "flax==0.12.8", cases="example_cases", also=("diffrax==0.7.2", "optax==0.2.8")
    ),
    "equinox": Library("equinox==0.13.8", cases="equinox_cases"),
    "lineax, optimistix, diffrax": Library(
        "diffrax==0.7.2",
        cases="solver_cases",
        also=("lineax==0.1.1", "optimistix==0.1.0", "optax==0.2.8"),
    ),
    "haiku": Library(
        "dm-haiku==0.0.17",
        tests=tuple(
            f"haiku/_src/{name}_test.py"
            for name in """base basic module stateful jaxpr_info dot batch_norm conv layer_norm
            recurrent attention embed initializers pool random transform multi_transform lift
            filtering data_structures nets/mlp nets/resnet""".split()  # noqa: SIM905
        ),
        also=("absl-py", "mock", "dm-tree", "cloudpickle"),
    ),
    "flax linen": Library(
        "flax==0.12.8",
        "tests",
        tests=(
            *(
                f"linen/linen_{name}_test.py"
                for name in """module linear combinators dtypes meta activation recurrent transforms
                """.split()  # noqa: SIM905
            ),
            "linen/initializers_test.py",
            "core",
        ),
        also=("absl-py",),
    ),
    "flax nnx": Library(
        "flax==0.12.8",
        "tests",
        tests=tuple(
            f"nnx/{name}_test.py"
            for name in """module rngs state variable filters graph_utils optimizer metrics
            containers transforms nn/linear nn/normalization nn/stochastic""".split()  # noqa: SIM905
        ),
        also=("absl-py",),
    ),
    "optax": Library(
        "optax==0.2.8",
        tests=(
            *("optax/transforms", "optax/schedules", "optax/losses/_regression_test.py"),
            *(
                f"optax/_src/{name}_test.py"
                for name in "base update combine numerics utils linear_algebra transform".split()  # noqa: SIM905
            ),
        ),
        also=("absl-py", "flax==0.12.8", "scikit-learn", "dm-tree"),
    ),
    "chex": Library(
        "chex==0.1.92", tests=("chex/_src",), also=("absl-py", "cloudpickle", "dm-tree")
    ),
    "einops": Library("einops==0.8.2", tests=("einops/tests",), also=("parameterized",)),
}


def python(library: Library) -> str:
    """The interpreter of the environment, where the library is installed."""
    path = HOME / "bin" / "python"
    if not path.exists():
        subprocess.run([sys.executable, "-m", "venv", HOME], check=True)
    needed = [
        *("pytest", "hypothesis", f"jax=={JAX}", f"jaxlib=={JAX}"),
        library.requirement,
        *library.also,
    ]
    pip = [path, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *needed], check=True)
    return str(path)


def sources(library: Library, interpreter: str) -> Path:
    """The folder of the library's sources, with its tests."""
    folder = HOME / "sources"
    name = re.sub(r"[^a-z0-9]", "_", library.requirement.partition("==")[0])
    version = library.requirement.partition("==")[2]
    unpacked = folder / f"{name}-{version}"
    if not unpacked.exists():
        only = ["--no-deps", "--no-binary", library.requirement.partition("==")[0]]
        command = [interpreter, "-m", "pip", "download", "--quiet", *only, "--dest", str(folder)]
        subprocess.run([*command, library.requirement], check=True)
        with tarfile.open(folder / f"{name}-{version}.tar.gz") as archive:
            archive.extractall(folder, filter="data")
    return unpacked / library.folder


def run(name: str, side: str) -> dict:
    """The results of a library's tests on one side: id -> None if it passed, else the reason."""
    library = LIBRARIES[name]
    interpreter = python(library)
    out = HOME / "results" / f"{name} on {side}"
    out.parent.mkdir(exist_ok=True)
    prefix = [interpreter, *(["-m", "weft.as_jax"] if side == "weft" else [])]
    if library.cases:
        where, command = ROOT, [f"benchmarks.library_programs.{library.cases}", str(out)]
    else:
        where = sources(library, interpreter)
        flags = ["-q", "-p", "no:cacheprovider", "--continue-on-collection-errors"]
        flags.append(f"--junitxml={out}")
        command = ["pytest", *flags, *library.tests]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"} | ENVIRONMENT
    started = time.monotonic()
    with open(f"{out}.log", "w") as log:
        try:
            subprocess.run(
                [*prefix, "-m", *command],
                cwd=where,
                env=env,
                stdout=log,
                stderr=subprocess.STDOUT,
                timeout=SECONDS,
            )
        except subprocess.TimeoutExpired:
            print(f"{name} on {side}: stopped after {SECONDS} s", file=sys.stderr)
    results = json.loads(out.read_text()) if library.cases else _junit(out)
    return {"seconds": time.monotonic() - started, "results": results}


def _junit(path: Path) -> dict[str, str | None]:
    results: dict[str, str | None] = {}
    for test in ET.parse(path).getroot().iter("testcase"):
        name = f"{test.get('classname')}::{test.get('name')}"
        fault = next((c for c in test if c.tag in ("failure", "error")), None)
        if any(c.tag == "skipped" for c in test):
            continue
        reason = "" if fault is None else (fault.get("message") or "").strip().partition("\n")[0]
        results[name] = None if fault is None else reason[:160] or "failed"
    return results


def verdicts(name: str, sides: dict[str, dict]) -> dict[str, str | None]:
    """What passes on JAX -> None if it passes on weft, else why not."""
    first, second = (sides[s]["results"] for s in SIDES)
    if not LIBRARIES[name].cases:
        return {t: second.get(t, "did not run") for t, fault in first.items() if fault is None}
    passed = {t: v for t, v in first.items() if not (isinstance(v, str) and re.match(r"\w+: ", v))}
    return {
        t: None if _equal(v, second.get(t)) else str(second.get(t))[:160].partition("\n")[0]
        for t, v in passed.items()
    }


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
for one), which downloads the libraries' sources from PyPI and runs their tests on JAX {jax} and
then on weft. Counted are the tests that pass on JAX. The sources of equinox, lineax, optimistix and
diffrax come without tests; there, programs of `benchmarks/library_programs` are run on both, and
their results must be equal. Of the larger suites, the files that `benchmarks/libraries.py` lists
are run. Times include starting and compiling, on a machine that did other work at the same time.

| library | version | pass on JAX | of these on weft | ratio | time ÷ JAX |
|--|--|--|--|--|--|
{rows}

## What fails, and why

{faults}
"""


def page(records: dict[str, dict]) -> str:
    """The page of all libraries that have been run."""
    rows, faults = [], []
    for name in LIBRARIES:
        record, library = records.get(name, {}), LIBRARIES[name]
        if any(side not in record for side in SIDES):
            continue
        verdict = verdicts(name, record)
        slower = record["weft"]["seconds"] / record["jax"]["seconds"]
        failed = {t: why for t, why in verdict.items() if why is not None}
        ratio = 1 - len(failed) / max(1, len(verdict))
        version = library.requirement.partition("==")[2]
        label = f"{name} (unprepared)" if library.trial else name
        passed = f"{len(verdict)} | {len(verdict) - len(failed)}"
        rows.append(f"| {label} | {version} | {passed} | {ratio:.3f} | {slower:.2f} |")
        if failed:
            lines = [f"* `{t}`: {why.replace('|', '/')}" for t, why in sorted(failed.items())]
            faults.append(f"### {name}\n\n" + "\n".join(lines))
    return _PAGE.format(jax=JAX, rows="\n".join(rows), faults="\n\n".join(faults) or "Nothing.")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.libraries", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(LIBRARIES)}; default: all")
    parser.add_argument("--side", choices=SIDES, help="run one side; the other is as last run")
    parser.add_argument("--write", type=Path, help="the page to write")
    options = parser.parse_args()
    names = [n for n in LIBRARIES if not options.names or any(w in n for w in options.names)]
    if not names:
        parser.error(f"no library of these names; there are {', '.join(LIBRARIES)}")
    HOME.mkdir(parents=True, exist_ok=True)
    store = HOME / "records.json"
    records = json.loads(store.read_text()) if store.exists() else {}
    for name in names:
        for side in [options.side] if options.side else SIDES:
            records.setdefault(name, {})[side] = run(name, side)
            store.write_text(json.dumps(records))
        if all(side in records[name] for side in SIDES):
            verdict = verdicts(name, records[name])
            failed = {t: why for t, why in verdict.items() if why is not None}
            print(f"{name}: {len(failed)} of {len(verdict)} fail on weft")
            print("\n".join(f"  {t}: {why}" for t, why in failed.items()))
    if options.write:
        options.write.write_text(page(records))
    return 0


if __name__ == "__main__":
    sys.exit(main())
