"""What XLA's partitioner has wrong is lowered for it in another form (quirks.GSPMD_WINDOWS)."""

import numpy as np
import pytest

import weft
from weft import NamedSharding, P, lax

BATCH, TIME, WIDTH, TAPS = 4, 8, 4, 2
NAMES = ("NWC", "WIO", "NWC")
MESHES = [(2, 2), (2, 4), (4, 1)]
SPECS = [P("x"), P(None, "x"), P(None, None, "x"), P("x", "y"), P(None, "x", "y")]


def on_mesh(sizes, spec, *args):
    """The arguments, the first of them split so and the others whole."""
    mesh = weft.make_mesh(sizes, ("x", "y"), (weft.AxisType.Auto,) * 2)
    specs = (spec, *(P(*(None,) * (a.ndim - 1), "y") for a in args[1:]))
    return [weft.device_put(a, NamedSharding(mesh, s)) for a, s in zip(args, specs, strict=True)]


def convolved(x, kernel, stride, groups):
    """The causal convolution along time, of double precision."""
    x, kernel = np.float64(x), np.float64(kernel)
    before = np.pad(x, ((0, 0), (TAPS - 1, 0), (0, 0)))
    out = 0.0
    for k in range(TAPS):
        part = before[:, k : k + TIME : stride]
        out = out + (part * kernel[k, 0] if groups > 1 else part @ kernel[k])
    return out


def pulled_back(x, kernel, ct, stride, groups):
    """The cotangents of the operand and the kernel."""
    before = np.pad(np.float64(x), ((0, 0), (TAPS - 1, 0), (0, 0)))
    to_x, to_kernel = np.zeros_like(before), np.zeros(kernel.shape)
    for k in range(TAPS):
        at = np.s_[:, k : k + TIME : stride]
        if groups > 1:
            to_kernel[k, 0] = (before[at] * ct).sum((0, 1))
            to_x[at] += ct * kernel[k, 0]
        else:
            to_kernel[k] = np.einsum("bti,bto->io", before[at], ct)
            to_x[at] += ct @ kernel[k].T
    return to_x[:, TAPS - 1 :], to_kernel


@pytest.mark.parametrize("spec", SPECS, ids=str)
@pytest.mark.parametrize("sizes", MESHES, ids=str)
@pytest.mark.parametrize(("stride", "groups"), [(1, 1), (2, 1), (1, WIDTH), (2, WIDTH)])
def test_gradients_of_convolutions_count_every_term_once(sizes, spec, stride, groups, rng):
    kernel = rng.normal(size=(TAPS, WIDTH // groups, WIDTH)).astype(np.float32)
    x = rng.normal(size=(BATCH, TIME, WIDTH)).astype(np.float32)
    ct = rng.normal(size=(BATCH, TIME // stride, WIDTH)).astype(np.float32)

    def run(x, kernel):
        layer = lambda x, kernel: lax.conv_general_dilated(
            x, kernel, (stride,), [(TAPS - 1, 0)], None, None, NAMES, groups
        )
        y, pull = weft.vjp(layer, x, kernel)
        return y, *pull(ct)

    got = weft.jit(run, partitioner="xla")(*on_mesh(sizes, spec, x, kernel))
    want = convolved(x, kernel, stride, groups), *pulled_back(x, kernel, ct, stride, groups)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(np.asarray(a), b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("spec", SPECS, ids=str)
@pytest.mark.parametrize("sizes", MESHES, ids=str)
def test_gradients_of_overlapping_maxima_reach_other_devices(sizes, spec, rng):
    x = rng.permutation(BATCH * TIME * WIDTH).reshape(BATCH, TIME, WIDTH).astype(np.float32)
    loss = lambda x: lax.reduce_window(
        x, -np.inf, lax.max, (1, 3, 1), (1, 1, 1), [(0, 0), (1, 1), (0, 0)]
    ).sum()
    want = np.zeros_like(x)
    for t in range(TIME):
        first = max(t - 1, 0)
        at = first + x[:, first : t + 2].argmax(1)
        np.add.at(want, (np.arange(BATCH)[:, None], at, np.arange(WIDTH)), 1)
    got = weft.jit(weft.grad(loss), partitioner="xla")(*on_mesh(sizes, spec, x))
    np.testing.assert_array_equal(np.asarray(got), want)


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_padding_that_takes_elements_away_of_split_dimensions(spec, rng):
    x = rng.normal(size=(BATCH, TIME, WIDTH)).astype(np.float32)
    cut = lambda x: lax.pad(x, np.float32(0), [(0, 0, 0), (-1, 2, 1), (0, 0, 0)])
    want = np.zeros((BATCH, 2 * TIME, WIDTH), np.float32)
    want[:, 1 : 2 * TIME - 2 : 2] = x[:, 1:]
    got = weft.jit(cut, partitioner="xla")(*on_mesh((2, 4), spec, x))
    np.testing.assert_array_equal(np.asarray(got), want)


def test_what_falls_back_is_lowered_again(monkeypatch, rng):
    import weft.partition.localize_rules.table  # noqa: F401  fills RULES
    from weft.partition.localize import RULES

    monkeypatch.delitem(RULES, "stablehlo.convolution")
    x = rng.normal(size=(BATCH, TIME, WIDTH)).astype(np.float32)
    kernel = rng.normal(size=(TAPS, 1, WIDTH)).astype(np.float32)

    def loss(x, kernel):
        return lax.conv_general_dilated(
            x, kernel, (1,), [(TAPS - 1, 0)], None, None, NAMES, WIDTH
        ).sum()

    with pytest.warns(UserWarning, match="partitioned by XLA"):
        got = weft.jit(weft.grad(loss, (0, 1)))(*on_mesh((2, 2), P("x"), x, kernel))
    want = pulled_back(x, kernel, np.ones_like(x), 1, WIDTH)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(np.asarray(a), b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["add", "max", "mul"])
@pytest.mark.parametrize("spec", [P("y", "x"), P(("y", "z"), "x"), P(None, ("x", "y"))], ids=str)
def test_scattered_updates_that_free_axes_split_are_combined(kind, spec, rng):
    """Without the mark in their computation XLA ends the process."""
    mesh = weft.make_mesh((2, 2, 2), ("x", "y", "z"), (weft.AxisType.Auto,) * 3)
    rows, where = rng.normal(size=(8, 16)).astype(np.float32), np.array([1, 3, 3, 7], np.int32)
    updates = rng.normal(size=(4, 16)).astype(np.float32)
    columns = P(None, "x")
    scatter = weft.shard_map(
        lambda rows, where, updates: getattr(rows.at[where], kind)(updates),
        mesh=mesh,
        in_specs=(columns, P(), columns),
        out_specs=columns,
        axis_names={"x"},
    )
    specs = (P("y", "x"), P("y"), spec)
    args = [
        weft.device_put(a, NamedSharding(mesh, s))
        for a, s in zip((rows, where, updates), specs, strict=True)
    ]
    got = weft.jit(scatter, partitioner="xla")(*args)
    ufunc = {"add": np.add, "max": np.maximum, "mul": np.multiply}[kind]
    ufunc.at(rows, where, updates)
    np.testing.assert_allclose(got, rows, rtol=1e-5)


@pytest.mark.parametrize("dims", [(0,), (1,), (2,), (1, 2), (0, 1, 2)], ids=str)
@pytest.mark.parametrize("spec", [P("y", "x"), P(None, "x", "y"), P(("x", "y"))], ids=str)
def test_transforms_of_split_arrays_are_laid_out_in_order(dims, spec, rng):
    x = rng.normal(size=(8, 8, 16)).astype(np.float32)
    (split,) = on_mesh((2, 2), spec, x)
    transform = weft.jit(lambda x: weft.numpy.fft.fftn(x, axes=dims) * 2, partitioner="xla")
    np.testing.assert_allclose(transform(split), 2 * np.fft.fftn(x, axes=dims), atol=2e-3)
