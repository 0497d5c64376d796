"""ffi_call: results, layouts, aliases, effects, tokens, untyped calls, bad input."""

import ctypes

import ml_dtypes
import numpy as np
import pytest

import weft
from weft.ffi import ffi_call

F4 = weft.ShapeDtypeStruct((4,), "float32")
X = np.arange(4, dtype=np.float32)


def scale(x, by, **options):
    result = weft.ShapeDtypeStruct(x.shape, "float32")
    return ffi_call("Scale", result, **options)(x, scale=np.float32(by))


def test_a_call_runs_eagerly_and_in_a_program():
    np.testing.assert_array_equal(scale(X, 3), 3 * X)
    np.testing.assert_array_equal(weft.jit(lambda x: scale(x, 3) + 1)(X), 3 * X + 1)


@pytest.mark.parametrize("kind", [tuple, list])
def test_several_results_come_in_the_sequence_that_was_asked_for(kind):
    y = np.full(4, 2, np.float32)
    results = ffi_call("DivMod", kind([F4, F4]))(X, y)
    assert type(results) is kind
    np.testing.assert_array_equal(results, [X // 2, X % 2])


def test_one_result_in_a_sequence_comes_in_one():
    (result,) = ffi_call("Scale", (F4,))(X, scale=np.float32(2))
    np.testing.assert_array_equal(result, 2 * X)


def test_a_numpy_array_may_describe_the_result():
    np.testing.assert_array_equal(ffi_call("Scale", X)(X, scale=np.float32(2)), 2 * X)


@pytest.mark.parametrize(
    "dtype",
    ["bool", "int8", "uint8", "int16", "uint32", "float16", ml_dtypes.bfloat16, "complex64"],
)
def test_any_dtype_passes(dtype):
    x = np.array([0, 1, 1, 0]).astype(dtype)
    np.testing.assert_array_equal(ffi_call("CopyAny", x)(x), x)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (2, 3, 4)])
def test_any_shape_passes(shape):
    x = np.ones(shape, np.float32)
    np.testing.assert_array_equal(scale(x, 2), 2 * x)


def test_a_program_lists_the_call_with_its_target():
    text = str(weft.make_jaxpr(lambda x: scale(x, 2))(X))
    assert "ffi_call" in text and "Scale" in text


# Layouts ----------------------------------------------------------------------------------------


def test_layouts_are_given_from_the_slowest_dimension_to_the_fastest():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    plain = weft.ShapeDtypeStruct((2, 3), "float32")
    as_columns = ffi_call("CopyAny", plain, input_layouts=[(1, 0)], output_layouts=(0, 1))(x)
    np.testing.assert_array_equal(as_columns.ravel(), x.T.ravel())
    back = ffi_call("CopyAny", plain, input_layouts=[None], output_layouts=(1, 0))(x)
    np.testing.assert_array_equal(back, x.ravel().reshape(3, 2).T)


def test_layouts_keep_their_order_under_vmap():
    x = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    plain = weft.ShapeDtypeStruct((2, 3), "float32")
    call = ffi_call("CopyAny", plain, input_layouts=[(1, 0)], vmap_method="broadcast_all")
    expected = [m.T.ravel().reshape(2, 3) for m in x]
    np.testing.assert_array_equal(weft.vmap(call)(x), expected)


# Aliases ----------------------------------------------------------------------------------------


def in_place(x):
    return ffi_call("InPlace", F4, input_output_aliases={0: 0})(x)


def test_an_aliased_call_works_in_the_memory_of_its_operand():
    np.testing.assert_array_equal(weft.jit(in_place, donate_argnums=0)(weft.numpy.ones(4)), 2)


def test_an_operand_that_is_used_again_keeps_its_value():
    x = weft.numpy.ones(4)
    np.testing.assert_array_equal(weft.jit(lambda x: in_place(x) + 10 * x)(x), np.full(4, 12))
    np.testing.assert_array_equal(x, np.ones(4))
    np.testing.assert_array_equal(in_place(x), np.full(4, 2))


def test_an_aliased_call_under_vmap_and_scan():
    x = np.ones((3, 4), np.float32)
    call = ffi_call("InPlace", F4, input_output_aliases={0: 0}, vmap_method="broadcast_all")
    np.testing.assert_array_equal(weft.vmap(call)(x), x + 1)
    last, _ = weft.lax.scan(lambda c, _: (in_place(c), None), weft.numpy.zeros(4), length=5)
    np.testing.assert_array_equal(last, np.full(4, 5))


@pytest.mark.parametrize("method", ["expand_dims", "legacy_vectorized", "sequential"])
def test_an_unmapped_operand_that_is_aliased_gets_the_results_shape(method):
    call = ffi_call("DivMod", (F4, F4), input_output_aliases={1: 0}, vmap_method=method)
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    y = np.full(4, 2, np.float32)
    got = weft.jit(weft.vmap(call, in_axes=(0, None)))(x, y)
    np.testing.assert_array_equal(got[0], x // 2)


def test_a_call_without_the_alias_has_other_memory():
    with pytest.raises(Exception, match="'InPlace'.*not the same memory"):
        np.asarray(ffi_call("InPlace", F4)(X))


# Effects and tokens -----------------------------------------------------------------------------


def counted(handlers):
    handlers.CountedCalls.restype = ctypes.c_int64
    return handlers.CountedCalls()


def test_a_call_with_side_effects_is_kept_without_results(handlers):
    before = counted(handlers)
    program = weft.jit(lambda x: (ffi_call("Count", (), has_side_effect=True)(), x)[1])
    program(X).block_until_ready()
    weft.effects_barrier()
    assert counted(handlers) == before + 1
    weft.jit(lambda x: (ffi_call("Count", ())(), x)[1])(X).block_until_ready()
    assert counted(handlers) == before + 1


def test_side_effects_happen_in_every_step_of_a_loop(handlers):
    before = counted(handlers)

    def body(i, x):
        ffi_call("Count", (), has_side_effect=True)()
        return x + 1

    weft.jit(lambda x: weft.lax.fori_loop(0, 7, body, x))(X).block_until_ready()
    weft.effects_barrier()
    assert counted(handlers) == before + 7


def test_side_effects_happen_in_branches_and_under_vmap(handlers):
    before = counted(handlers)
    count = ffi_call("Count", (), has_side_effect=True, vmap_method="sequential")
    branch = weft.jit(lambda p: weft.lax.cond(p, lambda: (count(), 1)[1], lambda: 0))
    assert branch(True) == 1 and branch(False) == 0
    weft.effects_barrier()
    assert counted(handlers) == before + 1
    weft.jit(weft.vmap(lambda x: (count(), x)[1]))(X).block_until_ready()
    weft.effects_barrier()
    assert counted(handlers) == before + 2  # nothing of the call is mapped


def test_tokens_order_calls():
    call = ffi_call("Ticket", (None, weft.ShapeDtypeStruct((1,), "float32")))

    @weft.jit
    def program():
        token, numbers = weft.lax.create_token(), []
        for _ in range(5):
            token, number = call(token)
            numbers.append(number)
        return weft.numpy.concatenate(numbers)

    first = np.asarray(program())
    np.testing.assert_array_equal(first - first[0], np.arange(5))


# Untyped calls ----------------------------------------------------------------------------------


def test_an_untyped_call_runs():
    call = ffi_call("LegacyDouble", F4, custom_call_api_version=1)
    np.testing.assert_array_equal(call(X), 2 * X)


def test_an_untyped_call_is_configured_by_a_string():
    call = ffi_call(
        "LegacyConfigured", F4, custom_call_api_version=3, legacy_backend_config="abcde"
    )
    np.testing.assert_array_equal(call(X), X + 5)


def test_an_untyped_call_takes_no_attributes():
    with pytest.raises(ValueError, match="attributes need custom_call_api_version=4"):
        ffi_call("LegacyDouble", F4, custom_call_api_version=1)(X, scale=1)
    with pytest.raises(ValueError, match="legacy_backend_config is for"):
        ffi_call("Scale", F4, legacy_backend_config="x")
    with pytest.raises(ValueError, match="must be 4 .* or 1, 2, 3"):
        ffi_call("Scale", F4, custom_call_api_version=7)


# Platforms --------------------------------------------------------------------------------------


def test_a_target_is_chosen_by_platform():
    def call(x):
        return weft.lax.platform_dependent(
            x, cpu=lambda x: scale(x, 2), cuda=lambda x: ffi_call("OnlyCuda", F4)(x)
        )

    np.testing.assert_array_equal(weft.jit(call)(X), 2 * X)


# ffi_lowering -----------------------------------------------------------------------------------


def test_a_primitive_of_ones_own_lowers_to_a_call():
    from weft.core.primitive import Primitive

    rule = weft.ffi.ffi_lowering("Scale", backend_config={"scale": np.float32(4)})
    double = Primitive("test_scale", abstract=lambda x: x, lower=lambda ctx, x: rule(ctx, x)[0])
    np.testing.assert_array_equal(weft.jit(double.bind)(X), 4 * X)


def test_a_lowering_rule_has_layouts_from_the_fastest_dimension():
    from weft.core.primitive import Primitive

    rule = weft.ffi.ffi_lowering("CopyAny", operand_layouts=[(0, 1)], result_layouts=[(1, 0)])
    p = Primitive("test_layout", abstract=lambda x: x, lower=lambda ctx, x: rule(ctx, x)[0])
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(np.asarray(weft.jit(p.bind)(x)).ravel(), x.T.ravel())


def test_a_rule_written_for_jax_lowers_to_a_call_of_types_of_its_own():
    from weft.compat.lowering import register_lowering
    from weft.compat.primitive import Primitive

    scaled_p = Primitive("test_scale_for_jax")
    scaled_p.def_abstract_eval(lambda x: x)
    rule = weft.ffi.ffi_lowering("Scale")
    register_lowering(
        scaled_p,
        lambda ctx, x: rule(ctx.replace(avals_out=ctx.avals_in), x, scale=np.float32(3)),
        platform="cpu",
    )
    np.testing.assert_array_equal(weft.jit(scaled_p.bind)(X), 3 * X)
    np.testing.assert_array_equal(scaled_p.bind(X), 3 * X)


# Bad input --------------------------------------------------------------------------------------


class Described:
    dtype = np.dtype("float32")

    def __init__(self, shape):
        self.shape = shape


@pytest.mark.parametrize(
    "make, error, words",
    [
        (lambda: ffi_call("", F4), TypeError, "non-empty string"),
        (lambda: ffi_call(3, F4), TypeError, "got 3"),
        (lambda: ffi_call("Scale", 3), TypeError, r"\[0\] must have shape and dtype"),
        (lambda: ffi_call("Scale", [F4, "x"]), TypeError, r"\[1\] must have shape and dtype"),
        (lambda: ffi_call("Scale", F4, vmap_method="often"), ValueError, "one of 'sequential'"),
        (
            lambda: ffi_call("Scale", np.zeros(4)),
            ValueError,
            "result 0 asks for float64, which is not available without 64-bit mode",
        ),
        (
            lambda: ffi_call("Scale", F4, input_layouts=[(0, 1)])(X),
            ValueError,
            r"input_layouts\[0\] is \(0, 1\), which is not an order of the 1 dimensions",
        ),
        (
            lambda: ffi_call("Scale", F4, input_layouts=[])(X),
            ValueError,
            "input_layouts has 0 entries for 1 arrays",
        ),
        (
            lambda: ffi_call("Scale", F4, output_layouts=(0, 0)),
            ValueError,
            r"output_layouts\[0\] is \(0, 0\)",
        ),
        (
            lambda: ffi_call("Scale", F4, input_output_aliases={1: 0})(X),
            ValueError,
            "names operand 1; the call has 1",
        ),
        (
            lambda: ffi_call("Scale", F4, input_output_aliases={0: 2})(X),
            ValueError,
            "names result 2; the call has 1",
        ),
        (
            lambda: ffi_call("DivMod", [F4, F4], input_output_aliases={0: 0, 1: 0})(X, X),
            ValueError,
            "gives result 0 to two operands",
        ),
        (
            lambda: ffi_call("Scale", F4, input_output_aliases={0: 0})(X[:2]),
            ValueError,
            r"operand 0 of type f32\[2\] cannot share memory with result 0 of type f32\[4\]",
        ),
        (
            lambda: ffi_call("Scale", F4, input_output_aliases={0: 0})(X.astype(np.int32)),
            ValueError,
            r"operand 0 of type i32\[4\] cannot share memory",
        ),
        (
            lambda: ffi_call(
                "CopyAny",
                np.ones((2, 2), np.float32),
                input_layouts=[(1, 0)],
                input_output_aliases={0: 0},
            )(np.ones((2, 2), np.float32)),
            ValueError,
            "aliased but have different layouts",
        ),
        (
            lambda: ffi_call("Scale", F4, num_batch_dims=2)(X),
            ValueError,
            "num_batch_dims=2 is larger than the rank of operand 0",
        ),
        (
            lambda: ffi_call("Scale", F4, num_batch_dims=-1)(X),
            ValueError,
            "must be a nonnegative int",
        ),
        (
            lambda: ffi_call("Scale", F4, num_batch_dims=1)(X[:2]),
            ValueError,
            "batch dimensions agree everywhere",
        ),
        (lambda: ffi_call("Scale", F4)("text"), TypeError, "operand 0 must be an array .* str"),
        (lambda: ffi_call("DivMod", F4)(X, [X]), TypeError, "operand 1 must be .*one by one"),
        (lambda: ffi_call("Scale", F4, input_output_aliases=3), TypeError, "must be a dict .* 3"),
        (lambda: ffi_call("Scale", F4, input_layouts=3)(X), TypeError, "one layout .* for each"),
        (
            lambda: ffi_call(
                "LegacyDouble", F4, custom_call_api_version=2, legacy_backend_config=3
            ),
            TypeError,
            "legacy_backend_config must be a string, got 3",
        ),
        (lambda: weft.ffi.ffi_lowering(3), TypeError, "call_target_name must be a non-empty"),
        (lambda: weft.ffi.ffi_lowering("f", api_version=9), ValueError, "api_version must be 4"),
        (lambda: ffi_call("Scale", Described((-1,))), ValueError, "result 0 has the dimension -1"),
        (lambda: ffi_call("Scale", Described((2.5,))), TypeError, "result 0 has the dimension 2.5"),
        (lambda: ffi_call("Scale", F4, input_output_aliases={0: "y"})(X), TypeError, "integers"),
        (lambda: ffi_call("Scale", F4, input_layouts=[3])(X), TypeError, r"input_layouts\[0\]"),
    ],
)
def test_bad_arguments_are_refused_by_name(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_a_result_shape_that_depends_on_a_tracer_is_refused():
    with pytest.raises(TypeError, match="shape of result 0 depends on a traced value"):
        weft.jit(lambda n: ffi_call("Scale", Described((n,)))(X, scale=np.float32(1)))(3)
    with pytest.raises(TypeError, match="traced"):
        weft.jit(lambda n: scale(np.ones(4), n))(3.0)
