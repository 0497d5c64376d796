"""Calls that donate buffers or take static values: what is refused, and how it is said."""

import threading
import traceback

import numpy as np
import pytest

import weft
from weft import P
from weft.sharding import AxisType, NamedSharding

MESH = weft.make_mesh((8,), ("x",), axis_types=(AxisType.Auto,))
VALUE = np.arange(16, dtype=np.float32)


def fresh(devices):
    sharding = NamedSharding(MESH, P("x")) if devices == 8 else weft.devices()[0]
    return weft.jit(lambda z: z + 0)(weft.device_put(VALUE, sharding))


@pytest.fixture(params=[1, 8])
def devices(request):
    return request.param


def test_an_array_donated_before_is_refused_by_every_compiled_call(devices):
    step = weft.jit(lambda state, grad: state - grad, donate_argnums=0)
    other = weft.jit(lambda value: value * 2)
    for _ in range(2):  # both are known signatures from now on
        step(fresh(devices), 1.0)
        other(fresh(devices))
    x = fresh(devices)
    np.testing.assert_array_equal(step(x, 1.0), VALUE - 1)
    assert x.is_deleted()
    for call, argument in (
        (lambda: step(x, 1.0), "argument 'state' of <lambda>"),
        (lambda: other(x), "argument 'value' of <lambda>"),
        (lambda: step(fresh(devices), x), "argument 'grad' of <lambda>"),
        (lambda: x + 1, "argument 0 of add"),
        (lambda: np.asarray(x), r"this float32\[16\] array"),
    ):
        with pytest.raises(RuntimeError, match=argument + r".*donated.*x\.copy\(\)"):
            call()


def test_donated_trees_and_keywords_are_marked_and_named(devices):
    step = weft.jit(lambda params, *, more: (params, more), donate_argnames=("params", "more"))
    for _ in range(3):
        params, more = {"w": [fresh(devices)]}, fresh(devices)
        step(params, more=more)
        assert params["w"][0].is_deleted() and more.is_deleted()
    with pytest.raises(RuntimeError, match=r"argument \"params\['w'\]\[0\]\" of <lambda>"):
        step(params, more=fresh(devices))


def test_a_donated_name_given_by_keyword_donates_no_other_argument(devices):
    step = weft.jit(lambda x, y: x + y, donate_argnames="y")
    for _ in range(2):
        x, y = fresh(devices), fresh(devices)
        np.testing.assert_array_equal(step(x, y=y), 2 * np.asarray(x))
        assert y.is_deleted() and not x.is_deleted()
    info = step.lower(x, y=x).args_info
    assert not info[0][0].donated and info[1]["y"].donated


@pytest.mark.parametrize("numbers", [0, (0, 1), -1])
def test_donating_an_array_that_stands_in_the_call_twice_is_refused(devices, numbers):
    f = weft.jit(lambda a, b: (a + b, a - b), donate_argnums=numbers)
    for warm in (False, True):
        x = fresh(devices)
        with pytest.raises(ValueError, match=r"float32\[16\].*2 times.*x\.copy\(\)"):
            f(x, x)
        assert not x.is_deleted()
        if not warm:
            f(fresh(devices), fresh(devices))


def test_arrays_that_share_buffers_are_given_up_together():
    other = weft.make_mesh((8,), ("z",), axis_types=(AxisType.Auto,))
    step, plain = weft.jit(lambda a: a + 1, donate_argnums=0), weft.jit(lambda a: a * 2)
    add = weft.jit(lambda a, b: a + b, donate_argnums=0)
    for _ in range(2):
        x = fresh(8)
        y = weft.device_put(x, NamedSharding(other, P("z")))
        z = weft.device_put(y, NamedSharding(MESH, P("x")))
        plain(y)
        with pytest.raises(ValueError, match="2 times"):
            add(x, y)
        step(x)
        for alias in (y, z):
            with pytest.raises(RuntimeError, match="donated"):
                plain(alias)
    copied = weft.device_put(fresh(8), NamedSharding(other, P("z")), may_alias=False)
    np.testing.assert_array_equal(plain(copied), 2 * VALUE)


def test_what_is_not_donated_may_stand_in_the_call_twice(devices):
    f = weft.jit(lambda a, b, c: a + b + c, donate_argnums=0)
    x = fresh(devices)
    np.testing.assert_array_equal(f(fresh(devices), x, x), 3 * VALUE)
    assert not x.is_deleted()


def test_the_memory_of_a_number_is_not_given_to_a_random_key():
    count, key = weft.numpy.uint32(3), weft.random.key(0)
    step = weft.jit(lambda n, k: (weft.random.fold_in(k, n), n + n), donate_argnums=(0, 1))
    want = np.asarray(weft.random.key_data(weft.random.fold_in(weft.random.key(0), 3)))
    new_key, doubled = step(count, key)
    np.testing.assert_array_equal(weft.random.key_data(new_key), want)
    assert doubled == 6
    refs = weft.new_ref(weft.numpy.uint32(3)), weft.new_ref(weft.random.key(0))

    @weft.jit
    def draw(number, state):
        state[...], number[...] = weft.random.fold_in(state[...], number[...]), number[...] * 2

    draw(*refs)
    np.testing.assert_array_equal(weft.random.key_data(refs[1][...]), want)
    assert refs[0][...] == 6


def test_a_donating_function_among_tracers_donates_nothing():
    f = weft.jit(lambda a: a * a, donate_argnums=0)
    x = fresh(1)
    np.testing.assert_allclose(weft.grad(lambda z: f(z).sum())(x), 2 * VALUE)
    assert weft.make_jaxpr(f)(x).out_avals[0].shape == (16,)


def test_donating_functions_keep_the_methods_of_jitted_ones():
    f = weft.jit(lambda x, n: x * n, donate_argnums=0, static_argnums=1)
    assert f.lower(VALUE, 3).as_text().count("multiply") == 1
    assert f.eval_shape(VALUE, 3).shape == (16,)
    assert f.trace(VALUE, 3).fun_name == "<lambda>"
    f(fresh(1), 3)
    assert f._cache_size() == 1
    f.clear_cache()
    assert f._cache_size() == 0


@pytest.mark.parametrize("value", [[3], {"a": 1}, np.ones(2)], ids=["list", "dict", "array"])
def test_a_static_argument_that_does_not_hash_is_named_with_the_remedy(value):
    f = weft.jit(lambda x, sizes, *, mode=None: x, static_argnums=1, static_argnames="mode")
    by_position = weft.jit(lambda x, sizes: x, static_argnums=1)
    f(VALUE, 3)
    for called, args, kwargs, name in (
        (f, (VALUE, value), {}, "sizes"),
        (by_position, (VALUE,), {"sizes": value}, "sizes"),
        (f, (VALUE, 1), {"mode": value}, "mode"),
    ):
        with pytest.raises(ValueError, match=f"static argument '{name}' must be hashable.*tuple"):
            called(*args, **kwargs)
        with pytest.raises(ValueError, match=f"static argument '{name}' must be hashable.*tuple"):
            called.lower(*args, **kwargs)


def test_errors_of_guarded_calls_show_only_the_callers_frames():
    f = weft.jit(lambda x, n: x, static_argnums=1, donate_argnums=0)
    x = fresh(1)
    f(x, 3)
    for call in (lambda: f(x, 3), lambda: f(fresh(1), [3])):
        with pytest.raises((RuntimeError, ValueError)) as caught:
            call()
        files = {frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)}
        assert files == {__file__}


def test_compiled_functions_check_a_signature_once_and_then_run_without_python(devices):
    f = weft.jit(lambda state, scale: (state * scale).sum() + state, donate_argnums=0)
    compiled = f.lower(fresh(devices), 2.0).compile()
    for scale in (2.0, 3.0, 4.0):
        x = fresh(devices)
        np.testing.assert_allclose(compiled(x, scale), VALUE.sum() * scale + VALUE)
        assert x.is_deleted()
    with pytest.raises(RuntimeError, match="argument 'state' of <lambda>.*donated"):
        compiled(x, 2.0)
    with pytest.raises(TypeError, match=r"argument state of type f32\[16\].*f32\[8\]"):
        compiled(VALUE[:8], 2.0)
    with pytest.raises(TypeError, match="structure"):
        compiled(VALUE)
    with pytest.raises(TypeError, match="cannot be transformed: argument scale is a traced value"):
        weft.grad(lambda s: compiled(VALUE, s)[0])(1.0)


@pytest.mark.parametrize("move", [False, True])
def test_of_several_threads_that_donate_one_array_the_others_are_told(move):
    step = weft.jit(lambda z: z + 1, donate_argnums=0)
    step(fresh(8))

    def donate(x):
        if move:
            return weft.device_put(x, NamedSharding(MESH, P()), donate=True) + 1
        return step(x)

    for _ in range(20):
        x, start, results, errors = fresh(8), threading.Barrier(4), [], []

        def run(x=x, start=start, results=results, errors=errors):
            start.wait()
            try:
                results.append(donate(x))
            except RuntimeError as error:
                errors.append(str(error))

        threads = [threading.Thread(target=run) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert len(results) == 1
        np.testing.assert_array_equal(results[0], VALUE + 1)
        assert len(errors) == 3 and all("donated" in e and "x.copy()" in e for e in errors)


@pytest.mark.parametrize(
    "taken, function, dtype",
    [
        (True, lambda x: x.astype("int32") + 1, "float32"),
        (True, lambda x: x.reshape(8, 16) + 1, "float32"),
        (False, lambda x: x[:64].astype("complex64"), "float32"),
        (False, lambda x: weft.numpy.stack([x.astype("float16")] * 2), "float32"),
        (False, lambda x: x.sum(), "float32"),
    ],
)
def test_memory_goes_to_a_result_of_as_many_elements_of_its_size(taken, function, dtype):
    x = weft.numpy.ones(128, dtype)
    program = weft.jit(function, donate_argnums=0)
    if taken:
        program(x)
    else:
        with pytest.warns(UserWarning, match=r"f32\[128\] match no result"):
            program(x)
        assert (np.asarray(x) == 1).all()
    assert x.is_deleted() == taken
