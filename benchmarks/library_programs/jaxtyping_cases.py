"""jaxtyping: annotations of arrays, keys, trees and what is traced; checked by typeguard."""

# ruff: noqa: F722, F821 (the strings are axes, no types)

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import (
    Array,
    ArrayLike,
    Bool,
    Complex,
    Float,
    Float32,
    Inexact,
    Int,
    Int32,
    Integer,
    Key,
    Num,
    PRNGKeyArray,
    PyTree,
    PyTreeDef,
    Scalar,
    ScalarLike,
    Shaped,
    UInt8,
    jaxtyped,
    print_bindings,
)
from typeguard import typechecked

from benchmarks.library_programs import case, raises

ROW, TABLE = jnp.arange(3.0), jnp.ones((2, 3))
checked = jaxtyped(typechecker=typechecked)
VALUES = {
    "row": ROW,
    "table": TABLE,
    "integers": jnp.arange(3),
    "bools": ROW > 1,
    "complex": ROW + 1j,
    "bytes": jnp.arange(3, dtype=jnp.uint8),
    "bfloat16": ROW.astype(jnp.bfloat16),
    "scalar": jnp.float32(1),
    "number": 1.0,
    "host": np.ones(3, np.float32),
    "key": jax.random.key(0),
    "old key": jax.random.PRNGKey(0),
    "shape": jax.ShapeDtypeStruct((3,), jnp.float32),
}
HINTS = {
    "Float 3": Float[Array, "3"],
    "Float32 a b": Float32[Array, "a b"],
    "Int n": Int[Array, "n"],
    "Int32 ...": Int32[Array, "..."],
    "Integer": Integer[Array, "*n"],
    "Bool": Bool[Array, "_"],
    "Complex": Complex[Array, "3"],
    "Inexact": Inexact[Array, "..."],
    "Num": Num[Array, "... 3"],
    "UInt8": UInt8[Array, "3"],
    "Shaped": Shaped[Array, "#n"],
    "Scalar": Scalar,
    "Scalar-like": ScalarLike,
    "Key": Key[Array, ""],
    "PRNGKeyArray": PRNGKeyArray,
    "Float of numpy": Float[np.ndarray, "3"],
    "Float of shapes": Float[jax.ShapeDtypeStruct, "3"],
    "Float array-like": Float[ArrayLike, "3"],
    "tree": PyTree[Float[Array, "..."]],
}
for hint, annotation in HINTS.items():
    case(hint)(lambda annotation=annotation: [isinstance(v, annotation) for v in VALUES.values()])


@case("axes are bound across arguments and results")
def bound():
    @checked
    def product(a: Float[Array, "m n"], b: Float[Array, "n k"]) -> Float[Array, "m k"]:
        return a @ b

    return product(TABLE, TABLE.T), raises(lambda: product(TABLE, TABLE), "b")


@case("tracers are arrays")
def traced():
    @checked
    def double(x: Float[Array, " n"]) -> Float[Array, " n"]:
        return 2 * x

    mapped = jax.vmap(double)(TABLE)
    wrong = raises(lambda: jax.jit(double)(TABLE), "double")
    return jax.jit(double)(ROW), jax.grad(lambda x: double(x).sum())(ROW), mapped, wrong


@case("sums and names of axes")
def symbolic():
    @checked
    def ends(x: Float[Array, " n"], y: Float[Array, "n+1"]) -> Float[Array, "2*n+1"]:
        return jnp.concatenate([x, y])

    return ends(ROW, jnp.ones(4)), raises(lambda: ends(ROW, ROW), "ends")


@case("named trees")
def trees():
    @checked
    def add(x: PyTree[Float[Array, "?n"], "T"], y: PyTree[Float[Array, "?n"], "T"]):
        return jax.tree.map(jnp.add, x, y)

    return add((ROW, TABLE[0]), (ROW, ROW)), raises(lambda: add((ROW,), [ROW]), "add")


case("tree definitions")(
    lambda: [isinstance(x, PyTreeDef) for x in (jax.tree.structure((1, 2)), ROW, None)]
)


@case("classes")
def classes():
    import equinox as eqx

    @checked
    class Layer(eqx.Module):
        weight: Float[Array, "m n"]
        bias: Float[Array, " m"]

        def __call__(self, x: Float[Array, " n"]):
            return self.weight @ x + self.bias

    layer = Layer(TABLE, jnp.ones(2))
    return layer(ROW), raises(lambda: Layer(TABLE, ROW), "bias")


@case("scans, loops and keys")
def scans():
    @checked
    def step(carry: Float[Array, ""], x: Float[Array, ""]):
        return carry + x, carry

    @checked
    def draw(key: PRNGKeyArray, like: Float[Array, " n"]) -> Float[Array, " n"]:
        return jax.random.normal(key, like.shape)

    return jax.lax.scan(step, 0.0 * ROW[0], ROW), jax.jit(draw)(jax.random.key(0), ROW)


@case("bindings")
def bindings():
    @checked
    def f(x: Float[Array, "rows columns"]):
        import contextlib
        import io

        with contextlib.redirect_stdout(io.StringIO()) as out:
            print_bindings()
        return out.getvalue()

    return f(TABLE)
