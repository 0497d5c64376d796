"""`make array-api`: weft.numpy against the array API standard, 64-bit types on.

Two ways. Without a folder, calls of every function of the standard on every dtype and several
shapes (`benchmarks.array_api_calls`) are made on weft and on array-api-strict, which implements the
standard and nothing else; a call counts if results agree in type, dtype, shape and value. With
`--suite FOLDER`, a checkout of the standard's own suite (data-apis/array-api-tests, with its
submodule), that suite runs too, with the skips of `SKIPS`.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.array_api_calls import GROUPS, Call

VERSIONS = ("2024.12", "2025.12")

_OBJECTS = "test_array_object" + ".py"
SKIPS = {
    f"array_api_tests/{_OBJECTS}::test_setitem": "arrays are immutable",
    f"array_api_tests/{_OBJECTS}::test_setitem_masking": "arrays are immutable",
}
"""Tests of the standard's suite that no library of immutable arrays passes, and why."""


def difference(want: Any, got: Any) -> str | None:
    """How weft's result differs from the standard's, None where it does not."""
    if isinstance(want, tuple | list):
        # Where 2024.12 asks for a list, later versions ask for a tuple.
        if not isinstance(got, tuple | type(want)):
            return f"is a {type(got).__name__}, not a {type(want).__name__}"
        if len(want) != len(got) or any(not hasattr(got, f) for f in getattr(want, "_fields", ())):
            return f"has other fields: {got!r:.60}"
        return next(filter(None, map(difference, want, got)), None)
    if type(want).__name__ == "DType":
        return None if np.dtype(str(want).rpartition(".")[2]) == got else f"is {got}, not {want}"
    if isinstance(want, bool | int | float | complex):
        same = type(want) is type(got) and np.isclose(want, got, equal_nan=True)
        return None if same else f"is {got!r}, not {want!r}"
    if type(want).__name__ != "Array":
        return None if want == got else f"is {got!r}, not {want!r}"
    x, y = np.from_dlpack(want) if want.dtype else want, np.asarray(got)
    if x.dtype != y.dtype or x.shape != y.shape:
        return f"is {y.dtype}{list(y.shape)}, not {x.dtype}{list(x.shape)}"
    tolerance = 1e-4 if x.dtype.name in ("float32", "complex64") else 1e-9
    same = np.allclose(x, y, rtol=tolerance, atol=tolerance, equal_nan=True)
    return None if same else f"is {y.ravel()[:4]}, not {x.ravel()[:4]}"


def check(calls: Iterator[Call], version: str, part: float, seed: int) -> tuple[Counter, list[str]]:
    """The number of calls by name, and a line for each that differs."""
    import array_api_strict as standard

    import weft
    import weft.numpy as wnp

    standard.set_array_api_strict_flags(api_version=version)
    chosen = np.random.default_rng(seed)
    made: Counter = Counter()
    failures = []
    with weft.enable_x64(True), np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, call, arrays in calls:
            if chosen.random() >= part:
                continue
            try:
                want = call(standard, *[standard.asarray(a, copy=True) for a in arrays])
            except Exception:  # outside of the standard
                continue
            made[name] += 1
            try:
                failure = difference(want, call(wnp, *map(wnp.asarray, arrays)))
            except Exception as error:
                failure = f"raises {type(error).__name__}: {error}"
            if failure:
                given = ", ".join(f"{a.dtype}{list(a.shape)}" for a in arrays)
                failures.append(f"{name}({given}) {failure}".replace("\n", " ")[:200])
    return made, failures


def official(folder: str, version: str) -> str:
    """The closing line of the standard's own suite."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as skips:
        skips.write("\n".join(SKIPS))
        skips.flush()
        settings = {"ARRAY_API_TESTS_MODULE": "weft.numpy", "WEFT_ENABLE_X64": "1"}
        environment = {
            **os.environ, **settings, "ARRAY_API_TESTS_VERSION": version,
            "PYTHONPATH": str(Path(__file__).parent.parent),
        }  # fmt: skip
        command = [sys.executable, "-m", "pytest", "array_api_tests", "-q", "--disable-deadline"]
        out = subprocess.run(
            [*command, "--skips-file", skips.name],
            cwd=folder, env=environment, text=True, capture_output=True,
        )  # fmt: skip
    lines = (out.stdout + out.stderr).splitlines()
    for line in lines:
        if line.startswith(("FAILED", "ERROR")):
            print(line)
    return re.sub(r"^=* ?| in .*", "", lines[-1]) if lines else f"ended with {out.returncode}"


PAGE = """# The array API standard

`weft.numpy` implements the [array API standard](https://data-apis.org/array-api/), 2024.12, with
64-bit types on (`weft.config.update("enable_x64", True)`). This page is written by
`make array-api`, which makes calls of the standard's functions and operators on every dtype and
several shapes, on weft and on array-api-strict {strict}, and compares type, dtype, shape and value.
Calls that the standard leaves open are not made. The special values of its tables (signed zeros,
infinities, NaN) are tested apart, in `tests/numpy/test_array_api_values.py`.

| version | calls | equal | names |
|--|--|--|--|
{rows}

{failures}
## The standard's own suite

`make array-api SUITE=folder` also runs data-apis/array-api-tests, from a checkout with its
submodule:

    git clone --recurse-submodules https://github.com/data-apis/array-api-tests
    pip install -r array-api-tests/requirements.txt
    make array-api SUITE=array-api-tests

It skips only what immutable arrays forbid: {skips}. {suite}

## Where weft follows JAX instead

* `asarray(x, dtype=…, copy=False)` converts, where the standard asks for a ValueError.
* `meshgrid` returns a list (2024.12), not a tuple (2025.12).
* The defaults `std(correction=None)`, `fft(norm=None)`, `astype(copy=False)` mean what the
  standard's defaults mean for immutable arrays.
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--suite", help="a checkout of data-apis/array-api-tests")
    parser.add_argument("--part", type=float, default=1.0, help="of the calls, drawn by chance")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", type=Path, help="the page to write")
    options = parser.parse_args()
    import array_api_strict

    rows, failed, suite = [], [], []
    for version in VERSIONS:
        made: Counter = Counter()
        failures: list[str] = []
        for group in GROUPS:
            calls = group(np.random.default_rng(options.seed))
            some, wrong = check(calls, version, options.part, options.seed)
            made += some
            failures += wrong
            print(version, group.__name__, sum(some.values()), "calls,", len(wrong), "differ")
            print(*wrong, sep="\n", flush=True)
        total = sum(made.values())
        rows.append(f"| {version} | {total} | {total - len(failures)} | {len(made)} |")
        failed += [f"* {version}: `{line}`" for line in failures]
        if options.suite:
            suite.append(f"{version}: {official(options.suite, version)}.")
    if options.write:
        options.write.write_text(
            PAGE.format(
                strict=array_api_strict.__version__,
                rows="\n".join(rows),
                failures="".join(f"{line}\n" for line in failed),
                skips=", ".join(f"`{t.rpartition(':')[2]}` ({why})" for t, why in SKIPS.items()),
                suite=" ".join(suite) or "The last run of this page was without it.",
            )
        )
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
