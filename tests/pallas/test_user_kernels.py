"""Kernels of users: interpreted, native, on the GPU's IR; under jit, vmap, shard_map and grad."""

import numpy as np
import pytest

import weft
import weft.pallas as pl
from tests.pallas import triton_machine
from tests.pallas.user_kernels import KERNELS


def close(got, want, tolerance=1e-4):
    got = got if isinstance(got, tuple | list) else [got]
    want = want if isinstance(want, tuple | list) else [want]
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(np.asarray(g), w, rtol=tolerance, atol=tolerance)


def draws(case, rng, count):
    """Several inputs, and each of them stacked."""
    each = [case.inputs(rng) for _ in range(count)]
    return each, [np.stack(xs) for xs in zip(*each, strict=True)]


def stacked_reference(case, each):
    wants = [case.reference(*args) for args in each]
    if isinstance(wants[0], tuple):
        return [np.stack(w) for w in zip(*wants, strict=True)]
    return np.stack(wants)


cases = pytest.mark.parametrize("case", KERNELS.values(), ids=KERNELS)
executors = pytest.mark.parametrize("interpret", [True, False], ids=["interpreted", "native"])
differentiable = {n: c for n, c in KERNELS.items() if c.gradient}


@cases
@executors
def test_a_kernel_gives_what_numpy_says(case, interpret, rng):
    args = case.inputs(rng)
    close(case.run(*args, interpret=interpret), case.reference(*args))


@cases
@executors
def test_a_kernel_mapped_over_draws_gives_each_its_own(case, interpret, rng):
    each, stacked = draws(case, rng, 2)
    f = weft.jit(weft.vmap(lambda *args: case.run(*args, interpret=interpret)))
    close(f(*stacked), stacked_reference(case, each))


@cases
def test_a_kernel_runs_on_each_shard(case, rng):
    mesh = weft.make_mesh((2,), ("d",))
    each, stacked = draws(case, rng, 2)
    stacked = [weft.device_put(x, weft.NamedSharding(mesh, weft.P("d"))) for x in stacked]

    def on_shard(*args):
        out = case.run(*(a[0] for a in args))
        return weft.tree.map(lambda x: x[None], out)

    f = weft.shard_map(
        on_shard, mesh=mesh, in_specs=weft.P("d"), out_specs=weft.P("d"), check_vma=False
    )
    close(weft.jit(f)(*stacked), stacked_reference(case, each))


@pytest.mark.parametrize("case", differentiable.values(), ids=differentiable)
@executors
def test_a_kernel_has_the_gradient_of_its_backward_kernel(case, interpret, rng):
    args = case.inputs(rng)

    def loss(*args):
        return (case.run(*args, interpret=interpret) ** 2).sum() / 2

    close(weft.jit(weft.grad(loss, argnums=case.wrt))(*args), case.gradient(*args), 1e-3)


@pytest.fixture
def triton(monkeypatch):
    """pallas_call runs its Triton IR on the host."""
    monkeypatch.setattr(pl, "pallas_call", triton_machine.pallas_call)


@cases
def test_a_kernels_triton_ir_gives_what_numpy_says(case, triton, rng):
    args = case.inputs(rng)
    close(case.run(*args), case.reference(*args))


@pytest.mark.parametrize("case", differentiable.values(), ids=differentiable)
def test_the_triton_ir_of_backward_kernels_gives_gradients(case, triton, rng):
    args = case.inputs(rng)
    loss = weft.grad(lambda *args: (case.run(*args) ** 2).sum() / 2, argnums=case.wrt)
    close(loss(*args), case.gradient(*args), 1e-3)
