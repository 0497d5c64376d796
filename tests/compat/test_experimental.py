"""Programs that use modules of jax.experimental."""

from tests.compat.test_as_jax import on_weft


def test_a_function_with_a_partition_of_its_own():
    program = """
        import numpy as np
        import jax, jax.numpy as jnp
        from jax.experimental.custom_partitioning import custom_partitioning
        from jax.experimental.custom_partitioning import SdyShardingRule, BATCHING
        from jax.experimental.shard_alike import shard_alike
        from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

        @custom_partitioning
        def fft(x):
            return jnp.fft.fft(x)

        def rows(x):
            spec = tuple(x.sharding.spec)[: x.ndim - 1]
            return NamedSharding(x.sharding.mesh, P(*spec, None))

        fft.def_partition(
            lambda mesh, args, result: (mesh, jnp.fft.fft, rows(args[0]), (rows(args[0]),)),
            infer_sharding_from_operands=lambda mesh, args, result: rows(args[0]),
            sharding_rule=SdyShardingRule(((BATCHING, "i"),), ((BATCHING, "i"),)),
        )
        mesh = Mesh(np.array(jax.devices()), ("x",))
        x = np.arange(64, dtype=np.complex64).reshape(16, 4)
        f = jax.jit(fft, in_shardings=NamedSharding(mesh, P("x")))
        print(np.allclose(f(x), np.fft.fft(x), atol=1e-3), f(x).sharding.spec)
        print("all-gather" in f.lower(x).compile().as_text())
        y = jax.jit(lambda x: shard_alike(x, jnp.zeros((16, 4)))[1])(f(x))
        print(y.sharding.spec)
    """
    assert on_weft(program).splitlines() == ["True P('x',)", "False", "P('x',)"]


def test_primitives_of_hijax_compute_where_they_are_applied():
    program = """
        import jax, jax.numpy as jnp
        from jax.experimental import hijax
        class Box:
            def cur_qdd(self): return jax.typeof(self.value)
        class BoxType(hijax.MutableHiType):
            pass
        hijax.register_hitype(Box, lambda box: BoxType())
        class Put(hijax.HiPrimitive):
            def impl(self, box, value, *, scale):
                box.value = scale * value
                return box
        box = Put("put").bind(Box(), jnp.ones(2), scale=3.0)
        def f(x):  # inside of a program too
            return Put("put").bind(Box(), x, scale=2.0).value + 1
        print(isinstance(jax.typeof(box), BoxType), jax.experimental.cur_qdd(box), box.value)
        print(jax.jit(f)(1.0), jax.grad(f)(1.0))
        try:
            hijax.HiPrimitive("other").bind(1.0)
        except NotImplementedError as e:
            print(e)
    """
    assert on_weft(program).splitlines() == [
        "True float32[2] [3. 3.]",
        "3.0 2.0",
        "other: define impl, by which weft computes it",
    ]


_BOXES = """
    import jax, jax.numpy as jnp
    from jax.experimental import hijax

    class Box:  # holds a dictionary of arrays
        def __init__(self, **values): self.values = values
        def cur_qdd(self):
            types = tuple(jax.typeof(x) for x in self.values.values())
            return tuple(self.values), types

    class BoxType(hijax.MutableHiType):
        def __eq__(self, other): return type(other) is BoxType
        def __hash__(self): return 0
        def lo_ty_qdd(self, state): return list(state[1])
        def new_from_loval(self, state, *arrays):
            return Box(**dict(zip(state[0], arrays, strict=True)))
        def read_loval(self, state, box): return list(box.values.values())
        def update_from_loval(self, state, box, *arrays):
            box.values = dict(zip(state[0], arrays, strict=True))

    hijax.register_hitype(Box, lambda box: BoxType())

    class Pair:  # never changes
        def __init__(self, a, b): self.a, self.b = a, b

    class PairType(hijax.HiType):
        def __eq__(self, other): return type(other) is PairType
        def __hash__(self): return 1
        def lower_val(self, pair): return [pair.a, pair.b]
        def raise_val(self, a, b): return Pair(a, b)

    hijax.register_hitype(Pair, lambda pair: PairType())
"""


def test_traced_functions_write_to_objects_that_they_close_over():
    program = (
        _BOXES
        + """
    import numpy as np
    class Add(hijax.HiPrimitive):
        def impl(self, box, x): box.values["n"] = box.values["n"] + x
    class Get(hijax.HiPrimitive):
        def impl(self, box): return box.values["n"]
    class New(hijax.HiPrimitive):
        def impl(self, n): return Box(n=n)
    add, get, new = Add("add").bind, Get("get").bind, New("new").bind

    box = Box(n=jnp.zeros(2))
    jax.lax.scan(lambda c, x: (c, add(box, x)), None, jnp.arange(4.0))
    print(get(box))
    jax.lax.fori_loop(0, 3, lambda i, c: (add(box, 1.0), c)[1], 0)
    print(get(box))

    @jax.jit
    def step(x):
        add(box, x)
        jax.lax.cond(x > 2, lambda: add(box, 100.0), lambda: None)
        return get(box) + 0.5
    print(step(1.0), step(3.0), get(box))
    add(box, 1.0)  # outside of a program, which sees it
    print(step(0.0), get(box))
    print(jax.jit(lambda box: get(box) * 2)(box))  # as an argument, too
    jax.jit(lambda: jax.jit(lambda b: add(b, 5.0))(box))()
    print(get(box))

    @jax.jit
    def made_within(x):  # starts anew in each call
        local = new(np.zeros(2, np.float32))
        jax.lax.scan(lambda c, _: (c, add(local, x)), None, None, length=3)
        return get(local)
    print(made_within(1.0), made_within(2.0))

    def loss(x):
        add(box, jax.lax.stop_gradient(x))
        return x ** 2
    print(jax.grad(loss)(3.0), jax.jit(jax.grad(loss))(4.0), get(box))

    class Grow(hijax.HiPrimitive):
        def impl(self, box, x): box.values["other"] = x
    try:
        jax.jit(lambda x: Grow("grow").bind(box, x))(1.0)
    except ValueError as e:
        print(e)
    for _ in range(200):  # objects that nobody has are forgotten
        jax.jit(lambda b=Box(n=jnp.zeros(1)): add(b, 1.0))()
    from weft.compat.hi_values import _places
    print(len(_places) < 70)
    """
    )
    assert on_weft(program).splitlines() == [
        "[6. 6.]",
        "[9. 9.]",
        "[10.5 10.5] [113.5 113.5] [113. 113.]",
        "[114.5 114.5] [114. 114.]",
        "[228. 228.]",
        "[119. 119.]",
        "[3. 3.] [6. 6.]",
        "6.0 8.0 [126. 126.]",
        "a traced function that closes over a Box must leave it as many arrays as it has, 1, got "
        "2; pass it as an argument of jit",
        "True",
    ]


def test_jitted_functions_write_to_objects_of_hijax_types():
    program = (
        _BOXES
        + """
    traces = []

    @jax.jit
    def step(boxes, x, again=None):
        traces.append(1)
        box = boxes["box"]
        box.values["n"] = box.values["n"] + x
        box.values["last"] = x
        return box.values["n"] * 2, again is box

    box = Box(n=jnp.zeros(2))
    for _ in range(3):
        out, _ = step({"box": box}, jnp.arange(2.0))
    print(box.values["n"], out, box.values["last"], len(traces))
    print(step({"box": box}, 1.0, again=box)[1])

    @jax.jit
    def outer(box):  # in a program
        step({"box": box}, 1.0)
        return box
    same = outer(box)
    print(same is box, box.values["n"])
    made = jax.jit(lambda box, x: Box(n=x + 1))(box, jnp.zeros(2))  # as a result
    print(type(made).__name__, made.values["n"])
    print(jax.eval_shape(lambda box, x: (box.values["n"] + x, Box(m=x)), box, 1.0)[0].shape)
    pair = jax.jit(lambda k, p: Pair(p.b, k * p.a), static_argnums=0)(3, Pair(1.0, 2.0))
    print(pair.a, pair.b)

    def fails(box):
        box.values["n"] = box.values["n"] * 0
        raise KeyError("stopped")
    try:
        jax.jit(fails)(box)
    except KeyError as e:
        print(e, box.values["n"])
    try:
        jax.vmap(lambda box: 1.0)(box)
    except NotImplementedError as e:
        print(e)
    """
    )
    assert on_weft(program).splitlines() == [
        "[0. 3.] [0. 6.] [0. 1.] 2",
        "True",
        "True [2. 5.]",
        "Box [1. 1.]",
        "(2,)",
        "2.0 3.0",
        "'stopped' [2. 5.]",
        "a Box is no argument of a traced function, other than of jit: what the function writes to "
        "it would be lost. Pass its arrays and return the new ones, or weft.new_ref (in flax: "
        "nnx.Variable without hijax=True)",
    ]


def test_odeint_of_ones_own_takes_vectors():
    program = """
        import jax.numpy as jnp
        from jax.experimental.ode import api_util, odeint, ravel_first_arg
        from jax.flatten_util import ravel_pytree

        f = lambda y, t, k: {"a": -k * y["a"], "b": y["a"][:1]}
        flat, unravel = ravel_pytree({"a": jnp.array([1.0, 2.0]), "b": jnp.array([3.0])})
        g = ravel_first_arg(f, unravel, api_util.debug_info("odeint", f, (), {}))
        print(g(flat, 0.0, 2.0), odeint(g, flat, jnp.array([0.0, 1.0]), 1.0)[-1].round(3))
    """
    assert on_weft(program) == "[-2. -4.  1.] [0.368 0.736 3.632]"
