"""grad and value_and_grad: argument selection, auxiliary values, dtypes, complex numbers."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from tests.api.helpers import close
from weft import lax
from weft.dtypes import float0

X = np.array([0.5, -1.0, 2.0], np.float32)
Y = np.array([1.0, 3.0, -2.0], np.float32)


def product(x, y, z=1.0):
    return jnp.sum(x * y * z)


ARGNUMS = {
    "an int": (0, Y),
    "a negative int": (-1, X),
    "a tuple": ((0, 1), (Y, X)),
    "a list": ([1, 0], (X, Y)),
    "a tuple of one": ((1,), (X,)),
    "a NumPy int": (np.int32(1), X),
}


@pytest.mark.parametrize("which", ARGNUMS)
@pytest.mark.parametrize("wrap", [lambda f: f, weft.jit], ids=["eager", "jit"])
def test_argnums_choose_the_arguments_and_the_structure_of_the_gradient(which, wrap):
    argnums, want = ARGNUMS[which]
    close(wrap(weft.grad(product, argnums=argnums))(X, Y), want)


def test_the_gradient_of_a_tree_has_its_structure():
    params = {"w": X, "b": [np.float32(2.0), (np.float32(3.0),)], "none": None}
    f = lambda p: jnp.sum(p["w"] ** 2) * p["b"][0] + p["b"][1][0] ** 3
    want = {"w": 4 * X, "b": [np.sum(X**2), (27.0,)], "none": None}
    close(weft.grad(f)(params), want)


def test_arguments_by_keyword_and_defaults_are_passed_on():
    close(weft.grad(product)(X, X, z=3.0), 3 * X)
    close(weft.grad(product)(X, y=X), X)
    close(weft.grad(lambda x, *, scale: scale["a"] * x)(1.0, scale={"a": 4.0}), 4.0)


def test_an_argument_the_result_does_not_depend_on_has_zero_gradient():
    g = weft.grad(lambda x, y: x * 2.0, argnums=1)(1.0, X)
    assert g.shape == (3,) and g.dtype == np.float32
    close(g, np.zeros(3))
    close(weft.grad(lambda x: 3.0)(1.0), 0.0)


def test_value_and_grad_gives_both_from_one_evaluation():
    calls = []

    def f(x):
        calls.append(1)
        return jnp.sum(x**2)

    value, gradient = weft.value_and_grad(f)(X)
    close((value, gradient), (np.sum(X**2), 2 * X))
    assert len(calls) == 1


@pytest.mark.parametrize("pair", [tuple, list])
def test_auxiliary_values_are_returned_beside_the_gradient(pair):
    f = lambda x: pair((jnp.sum(x**3), {"norm": jnp.sum(x), "twice": 2 * x}))
    gradient, aux = weft.grad(f, has_aux=True)(X)
    close(gradient, 3 * X**2)
    close(aux, {"norm": np.sum(X), "twice": 2 * X})
    (value, aux), gradient = weft.value_and_grad(f, has_aux=True)(X)
    close((value, gradient), (np.sum(X**3), 3 * X**2))
    close(aux["twice"], 2 * X)


def test_auxiliary_values_may_be_anything_and_carry_no_derivative():
    f = lambda x: (x**2, ("text", None, x, [3]))
    gradient, aux = weft.grad(f, has_aux=True)(3.0)
    assert float(gradient) == 6.0 and aux == ("text", None, 3.0, [3])
    nested = weft.grad(lambda x: weft.grad(f, has_aux=True)(x)[1][2] ** 3)(2.0)
    assert float(nested) == 12.0


def test_auxiliary_values_of_inner_transformations_are_not_leaked():
    def f(x):
        value, pull, aux = weft.vjp(lambda y: (y * x, y + x), x, has_aux=True)
        return pull(1.0)[0] * aux

    assert float(weft.grad(f)(3.0)) == 12.0  # d/dx of x * 2x
    assert float(weft.jit(weft.grad(f))(3.0)) == 12.0


def test_nested_gradients_are_higher_derivatives():
    f = lambda x: x**5 + jnp.sin(x)
    x = 1.3
    want = [5 * x**4 + np.cos(x), 20 * x**3 - np.sin(x), 60 * x**2 - np.cos(x),
            120 * x + np.sin(x)]  # fmt: skip
    for w in want:
        f = weft.grad(f)
        close(f(x), w, 1e-4)
        close(weft.jit(f)(x), w, 1e-4)


def test_perturbations_of_nested_gradients_are_not_confused():
    # Siskind and Pearlmutter (2005): the inner derivative is with respect to y alone.
    assert float(weft.grad(lambda x: x * weft.grad(lambda y: x + y)(2.0))(1.0)) == 1.0
    f = lambda x: x * weft.jvp(lambda y: x * y, (3.0,), (1.0,))[1]
    assert float(weft.grad(f)(5.0)) == 10.0
    f = lambda x: weft.grad(lambda y: weft.grad(lambda z: x * y * z**2)(y))(x)
    assert float(weft.grad(f)(2.0)) == 16.0  # d/dy (2 x y²) = 4 x y at y = x; then d/dx 4 x²


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_the_gradient_has_the_dtype_of_the_argument(dtype):
    x = jnp.ones(2, dtype)
    g = weft.grad(lambda x: jnp.sum(x.astype("float32") * 3.0))(x)
    assert g.dtype == x.dtype
    close(g, [3.0, 3.0])
    g = weft.grad(lambda x: jnp.sum(x) * 2)(x)
    assert g.dtype == x.dtype


def test_gradients_in_double_precision_keep_it():
    with weft.enable_x64(True):
        g = weft.grad(lambda x: jnp.sum(jnp.sin(x)))(np.array([1.0]))
        assert g.dtype == np.float64
        np.testing.assert_allclose(g, np.cos([1.0]), rtol=1e-14)


def test_weak_types_pass_through_to_the_gradient():
    assert weft.grad(lambda x: x**2)(3.0).weak_type
    assert not weft.grad(lambda x: x**2)(np.float32(3.0)).weak_type
    gx, gy = weft.grad(lambda x, y: x * y, argnums=(0, 1))(jnp.ones((), "bfloat16"), 2.0)
    assert gx.dtype == "bfloat16" and gy.weak_type


def test_integers_have_float0_gradients_if_they_are_allowed():
    f = lambda x, i: x * i["n"]
    gx, gi = weft.grad(f, argnums=(0, 1), allow_int=True)(3.0, {"n": np.arange(3)[1]})
    assert float(gx) == 1.0
    assert gi["n"].dtype == float0 and gi["n"].shape == ()
    g = weft.grad(lambda m: jnp.sum(m * 1.0), allow_int=True)(np.ones(3, bool))
    assert g.dtype == float0 and g.shape == (3,)


def test_holomorphic_gradients_are_complex_derivatives():
    z = np.complex64(1 + 2j)
    close(weft.grad(lambda z: z**3, holomorphic=True)(z), 3 * z**2)
    close(weft.grad(jnp.exp, holomorphic=True)(z), np.exp(z))


def test_gradients_of_real_functions_of_complex_numbers_are_conjugates():
    # The gradient's real and imaginary parts are those of the derivative ∂x - i ∂y.
    z = np.complex64(1 + 2j)
    close(weft.grad(lambda z: jnp.real(z) ** 2 + jnp.imag(z) ** 3)(z), 2.0 - 12.0j)
    close(weft.grad(lambda z: jnp.real(z * jnp.conj(z)))(z), 2.0 - 4.0j)
    close(weft.grad(lambda z: jnp.abs(z))(z), np.conj(z) / np.abs(z))


def test_stop_gradient_of_an_array_outside_of_transformations_is_the_array():
    x = weft.numpy.arange(3.0)
    assert lax.stop_gradient(x) is x


def test_stop_gradient_makes_constants():
    assert float(weft.grad(lambda x: lax.stop_gradient(x) * x)(3.0)) == 3.0
    f = lambda x: float(np.sin(lax.stop_gradient(x))) * x
    close(weft.grad(f)(3.0), np.sin(np.float32(3.0)))


def test_python_control_flow_on_known_values_works_outside_of_jit():
    f = lambda x: x**2 if x > 0 else -x
    assert float(weft.grad(f)(3.0)) == 6.0 and float(weft.grad(f)(-3.0)) == -1.0

    def loop(x):
        total = x
        while total < 10.0:
            total = total * 2
        return total

    assert float(weft.grad(loop)(3.0)) == 4.0
    assert float(weft.grad(lambda x: x * int(x) + x.item())(3.0)) == 3.0


def test_the_wrapped_function_keeps_its_name_and_documentation():
    def loss(x):
        """Squares."""
        return x**2

    for transform in (weft.grad, weft.value_and_grad, weft.jacfwd, weft.jacrev, weft.hessian):
        assert transform(loss).__name__ == "loss" and transform(loss).__doc__ == "Squares."


def test_methods_partials_and_callable_objects_are_differentiated():
    import functools

    class Model:
        scale = 3.0

        def loss(self, x):
            return self.scale * x**2

        __call__ = loss

    assert float(weft.grad(Model().loss)(2.0)) == 12.0
    assert float(weft.grad(Model())(2.0)) == 12.0
    assert float(weft.grad(functools.partial(product, y=3.0))(2.0)) == 3.0


def test_gradients_of_functions_that_are_not_smooth_follow_the_stated_conventions():
    ties = np.array([1.0, 1.0], np.float32)
    close(weft.grad(lambda x: jnp.maximum(x, 0.0))(0.0), 0.5)  # both sides share at a tie
    close(weft.grad(lambda x: jnp.max(x))(ties), [0.5, 0.5])
    close(weft.grad(jnp.abs)(0.0), 1.0)  # as from above
    close(weft.grad(lambda x: jnp.where(x > 0, x, 0.0))(0.0), 0.0)
    assert float(weft.grad(jnp.sqrt)(0.0)) == np.inf


def test_where_with_a_safe_argument_keeps_nan_out_of_the_gradient():
    safe = lambda x: jnp.where(x > 0, jnp.log(jnp.where(x > 0, x, 1.0)), 0.0)
    close(weft.grad(safe)(0.0), 0.0)
    close(weft.grad(safe)(2.0), 0.5)


def test_fwd_and_bwd_are_each_traced_once():
    calls = []

    def f(x, y, w):
        calls.append(1)
        return {"out": jnp.sin(x * y) + w}

    fwd, bwd = weft.fwd_and_bwd(f, argnums=(0, 1))
    for x, y in ((0.5, 2.0), (1.5, -1.0)):
        x, y = np.float32(x), np.float32(y)
        out, residuals = fwd(x, y, 1.0)
        close(out["out"], np.sin(x * y) + 1)
        close(bwd(residuals, {"out": 2.0}), (2 * y * np.cos(x * y), 2 * x * np.cos(x * y)))
    assert len(calls) == 1
    fwd, bwd = weft.fwd_and_bwd(lambda x: (x**2, x), argnums=0, has_aux=True, jitted=False)
    out, residuals, aux = fwd(3.0)
    assert (float(out), float(bwd(residuals, 1.0)), float(aux)) == (9.0, 6.0, 3.0)


@pytest.mark.parametrize(
    "call",
    [
        lambda f: weft.grad(f, reduce_axes=("x",)),
        lambda f: weft.value_and_grad(f, reduce_axes=("x",)),
        lambda f: weft.vjp(f, 1.0, reduce_axes=("x",)),
        lambda f: weft.linear_transpose(f, 1.0, reduce_axes=("x",)),
    ],
)
def test_axes_to_add_gradients_up_along_are_refused(call):
    with pytest.raises(ValueError, match=r"reduce_axes=\('x',\) is not supported; .*psum"):
        call(lambda x: 2 * x)
