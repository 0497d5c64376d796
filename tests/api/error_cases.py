"""Wrong calls of transformations and control flow, with the error each must raise."""

import numpy as np

import weft
import weft.numpy as jnp
from weft import lax
from weft.errors import (
    ConcretizationTypeError,
    NonConcreteBooleanIndexError,
    ShapeError,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
    UnexpectedTracerError,
)

X = np.arange(3, dtype=np.float32)
Y = np.arange(4, dtype=np.float32)
F = np.float32(1.0)

CASES = {}


def case(error, *words):
    """A function that must raise `error` with a message that has all of `words`."""

    def add(function):
        CASES[function.__name__] = (function, error, words)
        return function

    return add


# scan, while_loop, fori_loop, cond, switch, map --------------------------------------------------


@case(TypeError, "scan: the carry must keep its type", "expected f32[]", "got      f32[2]", "^^")
def scan_carry_of_another_shape():
    lax.scan(lambda c, x: (jnp.stack([c, c]), x), F, X)


@case(TypeError, "carry['n']", "expected f32[]", "got      i32[]", ".astype('float32')")
def scan_carry_of_another_dtype():
    lax.scan(lambda c, x: ({"n": c["n"].astype("int32")}, x), {"n": F}, X)


@case(TypeError, "carry of the structure it is given", "PyTreeDef(*)", "PyTreeDef((*, *))")
def scan_carry_of_another_structure():
    lax.scan(lambda c, x: ((c, c), x), F, X)


@case(TypeError, "must return a pair (carry, y)", "return (carry, None)")
def scan_body_without_a_pair():
    lax.scan(lambda c, x: c, F, X)


@case(ValueError, "leading axes of xs", "xs['a'] has 3", "xs['b'] has 4")
def scan_over_unequal_sizes():
    lax.scan(lambda c, x: (c, x), F, {"a": X, "b": Y})


@case(ValueError, "xs has 3", "length is 5")
def scan_of_another_length():
    lax.scan(lambda c, x: (c, x), F, X, length=5)


@case(ValueError, "xs has no arrays", "length")
def scan_without_length():
    lax.scan(lambda c, x: (c, x), F, None)


@case(ValueError, "xs[1] is f32[], a scalar", "leading axis", "close")
def scan_over_a_scalar():
    lax.scan(lambda c, x: (c, x), F, (X, 2.0))


@case(TypeError, "scan: f must be a function", "ndarray")
def scan_without_a_function():
    lax.scan(X, F, X)


@case(ValueError, "unroll must be a nonnegative int", "-1")
def scan_with_negative_unroll():
    lax.scan(lambda c, x: (c, x), F, X, unroll=-1)


@case(ValueError, "map: xs is f32[], a scalar")
def map_over_a_scalar():
    lax.map(lambda x: x, 3.0)


@case(ValueError, "map:", "xs[0] has 3", "xs[1] has 4")
def map_over_unequal_sizes():
    lax.map(lambda x: x, (X, Y), batch_size=2)


@case(TypeError, "while_loop: the carry must keep its type", "f32[2]", "body's result")
def while_carry_of_another_shape():
    lax.while_loop(lambda c: c < 3, lambda c: jnp.stack([c, c]), F)


@case(TypeError, "while_loop", "carry of the structure it is given")
def while_carry_of_another_structure():
    lax.while_loop(lambda c: c < 3, lambda c: (c, c), F)


@case(TypeError, "cond_fun must return one boolean scalar", "bool[3]", "weft.numpy.any or all")
def while_predicate_of_rank_one():
    lax.while_loop(lambda c: c > X, lambda c: c, F)


@case(TypeError, "cond_fun must return one boolean scalar", "f32[]", "x > 0")
def while_predicate_that_is_a_number():
    lax.while_loop(lambda c: c, lambda c: c, F)


@case(TypeError, "fori_loop: lower must be an integer or a float scalar", "c64[]")
def fori_loop_with_complex_bounds():
    lax.fori_loop(0j, 3j, lambda i, c: c, F)


@case(TypeError, "fori_loop: lower and upper must both be", "i32[]", "f32[]", "int(upper)")
def fori_loop_with_bounds_of_two_kinds():
    lax.fori_loop(0, 3.0, lambda i, c: c, F)


@case(TypeError, "scan: carry['name'] is not an array", "str: 'dense'", "close over it")
def scan_carry_that_is_no_array():
    lax.scan(lambda c, x: (c, x), {"name": "dense"}, X)


@case(TypeError, "cond: operands[1] is not an array", "str: 'dense'")
def cond_operand_that_is_no_array():
    lax.cond(True, lambda x, s: x, lambda x, s: x, X, "dense")


@case(TypeError, "checkpoint: argument how is not an array", "'dense'", "static_argnums")
def checkpoint_of_a_string():
    def f(x, how):
        return x

    weft.checkpoint(f)(X, "dense")


@case(TypeError, "fori_loop: the body must return a carry", "has  PyTreeDef(*)", "((*, *))")
def fori_loop_carry_of_another_structure():
    lax.fori_loop(0, 3, lambda i, c: (c, c), F)


@case(TypeError, "fori_loop: the carry must keep its type", "carry['x']", "f32[]", "f32[2]")
def fori_loop_with_dynamic_bounds_and_a_carry_of_another_shape():
    lax.fori_loop(0, np.ones((), np.int32) * jnp.ones((), "int32"),
                  lambda i, c: {"x": jnp.stack([c["x"]] * 2)}, {"x": F})  # fmt: skip


@case(TypeError, "fori_loop: the carry must keep its type", "expected f32[]", "got      i32[]")
def fori_loop_carry_of_another_dtype():
    lax.fori_loop(0, 3, lambda i, c: c.astype("int32"), F)


@case(TypeError, "branches must return the same types", "true_fun", "false_fun", "f32[3]", "i32[3]",
      "error_cases.py:", ".astype(")  # fmt: skip
def cond_branches_of_other_dtypes():
    lax.cond(True, lambda x: x, lambda x: x.astype("int32"), X)


@case(TypeError, "result['y']", "f32[]", "f32[3]", "shape")
def cond_branches_of_other_shapes():
    lax.cond(True, lambda x: {"y": x}, lambda x: {"y": x[0]}, X)


@case(TypeError, "the same pytree structure", "PyTreeDef(*)", "PyTreeDef((*, *))")
def cond_branches_of_other_structures():
    lax.cond(True, lambda x: x, lambda x: (x, x), X)


@case(TypeError, "cond: pred must be a scalar", "bool[3]", "weft.numpy.any")
def cond_predicate_of_rank_one():
    lax.cond(X > 1, lambda x: x, lambda x: x, X)


@case(TypeError, "cond: pred must be a scalar", "str", "cond(pred, functions, *operands)")
def cond_predicate_that_is_no_array():
    lax.cond("yes", lambda x: x, lambda x: x, X)


@case(TypeError, "cond: pred must be a boolean or a number", "c64[]")
def cond_predicate_that_is_complex():
    lax.cond(1j, lambda x: x, lambda x: x, X)


@case(TypeError, "cond: true_fun must be a function", "int")
def cond_without_a_function():
    lax.cond(True, 1, lambda x: x, X)


@case(TypeError, "switch: index must be an integer", "f32[]")
def switch_on_a_float():
    lax.switch(F, [lambda x: x, lambda x: x], X)


@case(ValueError, "switch: branches is empty")
def switch_without_branches():
    lax.switch(0, [], X)


@case(TypeError, "branches[0]", "branches[2]", "f32[3]", "f32[]")
def switch_branches_of_other_shapes():
    lax.switch(0, [lambda x: x, lambda x: x, lambda x: x[0]], X)


@case(ValueError, "associative_scan: sizes along axis 0", "elems[0] has 3", "elems[1] has 4")
def associative_scan_of_unequal_sizes():
    lax.associative_scan(lambda a, b: a, (X, Y))


# Differentiation ---------------------------------------------------------------------------------


@case(TypeError, "grad", "scalar output", "f32[3]", "weft.jacrev")
def grad_of_a_vector():
    weft.grad(lambda x: x * 2)(X)


@case(TypeError, "argument 0", "i32[]", "allow_int=True", "argnums")
def grad_of_an_integer():
    weft.grad(lambda x: x * 2.0)(3)


@case(TypeError, "argument 1['n']", "i32[]")
def grad_of_an_integer_in_a_tree():
    weft.grad(lambda x, p: x * p["w"], argnums=(0, 1))(1.0, {"w": 1.0, "n": 3})


@case(TypeError, "argument 0['name']", "str", "'dense'")
def grad_of_a_string():
    weft.grad(lambda p: p["w"])({"w": 1.0, "name": "dense"})


@case(TypeError, "one scalar output", "PyTreeDef((*, *))", "has_aux=True")
def grad_of_a_pair():
    weft.grad(lambda x: (x, x))(1.0)


@case(TypeError, "has_aux=True", "pair (output, aux)", "f32[]")
def grad_with_aux_of_no_pair():
    weft.grad(lambda x: x, has_aux=True)(1.0)


@case(TypeError, "real output", "i32[]")
def grad_of_an_integer_output():
    weft.grad(lambda x: jnp.astype(x, "int32"))(1.0)


@case(TypeError, "real output", "c64[]", "holomorphic=True")
def grad_of_a_complex_output():
    weft.grad(lambda x: x)(1j)


@case(TypeError, "holomorphic=True takes complex inputs", "argument 0", "f32[]")
def holomorphic_grad_of_a_real():
    weft.grad(lambda x: x, holomorphic=True)(1.0)


@case(TypeError, "argnums 2 is out of range", "1 positional")
def grad_of_an_argument_that_is_not_there():
    weft.grad(lambda x: x, argnums=2)(1.0)


@case(ValueError, "argnums (0, -2) names an argument twice")
def grad_of_one_argument_twice():
    weft.grad(lambda x, y: x, argnums=(0, -2))(1.0, 2.0)


@case(TypeError, "argnums must be an int or a sequence of ints", "'x'")
def grad_of_an_argument_by_name():
    weft.grad(lambda x: x, argnums="x")(1.0)


@case(TypeError, "grad: expected a function", "float")
def grad_of_a_number():
    weft.grad(1.0)


@case(TypeError, "jacfwd", "real-valued inputs", "c64[1]", "holomorphic=True")
def jacfwd_of_a_complex_input():
    weft.jacfwd(lambda x: x)(np.ones(1, np.complex64))


@case(TypeError, "jacrev", "real outputs", "c64[3]")
def jacrev_of_a_complex_output():
    weft.jacrev(lambda x: x * 1j)(X)


@case(ValueError, "the vjp of <lambda>", "structure PyTreeDef((*, *))", "PyTreeDef(*)")
def vjp_cotangent_of_another_structure():
    weft.vjp(lambda x: (x, x), 1.0)[1](1.0)


@case(ValueError, "cotangent['y'] must have the type of the output", "f32[3]", "f32[4]")
def vjp_cotangent_of_another_shape():
    weft.vjp(lambda x: {"x": x, "y": x}, X)[1]({"x": X, "y": Y})


@case(ValueError, "cotangent must have the type of the output", "f32[3]", "i32[3]")
def vjp_cotangent_of_another_dtype():
    weft.vjp(lambda x: x, X)[1](np.ones(3, np.int32))


@case(TypeError, "jvp: primals and tangents must have one structure", "PyTreeDef((*, *))")
def jvp_tangents_of_another_structure():
    weft.jvp(lambda x: x, (1.0,), (1.0, 2.0))


@case(ValueError, "tangent of primals[0] must have type f32[3]", "f32[4]")
def jvp_tangent_of_another_shape():
    weft.jvp(lambda x: x, (X,), (Y,))


@case(TypeError, "primals[0] is i32[]", "no derivative", "float0")
def jvp_tangent_of_an_integer():
    weft.jvp(lambda x: x, (3,), (1,))


@case(TypeError, "jvp: primals must be a tuple or list", "float")
def jvp_of_no_tuple():
    weft.jvp(lambda x: x, 1.0, 1.0)


@case(ValueError, "the linearized <lambda>", "tangents[0]", "f32[3]", "f32[4]")
def linearized_function_of_another_shape():
    weft.linearize(lambda x: x, X)[1](Y)


@case(TypeError, "sin", "not linear", "error_cases.py")
def linear_transpose_of_a_nonlinear_function():
    weft.linear_transpose(lambda x: jnp.sin(x), 1.0)(1.0)


@case(
    ValueError, "Reverse-mode differentiation", "while_loop", "error_cases.py:", "scan", "weft.jvp"
)
def grad_of_while_loop():
    weft.grad(lambda x: lax.while_loop(lambda c: c < 3, lambda c: c + 1.0, x))(F)


@case(ValueError, "Reverse-mode differentiation", "while_loop", "error_cases.py:")
def jitted_grad_of_a_jitted_while_loop():
    loop = weft.jit(lambda x: lax.while_loop(lambda c: c < 3, lambda c: c + 1.0, x))
    weft.jit(weft.grad(lambda x: loop(x) * 2.0))(F)


@case(TypeError, "jvp", "str")
def jvp_of_a_function_that_returns_a_string():
    weft.jvp(lambda x: "a", (1.0,), (1.0,))


@case(TracerArrayConversionError, "being differentiated", "weft.lax.stop_gradient", "f32[]")
def numpy_of_a_differentiated_value():
    weft.grad(lambda x: np.sin(x))(1.0)


@case(ConcretizationTypeError, "being differentiated", "weft.lax.stop_gradient")
def float_of_a_differentiated_value():
    weft.grad(lambda x: float(x) ** 2)(3.0)


# Custom rules ------------------------------------------------------------------------------------


def ruled(fwd, bwd, fun=lambda x: x * 2.0):
    f = weft.custom_vjp(fun)
    f.defvjp(fwd, bwd)
    return f


@case(TypeError, "backward rule", "each of the 1 arguments", "got 2")
def backward_rule_with_too_many_cotangents():
    weft.grad(ruled(lambda x: (x, x), lambda r, ct: (ct, ct)))(1.0)


@case(TypeError, "backward rule", "must return a tuple", "(ct,)")
def backward_rule_without_a_tuple():
    weft.grad(ruled(lambda x: (x, x), lambda r, ct: ct))(1.0)


@case(ValueError, "backward rule", "args[0]", "f32[]", "f32[3]")
def backward_rule_with_another_shape():
    weft.grad(ruled(lambda x: (x, x), lambda r, ct: (X,)))(1.0)


@case(TypeError, "forward rule", "pair (output, residuals)")
def forward_rule_without_residuals():
    weft.grad(ruled(lambda x: x, lambda r, ct: (ct,)))(1.0)


@case(TypeError, "forward-mode", "weft.custom_jvp", "weft.vjp")
def jvp_of_a_custom_vjp_function():
    weft.jvp(ruled(lambda x: (x, x), lambda r, ct: (ct,)), (1.0,), (1.0,))


@case(AttributeError, "has no rules", "defvjp(fwd, bwd)")
def custom_vjp_without_rules():
    weft.custom_vjp(lambda x: x)(1.0)


@case(AttributeError, "has no rule", "defjvp")
def custom_jvp_without_a_rule():
    weft.custom_jvp(lambda x: x)(1.0)


@case(TypeError, "jvp rule", "outputs' structure PyTreeDef(*)", "PyTreeDef((*, *))")
def jvp_rule_with_another_structure():
    f = weft.custom_jvp(lambda x: x)
    f.defjvp(lambda primals, tangents: (primals[0], (tangents[0], tangents[0])))
    weft.grad(f)(1.0)


@case(TypeError, "jvp rule", "pair (output, output tangent)")
def jvp_rule_without_a_pair():
    f = weft.custom_jvp(lambda x: x)
    f.defjvp(lambda primals, tangents: primals[0])
    weft.grad(f)(1.0)


@case(TypeError, "closes over a value that is being differentiated", "as an argument")
def custom_vjp_that_closes_over_a_differentiated_value():
    def f(x):
        g = ruled(lambda y: (x * y, None), lambda r, ct: (ct,), lambda y: x * y)
        return weft.jit(lambda y: g(y))(2.0)

    weft.grad(f)(1.0)


@case(UnexpectedTracerError, "closes over a differentiated value", "pass it as an argument")
def eager_custom_vjp_that_closes_over_a_differentiated_value():
    def f(x):
        return ruled(lambda y: (x * y, None), lambda r, ct: (ct,), lambda y: x * y)(2.0)

    weft.grad(f)(1.0)


@case(UnexpectedTracerError, "closes over a differentiated value", "pass it as an argument")
def eager_custom_jvp_that_closes_over_a_differentiated_value():
    def f(x):
        g = weft.custom_jvp(lambda y: x * y)
        g.defjvp(lambda primals, tangents: (g(*primals), tangents[0]))
        return g(2.0)

    weft.jvp(f, (1.0,), (1.0,))


@case(TypeError, "vmap rule", "pair (output, which outputs are batched)")
def vmap_rule_without_a_pair():
    f = weft.custom_batching.custom_vmap(lambda x: x)
    f.def_vmap(lambda size, batched, x: x)
    weft.vmap(f)(X)


@case(TypeError, "policy must be a function", "weft.checkpoint_policies", "'dots'")
def checkpoint_with_a_policy_by_name():
    weft.checkpoint(lambda x: x, policy="dots")


@case(ValueError, "static_argnums 3 is out of range")
def checkpoint_with_static_arguments_out_of_range():
    weft.checkpoint(lambda x: x, static_argnums=3)(1.0)


# vmap --------------------------------------------------------------------------------------------


@case(ValueError, "inconsistent sizes", "x has size 3", "y['a'] has size 4")
def vmap_over_unequal_sizes():
    weft.vmap(lambda x, y: x)(X, {"a": Y})


@case(ValueError, "x has size 3", "axis_size is 5")
def vmap_of_another_axis_size():
    weft.vmap(lambda x: x, axis_size=5)(X)


@case(ValueError, "in_axes 0 is out of bounds for y of type f32[]", "use None")
def vmap_over_a_scalar():
    weft.vmap(lambda x, y: x)(X, 1.0)


@case(ValueError, "in_axes 1 is out of bounds for x of type f32[3]")
def vmap_over_an_axis_that_is_not_there():
    weft.vmap(lambda x: x, in_axes=1)(X)


@case(ValueError, "in_axes has 1 entries for 2 positional arguments")
def vmap_with_too_few_in_axes():
    weft.vmap(lambda x, y: x, in_axes=(0,))(X, X)


@case(ValueError, "no argument is mapped", "axis_size")
def vmap_over_nothing():
    weft.vmap(lambda x: x, in_axes=None)(X)


@case(TypeError, "in_axes must be an int, None, or a tuple", "'rows'")
def vmap_with_in_axes_of_another_type():
    weft.vmap(lambda x: x, in_axes="rows")


@case(TypeError, "in_axes entry for x must be an int or None", "'rows'")
def vmap_with_an_in_axes_entry_of_another_type():
    weft.vmap(lambda x: x, in_axes=("rows",))(X)


@case(ValueError, "in_axes must be a pytree prefix", "in_axes[0] is a tuple", "one leaf")
def vmap_with_in_axes_that_are_no_prefix():
    weft.vmap(lambda x: x, in_axes=((0, 0),))(X)


@case(ValueError, "out_axes must be a pytree prefix", "out_axes is a tuple", "one leaf")
def vmap_with_out_axes_that_are_no_prefix():
    weft.vmap(lambda x: x, out_axes=(0, 0))(X)


@case(ValueError, "in_axes must be a pytree prefix", "in_axes[0] has the keys ['b']", "['a']")
def vmap_with_in_axes_of_other_keys():
    weft.vmap(lambda d: d["a"], in_axes=({"b": 0},))({"a": X})


@case(ValueError, "in_shardings has 1 entries where the values have 2")
def jit_with_a_sharding_too_few():
    one = weft.sharding.SingleDeviceSharding(weft.devices()[0])
    weft.jit(lambda a, b: a, in_shardings=(one,))(X, X)


@case(TypeError, "the vjp of <lambda> takes one cotangent", "got 2", "f_vjp((a, b))")
def cotangents_given_one_by_one():
    weft.vjp(lambda x: (x, x), X)[1](X, X)


@case(TypeError, "a traced array of type f32[3]", "not hashable", "weft.lax.switch")
def traced_array_as_a_key():
    weft.jit(lambda x: {1: 2}[x])(X)


@case(TypeError, "jit: expected a function, got an array", "the result of calling it")
def jit_of_a_result():
    weft.jit(jnp.sin(X))


@case(ValueError, "set_mesh", "use_abstract_mesh")
def set_mesh_inside_a_jitted_function():
    def f(x):
        with weft.set_mesh(weft.make_mesh((1,), ("x",))):
            return x

    weft.jit(f)(X)


@case(ValueError, "out_axes is None for result['y']", "varies over the mapped axis")
def vmap_with_a_batched_result_unmapped():
    weft.vmap(lambda x: {"x": x, "y": x}, out_axes={"x": 0, "y": None})(X)


@case(ValueError, "out_axes 2 is out of bounds")
def vmap_with_out_axes_out_of_bounds():
    weft.vmap(lambda x: x, out_axes=2)(X)


@case(TypeError, "argument x is not an array", "str", "use None as its in_axes entry")
def vmap_over_a_string():
    weft.vmap(lambda x: x)("abc")


@case(TypeError, "must return arrays", "str: 'a'")
def vmap_of_a_function_that_returns_a_string():
    weft.vmap(lambda x: "a")(X)


@case(NameError, "axis name 'i' is not bound", "axis_name")
def collective_over_an_unknown_axis():
    weft.jit(lambda x: lax.psum(x, "i"))(X)


@case(NameError, "axis name 'j' is not bound", "'i' (size 3, vmap)")
def collective_over_another_axis_than_vmap_s():
    weft.vmap(lambda x: lax.psum(x, "j"), axis_name="i")(X)


# Values that are not known while tracing ---------------------------------------------------------


@case(TracerBoolConversionError, "truth value", "bool[]", "made at", "error_cases.py:", "lax.cond")
def if_on_a_traced_value():
    weft.jit(lambda x: 1 if x > 0 else 2)(F)


@case(TracerBoolConversionError, "truth value", "bool[]", "error_cases.py:")
def if_on_a_batched_value():
    weft.vmap(lambda x: 1 if x > 0 else 2)(X)


@case(TracerBoolConversionError, "truth value", "an argument of f")
def and_of_a_traced_argument():
    def f(x):
        return x and x

    weft.jit(f)(True)


@case(TracerIntegerConversionError, "Python integer", "fori_loop", "static")
def range_of_a_traced_value():
    weft.jit(lambda n: [0 for _ in range(n)])(3)


@case(ConcretizationTypeError, "Python integer", "i32[]")
def int_of_a_traced_value():
    weft.jit(lambda n: int(n))(3)


@case(TracerIntegerConversionError, "Python integer")
def list_index_of_a_traced_value():
    weft.jit(lambda n: [1, 2, 3][n])(1)


@case(TracerIntegerConversionError, "Shapes, axes and loop counts")
def shape_of_a_traced_value():
    weft.jit(lambda n: jnp.zeros((2, n)))(3)


@case(TracerIntegerConversionError, "Shapes, axes and loop counts")
def reshape_to_a_traced_size():
    weft.jit(lambda x, n: x.reshape(n))(X, 3)


@case(ConcretizationTypeError, "arange", "known while tracing", "i32[]")
def arange_of_a_traced_value():
    weft.jit(lambda n: jnp.arange(n))(3)


@case(ConcretizationTypeError, "Python value", "weft.debug.print")
def float_of_a_traced_value():
    weft.jit(lambda x: float(x))(F)


@case(ConcretizationTypeError, "Python value", "weft.debug.print")
def item_of_a_traced_value():
    weft.jit(lambda x: x.item())(F)


@case(TracerArrayConversionError, "NumPy value", "weft.numpy instead of numpy", "pure_callback")
def numpy_of_a_traced_value():
    weft.jit(lambda x: np.sin(x))(F)


@case(NonConcreteBooleanIndexError, "boolean index", "bool[3]", "weft.numpy.where")
def boolean_index_by_a_traced_mask():
    weft.jit(lambda x: x[x > 0])(X)


@case(IndexError, "bounds of a slice must be static", "dynamic_slice_in_dim")
def slice_by_a_traced_bound():
    weft.jit(lambda x, n: x[:n])(X, 2)


@case(TypeError, "arrays are immutable", "x.at[index].set(value)")
def assignment_to_a_traced_array():
    def f(x):
        x[0] = 1.0
        return x

    weft.jit(f)(X)


@case(TypeError, "f must return arrays", "leaf 1", "str: 'a'")
def jit_of_a_function_that_returns_a_string():
    def f(x):
        return x, "a"

    weft.jit(f)(F)


@case(TypeError, "must return arrays", "str")
def scan_body_that_returns_a_string():
    lax.scan(lambda c, x: (c, "a"), F, X)


# Shapes, inside transformed functions ------------------------------------------------------------


@case(ShapeError, "Incompatible shapes for broadcasting", "(3,)", "(4,)")
def addition_of_other_shapes():
    weft.jit(lambda x: x + Y)(X)


@case(ShapeError, "concatenate", "f32[2,4]", "f32[2,3]")
def concatenation_of_other_shapes():
    weft.grad(lambda x: lax.concatenate([x, jnp.ones((2, 4))], 0).sum())(np.ones((2, 3), "float32"))


@case(ShapeError, "summed dimensions differ", "f32[2,3]", "f32[4,5]")
def product_of_other_shapes():
    weft.vmap(lambda x: jnp.dot(x, jnp.ones((4, 5))))(np.ones((2, 2, 3), np.float32))
