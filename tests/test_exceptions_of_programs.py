"""Collectives, meshes, refs and transformations raise what clauses written for JAX catch.

Each row has a call, the exception of JAX 0.10.2 for it, and for positions NumPy's too; each must
catch weft's.
"""

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import P, lax

AUTO = weft.sharding.AxisType.Auto
ROWS = P("i")
X = np.arange(8, dtype=np.float32)
ONE = weft.ShapeDtypeStruct((8,), "float32")


def mesh(kind=AUTO):
    return weft.make_mesh((8,), ("i",), axis_types=(kind,))


def sharding():
    return weft.NamedSharding(mesh(), P("i"))


def mapped(f, in_specs=ROWS, out_specs=ROWS, **options):
    return weft.shard_map(f, mesh=mesh(), in_specs=in_specs, out_specs=out_specs, **options)(X)


def ref():
    return weft.new_ref(wnp.zeros(3))


def write(index, value):
    ref()[index] = value


def with_rule(forward, backward):
    f = weft.custom_vjp(lambda x: wnp.sum(x))
    f.defvjp(forward, backward)
    return weft.grad(f)(X)


CASES = {
    "no axis name": (lambda: mapped(lambda x: lax.psum(x, None), check_vma=False), NameError),
    "no axis name outside": (lambda: lax.axis_size(None), NameError),
    "an unbound name": (lambda: lax.psum(X, "q"), NameError),
    "an unbound name of a mesh": (lambda: mapped(lambda x: lax.all_gather(x, "q")), NameError),
    "an unbound name twice": (lambda: lax.axis_index(("i", "i")), NameError),
    "a number as a name": (lambda: lax.axis_size(-7), ValueError),
    "a set of names": (lambda: mapped(lambda x: lax.psum(x, {"i"})), TypeError),
    "an axis of vmap": (
        lambda: weft.vmap(lambda x: lax.psum(x, "q"), axis_name="i")(X),
        NameError,
    ),
    "a permutation that repeats": (
        lambda: mapped(lambda x: lax.ppermute(x, "i", [(0, 1), (0, 2)])),
        ValueError,
    ),
    "a spec of another mesh": (lambda: mapped(lambda x: x, P("q")), ValueError),
    "a spec beyond the rank": (lambda: mapped(lambda x: x, P(None, "i")), ValueError),
    "a result that varies": (lambda: mapped(lambda x: x, out_specs=P()), ValueError),
    "no mesh": (lambda: weft.shard_map(lambda x: x, in_specs=P(), out_specs=P())(X), ValueError),
    "another object as a mesh": (lambda: weft.set_mesh(object()), ValueError),
    "no sharding": (lambda: weft.device_put(X, "cpu:0"), ValueError),
    "a size that does not divide": (lambda: weft.device_put(X[:7], sharding()), ValueError),
    "a constraint beyond the rank": (
        lambda: lax.with_sharding_constraint(np.float32(1), sharding()),
        ValueError,
    ),
    "a ref's index beyond its size": (lambda: ref()[9], ValueError, IndexError),
    "a write beyond a ref's size": (lambda: write(9, 1.0), ValueError, IndexError),
    "a name as a ref's index": (lambda: ref()[("i", "q")], ValueError, TypeError),
    "no array as a callback's operand": (
        lambda: weft.pure_callback(lambda x: X, ONE, object()),
        TypeError,
    ),
    "a callback under vmap": (
        lambda: weft.vmap(lambda x: weft.pure_callback(np.sin, ONE, x))(X[None]),
        NotImplementedError,
    ),
    "a boolean option": (lambda: weft.debug_nans(weft.random.key(0)), TypeError),
    "a named option": (lambda: weft.numpy_dtype_promotion(None), TypeError),
    "a device": (lambda: weft.default_device(object()), ValueError),
    "what is exported": (lambda: weft.export.export(np.ones((8, 4)))(X), ValueError),
    "a symbolic shape": (lambda: weft.export.symbolic_shape(-7), ValueError),
    "a carry of another dtype": (
        lambda: lax.scan(lambda c, x: (c.astype("int32"), x), np.float32(0), X),
        TypeError,
    ),
    "a body without a pair": (lambda: lax.scan(lambda c, x: c, np.float32(0), X), TypeError),
    "branches of other types": (
        lambda: lax.cond(True, wnp.sin, lambda x: x.astype("int32"), X),
        TypeError,
    ),
    "a condition that is no boolean": (
        lambda: lax.while_loop(lambda c: c, lambda c: c + 1, np.int32(0)),
        TypeError,
    ),
    "a forward rule without residuals": (
        lambda: with_rule(lambda x: x.sum(), lambda r, g: (r,)),
        TypeError,
    ),
    "a backward rule of another shape": (
        lambda: with_rule(lambda x: (x.sum(), x), lambda r, g: (r[:2],)),
        ValueError,
    ),
    "a dataclass's type": (lambda: weft.tree_util.register_dataclass(sharding()), TypeError),
    "trees that differ": (lambda: weft.tree.map(lambda a, b: a, [1], [1, 2]), ValueError),
    "a seed": (lambda: weft.random.key(1.5), TypeError),
    "the number of operands of a ufunc": (
        lambda: wnp.frompyfunc(lambda a: a, None, 1),
        TypeError,
    ),
    "the dtype of text": (lambda: weft.typeof(np.array(["a"])), TypeError),
}


@pytest.mark.parametrize("name", CASES)
def test_each_exception_of_jax_catches_it(name):
    call, *kinds = CASES[name]
    for kind in kinds:
        with pytest.raises(kind):
            call()
