"""Collectives in branches and loops that other devices do not take: none waits for these."""

import subprocess
import sys
import warnings

import numpy as np
import pytest

import weft
from tests.collectives.harness import mesh_of
from tests.spmd_reference import Machine
from weft import P, lax

# A device that waits in a collective can only be stopped with its process.
PROGRAM = """
import os
os.environ["WEFT_NUM_CPU_DEVICES"] = "8"
import warnings
import numpy as np
import weft
import weft.numpy as wnp
from weft import P, lax

warnings.simplefilter("error")
mesh = weft.make_mesh((2, 2, 2), ("m", "a", "b"), (weft.AxisType.Auto,) * 3)
rng = np.random.default_rng(0)
X, W = rng.normal(size=(2, 2, 2, 2, 6)).astype(np.float32)  # each of [m, a, b, 6]
SWAP, ONE, RING = [(0, 1), (1, 0)], [(0, 1)], [(i, (i + 1) % 4) for i in range(4)]


def ragged(v):
    i, n = wnp.arange(2), wnp.array([3, 3])
    to = 3 * lax.axis_index("a") + 0 * i
    return lax.ragged_all_to_all(v, wnp.zeros_like(v), 3 * i, n, to, n, axis_name="a")


def first(x, axis):  # what ONE makes of the array of all devices
    return np.stack([np.zeros_like(x.take(0, axis)), x.take(0, axis)], axis)


def ring(x):
    return np.roll(x.reshape(2, 4, *x.shape[3:]), 1, 1).reshape(x.shape)


def exchange(x):
    halves = x.reshape(*x.shape[:3], 2, 3, *x.shape[4:])
    return halves.swapaxes(1, 3).reshape(x.shape)


SENDS = {  # on a device, and on the array of all
    "permuted": (lambda v: lax.ppermute(v, "a", SWAP), lambda x: np.flip(x, 1)),
    "sent": (lambda v: lax.precv(lax.psend(v, "b", ONE), v, "b", ONE), lambda x: first(x, 2)),
    "started": (lambda v: lax.ppermute_start(v, "a", ONE).done(), lambda x: first(x, 1)),
    "shuffled": (lambda v: lax.pshuffle(v, ("a", "b"), [3, 0, 1, 2]), ring),
    "turned": (
        lambda v: lax.ppermute(v, ("b", "a"), RING),
        lambda x: ring(x.swapaxes(1, 2)).swapaxes(1, 2),
    ),
    "broadcast": (lambda v: lax.pbroadcast(v, "a", 1), lambda x: x[:, [1, 1]]),
    "ragged": (ragged, exchange),
}
m = lambda: lax.axis_index("m")
twice = lambda v: 2 * v


def nested(f, v):
    inner = lambda v: lax.switch(m() + 1, [twice, twice, f], v)
    return lax.cond(m() > 0, inner, twice, v)


def scanned(f, v):
    steps = lambda v: lax.scan(lambda c, _: (f(c), None), v, None, length=2)[0]
    return lax.cond(m() > 0, weft.checkpoint(steps), twice, v)


def shared(f, v):  # one function, which all run once, and some again
    g = weft.jit(f)
    return lax.cond(m() > 0, g, twice, g(v))


CONTEXTS = {  # on a device, and on the array of all: a pair, of the devices at 0 and 1 along m
    "cond": (lambda f, v: lax.cond(m() > 0, f, twice, v), lambda f, x: (2 * x, f(x))),
    "nested": (nested, lambda f, x: (2 * x, f(x))),
    "scanned": (scanned, lambda f, x: (2 * x, f(f(x)))),
    "shared": (shared, lambda f, x: (2 * f(x), f(f(x)))),
    "loop": (
        lambda f, v: lax.fori_loop(0, 2 * m(), lambda _, v: f(v), v),
        lambda f, x: (x, f(f(x))),
    ),
}


def on_devices(fun, **options):
    body = lambda v: fun(v[0, 0, 0])[None, None, None]
    spec = P("m", "a", "b")
    return weft.jit(weft.shard_map(body, mesh=mesh, in_specs=spec, out_specs=spec, **options))


def merged(pair):
    return np.stack([pair[0][0], pair[1][1]])
"""

VALUES = """
for name, (context, of_all) in CONTEXTS.items():
    for check_vma in (True, False):
        each = lambda v: wnp.stack([context(send, v) for send, _ in SENDS.values()])
        want = np.stack([merged(of_all(model, X)) for _, model in SENDS.values()], 3)
        got = on_devices(each, check_vma=check_vma)(X)
        np.testing.assert_array_equal(np.asarray(got), want)
"""

DERIVATIVES = """
basis = np.eye(X.size, dtype=np.float32).reshape(X.size, *X.shape)
columns = np.moveaxis(basis, 0, -1)  # a linear function of all is its matrix on these
for name in ("cond", "scanned", "shared"):
    context, of_all = CONTEXTS[name]
    f = on_devices(lambda v: wnp.stack([context(send, v) for send, _ in SENDS.values()]))
    weights = np.stack([i * W for i in range(len(SENDS))], 3)
    slope = weft.jit(weft.grad(lambda x: (f(x) * weights).sum()))(X)
    matrices = [i * merged(of_all(g, columns)) for i, (_, g) in enumerate(SENDS.values())]
    want = sum(matrices).reshape(X.size, X.size).T @ W.ravel()
    np.testing.assert_allclose(np.ravel(slope), want, rtol=1e-4, atol=1e-5)


@weft.custom_vjp
def own(v):
    return lax.ppermute(v, "a", SWAP)


own.defvjp(lambda v: (own(v), None), lambda _, ct: (3 * lax.ppermute(ct, "b", SWAP),))
f = on_devices(lambda v: CONTEXTS["cond"][0](own, v))
slope = weft.grad(lambda x: (f(x) * W).sum())(X)
np.testing.assert_allclose(slope, np.stack([2 * W[0], 3 * W[1][:, ::-1]]), rtol=1e-6)
"""

OTHERS = """
def inner(v):  # decided along another axis yet, as often as a third one says
    swap = lambda v: lax.ppermute(v, "b", SWAP)
    step = lambda v: lax.cond(lax.axis_index("a") > 0, swap, twice, v)
    return lax.fori_loop(0, m() + 1, lambda _, v: step(v), v)


want = X.copy()
for m_at in range(2):
    want[m_at, 0] *= 2 ** (m_at + 1)
want[0, 1] = X[0, 1, ::-1]
for check_vma in (True, False):
    np.testing.assert_array_equal(np.asarray(on_devices(inner, check_vma=check_vma)(X)), want)

branch = lambda v: lax.cond(m() > 0, lambda v: lax.ppermute(v, "a", ONE), lambda v: v, v)
for dtype in ("int4", "bool", "bfloat16", "complex64"):
    x = wnp.asarray(np.arange(48).reshape(X.shape) % 2).astype(dtype)
    want, got = (np.asarray(v.astype("complex64")) for v in (x, on_devices(branch)(x)))
    np.testing.assert_array_equal(got, np.stack([want[0], first(want, 1)[1]]))
assert on_devices(branch)(X[..., :0]).shape == (2, 2, 2, 0)

examples = lambda v: weft.vmap(lambda u: lax.ppermute(u, ("b", "i"), PAIRS), axis_name="i")(v)
PAIRS = [(i, (i + 5) % 12) for i in range(12)]  # of both devices' six examples
f = on_devices(lambda v: lax.cond(m() > 0, examples, twice, v))
turned = np.roll(X.reshape(2, 2, 12), 5, -1).reshape(X.shape)
both = weft.vmap(f)(np.stack([X, W]))
np.testing.assert_array_equal(np.asarray(both)[0], np.stack([2 * X[0], turned[1]]))
"""

FREE = """
warnings.simplefilter("ignore")
weft.config.update("overlap_gathers", True)
place = lambda *spec: weft.NamedSharding(mesh, P(*spec))


def partly(v):  # the partitioner and the function communicate in one branch
    moved = lambda v: lax.ppermute(wnp.roll(v, 1, 0) @ (wnp.ones((6, 6)) + v.sum()), "a", SWAP)
    return lax.cond(m() > 0, moved, twice, v[0, 0])[None, None]


rolled = np.roll(X, 1, 2)
product = rolled.sum(-1, keepdims=True) * (1 + X.sum((2, 3), keepdims=True))
want = np.stack([2 * X[0], np.flip(np.broadcast_to(product, X.shape), 1)[1]])
for partitioner in ("weft", "xla"):
    for check_vma in (True, False):
        f = weft.shard_map(
            partly, mesh=mesh, in_specs=P("m", "a"), out_specs=P("m", "a"), axis_names={"m", "a"},
            check_vma=check_vma,
        )
        f = weft.jit(f, in_shardings=place("m", "a", "b"), partitioner=partitioner)
        np.testing.assert_allclose(np.asarray(f(X)), want, rtol=1e-4, atol=1e-5)
gathered = lambda v: lax.all_gather(v, "a", tiled=True) @ wnp.ones((6, 2))
alone = lambda v: wnp.concatenate([v, v]) @ wnp.ones((6, 2))
f = on_devices(lambda v: lax.cond(m() > 0, gathered, alone, v[None]))
sums = np.stack([np.stack([X[0]] * 2, 2), np.stack([X[1].swapaxes(0, 1)] * 2)]).sum(-1)
np.testing.assert_allclose(np.asarray(f(X))[..., 0], sums, rtol=1e-5)
"""


@pytest.mark.parametrize("part", ["VALUES", "DERIVATIVES", "OTHERS", "FREE"])
def test_devices_that_take_a_branch_or_loop_communicate_among_themselves(part):
    program = PROGRAM + globals()[part]
    subprocess.run([sys.executable, "-"], input=program, text=True, check=True, timeout=300)


def lowered(body) -> str:
    mesh = mesh_of(Machine(x=2, y=2), ("x", "y"))
    spec = P(("x", "y"))
    mapped = weft.shard_map(body, mesh=mesh, in_specs=spec, out_specs=spec)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return weft.jit(mapped).lower(np.ones(4, np.float32)).as_text()


def swapped(v):
    return lax.ppermute(v, "y", [(0, 1), (1, 0)])


def test_only_what_some_devices_do_not_reach_is_gathered_on_the_cpu():
    scanned = lambda v: lax.scan(lambda c, _: (swapped(c), None), v, None, length=3)[0]
    alike = lambda v: lax.cond(lax.psum(v.sum(), ("x", "y")) > 1, scanned, lambda v: v, v)
    text = lowered(alike)
    assert "stablehlo.collective_permute" in text and "all_gather" not in text
    text = lowered(lambda v: lax.cond(lax.axis_index("x") > 0, swapped, lambda v: v, swapped(v)))
    assert text.count("stablehlo.collective_permute") == text.count('"stablehlo.all_gather"') == 1


def test_a_collective_along_an_axis_on_which_it_depends_whether_it_runs_is_warned_of():
    with pytest.raises(UserWarning, match="may differ along 'y', over which ppermute"):
        lowered(lambda v: lax.cond(lax.psum(v.sum(), "x") > 1, swapped, lambda v: v, v))


def test_what_would_wait_for_ever_under_xlas_partitioner_is_left_to_wefts():
    mesh = weft.make_mesh((2, 4), ("m", "a"), (weft.AxisType.Auto,) * 2)
    x = weft.device_put(np.arange(8.0), weft.NamedSharding(mesh, P("a")))

    def lower(decide):
        body = lambda v: lax.cond(decide(v) > 0, lambda v: weft.numpy.roll(v, 1), lambda v: v, v)
        f = weft.shard_map(body, mesh=mesh, in_specs=P(), out_specs=P("m"), axis_names={"m"})
        return weft.jit(f, partitioner="xla").lower(x)

    with pytest.warns(UserWarning, match=r"by weft, not XLA: .* wait for all devices on the CPU"):
        lower(lambda v: lax.axis_index("m"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lower(lambda v: v.sum())
