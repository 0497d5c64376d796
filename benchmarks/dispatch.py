"""Calls of a compiled function on one device, with arguments of all kinds, and many."""

import numpy as np

from benchmarks.case import case


def mesh_of(xx, shape, names):
    auto = (xx.sharding.AxisType.Auto,) * len(names)
    return xx.make_mesh(shape, names, axis_types=auto)


@case("cached call, 1 device", budget=1.0)
def one_device(xx):
    function = xx.jit(lambda x: x + 1)
    x = xx.device_put(np.ones(4, np.float32), xx.devices()[0])
    return lambda: function(x)


@case("cached call, NumPy argument", budget=1.0)
def numpy_argument(xx):
    function = xx.jit(lambda x: x + 1)
    x = np.ones(4, np.float32)
    return lambda: function(x)


@case("cached call, Python scalar and keyword", budget=1.0)
def scalar_and_keyword(xx):
    function = xx.jit(lambda x, *, scale: x * scale)
    x = xx.device_put(np.ones(4, np.float32), xx.devices()[0])
    return lambda: function(x, scale=2.0)


@case("cached call, static argument", budget=1.0)
def static_argument(xx):
    function = xx.jit(lambda x, n: x * n, static_argnums=1)
    x = xx.device_put(np.ones(4, np.float32), xx.devices()[0])
    return lambda: function(x, 3)


@case("cached call, 200 leaves in and out", budget=1.0)
def many_leaves(xx):
    function = xx.jit(lambda tree: xx.tree.map(lambda x: x + 1, tree))
    names = [(f"layer{i}", part) for i in range(50) for part in ("w", "b", "m", "v")]
    tree: dict = {}
    for layer, part in names:
        tree.setdefault(layer, {})[part] = xx.device_put(np.ones(4, np.float32), xx.devices()[0])
    return lambda: function(tree)


@case("flatten and unflatten 200 leaves", budget=1.0)
def flatten_tree(xx):
    tree = {f"layer{i}": {"w": 1.0, "b": [2.0, (3.0, None), 4.0]} for i in range(50)}

    def run():
        leaves, structure = xx.tree.flatten(tree)
        return xx.tree.unflatten(structure, leaves)

    return run
