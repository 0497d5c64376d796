"""buffer_callback: Python functions on a program's own buffers."""

import numpy as np
import pytest

import weft
from weft.ffi import buffer_callback

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def double(context, out, x):
    np.asarray(out)[...] = 2 * np.asarray(x)


def call(x, function=double, **options):
    return buffer_callback(function, weft.ShapeDtypeStruct(x.shape, "float32"), **options)(x)


def test_a_function_writes_its_result_in_place():
    np.testing.assert_array_equal(call(X), 2 * X)
    np.testing.assert_array_equal(weft.jit(call)(X), 2 * X)


def test_buffers_say_what_they_are():
    seen = []

    def look(context, out, x):
        seen.append((context.stage, x.shape, x.dtype, x.ndim, x.writeable, out.writeable))
        np.asarray(out)[...] = 0

    np.asarray(call(X, look))
    assert seen == [(weft.ffi.ExecutionStage.EXECUTE, (3, 4), np.float32, 2, False, True)]


def test_pytrees_of_operands_and_results():
    def function(context, out, pair, *, bias):
        np.asarray(out["sum"])[...] = np.asarray(pair[0]) + np.asarray(pair[1])
        np.asarray(out["biased"])[...] = np.asarray(pair[0]) + np.asarray(bias)

    shape = weft.ShapeDtypeStruct((4,), "float32")
    f = buffer_callback(function, {"sum": shape, "biased": shape})
    got = weft.jit(lambda x: f((x[0], x[1]), bias=x[2]))(X)
    np.testing.assert_array_equal(got["sum"], X[0] + X[1])
    np.testing.assert_array_equal(got["biased"], X[0] + X[2])


def test_an_aliased_result_starts_as_its_operand():
    def increment(context, out, x):
        np.asarray(out)[...] += 1

    np.testing.assert_array_equal(call(X, increment, input_output_aliases={0: 0}), X + 1)


@pytest.mark.parametrize(
    "method, shapes",
    [("broadcast_all", {(3, 4)}), ("expand_dims", {(3, 4)}), ("sequential", {(4,)})],
)
def test_vmap(method, shapes):
    seen = set()

    def function(context, out, x):
        seen.add(x.shape)
        double(context, out, x)

    got = weft.vmap(lambda x: call(x, function, vmap_method=method))(X)
    np.testing.assert_array_equal(got, 2 * X)
    assert seen == shapes


@pytest.mark.parametrize("partitioner", ["weft", "xla"])
def test_a_sharding_rule_runs_the_function_on_shards(partitioner):
    mesh = weft.make_mesh((8,), ("x",), axis_types=(weft.AxisType.Auto,))
    value = np.ones((8, 2), np.float32)
    x = weft.device_put(value, weft.NamedSharding(mesh, weft.P("x")))
    seen = []

    def function(context, out, x):
        seen.append(x.shape)
        double(context, out, x)

    f = weft.jit(lambda x: call(x, function, sharding_rule="b i -> b i"), partitioner=partitioner)
    np.testing.assert_array_equal(f(x), 2 * value)
    assert seen == [(1, 2)] * 8


def test_side_effects_are_kept():
    seen = []
    note = buffer_callback(
        lambda c, out, x: seen.append(float(np.asarray(x)[0])), (), has_side_effect=True
    )
    weft.jit(lambda x: (note(x), x)[1])(np.ones(1, np.float32)).block_until_ready()
    weft.effects_barrier()
    assert seen == [1.0]


def test_an_exception_arrives_as_itself_with_the_users_line():
    def fails(context, out, x):
        raise KeyError("nothing here")

    with pytest.raises(KeyError, match="nothing here") as e:
        np.asarray(weft.jit(lambda x: call(x, fails))(X))
    assert "buffer_callback of fails at" in e.value.__notes__[0]
    assert "test_buffer.py" in e.value.__notes__[0]


def test_a_function_that_returns_something_is_told_to_write():
    with pytest.raises(ValueError, match="returned a int; it must write its results"):
        np.asarray(call(X, lambda context, out, x: 3))


def test_the_derivative_names_the_function():
    with pytest.raises(ValueError, match="buffer_callback of double has no derivative"):
        weft.grad(lambda x: call(x).sum())(X)


@pytest.mark.parametrize(
    "make, error, words",
    [
        (lambda: buffer_callback(3, X), TypeError, "callback must be a function, got 3"),
        (lambda: buffer_callback(double, 3.5), TypeError, "must have shape and dtype"),
        (lambda: buffer_callback(double, X, vmap_method="x"), ValueError, "vmap_method must be"),
        (
            lambda: call(X, input_output_aliases={3: 0}),
            ValueError,
            "names operand 3; the call has 1",
        ),
    ],
)
def test_bad_arguments_are_refused(make, error, words):
    with pytest.raises(error, match=words):
        make()
