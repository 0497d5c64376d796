"""Programs of every part of the language compile for an H100; tests/*/test_gpu.py have more."""

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from tests.gpu_machine import mesh_of, placed
from weft import lax, random

pytestmark = pytest.mark.accelerators

QUICKLY = {"xla_gpu_disable_gpuasm_optimizations": True}
FLOATS = ("float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
NUMBERS = (*FLOATS, "int8", "int32", "uint8", "int64", "complex64", "complex128")
KEY = ((2,), np.dtype(np.uint32))


def of(*shape, dtype="float32"):
    return shape, np.dtype(getattr(weft.dtypes, dtype, dtype))


def compiled(*programs):
    """One program of all: (function, types of its arguments)."""
    args = [tuple(placed(a, mesh_of("h100:1")) for a in types) for _, *types in programs]

    def everything(args):
        return [function(*xs) for (function, *_), xs in zip(programs, args, strict=True)]

    return weft.jit(everything).lower(args).compile(QUICKLY).as_text()


def draw(name, *args, **options):
    return lambda data: getattr(random, name)(random.wrap_key_data(data), *args, **options), KEY


def test_products_of_all_dtypes():
    programs = [(wnp.matmul, of(64, 64, dtype=d), of(64, 64, dtype=d)) for d in NUMBERS]
    programs += [(wnp.matmul, of(3, 16, 32, dtype=d), of(3, 32, 8, dtype=d)) for d in FLOATS]
    assert compiled(*programs).count("parameter(") > 2 * len(programs)


def test_ragged_products_and_attention():
    rows = of(2, 64, 4, 32)
    compiled(
        (lax.ragged_dot, of(64, 32), of(4, 32, 16), of(4, dtype="int32")),
        (lambda q, k, v: weft.nn.dot_product_attention(q, k, v, is_causal=True), rows, rows, rows),
    )


def test_convolutions_and_their_derivatives():
    def loss(x, w):
        return lax.conv_general_dilated(x, w, (2, 2), "SAME").sum()

    compiled((weft.grad(loss, argnums=(0, 1)), of(4, 8, 16, 16), of(16, 8, 3, 3)))


def test_random_numbers_of_all_generators():
    shaped = ("uniform", "normal", "bernoulli", "exponential", "rademacher", "laplace")
    compiled(
        *(draw(name, shape=(64,)) for name in shaped),
        draw("choice", 100, (5,), replace=False),
        draw("permutation", 100),
        draw("poisson", 4.0),
        (
            lambda data: random.normal(random.wrap_key_data(data, impl="rbg"), (64,)),
            of(4, dtype="uint32"),
        ),
        (lambda x: x + lax.rng_uniform(0.0, 1.0, (10,)), of(10)),
    )


def test_control_flow_and_its_derivatives():
    def scanned(x):
        return lax.scan(lambda c, _: (wnp.sin(c), c), x, None, length=5)[0].sum()

    compiled(
        (weft.grad(scanned), of(4)),
        (weft.grad(lambda x: weft.checkpoint(lambda x: wnp.sin(wnp.sin(x)))(x).sum()), of(4)),
        (lambda x: lax.while_loop(lambda c: (c < 9).all(), lambda c: c + 1, x), of(4)),
        (lambda p, x: lax.cond(p, wnp.sin, wnp.cos, x), of(dtype="bool"), of(4)),
        (lambda i, x: lax.switch(i, [wnp.sin, wnp.tan], x), of(dtype="int32"), of(4)),
        (lambda x: lax.associative_scan(wnp.add, x), of(1000)),
    )


@pytest.mark.parametrize("name, constant", [("cuda", "77"), ("gpu", "77"), ("tpu", "11")])
def test_the_function_for_the_platform_is_the_one_compiled(name, constant):
    def body(x):
        return lax.platform_dependent(
            x, cpu=lambda x: x + 33, default=lambda x: x + 11, **{name: lambda x: x + 77}
        )

    text = compiled((body, of(4)))
    assert f"constant({constant})" in text and "constant(33)" not in text


def test_calls_of_python_take_the_targets_of_gpus():
    kind = weft.ShapeDtypeStruct((4,), "float32")

    def body(x):
        weft.debug.print("x is {x}", x=x)
        weft.debug.print("x is {x}", x=x, ordered=True)
        y = weft.pure_callback(lambda v: np.asarray(v) * 2, kind, x)
        return y + weft.io_callback(lambda v: np.asarray(v), kind, x, ordered=True)

    text = compiled((body, of(4)))
    assert text.count('custom_call_target="xla_ffi_python_gpu_callback"') == 4


def test_a_native_target_registered_for_gpus_is_called():
    import ctypes

    function = ctypes.pythonapi.Py_IncRef  # never called: it only has to be there
    capsule = weft.ffi.pycapsule(function)
    name = "target_of_test_gpu"
    with pytest.raises(ValueError, match="not registered for platform 'cuda'"):
        compiled((lambda x: weft.ffi.ffi_call(name, weft.typeof(x))(x), of(4)))
    weft.ffi.register_ffi_target(name, capsule, platform="cuda", api_version=0)
    assert name in weft.ffi.registered_targets("cuda")


def test_sorts_sums_transforms_and_scatters():
    compiled(
        (wnp.sort, of(5000)),
        (lambda x, y: lax.sort((x, y), num_keys=1), of(5000), of(5000, dtype="int32")),
        (lambda x: lax.top_k(x, 8), of(4, 1000)),
        (wnp.cumsum, of(10000)),
        (wnp.fft.rfft, of(16, 1000)),
        (wnp.fft.fft2, of(16, 16, dtype="complex128")),
        (lambda x, i: x.at[i].add(1), of(100, dtype="bfloat16"), of(10, dtype="int32")),
        (lambda x, i: x.at[i].max(1), of(100, dtype="uint8"), of(10, dtype="int32")),
        (lambda x: x.astype("float8_e4m3fn").astype("int4").astype("float32"), of(100)),
        (weft.grad(lambda x: weft.nn.softmax(x)[0, 0]), of(8, 128)),
    )
