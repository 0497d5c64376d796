"""Strict dtype promotion and "raise" for ranks: programs that mix nothing run as without them."""

import inspect

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax, nn
from weft.core.tree import flatten

# Of every public function that takes arrays: calls with operands of one dtype (and of one rank).
NAMESPACES = {
    "numpy": jnp,
    "numpy.linalg": jnp.linalg,
    "numpy.fft": jnp.fft,
    "lax": lax,
    "lax.linalg": lax.linalg,
    "nn": nn,
}
SQUARE = np.eye(3) * 2 + np.arange(9).reshape(3, 3) / 9
VECTOR = np.array([0.5, 0.25, 0.75])
CALLS = {
    "vector": (VECTOR,),
    "square": (SQUARE,),
    "two vectors": (VECTOR, VECTOR),
    "two squares": (SQUARE, SQUARE),
    "vector and number": (VECTOR, 2),
    "square and axis": (SQUARE, 1),
    "three vectors": (VECTOR, VECTOR, VECTOR),
}
# Operands that are no arrays of values (indices, tolerances), so that these calls do mix.
MIXED = {
    ("insert", "three vectors"),
    ("matrix_rank", "two squares"),
    ("pinv", "two squares"),
    ("polyadd", "square and axis"),
    ("polysub", "square and axis"),
    ("polyval", "two squares"),
}


def functions(namespace):
    module = NAMESPACES[namespace]
    for name in sorted(module.__all__):
        function = getattr(module, name)
        if callable(function) and not isinstance(function, type):
            yield name, function


def fits(function, count):
    try:
        inspect.signature(function).bind(*[None] * count)
    except (TypeError, ValueError):
        return False
    return True


def total(function):
    def f(x, *rest):
        parts = [v for v in flatten(function(x, *rest))[0] if weft.typeof(v).dtype.kind in "fcV"]
        return sum((jnp.sum(jnp.real(v)).astype("float32") for v in parts), jnp.float32(0))

    return f


def kept(call):
    """Whether the call can be traced."""
    try:
        return call() is not None
    except Exception:
        return False


def failures(namespace, dtype, setting):
    found, tried = [], 0
    for name, function in functions(namespace):
        for what, operands in CALLS.items():
            if (name, what) in MIXED or not fits(function, len(operands)):
                continue
            xs = [v.astype(dtype) if isinstance(v, np.ndarray) else v for v in operands]
            fixed = [v for v in xs if not isinstance(v, np.ndarray)]
            arrays = [v for v in xs if isinstance(v, np.ndarray)]
            for kind, f in (("", function), ("the gradient of ", weft.grad(total(function)))):

                def call(f=f, fixed=fixed, arrays=arrays):
                    return weft.eval_shape(lambda *a: (f(*a, *fixed),), *arrays)

                if not kept(call):
                    continue
                tried += 1
                try:
                    with setting():
                        call()
                except Exception as e:
                    if "promotion" in str(e):
                        found.append(f"{kind}{namespace}.{name} of {what}: {e}")
    return found, tried


X, ROWS = jnp.array(VECTOR, "float32"), jnp.array(SQUARE, "float32")
Z, INTS = jnp.array(SQUARE, "complex64"), jnp.arange(3)
HALF = ROWS.astype("bfloat16")
IMAGES = jnp.ones((1, 2, 5, 5), "bfloat16")
# Functions with arguments of their own, by what a program says.
PROGRAMS = {
    "dot": lambda x: lax.dot(HALF, x.astype("bfloat16"), preferred_element_type="float32"),
    "conv": lambda x: lax.conv(
        IMAGES * x[0].astype("bfloat16"), IMAGES, (1, 1), "SAME", preferred_element_type="float32"
    ),
    "quantile": lambda x: jnp.quantile(x, 0.3),
    "percentiles": lambda x: jnp.percentile(x, jnp.array([30.0, 40.0])),
    "histogram": lambda x: jnp.histogram(x, 3),
    "density": lambda x: jnp.histogram(x, 3, (0, 1), weights=x, density=True),
    "histogram2d": lambda x: jnp.histogram2d(x, x, 3),
    "bins of integers": lambda x: jnp.histogram(INTS, INTS),
    "cov": lambda x: jnp.cov(ROWS * x[None], fweights=INTS + 1),
    "cov of two": lambda x: jnp.cov(x, x, aweights=x),
    "corrcoef": lambda x: jnp.corrcoef(Z * x.astype("complex64")[None]),
    "unique": lambda x: jnp.unique(x, True, True, True, size=3),
    "pad": lambda x: jnp.pad(x, (1, 2), constant_values=3),
    "ramp": lambda x: jnp.pad(x, 2, mode="linear_ramp", end_values=1),
    "odd": lambda x: jnp.pad(x, 2, mode="reflect", reflect_type="odd"),
    "polyfit": lambda x: jnp.polyfit(x, x * x, 1, full=True, w=x)[0],
    "polyint": lambda x: jnp.polyint(x.astype("bfloat16"), 2),
    "slogdet": lambda x: jnp.linalg.slogdet(ROWS * x[None]),
    "interp": lambda x: jnp.interp(x, x, x, period=2),
    "attention": lambda x: nn.dot_product_attention(*[x.astype("bfloat16")[None, None, None]] * 3),
    "softmax": lambda x: nn.softmax(x, where=x > 0),
    "logsumexp": lambda x: nn.logsumexp(x, b=x),
    "fori_loop": lambda x: lax.fori_loop(0, 3, lambda i, c: c * 2, x),
    "uint8 loop": lambda x: lax.scan(lambda c, v: (c * v, c), 1.0, x),
    "index": lambda x: x[jnp.array([0, 2], "uint8")],
    "mask": lambda x: x[np.array([True, False, True])],
    "fill": lambda x: x.at[jnp.array([0, 9])].get(mode="fill", fill_value=1),
    "packbits": lambda x: (jnp.packbits(x > 0), x),
    "isreal": lambda x: (jnp.isreal(x > 0), x),
    **{
        f"at {op} {index!r}": lambda x, op=op, index=index: getattr(x.at[index], op)(2)
        for op in ("set", "add", "multiply", "min", "max", "power", "divide")
        for index in (0, slice(1, 3), np.array([0, 2]))
    },
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_that_mix_nothing_have_gradients_under_strict_promotion(name):
    program = PROGRAMS[name]
    shapes = weft.eval_shape(weft.grad(total(program)), X)
    with weft.numpy_dtype_promotion("strict"), weft.numpy_rank_promotion("raise"):
        assert weft.eval_shape(weft.grad(total(program)), X).shape == shapes.shape == (3,)


def test_strict_promotion_still_refuses_what_mixes():
    with weft.numpy_dtype_promotion("strict"), pytest.raises(ValueError, match="strict"):
        jnp.add(X, INTS)
    with weft.numpy_rank_promotion("raise"), pytest.raises(ValueError, match="unequal ranks"):
        jnp.add(X, ROWS)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("namespace", NAMESPACES)
def test_operands_of_one_dtype_do_under_strict_promotion(namespace, dtype):
    found, tried = failures(namespace, dtype, lambda: weft.numpy_dtype_promotion("strict"))
    assert not found, "\n".join(found)
    assert tried > 1


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_operands_of_one_rank_do_where_rank_promotion_raises(namespace):
    found, tried = failures(namespace, "float32", lambda: weft.numpy_rank_promotion("raise"))
    assert not found, "\n".join(found)
    assert tried > 5
