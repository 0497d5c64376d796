"""Kernels in one form before the backends: what is left of calls, choices and missing ops."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax
from weft import pallas as pl
from weft.core.jaxpr import eval_closed, walk_eqns
from weft.pallas.cpu import lower  # noqa: F401  (loads the rules)
from weft.pallas.cpu.translate import LLVM
from weft.pallas.gpu import program  # noqa: F401
from weft.pallas.gpu.emitter import target_of
from weft.pallas.legalize import CALLS, PASSES, Target, legalize, legalize_call

X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)


def call_of(function, *args):
    out = weft.eval_shape(function, *args)

    def kernel(*refs):
        refs[-1][...] = function(*(r[...] for r in refs[:-1]))

    call = pl.pallas_call(kernel, weft.ShapeDtypeStruct(out.shape, out.dtype))
    (eqn,) = weft.make_jaxpr(call)(*args).eqns
    return eqn.params["call"]


def names(jaxpr):
    return {e.primitive.name for e in walk_eqns(jaxpr)}


@weft.custom_jvp
def twice(x):
    return weft.jit(lambda x: lax.optimization_barrier(x) * 2)(x)


twice.defjvp(lambda primals, tangents: (twice(*primals), twice(*tangents)))


def test_calls_are_inlined_and_what_hands_values_on_is_dropped():
    def f(x):
        inner = weft.checkpoint(lambda x: lax.stop_gradient(jnp.sin(twice(x))))
        return lax.fori_loop(0, 2, lambda i, x: inner(x), x)

    for target in (LLVM, target_of("cuda")):
        left = names(legalize_call(call_of(f, X), target).jaxpr)
        assert not left & (CALLS | PASSES | {"optimization_barrier"})
        assert {"sin", "mul"} <= left


def test_a_legalized_jaxpr_computes_what_the_jaxpr_does():
    table = np.arange(12, dtype=np.float32).reshape(3, 4)

    def f(x):
        clipped = jnp.clip(twice(x) + table, -1, 5)
        return jnp.sign(clipped) * clipped**3, jnp.cumsum(weft.nn.gelu(x), axis=1)

    jaxpr = weft.make_jaxpr(f)(X)
    for target in (LLVM, target_of("cuda")):
        legal = legalize(jaxpr, target)
        for got, want in zip(eval_closed(legal, X), f(X), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)


def test_the_function_of_the_platform_is_taken():
    def f(x):
        return lax.platform_dependent(x, cpu=jnp.sin, cuda=jnp.cos, default=jnp.tan)

    call = call_of(f, X)
    for target, name in ((LLVM, "sin"), (target_of("cuda"), "cos"), (target_of("rocm"), "tan")):
        left = names(legalize_call(call, target).jaxpr)
        assert left & {"sin", "cos", "tan", "cond"} == {name}


def test_random_keys_are_their_words():
    def f(seed):
        return weft.random.uniform(weft.random.split(weft.random.key(seed[0]))[1], (3,))

    jaxpr = legalize_call(call_of(f, np.array([7], np.uint32)), LLVM).jaxpr
    assert not any("key" in str(v.aval.dtype) for e in walk_eqns(jaxpr) for v in e.outvars)


def test_a_part_that_is_refused_is_named_with_the_op_that_it_is_a_part_of():
    few = ("get", "set", "mul", "div")
    plain = Target("plain", frozenset({"cpu"}), lambda eqn: eqn.primitive.name in few)
    call = call_of(jnp.log10, X)
    with pytest.raises(
        pl.UnsupportedKernelError, match=r"log10 \(.*test_legalize.*plain.*made of log\."
    ):
        legalize_call(call, plain)


def test_narrow_floats_are_widened_where_a_target_has_no_rule_for_them():
    x = X.astype(jnp.bfloat16)
    legal = legalize_call(call_of(jnp.tanh, x), target_of("cuda")).jaxpr
    (tanh,) = (e for e in walk_eqns(legal) if e.primitive.name == "tanh")
    assert tanh.invars[0].aval.dtype == np.float32
    assert legal.in_avals[1].dtype == jnp.bfloat16
