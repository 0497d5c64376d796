import numpy as np
import pytest

import weft
from weft import numpy as wnp
from weft.driver.repeats import SHORTEST, find_repeats, flattened


def layers(weights, x):
    for w in weights:
        for _ in range(5):
            x = wnp.tanh(x @ w) + x / 3 - wnp.mean(x * x)
    return x


def traced(f, *args):
    return weft.jit(f).trace(*args).jaxpr


def weights(n, width=4):
    return [np.full((width, width), 0.1 * k, np.float32) for k in range(n)]


def test_layers_are_found_with_their_count():
    closed = flattened(traced(layers, weights(7), np.ones((3, 4), np.float32)))
    (repeat,) = find_repeats(closed.jaxpr)
    assert repeat.count >= 6  # layers, or some turns of the loop inside of them
    assert repeat.saved >= 0.8 * len(closed.eqns)


def test_equations_that_differ_in_a_literal_do_not_repeat():
    def f(x):
        for k in range(40):
            x = wnp.sin(x) * (k + 0.5)
        return x

    assert find_repeats(flattened(traced(f, np.ones(3, np.float32))).jaxpr) == []


def test_equations_that_read_otherwise_do_not_repeat():
    def f(x):
        values = [x, x + 1]
        for k in range(80):
            values.append(values[k * k % (k + 2)] * values[-1])
        return values[-1]

    for repeat in find_repeats(flattened(traced(f, np.ones(3, np.float32))).jaxpr):
        assert len({len(e) for e in repeat.externals}) == 1


@pytest.mark.parametrize("n", [1, 2, 3])
def test_calls_are_flattened_each_with_variables_of_its_own(n):
    inner = weft.jit(lambda x: wnp.sin(x) + 1)

    def f(x):
        for _ in range(n):
            x = inner(x) * inner(x)
        return x

    closed = flattened(traced(f, np.ones(3, np.float32)))
    made = [v for e in closed.eqns for v in e.outvars]
    assert len(made) == len(set(made)) == 5 * n
    assert not any(e.primitive.name == "jit" for e in closed.eqns)


def test_blocks_that_compute_too_little_are_none():
    def f(x):
        for _ in range(40):
            for k in range(SHORTEST):
                x = wnp.sin(x) * k
        return x

    jaxpr = flattened(traced(f, np.ones(100, np.float32))).jaxpr
    (repeat,) = find_repeats(jaxpr)
    least = 100 * repeat.period
    assert find_repeats(jaxpr, least) == [repeat]
    assert all(r.period * 100 > least for r in find_repeats(jaxpr, least + 1))
