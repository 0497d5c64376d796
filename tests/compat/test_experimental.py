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
