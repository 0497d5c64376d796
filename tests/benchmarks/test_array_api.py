"""The comparison with the array API standard, and a sample of its calls."""

from __future__ import annotations

from typing import Any

import array_api_strict as standard
import numpy as np
import pytest

import weft
import weft.numpy as wnp
from benchmarks.array_api import check, difference
from benchmarks.array_api_calls import GROUPS


@pytest.mark.parametrize(
    ("want", "got", "text"),
    [
        (standard.ones(3), np.ones(3, np.float32), "is float32"),
        (standard.ones(3), np.ones((3, 1)), r"not float64\[3\]"),
        (standard.ones(3), np.zeros(3), "not"),
        ((standard.ones(3),), [np.ones(3)], "is a list"),
        ((standard.ones(3),), (np.ones(3), 1), "other fields"),
        (1, 1.0, "is 1.0"),
        (standard.int64, np.dtype("int32"), "is int32"),
    ],
)
def test_differences_are_told(want: Any, got: Any, text: str) -> None:
    import re

    assert re.search(text, difference(want, got) or "")


def test_equal_results_do_not_differ() -> None:
    assert difference(standard.ones(3), np.ones(3)) is None
    assert difference((standard.asarray(float("nan")), 2), (np.asarray(np.nan), 2)) is None


def test_a_call_that_raises_is_told_and_what_is_outside_of_the_standard_is_not_made() -> None:
    def fails_on_weft(xp: Any, x: Any) -> Any:
        if xp is wnp:
            raise ValueError("no")
        return x

    calls = [
        ("f", fails_on_weft, (np.ones(2),)),
        ("g", lambda xp, x: xp.add(x, xp.asarray(True)), (np.ones(2),)),
    ]
    made, failures = check(iter(calls), "2024.12", 1.0, 0)
    assert (dict(made), failures) == ({"f": 1}, ["f(float64[2]) raises ValueError: no"])


@pytest.mark.parametrize("group", GROUPS, ids=lambda g: g.__name__)
def test_a_sample_of_the_standards_calls_is_equal(group: Any) -> None:
    made, failures = check(group(np.random.default_rng(0)), "2024.12", 0.01, 1)
    assert made
    assert not failures
    assert not weft.config.enable_x64
