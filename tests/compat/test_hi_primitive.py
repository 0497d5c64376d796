"""Operations with rules of their own, from `jax.experimental.hijax`."""

import textwrap

from tests.compat.test_as_jax import on_weft

START = """
    import jax, jax.numpy as jnp
    from jax.experimental.hijax import HiType, ShapedArray, VJPHiPrimitive, instantiate_zeros

    class SinTimes(VJPHiPrimitive):
        def __init__(self, x, y):
            self.in_avals, self.out_aval, self.params = (x, y), x, {}
            super().__init__()
        def expand(self, x, y):
            return jnp.sin(x) * y
        def vjp_fwd(self, nonzeros, x, y):
            print("needed", nonzeros)
            return self(x, y), (x, y)
        def vjp_bwd_retval(self, residuals, g):
            x, y = residuals
            return jnp.cos(x) * y * g, None  # and zero for y, by which rules are told from bodies
        def jvp(self, primals, tangents):
            (x, y), (dx, dy) = primals, tangents
            print("tangent of y", type(dy).__name__)
            return self(x, y), 10 * y * instantiate_zeros(dx)

    def f(x, y):
        return SinTimes(jax.typeof(x), jax.typeof(y))(x, y)
"""


def outputs(program):
    return on_weft(textwrap.dedent(START) + textwrap.dedent(program)).splitlines()


def test_rules_are_used_in_each_transformation():
    program = """
        print(f(0.0, 3.0), jax.jit(f)(0.0, 3.0))
        print(jax.grad(f, (0, 1))(0.0, 3.0))
        print(jax.jit(jax.grad(f))(0.0, 3.0))
        print(jax.grad(jax.grad(f))(0.0, 3.0))
        print(jax.jvp(lambda x: f(x, 3.0), (0.0,), (1.0,)))
        x, y = jnp.zeros(2), jnp.ones(2)
        print(jax.vmap(jax.grad(f))(x, y), jax.vmap(f, (0, None))(x, 2.0))
        print(jax.grad(lambda x: jax.jit(jax.vmap(f, (0, None)))(x, 2.0).sum())(x))
    """
    assert outputs(program) == [
        "0.0 0.0",
        "needed (True, True)",
        "(Array(3., dtype=float32, weak_type=True), Array(0., dtype=float32, weak_type=True))",
        "needed (True, False)",
        "3.0",
        "needed (True, False)",
        "needed (True, False)",
        "-0.0",
        "tangent of y Zero",
        "(Array(0., dtype=float32, weak_type=True), Array(30., dtype=float32, weak_type=True))",
        "needed (True, False)",
        "[1. 1.] [0. 0.]",
        "needed (True, False)",
        "[2. 2.]",
    ]


def test_rules_by_accumulators_by_linearization_and_for_batches():
    program = """
        class Take(VJPHiPrimitive):
            def __init__(self, x, i):
                self.in_avals, self.out_aval = ({"x": x},), ShapedArray((), x.dtype)
                self.params = {"i": i}
                super().__init__()
            def expand(self, tree):
                return tree["x"][self.i]
            def vjp_fwd(self, nonzeros, tree):
                return self(tree), None
            def vjp_bwd(self, residuals, g, accumulators):
                zeros = jnp.zeros(accumulators["x"].aval.shape)
                accumulators["x"].accum(zeros.at[self.i].add(g))
                accumulators["x"].accum(zeros.at[0].add(g))
        x = jnp.arange(3.0)
        take = lambda x: Take(jax.typeof(x), 2)({"x": x})
        print(take(x), jax.grad(take)(x))

        class Square(VJPHiPrimitive):
            def __init__(self, x):
                self.in_avals, self.out_aval, self.params = (x,), (x, x), {}
                super().__init__()
            def expand(self, x):
                return x * x, x
            def lin(self, nonzeros, x):
                return self(x), x
            def linearized(self, x, dx):
                return 20 * x * dx, dx
            def batch(self, axis, args, dims):
                print(axis.size, dims)
                return (args[0] * args[0], args[0]), (dims[0], dims[0])
        square = lambda x: Square(jax.typeof(x))(x)
        print(jax.linearize(square, 3.0)[1](1.0))
        print(jax.vmap(square)(x)[0], jax.vmap(jax.jit(square), in_axes=1, out_axes=1)(x[None])[0])
    """
    assert outputs(program) == [
        "2.0 [1. 0. 1.]",
        "(Array(60., dtype=float32, weak_type=True), Array(1., dtype=float32, weak_type=True))",
        "3 (0,)",
        "3 (0,)",
        "[0. 1. 4.] [[0. 1. 4.]]",
    ]


def test_types_of_several_arrays_have_no_derivative_here():
    program = """
        import dataclasses
        @dataclasses.dataclass(frozen=True)
        class PairType(HiType):
            shape: tuple
            def lower_val(self, pair): return [pair[0], pair[1]]
            def raise_val(self, a, b): return (a, b, "pair")
        class Split(VJPHiPrimitive):
            def __init__(self, x):
                self.in_avals, self.out_aval, self.params = (x,), PairType(x.shape), {}
                super().__init__()
            def expand(self, x):
                return jnp.floor(x), x - jnp.floor(x), "pair"
        split = lambda x: Split(jax.typeof(x))(x)
        print(split(1.5), jax.jit(lambda x: split(x)[1])(1.5))
        class Bare(VJPHiPrimitive):
            def __init__(self):
                super().__init__()
        class Double(SinTimes):
            def vjp_bwd(self, residuals, g, *accumulators): pass
        class Expanded(VJPHiPrimitive):
            def __init__(self, x):
                self.in_avals, self.out_aval, self.params = (x,), x, {}
                super().__init__()
            def expand(self, x): return x
        x = jax.typeof(1.0)
        for use in (
            lambda: jax.grad(lambda x: split(x)[1])(1.5),
            Bare,
            lambda: Double(x, x),
            lambda: jax.grad(Expanded(x))(1.0),
            lambda: jax.jvp(Expanded(x), (1.0,), (1.0,)),
        ):
            try:
                use()
            except Exception as e:
                print(type(e).__name__, e)
    """
    assert outputs(program) == [
        "(Array(1., dtype=float32, weak_type=True), Array(0.5, dtype=float32, weak_type=True), "
        "'pair') 0.5",
        "NotImplementedError Split[{}]: weft does not differentiate operations on values of hijax "
        "types; give its arrays as arguments of their own",
        "AttributeError Bare: set self.in_avals in __init__, before super().__init__()",
        "AttributeError Double: give one of vjp_bwd and vjp_bwd_retval, not both",
        "NotImplementedError Expanded must define vjp_fwd for reverse mode (grad, vjp)",
        "NotImplementedError Expanded must define jvp for forward mode",
    ]
