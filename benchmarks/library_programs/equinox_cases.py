"""equinox: layers, filtered transformations, errors, loops, its own primitives."""

import io

import equinox as eqx
import equinox.internal as eqxi
import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.library_programs import case, raises

KEY = jax.random.PRNGKey(0)
ROW = jnp.arange(4.0)
IMAGE = jax.random.normal(KEY, (3, 8, 8))

LAYERS = {
    "Linear": lambda: eqx.nn.Linear(4, 3, key=KEY)(ROW),
    "MLP": lambda: eqx.nn.MLP(4, 2, 8, 2, key=KEY)(ROW),
    "Conv2d": lambda: eqx.nn.Conv2d(3, 4, 3, key=KEY)(IMAGE),
    "ConvTranspose2d": lambda: eqx.nn.ConvTranspose2d(3, 2, 3, stride=2, key=KEY)(IMAGE),
    "GRUCell": lambda: eqx.nn.GRUCell(4, 3, key=KEY)(ROW, jnp.zeros(3)),
    "LSTMCell": lambda: eqx.nn.LSTMCell(4, 3, key=KEY)(ROW, (jnp.zeros(3), jnp.ones(3))),
    "MultiheadAttention": lambda: eqx.nn.MultiheadAttention(2, 8, key=KEY)(*[IMAGE[0]] * 3),
    "LayerNorm": lambda: eqx.nn.LayerNorm(4)(ROW),
    "RMSNorm": lambda: eqx.nn.RMSNorm(4)(ROW),
    "GroupNorm": lambda: eqx.nn.GroupNorm(2, 4)(jnp.arange(8.0).reshape(4, 2)),
    "Dropout": lambda: eqx.nn.Dropout(0.5)(ROW, key=KEY),
    "Embedding": lambda: eqx.nn.Embedding(5, 3, key=KEY)(jnp.array(2)),
    "MaxPool2d": lambda: eqx.nn.MaxPool2d(2, 2)(IMAGE),
    "AvgPool1d": lambda: eqx.nn.AvgPool1d(2, 2)(jnp.arange(8.0).reshape(1, 8)),
    "AdaptiveAvgPool1d": lambda: eqx.nn.AdaptiveAvgPool1d(2)(jnp.arange(8.0).reshape(1, 8)),
    "PReLU": lambda: eqx.nn.PReLU(0.1)(-ROW),
    "RotaryPositionalEmbedding": lambda: eqx.nn.RotaryPositionalEmbedding(4)(jnp.ones((3, 4))),
}
for layer, build in LAYERS.items():
    case(layer)(build)


@case("BatchNorm")
def batch_norm():
    layer, state = eqx.nn.make_with_state(eqx.nn.BatchNorm)(4, "batch", mode="batch")
    mapped = jax.vmap(layer, axis_name="batch", in_axes=(0, None), out_axes=(0, None))
    return mapped(jnp.arange(20.0).reshape(5, 4), state)[0]


@case("SpectralNorm")
def spectral_norm():
    linear = eqx.nn.Linear(4, 3, key=KEY)
    norm, state = eqx.nn.make_with_state(eqx.nn.SpectralNorm)(linear, "weight", key=KEY)
    return norm(ROW, state)[0]


@case("StateIndex")
def state_index():
    class Counter(eqx.Module):
        index: eqx.nn.StateIndex

        def __init__(self):
            self.index = eqx.nn.StateIndex(jnp.array(0))

        def __call__(self, x, state):
            count = state.get(self.index)
            return x + count, state.set(self.index, count + 1)

    counter, state = eqx.nn.make_with_state(Counter)()
    step = eqx.filter_jit(counter)
    _, state = step(jnp.array(1), state)
    return step(jnp.array(1), state)[0]


@case("a training step")
def training_step():
    model = eqx.nn.MLP(2, 1, 8, 2, key=KEY)
    x = jax.random.normal(KEY, (16, 2))

    @eqx.filter_jit
    @eqx.filter_value_and_grad
    def loss(model):
        return jnp.mean((jax.vmap(model)(x)[:, 0] - x[:, 0] * x[:, 1]) ** 2)

    before, gradient = loss(model)
    return before, loss(eqx.apply_updates(model, jax.tree.map(lambda g: -0.1 * g, gradient)))[0]


@case("filter_jit of methods, static arguments, ahead of time")
def filter_jit():
    class Scale(eqx.Module):
        factor: jax.Array
        function: callable = eqx.field(static=True)

        @eqx.filter_jit
        def __call__(self, x):
            return self.function(self.factor * x)

    @eqx.filter_jit
    def repeat(x, words, function):
        return function(x) * len(words)

    args = ROW, "abc", jnp.sin
    compiled = repeat.lower(*args).compile()
    scale = Scale(ROW, jnp.cos)
    return repeat(*args), compiled(*args), scale(2.0), jax.vmap(scale)(ROW)


def checked(x):
    return eqx.error_if(x * x, x > 10, "too big")


case("error_if that holds")(lambda: eqx.filter_jit(checked)(jnp.array(2.0)))
case("error_if, mapped and differentiated")(lambda: jax.vmap(jax.grad(checked))(ROW))
case("error_if that fails")(
    lambda: raises(lambda: eqx.filter_jit(checked)(jnp.array(11.0)), "too big")
)
case("error_if before running")(
    lambda: raises(lambda: eqx.error_if(ROW, True, "at once"), "at once")
)


@case("branched_error_if")
def branched_error():
    def f(x, which):
        return eqx.branched_error_if(x, x > 0, which, ["first!", "second!"])

    return raises(lambda: eqx.filter_jit(f)(jnp.array(1.0), jnp.array(1)), "second!")


@case("filter_custom_vjp")
def custom_vjp():
    @eqx.filter_custom_vjp
    def f(x, y):
        return x * y

    f.def_fwd(lambda perturbed, x, y: (x * y, y))
    f.def_bwd(lambda y, ct, perturbed, x, _: 3 * ct * y)
    return eqx.filter_grad(lambda x: f(x, 2.0))(jnp.array(5.0))


@case("filter_custom_jvp")
def custom_jvp():
    @eqx.filter_custom_jvp
    def f(x, *, function):
        return function(x)

    @f.def_jvp
    def rule(primals, tangents, *, function):
        return function(*primals), 7 * tangents[0]

    g = eqx.Partial(f, function=jnp.sin)
    return jax.jvp(g, (1.0,), (1.0,)), jax.grad(g)(1.0)


@case("filtered derivatives")
def derivatives():
    x, square = jnp.array(3.0), lambda x: x**2
    return (
        eqx.filter_jvp(square, (x,), (jnp.array(1.0),)),
        eqx.filter_vjp(square, x)[1](jnp.array(1.0)),
        eqx.filter_hessian(lambda x: jnp.sum(x**3))(ROW),
        eqx.filter_jacrev(square)(ROW),
        eqx.filter_jacfwd(square)(ROW),
    )


@case("filter_closure_convert")
def closure_convert():
    y = jnp.array(2.0)
    return eqx.filter_closure_convert(lambda x: x * y, jnp.array(1.0))(jnp.array(3.0))


case("filter_checkpoint")(
    lambda: jax.grad(eqx.filter_checkpoint(lambda x: jnp.sin(jnp.sin(x))))(1.0)
)
case("filter_vmap")(lambda: eqx.filter_vmap(jnp.add, in_axes=(0, None))(ROW, 1.0))
case("filter_eval_shape")(lambda: str(eqx.filter_eval_shape(lambda x: x * 2, ROW)))
case("filter_make_jaxpr")(lambda: len(eqx.filter_make_jaxpr(lambda x: x + 1)(ROW)[0].jaxpr.eqns))
case("filter_pure_callback")(
    lambda: eqx.filter_pure_callback(np.sin, ROW, result_shape_dtypes=jax.typeof(ROW))
)


def loop(kind, **options):
    def run(x):
        def body(carry):
            return carry[0] + 1, jnp.sin(carry[1])

        return eqxi.while_loop(lambda c: c[0] < 5, body, (0, x), kind=kind, **options)[1]

    return run


case("a loop of lax")(lambda: loop("lax")(1.0))


@case("a checkpointed loop")
def checkpointed_loop():
    f = loop("checkpointed", checkpoints=3)
    return f(1.0), jax.grad(f)(1.0), jax.jit(jax.grad(f))(1.0), jax.vmap(jax.grad(f))(ROW)


@case("a bounded loop")
def bounded_loop():
    f = loop("bounded", max_steps=8)
    return f(1.0), jax.grad(f)(1.0), jax.jvp(f, (1.0,), (1.0,)), jax.vmap(f)(ROW)


@case("a checkpointed scan")
def checkpointed_scan():
    def f(x):
        def body(carry, y):
            return carry * y, carry

        return eqxi.scan(body, x, ROW + 1, kind="checkpointed", checkpoints=2)[0]

    return f(1.0), jax.grad(f)(2.0)


@case("its own primitives")
def primitives():
    def reduced(x):
        return eqxi.unvmap_any(x > 1), eqxi.unvmap_all(x > 1), eqxi.unvmap_max(x)

    return (
        jax.vmap(reduced, out_axes=None)(ROW),
        jax.jit(eqxi.nondifferentiable)(ROW),
        raises(lambda: jax.grad(eqxi.nondifferentiable)(1.0), "differentiat"),
        raises(lambda: jax.grad(eqxi.nondifferentiable_backward)(1.0), "differentiat"),
        jax.jvp(eqxi.nondifferentiable_backward, (1.0,), (1.0,)),
        eqxi.buffer_at_set(jnp.zeros(4), 1, 2.0),
        eqxi.nextafter(jnp.array(1.0)),
        jax.grad(eqxi.nextafter)(1.0),
        eqx.debug.announce_transform(ROW),
        jax.grad(lambda x: eqx.debug.backward_nan(x, terminate=False) * 2)(jnp.array(1.0)),
    )


@case("assert_max_traces")
def max_traces():
    f = eqx.filter_jit(eqx.debug.assert_max_traces(lambda x: x + 1, max_traces=1))
    f(ROW)
    f(2 * ROW)
    return raises(lambda: f(ROW[:3]), "traced")


@case("Enumeration")
def enumeration():
    class Choice(eqx.Enumeration):
        first = "one"
        second = "two"

    chosen = eqx.filter_jit(lambda p: Choice.where(p, Choice.first, Choice.second))(jnp.array(True))
    return chosen == Choice.first, Choice[Choice.second]


@case("saving and loading")
def saving():
    model, file = eqx.nn.MLP(2, 1, 8, 2, key=KEY), io.BytesIO()
    eqx.tree_serialise_leaves(file, model)
    file.seek(0)
    return eqx.tree_equal(model, eqx.tree_deserialise_leaves(file, model))


case("tree_pformat")(lambda: eqx.tree_pformat(eqx.nn.Linear(2, 3, key=KEY)))


@case("tree_at and Shared")
def tree_at():
    pair = eqx.nn.Linear(4, 3, key=KEY), eqx.nn.Linear(4, 3, key=KEY)
    shared = eqx.nn.Shared(pair, where=lambda p: p[1].weight, get=lambda p: p[0].weight)
    changed = eqx.tree_at(lambda m: m.bias, pair[0], jnp.ones(3))
    return shared()[1](ROW), changed(ROW)


@case("filter_shard")
def filter_shard():
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("x",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    return eqx.filter_jit(lambda x: eqx.filter_shard(x, sharding))(ROW)
