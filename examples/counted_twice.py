"""Gradients that XLA's partitioner counts twice, or not: `python -m examples.counted_twice`.

Where the terms of a convolution's weight gradient are split over one axis of a mesh, and the mesh
has another axis, the partitioner of XLA (JAX 0.10.2) adds up over all devices: the gradient is
`size of the other axis` times too large, without a word. Of overlapping maxima over a split
dimension it loses terms at the borders, on every mesh. Each program runs on weft in this process
and on JAX, where it is installed, in a second one; NumPy on the host has the gradients.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import subprocess
import sys
from typing import Any

import numpy as np

MESHES = ((2, 2), (2, 4))
BATCH, TIME, WIDTH, TAPS = 4, 8, 4, 2


def depthwise(xx: Any, weights: Any, x: Any) -> Any:
    """Each feature with a filter of its own, as in Mamba, Griffin and ConvNeXt."""
    return xx.lax.conv_general_dilated(
        x, weights, (1,), [(TAPS - 1, 0)], None, None, ("NWC", "WIO", "NWC"), x.shape[-1]
    )


def ordinary(xx: Any, weights: Any, x: Any) -> Any:
    """All features together: the simplest convolution there is."""
    return xx.lax.conv_general_dilated(
        x, weights, (1,), [(TAPS - 1, 0)], None, None, ("NWC", "WIO", "NWC")
    )


def largest(xx: Any, weights: Any, x: Any) -> Any:
    """The largest of three neighbours in time, of scaled features."""
    sizes = (1, 3, 1), (1, 1, 1)
    return xx.lax.reduce_window(weights * x, -np.inf, xx.lax.max, *sizes, "SAME")


def recurrent(xx: Any, weights: Any, x: Any) -> Any:
    """A real-gated linear recurrent unit behind the depthwise convolution (Griffin, De 2024)."""
    u = depthwise(xx, weights, x)
    gate = xx.nn.sigmoid(u)
    decay = xx.numpy.exp(-gate)
    terms = xx.numpy.sqrt(1 - decay**2) * gate * u

    def step(state: Any, now: Any) -> tuple[Any, Any]:
        state = now[0] * state + now[1]
        return state, state

    by_time = xx.tree.map(lambda a: xx.numpy.moveaxis(a, 1, 0), (decay, terms))
    return xx.lax.scan(step, xx.numpy.zeros_like(u[:, 0]), by_time)[1]


CASES: dict[str, tuple[Any, tuple[Any, ...], tuple[int, ...]]] = {
    "depthwise, batch split": (depthwise, ("data",), (TAPS, 1, WIDTH)),
    "depthwise, time split": (depthwise, (None, "data"), (TAPS, 1, WIDTH)),
    "ordinary, time split": (ordinary, (None, "data"), (TAPS, WIDTH, WIDTH)),
    "overlapping maxima, time split": (largest, (None, "data"), (1, 1, WIDTH)),
    "recurrent unit, batch split": (recurrent, ("data",), (TAPS, 1, WIDTH)),
}


def inputs(name: str) -> tuple[Any, ...]:
    """The weights and the batch of a case."""
    rng = np.random.default_rng(0)
    shape = CASES[name][2]
    return tuple(np.asarray(rng.normal(size=s), np.float32) for s in (shape, (BATCH, TIME, WIDTH)))


def gradients(library: str, sizes: tuple[int, ...]) -> dict[str, Any]:
    """The gradient of the sum of squares by the weights, on a mesh (data, model), for each case."""
    xx = importlib.import_module(library)
    mesh = xx.make_mesh(sizes, ("data", "model"), (xx.sharding.AxisType.Auto,) * 2)
    out: dict[str, Any] = {}
    for name, (layer, spec, _) in CASES.items():

        def loss(w: Any, x: Any, layer: Any = layer) -> Any:
            return (layer(xx, w, x) ** 2).sum()

        placed = tuple(xx.NamedSharding(mesh, xx.P(*s)) for s in ((), spec))
        out[name] = np.asarray(xx.jit(xx.grad(loss), in_shardings=placed)(*inputs(name)))
    return out


def _loss(name: str, weights: Any, x: Any) -> Any:
    """The sum of squares on the host, in double precision."""
    layer = CASES[name][0]
    if layer is largest:
        around = np.pad(weights * x, ((0, 0), (1, 1), (0, 0)), constant_values=-np.inf)
        return (np.max([around[:, k : k + TIME] for k in range(3)], 0) ** 2).sum()
    before = np.pad(x, ((0, 0), (TAPS - 1, 0), (0, 0)))
    parts = (before[:, k : k + TIME] for k in range(TAPS))
    if layer is ordinary:
        return (np.sum([p @ w for p, w in zip(parts, weights, strict=True)], 0) ** 2).sum()
    u: Any = np.sum([p * w[0] for p, w in zip(parts, weights, strict=True)], 0)
    if layer is depthwise:
        return (u**2).sum()
    gate = 1 / (1 + np.exp(-u))
    decay = np.exp(-gate)
    terms, state, total = np.sqrt(1 - decay**2) * gate * u, 0.0, 0.0
    for t in range(TIME):
        state = decay[:, t] * state + terms[:, t]
        total += (state**2).sum()
    return total


def expected(name: str, step: float = 1e-5) -> Any:
    """The gradient by central differences."""
    weights, x = (np.asarray(a, np.float64) for a in inputs(name))
    out = np.zeros_like(weights)
    for index in np.ndindex(*weights.shape):
        change = np.zeros_like(weights)
        change[index] = step
        more, less = (_loss(name, weights + sign * change, x) for sign in (1, -1))
        out[index] = (more - less) / (2 * step)
    return out


def errors(library: str) -> dict[str, float]:
    """The largest relative error of each case on each mesh."""
    found: dict[str, float] = {}
    for sizes in MESHES:
        for name, got in gradients(library, sizes).items():
            want = expected(name)
            error = float(abs(got - want).max() / abs(want).max())
            found[f"{name}, {sizes[0]} × {sizes[1]}"] = error
    return found


def main() -> dict[str, dict[str, float]]:
    """Print both libraries' errors side by side; return them."""
    rows = {"weft": errors("weft")}
    if importlib.util.find_spec("jax"):
        flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu"}
        command = [sys.executable, "-m", "examples.counted_twice", "jax"]
        done = subprocess.run(command, env=os.environ | flags, capture_output=True, check=True)
        rows["jax"] = json.loads(done.stdout)
    print(f"{'gradient of the weights':40}" + "".join(f"{library:>9}" for library in rows))
    for name in rows["weft"]:
        print(f"{name:40}" + "".join(f"{found[name]:9.0e}" for found in rows.values()))
    return rows


if __name__ == "__main__":
    os.environ.setdefault("WEFT_NUM_CPU_DEVICES", "8")
    if sys.argv[1:] == ["jax"]:
        print(json.dumps(errors("jax")))
    else:
        main()
