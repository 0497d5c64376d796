"""The libraries written for JAX whose tests `make libraries` runs, with the versions.

Where the sources come without tests, `benchmarks.library_programs` has programs whose results on
both are compared; the tests of older versions do not run on those that support this JAX.
"""

from __future__ import annotations

from dataclasses import dataclass

JAX = "0.10.2"


@dataclass(frozen=True)
class Library:
    """A library and what is run of it: files of tests in its sources, or a file of cases."""

    requirement: str
    folder: str = ""  # of the sources, where the tests run
    tests: tuple[str, ...] = ()  # patterns of files below the folder
    without: tuple[str, ...] = ()  # patterns of files that ask for what is not installed
    cases: tuple[str, ...] = ()  # files of `benchmarks.library_programs`
    also: tuple[str, ...] = ()  # requirements of its tests


_FLAX = "flax==0.12.8"
_FLAX_TESTS = ("absl-py", "cloudpickle")

LIBRARIES = {
    "optax": Library(
        "optax==0.2.8",
        tests=("optax/**/*_test.py",),
        also=("absl-py", _FLAX, "scikit-learn", "dm-tree"),
    ),
    "chex": Library(
        "chex==0.1.92", tests=("chex/**/*_test.py",), also=("absl-py", "cloudpickle", "dm-tree")
    ),
    "equinox": Library("equinox==0.13.8", cases=("equinox_cases",)),
    "jaxtyping": Library("jaxtyping==0.3.11", cases=("jaxtyping_cases",), also=("typeguard<3",)),
    "lineax": Library("lineax==0.1.1", cases=("lineax_cases",)),
    "optimistix": Library("optimistix==0.1.0", cases=("optimistix_cases",), also=("optax==0.2.8",)),
    "diffrax": Library("diffrax==0.7.2", cases=("diffrax_cases",), also=("optimistix==0.1.0",)),
    "flax linen": Library(
        _FLAX,
        "tests",
        tests=("linen/*_test.py", "core/**/*_test.py", "*_test.py"),
        also=_FLAX_TESTS,
    ),
    "flax nnx": Library(
        _FLAX, "tests", tests=("nnx/**/*_test.py", "nnx/test_*.py"), also=_FLAX_TESTS
    ),
    "haiku": Library(
        "dm-haiku==0.0.17",
        tests=("haiku/**/*_test.py",),
        also=("absl-py", "mock", "dm-tree", "cloudpickle"),
    ),
    "einops": Library("einops==0.8.2", tests=("einops/tests/test_*.py",), also=("parameterized",)),
    "examples": Library(
        _FLAX,
        cases=("example_cases",),
        also=("diffrax==0.7.2", "optax==0.2.8", "dm-haiku==0.0.17"),
    ),
}
