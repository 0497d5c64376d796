"""Operations outside jit: arithmetic, indexing, updates, creation, transfers, transforms."""

import numpy as np

from benchmarks.case import case


def vector(xx, size=16):
    return xx.device_put(np.arange(size, dtype=np.float32), xx.devices()[0])


def declare(name: str, budget: float, make) -> None:
    case(name, budget=budget)(make)


def add(xx):
    x, y = vector(xx), vector(xx) + 1
    return lambda: x + y


def add_scalar(xx):
    x = vector(xx)
    return lambda: x + 2.0


def matmul(xx):
    x = vector(xx).reshape(4, 4)
    return lambda: x @ x


def call_sin(xx):
    x, sin = vector(xx), xx.numpy.sin
    return lambda: sin(x)


def call_sum(xx):
    x = vector(xx)
    return lambda: x.sum()


def softmax(xx):
    x = vector(xx)
    return lambda: xx.nn.softmax(x)


def index_one(xx):
    x = vector(xx)
    return lambda: x[3]


def index_slice(xx):
    x = vector(xx)
    return lambda: x[2:10]


def index_array(xx):
    x, where = vector(xx), xx.device_put(np.array([3, 1, 2]), xx.devices()[0])
    return lambda: x[where]


def at_set(xx):
    x = vector(xx)
    return lambda: x.at[3].set(1.0)


def at_add(xx):
    x = vector(xx)
    return lambda: x.at[2:10].add(1.0)


def zeros(xx):
    make = xx.numpy.zeros
    return lambda: make((4, 4))


def arange(xx):
    make = xx.numpy.arange
    return lambda: make(16)


def asarray(xx):
    data, make = np.ones(4, np.float32), xx.numpy.asarray
    return lambda: make(data)


def put(xx):
    data, put = np.ones(4, np.float32), xx.device_put
    return lambda: put(data)


def put_hundred(xx):
    data, put = [np.ones(4, np.float32) for _ in range(100)], xx.device_put
    return lambda: put(data)


def put_sharded(xx):
    mesh = xx.make_mesh((8,), ("data",), axis_types=(xx.sharding.AxisType.Auto,))
    sharding, data = xx.NamedSharding(mesh, xx.P("data")), np.ones(64, np.float32)
    return lambda: xx.device_put(data, sharding)


def to_numpy(xx):
    add, x = xx.jit(lambda x: x + 1), vector(xx)
    return lambda: np.asarray(add(x))


def score(xx, x):
    return xx.numpy.sum(xx.numpy.sin(x) * x)


def eager_grad(xx):
    x = vector(xx)
    function = lambda x: score(xx, x)
    return lambda: xx.grad(function)(x)


def eager_vmap(xx):
    x = vector(xx).reshape(4, 4)
    function = lambda x: score(xx, x)
    return lambda: xx.vmap(function)(x)


def eager_vmap_of_grad(xx):
    x = vector(xx).reshape(4, 4)
    function = lambda x: score(xx, x)
    return lambda: xx.vmap(xx.grad(function))(x)


def random_normal(xx):
    key = xx.random.key(0)
    return lambda: xx.random.normal(key, (4,))


for _name, _budget, _make in (
    ("x + y", 1.0, add),
    ("x + 2.0", 1.0, add_scalar),
    ("x @ x", 1.0, matmul),
    ("sin(x)", 1.0, call_sin),
    ("x.sum()", 1.0, call_sum),
    ("softmax(x)", 1.0, softmax),
    ("x[3]", 0.5, index_one),
    ("x[2:10]", 0.5, index_slice),
    ("x[array]", 0.5, index_array),
    ("x.at[3].set(1.0)", 0.5, at_set),
    ("x.at[2:10].add(1.0)", 0.5, at_add),
    ("zeros((4, 4))", 0.5, zeros),
    ("arange(16)", 0.5, arange),
    ("asarray(numpy array)", 0.5, asarray),
    ("device_put", 0.5, put),
    ("device_put of 100 leaves", 0.5, put_hundred),
    ("device_put over 8 devices", 0.5, put_sharded),
    ("jit result to NumPy", 1.0, to_numpy),
    ("grad of a known function", 0.2, eager_grad),
    ("vmap of a known function", 0.2, eager_vmap),
    ("vmap of grad of a known function", 0.2, eager_vmap_of_grad),
    ("random.normal", 1.0, random_normal),
):
    declare(_name, _budget, _make)
