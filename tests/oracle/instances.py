"""One object of each kind that programs meet: what they have is compared with JAX's.

`instances(xx)` makes them with weft or with JAX, which a process of its own imports.
"""

import importlib
import inspect


def instances(xx):
    """Name -> object, made with the library xx."""
    sharding = importlib.import_module(f"{xx.__name__}.sharding")
    stages = importlib.import_module(f"{xx.__name__}.custom_batching")
    device = xx.devices()[0]
    mesh = xx.make_mesh((1,), ("x",), devices=[device])
    x = xx.device_put(1.0, device) * xx.numpy.ones((2, 2))
    f = xx.jit(lambda x, y=1: x + y)
    traced = []
    xx.jit(lambda t: traced.append(t) or t)(x)
    closed = xx.make_jaxpr(lambda x: x + 1)(x)
    return {
        "Array": x,
        "Tracer": traced[0],
        "PRNGKeyArray": xx.random.key(0),
        "x.at": x.at,
        "x.at[...]": x.at[0],
        "Shard": x.addressable_shards[0],
        "Device": device,
        "Mesh": mesh,
        "AbstractMesh": mesh.abstract_mesh,
        "P": xx.P("x"),
        "NamedSharding": sharding.NamedSharding(mesh, xx.P("x")),
        "SingleDeviceSharding": sharding.SingleDeviceSharding(device),
        "ManualAxisType": sharding.ManualAxisType(),
        "ShapeDtypeStruct": xx.ShapeDtypeStruct((2,), "float32"),
        "ShapedArray": xx.typeof(x),
        "jit": f,
        "Traced": f.trace(x),
        "Lowered": f.lower(x),
        "Compiled": f.lower(x).compile(),
        "custom_jvp": xx.custom_jvp(abs),
        "custom_vjp": xx.custom_vjp(abs),
        "custom_vmap": stages.custom_vmap(lambda x: x),
        "ClosedJaxpr": closed,
        "Jaxpr": closed.jaxpr,
        "JaxprEqn": closed.jaxpr.eqns[0],
        "Var": closed.jaxpr.invars[0],
        "finfo": xx.numpy.finfo("float32"),
        "iinfo": xx.numpy.iinfo("int32"),
        "ufunc": xx.numpy.add,
        "Partial": xx.tree_util.Partial(abs),
        "PyTreeDef": xx.tree.structure([1]),
        "DictKey": xx.tree_util.DictKey("a"),
        "vjp": xx.vjp(lambda x: x * 2, x)[1],
        "Ref": xx.new_ref(x),
        "config": xx.config,
    }


def members(value, parameters):
    """Public member -> its parameters if it is a method that shows them, else None."""
    found = {}
    for name in dir(value):
        if name.startswith("_"):
            continue
        static = inspect.getattr_static(type(value), name, None)
        try:
            member = None if isinstance(static, property) else getattr(value, name)
        except Exception:  # a property that this object refuses is a member all the same
            member = None
        found[name] = parameters(member)
    return found
