"""Random values equal those of JAX's documented generators for the same keys (random.json)."""

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import weft
from tests.oracle.random_values import call

TABLE = json.loads((Path(__file__).parents[1] / "oracle" / "random.json").read_text())

# Samplers whose bits go through transcendental functions or factorizations only: these agree to
# rounding, which depends on how the compiler fuses. All others agree bit for bit.
ROUNDED = frozenset(
    [
        "normal",
        "truncated_normal",
        "exponential",
        "gumbel",
        "cauchy",
        "laplace",
        "logistic",
        "maxwell",
        "pareto",
        "lognormal",
        "rayleigh",
        "triangular",
        "wald",
        "weibull_min",
        "double_sided_maxwell",
        "gamma",
        "loggamma",
        "beta",
        "dirichlet",
        "chisquare",
        "f",
        "t",
        "generalized_normal",
        "ball",
        "orthogonal",
        "multivariate_normal",
    ]
)


def name_of(row):
    name, impl, seed, args, kwargs = row["case"]
    return f"{name}-{impl}-{seed}-{args}-{kwargs}"


def check(row):
    dtype = np.dtype(getattr(ml_dtypes, row["dtype"], row["dtype"]))
    expected = np.frombuffer(bytes.fromhex(row["hex"]), dtype).reshape(row["shape"])
    got = call(weft.random, row["case"])
    assert got.dtype == dtype and got.shape == expected.shape
    if row["case"][0] in ROUNDED:
        np.testing.assert_allclose(got, expected, rtol=2e-5, atol=1e-6)
    else:
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("row", TABLE["partitionable"], ids=name_of)
def test_values_are_those_of_the_documented_generator(row):
    check(row)


@pytest.mark.parametrize("row", TABLE["old_layout"], ids=name_of)
def test_the_layout_without_partitionable_counters_is_kept(row):
    from weft.core.config import options

    with options["threefry_partitionable"](False):
        check(row)
