"""What is logged of a jitted function that is traced again: what differs, with its name."""

import logging
import re

import numpy as np
import pytest

import weft

X = np.ones(2, np.float32)


@pytest.fixture
def logged(caplog):
    with caplog.at_level(logging.WARNING, logger="weft"), weft.explain_cache_misses(True):
        messages = lambda: (r.getMessage() for r in caplog.records if r.name == "weft")
        yield lambda: [m for m in messages() if " was traced in " not in m]


def test_the_time_of_each_miss_is_logged(caplog):
    with caplog.at_level(logging.WARNING, logger="weft"), weft.explain_cache_misses(True):
        step = make()
        step({"w": X}), step({"w": X}), step({"w": np.ones(3, np.float32)})
    timed = [r.getMessage() for r in caplog.records if " was traced in " in r.getMessage()]
    assert len(timed) == 2 and all(re.fullmatch(r"step was traced in \d+\.\d ms", t) for t in timed)


def make():
    @weft.jit
    def step(params, scale=1.0):
        return params["w"] * scale

    return step


def test_a_first_call_and_a_known_one(logged):
    step = make()
    step({"w": X})
    step({"w": X})
    [first] = logged()
    assert first == "step(params['w']: f32[2]) is traced: it is the function's first call"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda f: f({"w": np.ones((3, 2), "f4")}, X), "params['w'] is f32[3,2], it was f32[2]"),
        (lambda f: f({"w": X}, 2.0), "scale is f32[] (weak), it was f32[2]"),
        (lambda f: f({"v": X, "w": X}, X), "the structure of the arguments is PyTreeDef"),
        (
            lambda f: weft.vmap(lambda x: f({"w": X}, X) + x, axis_name="i")(np.ones((3, 2), "f4")),
            "the named axes in scope are",
        ),
    ],
    ids=["shape", "weak type", "structure", "axes"],
)
def test_what_differs_is_named(logged, call, words):
    step = make()
    step({"w": X}, X)
    call(step)
    assert any("unlike the most similar call before" in m and words in m for m in logged()[1:])


def test_options_and_static_arguments_are_named(logged):
    power = weft.jit(lambda x, n: x**n, static_argnums=1)
    power(X, 2)
    power(X, 3)
    assert "static arguments are {1: 3}, they were {1: 2}" in logged()[-1]
    with weft.default_matmul_precision("highest"):
        power(X, 3)
    assert "highest" in logged()[-1]
    try:
        weft.config.update("numpy_rank_promotion", "warn")
        power(X, 3)
    finally:
        weft.config.update("numpy_rank_promotion", "allow")
    assert "numpy_rank_promotion is 'warn', it was 'allow'" in logged()[-1]
