"""Random programs over vectors of three, for weft and for the NumPy reference.

A program is a tree of tuples that hypothesis draws and prints. It maps two vectors to one; its
steps append to a list of vectors. `run_weft` and `run_reference` interpret it.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

import weft
import weft.numpy as jnp
from tests.api import dual
from weft import lax

SIZE = 3
MATRIX = np.array([[0.4, -0.3, 0.1], [0.2, 0.5, -0.6], [-0.1, 0.3, 0.2]])
INDEX = np.array([2, 0, 0])

# Vector -> vector: (weft's, the reference's).
UNARY: dict[str, tuple[Callable, Callable]] = {
    "sin": (jnp.sin, dual.sin),
    "tanh": (jnp.tanh, dual.tanh),
    "half": (lambda x: 0.5 * x, lambda x: dual.mul(0.5, x)),
    "matvec": (lambda x: MATRIX @ x, lambda x: dual.linear(lambda v: MATRIX @ v, x)),
    "reverse": (lambda x: x[::-1], lambda x: dual.linear(lambda v: v[::-1], x)),
    "gather": (lambda x: x[INDEX], lambda x: dual.linear(lambda v: v[INDEX], x)),
    "cumsum": (lambda x: 0.3 * jnp.cumsum(x), lambda x: dual.linear(lambda v: 0.3 * v.cumsum(), x)),
    "mean": (
        lambda x: jnp.broadcast_to(jnp.mean(x), (SIZE,)),
        lambda x: dual.linear(lambda v: np.full(SIZE, v.mean()), x),
    ),
    "softmax": (
        weft.nn.softmax,
        lambda x: dual.mul(
            dual.exp(x),
            dual.reciprocal(dual.linear(lambda v: np.full(SIZE, v.sum()), dual.exp(x))),
        ),
    ),
    "relu": (
        weft.nn.leaky_relu,
        lambda x: dual.mul(np.where(dual.value(x) >= 0, 1.0, 0.01), x),
    ),
    "where": (
        lambda x: jnp.where(x > 0, jnp.sin(x), x),
        lambda x: _where(dual.value(x) > 0, dual.sin(x), x),
    ),
    "log": (
        lambda x: jnp.log(2.0 + x * x),
        lambda x: dual.log(dual.add(2.0, dual.mul(x, x))),
    ),
    "set": (
        lambda x: x.at[1].set(x[0] * x[2]),
        lambda x: _where(np.arange(SIZE) == 1, _product(x, 0, 2), x),
    ),
    "add at": (
        lambda x: jnp.zeros(SIZE, x.dtype).at[INDEX].add(x),
        lambda x: dual.linear(lambda v: np.array([v[1] + v[2], 0.0, v[0]]), x),
    ),
    "sort": (jnp.sort, lambda x: _take(x, np.argsort(dual.value(x), kind="stable"))),
    "stop": (lambda x: x + lax.stop_gradient(x), lambda x: dual.add(x, dual.value(x))),
}
BINARY: dict[str, tuple[Callable, Callable]] = {
    "add": (lambda x, y: x + y, dual.add),
    "sub": (lambda x, y: x - y, dual.sub),
    "mul": (lambda x, y: x * y, dual.mul),
    "divide": (
        lambda x, y: x / (2.0 + y * y),
        lambda x, y: dual.mul(x, dual.reciprocal(dual.add(2.0, dual.mul(y, y)))),
    ),
    "dot": (
        lambda x, y: 0.3 * jnp.dot(x, y) * x,
        lambda x, y: dual.mul(
            dual.linear(lambda v: np.full(SIZE, 0.3 * v.sum()), dual.mul(x, y)), x
        ),
    ),
    "concatenate": (
        lambda x, y: jnp.concatenate([x[1:], y[:1]]),
        lambda x, y: dual.linear(lambda a, b: np.concatenate([a[1:], b[:1]]), x, y),
    ),
}


def _take(x: Any, index: np.ndarray) -> Any:
    return dual.linear(lambda v: v[index], x)


def _product(x: Any, i: int, j: int) -> Any:
    return dual.mul(_take(x, np.full(SIZE, i)), _take(x, np.full(SIZE, j)))


def _where(mask: np.ndarray, x: Any, y: Any) -> Any:
    return dual.linear(lambda a, b: np.where(mask, a, b), x, y)


# Steps that call an inner program: a strategy for their parameters, weft's way, the reference's. An
# inner program is a function of two vectors here.


def _scan(f: Callable, x: Any, y: Any, reverse: bool, unroll: int) -> Any:
    rows = jnp.stack([x, 0.5 * y, y])
    last, ys = lax.scan(lambda c, a: (f(c, a), c * a), x, rows, reverse=reverse, unroll=unroll)
    return last + ys[0] - jnp.sum(ys, 0)


def _scan_reference(f: Callable, x: Any, y: Any, reverse: bool, unroll: int) -> Any:
    rows = [x, dual.mul(0.5, y), y]
    ys: list = [None] * 3
    c = x
    for i in reversed(range(3)) if reverse else range(3):
        ys[i] = dual.mul(c, rows[i])
        c = f(c, rows[i])
    return dual.sub(c, dual.add(ys[1], ys[2]))


def _fori(f: Callable, x: Any, y: Any, n: int) -> Any:
    return lax.fori_loop(0, n, lambda i, c: f(c, y) * (1.0 + 0.1 * i), x)


def _fori_reference(f: Callable, x: Any, y: Any, n: int) -> Any:
    for i in range(n):
        x = dual.mul(1.0 + 0.1 * i, f(x, y))
    return x


def _while(f: Callable, x: Any, y: Any) -> Any:
    # Two or three iterations, depending on the data.
    limit = jnp.where(jnp.sum(y) > 0, 2, 3)
    go, step = lambda s: s[0] < limit, lambda s: (s[0] + 1, f(s[1], y))
    return lax.while_loop(go, step, (0, x))[1]


def _while_reference(f: Callable, x: Any, y: Any) -> Any:
    for _ in range(2 if dual.value(y).sum() > 0 else 3):
        x = f(x, y)
    return x


def _cond(f: Callable, x: Any, y: Any) -> Any:
    return lax.cond(jnp.sum(y) > 0, f, lambda x, y: f(y, x) + x, x, y)


def _cond_reference(f: Callable, x: Any, y: Any) -> Any:
    return f(x, y) if dual.value(y).sum() > 0 else dual.add(f(y, x), x)


def _switch(f: Callable, x: Any, y: Any) -> Any:
    index = jnp.sum(y > 0).astype("int32")
    return lax.switch(index, [f, lambda x, y: x, lambda x, y: f(y, y)], x, y)


def _switch_reference(f: Callable, x: Any, y: Any) -> Any:
    index = min(int((dual.value(y) > 0).sum()), 2)
    return (f(x, y), x, f(y, y))[index] if index != 1 else x


def _vmap(f: Callable, x: Any, y: Any, shared: bool) -> Any:
    rows = jnp.stack([x, 0.5 * x - y])
    if shared:
        return jnp.sum(weft.vmap(f, in_axes=(0, None), out_axes=1)(rows, y), 1)
    return weft.vmap(f)(rows, rows[::-1])[1]


def _vmap_reference(f: Callable, x: Any, y: Any, shared: bool) -> Any:
    other = dual.sub(dual.mul(0.5, x), y)
    return dual.add(f(x, y), f(other, y)) if shared else f(other, x)


def _named(f: Callable, x: Any, y: Any) -> Any:
    g = lambda a: f(a, lax.psum(a, "i") / 2)
    return weft.vmap(g, axis_name="i")(jnp.stack([x, y]))[0]


def _named_reference(f: Callable, x: Any, y: Any) -> Any:
    return f(x, dual.mul(0.5, dual.add(x, y)))


def _map(f: Callable, x: Any, y: Any, batch_size: int | None) -> Any:
    rows = jnp.stack([x, y, x - y])
    return jnp.sum(lax.map(lambda a: f(a, y), rows, batch_size=batch_size), 0)


def _map_reference(f: Callable, x: Any, y: Any, batch_size: int | None) -> Any:
    return dual.add(dual.add(f(x, y), f(y, y)), f(dual.sub(x, y), y))


def _associative(f: Callable, x: Any, y: Any) -> Any:
    rows = lax.associative_scan(lambda a, b: a * b, jnp.stack([x, y, f(x, y)]))
    return rows[1] + rows[2]


def _associative_reference(f: Callable, x: Any, y: Any) -> Any:
    xy = dual.mul(x, y)
    return dual.add(xy, dual.mul(xy, f(x, y)))


POLICIES = {
    "default": None,
    "dots": weft.checkpoint_policies.dots_saveable,
    "everything": weft.checkpoint_policies.everything_saveable,
    "sines": lambda prim, *_, **params: prim.name == "sin",
}


def _custom_jvp(f: Callable, x: Any, y: Any) -> Any:
    g = weft.custom_jvp(f)
    g.defjvp(lambda primals, tangents: weft.jvp(f, primals, tangents))
    return g(x, y)


def _custom_vjp(f: Callable, x: Any, y: Any) -> Any:
    g = weft.custom_vjp(f)
    g.defvjp(
        lambda x, y: (f(x, y), (x, y)),
        lambda kept, ct: weft.vjp(f, *kept)[1](ct),
    )
    return g(x, y)


def _custom_gradient(f: Callable, x: Any, y: Any) -> Any:
    return weft.custom_gradient(lambda x, y: weft.vjp(f, x, y))(x, y)


def _custom_vmap(f: Callable, x: Any, y: Any) -> Any:
    g = weft.custom_batching.custom_vmap(f)
    g.def_vmap(
        lambda size, batched, x, y: (
            weft.vmap(f, in_axes=[0 if b else None for b in batched], axis_size=size)(x, y),
            True,
        )
    )
    return g(x, y)


def _converted(f: Callable, x: Any, y: Any) -> Any:
    # y is closed over, then hoisted out again.
    g, values = weft.closure_convert(lambda x: f(x, y), x)
    return g(x, *values)


def _jvp(f: Callable, x: Any, y: Any) -> Any:
    out, tangent = weft.jvp(lambda v: f(v, y), (x,), (y,))
    return out + 0.3 * tangent


def _jvp_reference(f: Callable, x: Any, y: Any) -> Any:
    out, tangent = dual.derivative(lambda v: f(v, y), x, y)
    return dual.add(out, dual.mul(0.3, tangent))


WEIGHTS = np.array([0.5, -0.25, 0.4])


def _vjp(f: Callable, x: Any, y: Any) -> Any:
    return weft.vjp(f, x, y)[1](jnp.asarray(WEIGHTS))[0]


def _grad(f: Callable, x: Any, y: Any) -> Any:
    return weft.grad(lambda v: jnp.sum(f(v, y) * WEIGHTS))(x)


def _pullback_reference(f: Callable, x: Any, y: Any) -> Any:
    return dual.pullback(lambda v: f(v, y), x, WEIGHTS)


def _same(f: Callable, x: Any, y: Any, **_: Any) -> Any:
    return f(x, y)


INNER: dict[str, tuple[dict, Callable, Callable]] = {
    "scan": ({"reverse": st.booleans(), "unroll": st.sampled_from([1, 2, 3])}, _scan,
             _scan_reference),
    "fori_loop": ({"n": st.integers(0, 3)}, _fori, _fori_reference),
    "cond": ({}, _cond, _cond_reference),
    "switch": ({}, _switch, _switch_reference),
    "vmap": ({"shared": st.booleans()}, _vmap, _vmap_reference),
    "named vmap": ({}, _named, _named_reference),
    "map": ({"batch_size": st.sampled_from([None, 2])}, _map, _map_reference),
    "associative_scan": ({}, _associative, _associative_reference),
    "jit": ({}, lambda f, x, y: weft.jit(f)(x, y), _same),
    "checkpoint": (
        {"policy": st.sampled_from(sorted(POLICIES))},
        lambda f, x, y, policy: weft.checkpoint(f, policy=POLICIES[policy])(x, y),
        _same,
    ),
    "custom_jvp": ({}, _custom_jvp, _same),
    "custom_vmap": ({}, _custom_vmap, _same),
    "closure_convert": ({}, _converted, _same),
    "linearize": (
        {},
        lambda f, x, y: weft.linearize(lambda v: f(v, y), x)[1](y),
        lambda f, x, y: dual.derivative(lambda v: f(v, y), x, y)[1],
    ),
    "jvp": ({}, _jvp, _jvp_reference),
    "vjp": ({}, _vjp, _pullback_reference),
    "grad": ({}, _grad, _pullback_reference),
}  # fmt: skip
FORWARD_ONLY: dict[str, tuple[dict, Callable, Callable]] = {
    "while_loop": ({}, _while, _while_reference),
}
REVERSE_ONLY: dict[str, tuple[dict, Callable, Callable]] = {
    "custom_vjp": ({}, _custom_vjp, _same),
    "custom_gradient": ({}, _custom_gradient, _same),
}
FORWARD = ("jvp", "linearize", "custom_jvp")
REVERSE = ("vjp", "grad")


def _shard_map(f: Callable, x: Any, y: Any, check_vma: bool) -> Any:
    mesh = weft.make_mesh((2,), ("d",), axis_types=(weft.sharding.AxisType.Auto,))

    def local(rows: Any) -> Any:
        return f(rows[0], lax.psum(rows[0], "d") / 2)[None]

    rows = weft.shard_map(
        local, mesh=mesh, in_specs=weft.P("d"), out_specs=weft.P("d"), check_vma=check_vma
    )(jnp.stack([x, y]))
    return rows[0] - rows[1]


def _shard_map_reference(f: Callable, x: Any, y: Any, check_vma: bool) -> Any:
    mean = dual.mul(0.5, dual.add(x, y))
    return dual.sub(f(x, mean), f(y, mean))


SHARDED: dict[str, tuple[dict, Callable, Callable]] = {
    "shard_map": ({"check_vma": st.booleans()}, _shard_map, _shard_map_reference),
}
STEPS = {**INNER, **FORWARD_ONLY, **REVERSE_ONLY, **SHARDED}


@st.composite
def programs(draw: Any, depth: int = 2, mode: str = "both") -> tuple:
    """Programs with inner programs nested up to `depth`.

    mode: "forward" has while_loop, but not inside of what differentiates in reverse; "reverse" has
    functions with backward rules of their own, and nothing that pushes tangents forward.
    """
    steps = []
    names = {
        "both": [*INNER],
        "forward": [*INNER, *FORWARD_ONLY],
        "reverse": [*(n for n in INNER if n not in FORWARD), *REVERSE_ONLY],
    }[mode]
    size = draw(st.integers(1, 4 if depth == 2 else 2))
    for k in range(size):
        i, j = draw(st.integers(0, k + 1)), draw(st.integers(0, k + 1))
        kind = draw(st.sampled_from(["unary", "binary", "inner"] if depth else ["unary", "binary"]))
        if kind == "unary":
            steps.append((draw(st.sampled_from(sorted(UNARY))), i))
        elif kind == "binary":
            steps.append((draw(st.sampled_from(sorted(BINARY))), i, j))
        else:
            name = draw(st.sampled_from(names))
            params = {p: draw(s) for p, s in STEPS[name][0].items()}
            inner_mode = "both" if mode == "forward" and name in REVERSE else mode
            inner = draw(programs(depth - 1, inner_mode))
            steps.append((name, i, j, params, inner))
    return tuple(steps)


def _interpret(side: int) -> Callable:
    def run(program: tuple, x: Any, y: Any) -> Any:
        values = [x, y]
        for name, i, *rest in program:
            if name in UNARY:
                values.append(UNARY[name][side](values[i]))
            elif name in BINARY:
                values.append(BINARY[name][side](values[i], values[rest[0]]))
            else:
                j, params, inner = rest
                apply = STEPS[name][1 + side]
                values.append(apply(as_function(inner), values[i], values[j], **params))
        return values[-1]

    def as_function(program: tuple) -> Callable:
        return lambda a, b: run(program, a, b)

    return run


run_weft = _interpret(0)
run_reference = _interpret(1)
