"""The option debug_key_reuse: keys that are used twice."""

import numpy as np
import pytest

import weft
from weft import random
from weft.errors import KeyReuseError


@pytest.fixture(autouse=True)
def checked():
    with weft.debug_key_reuse(True):
        yield


SAMPLERS = {
    **{
        f.__name__: f
        for f in (random.normal, random.uniform, random.bits, random.bernoulli, random.gumbel)
    },
    "exponential": random.exponential,
    "rademacher": random.rademacher,
    "gamma": lambda k: random.gamma(k, 2.0),
    "poisson": lambda k: random.poisson(k, 2.0),
    "beta": lambda k: random.beta(k, 2.0, 1.0),
    "t": lambda k: random.t(k, 2.0),
    "dirichlet": lambda k: random.dirichlet(k, np.ones(3)),
    "categorical": lambda k: random.categorical(k, np.ones(3)),
    "choice": lambda k: random.choice(k, 5, (2,), replace=False),
    "permutation": lambda k: random.permutation(k, 5),
    "randint": lambda k: random.randint(k, (2,), 0, 9),
    "truncated_normal": lambda k: random.truncated_normal(k, -1.0, 1.0),
    "split": random.split,
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_second_use_is_told_with_the_line_of_the_first(name):
    sample = SAMPLERS[name]
    for wrap in (lambda f: f(random.key(0)), lambda f: weft.jit(f)(random.key(0))):

        def once(key):
            a, b = random.split(random.clone(key))
            return sample(key), sample(a), sample(b)

        def twice(key):
            return sample(key), sample(key)

        wrap(once)
        with pytest.raises(KeyReuseError, match=r"used before, by \w+ at .*test_key_reuse.py"):
            wrap(twice)


def test_keys_that_are_split_are_used():
    key = random.key(0)
    random.split(key)
    with pytest.raises(KeyReuseError, match="normal: key was used before, by split"):
        random.normal(key)


def test_looking_folding_and_cloning_use_nothing_up():
    """Passes where nothing raises KeyReuseError."""
    key = random.key(0)
    for step in range(3):
        random.normal(random.fold_in(key, step))
        random.uniform(random.clone(key))
    random.key_data(key)
    random.normal(key)


def test_transformations_use_keys_once():
    key = random.key(0)
    weft.vmap(random.normal)(random.split(key, 3))
    f = lambda x, k: (x * random.normal(k)) ** 2
    grads = weft.grad(weft.checkpoint(f))(2.0, random.key(1))
    np.testing.assert_allclose(grads, 4 * np.asarray(random.normal(random.key(1))) ** 2, rtol=1e-5)


def test_nothing_is_checked_without_the_option():
    with weft.debug_key_reuse(False):
        key = random.key(0)
        assert random.normal(key) == random.normal(key)


def test_a_jitted_function_uses_its_keys_at_each_call():
    sample = weft.jit(lambda key, x: x + random.normal(key))
    nested = weft.jit(lambda key: sample(key, 1.0))
    for function in (lambda key: sample(key, 1.0), nested):
        key = random.key(0)
        function(key)
        with pytest.raises(KeyReuseError, match="key was used before, by .* at .*test_key_reuse"):
            function(key)
        with pytest.raises(KeyReuseError, match="normal: key was used before"):
            random.normal(key)
        assert float(function(random.key(1))) == float(function(random.key(1)))
    with pytest.raises(KeyReuseError, match="key was used before, by .*normal"):
        weft.jit(lambda key: sample(key, random.normal(key)))(random.key(2))


def test_a_jitted_function_that_only_looks_leaves_its_keys_unused():
    fold = weft.jit(lambda key, i: random.key_data(random.fold_in(key, i)))
    key = random.key(0)
    for i in range(2):
        np.testing.assert_array_equal(fold(key, i), random.key_data(random.fold_in(key, i)))
    assert random.normal(key).shape == ()


def test_keys_taken_out_of_an_array_are_used_once_each():
    keys = random.split(random.key(0), (2, 3))
    random.normal(keys[0, 1])
    random.normal(keys[0][2])
    with pytest.raises(KeyReuseError, match="normal: key was used before"):
        random.normal(keys[-2, 1])
    with pytest.raises(KeyReuseError, match="normal: key was used before"):
        random.normal(keys[0, np.array([2, 0])][0])
    row = keys[1]
    weft.vmap(random.normal)(row)
    assert [random.uniform(k).shape for k in keys[:1, 0]] == [()]


def new_keys(key, _):
    key, sub = random.split(key)
    return key, random.normal(sub)


def kept_key(key, _):
    return key, random.normal(key)


LOOPS = {
    "scan": lambda body, key: weft.lax.scan(body, key, np.arange(3.0)),
    "fori_loop": lambda body, key: weft.lax.fori_loop(0, 3, lambda i, k: body(k, i)[0], key),
    "while_loop": lambda body, key: weft.lax.while_loop(
        lambda s: s[1] < 3, lambda s: (body(s[0], 0)[0], s[1] + 1), (key, 0)
    ),
}


@pytest.mark.parametrize("wrap", [lambda f: f, weft.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("loop", LOOPS)
def test_each_step_of_a_loop_needs_a_key_of_its_own(loop, wrap):
    run = LOOPS[loop]
    wrap(lambda key: run(new_keys, key))(random.key(0))
    with pytest.raises(KeyReuseError, match=f"{loop}: a key is used by each step.*carries it on"):
        wrap(lambda key: run(kept_key, key))(random.key(0))
    with pytest.raises(KeyReuseError, match=f"used before, by {loop} at .*test_key_reuse.py"):
        wrap(lambda key: (run(new_keys, key), random.normal(key)))(random.key(0))
    closing = random.key(1)

    def body(key, _):
        return random.clone(key), random.normal(closing)

    with pytest.raises(KeyReuseError, match=f"{loop}: a key is used by each step.*closes over"):
        wrap(lambda key: run(body, key))(random.key(0))


def test_keys_in_conditions_rows_and_branches():
    loop = weft.lax.while_loop
    with pytest.raises(KeyReuseError, match="while_loop: a key is used by each step"):
        loop(lambda s: random.normal(s[0]) < s[1], lambda s: (s[0], s[1] - 9), (random.key(0), 9.0))
    keys = random.split(random.key(0), 3)
    weft.lax.scan(lambda c, key: (c, random.normal(key)), 0.0, keys)
    with pytest.raises(KeyReuseError, match="used before, by scan"):
        random.normal(keys[1])
    key, other = random.split(random.key(1))

    def branches(flag):  # a key is for one of them, also where they are traced twice
        draw = weft.lax.cond(flag, random.normal, lambda k: 0.0, key)
        return draw + weft.lax.cond(
            flag, lambda: random.normal(other), lambda: random.gumbel(other)
        )

    weft.jit(branches)(True)
    with pytest.raises(KeyReuseError, match="used before, by normal"):
        weft.jit(lambda: random.normal(other))()
    with pytest.raises(KeyReuseError, match="used before, by normal"):
        random.normal(key)


def test_the_use_of_an_example_is_that_of_all():
    keys = random.split(random.key(0), 3)
    weft.vmap(random.normal)(keys)
    with pytest.raises(KeyReuseError, match="used before, by normal"):
        random.normal(keys[1])
    keys = random.split(random.key(1), 3)
    random.normal(keys[0])
    with pytest.raises(KeyReuseError, match="used before, by normal"):
        weft.vmap(random.normal)(keys)
