"""What all tests share: hypothesis profiles, a seeded `rng`, and the seed printed on failure.

`WEFT_TEST_SEED=n` repeats a failure that came from `rng`; `WEFT_HYPOTHESIS_PROFILE=deep` searches
longer and at random where the default profile repeats the same examples in every run.
"""

import os
import zlib

os.environ.setdefault("WEFT_NUM_CPU_DEVICES", "8")

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

SLOW_COMPILES = [HealthCheck.too_slow, HealthCheck.data_too_large]

settings.register_profile(
    "ci",
    max_examples=25,
    derandomize=True,
    deadline=None,  # an example's first run compiles
    database=None,
    print_blob=True,
    suppress_health_check=SLOW_COMPILES,
)
settings.register_profile(
    "deep",
    max_examples=500,
    deadline=None,
    print_blob=True,
    suppress_health_check=SLOW_COMPILES,
)
settings.load_profile(os.environ.get("WEFT_HYPOTHESIS_PROFILE", "ci"))


def seed_of(nodeid: str) -> int:
    """The seed of a test's `rng`: from the environment, else from the test's own name."""
    given = os.environ.get("WEFT_TEST_SEED")
    return int(given) if given else zlib.crc32(nodeid.encode())


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """A NumPy generator whose seed is fixed per test and reported when the test fails."""
    return np.random.default_rng(seed_of(request.node.nodeid))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.failed and "rng" in getattr(item, "fixturenames", ()):
        seed = seed_of(item.nodeid)
        report.sections.append(("random seed", f"repeat with WEFT_TEST_SEED={seed}"))
    return report
