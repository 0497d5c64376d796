"""`python -m benchmarks.library_speed`: training steps of libraries written for JAX, on both.

The environment is that of `make libraries`, or the Python that `--python` names, where JAX, optax,
equinox, flax and diffrax are installed. Each case runs in a process of its own on either side, in
turns; the ratios weft ÷ JAX of the first step (tracing and compiling), of the steady step and of
the first step of a process that finds all programs in its side's compilation cache on disk are of
CPU time, the medians over the rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.bytecode import compile_weft

ROOT = Path(__file__).parent.parent


def _adamw(jitted: bool) -> Callable:
    import jax
    import jax.numpy as jnp
    import optax

    params = {f"layer {i}": jnp.full((16, 16), 0.1) for i in range(200)}
    optimizer = optax.adamw(1e-3)
    state = optimizer.init(params)

    def update(params: Any, state: Any) -> Any:
        updates, state = optimizer.update(params, state, params)
        return optax.apply_updates(params, updates), state

    step = jax.jit(update) if jitted else update
    return lambda: step(params, state)


def _equinox_mlp() -> Callable:
    import equinox as eqx
    import jax
    import jax.numpy as jnp
    import optax

    model = eqx.nn.MLP(32, 1, 64, 3, key=jax.random.key(0))
    optimizer = optax.adam(1e-3)
    state = optimizer.init(eqx.filter(model, eqx.is_array))
    x, y = jnp.ones((64, 32)), jnp.ones((64, 1))

    @eqx.filter_jit
    def step(model: Any, state: Any) -> Any:
        loss = lambda m: jnp.mean((jax.vmap(m)(x) - y) ** 2)
        value, gradient = eqx.filter_value_and_grad(loss)(model)
        updates, state = optimizer.update(gradient, state)
        return eqx.apply_updates(model, updates), state, value

    return lambda: step(model, state)


def _nnx() -> Callable:
    import jax.numpy as jnp
    import optax
    from flax import nnx

    rngs = nnx.Rngs(0)
    layers = [nnx.Linear(32, 64, rngs=rngs), nnx.relu, nnx.Linear(64, 64, rngs=rngs), nnx.relu]
    model = nnx.Sequential(*layers, nnx.Linear(64, 1, rngs=rngs))
    optimizer = nnx.Optimizer(model, optax.adam(1e-3), wrt=nnx.Param)
    x, y = jnp.ones((64, 32)), jnp.ones((64, 1))

    @nnx.jit
    def step(model: Any, optimizer: Any) -> Any:
        loss = lambda m: jnp.mean((m(x) - y) ** 2)
        value, gradient = nnx.value_and_grad(loss)(model)
        optimizer.update(model, gradient)
        return value

    return lambda: step(model, optimizer)


def _diffrax() -> Callable:
    import diffrax
    import jax
    import jax.numpy as jnp

    term = diffrax.ODETerm(lambda t, y, args: -args * y)
    controller = diffrax.PIDController(rtol=1e-5, atol=1e-5)

    @jax.jit
    def solve(y0: Any) -> Any:
        return diffrax.diffeqsolve(
            term, diffrax.Tsit5(), 0.0, 3.0, 0.1, y0, jnp.arange(1.0, 9.0),
            stepsize_controller=controller,
        ).ys  # fmt: skip

    y0 = jnp.ones(8)
    return lambda: solve(y0)


CASES: dict[str, tuple[Callable, int]] = {
    "optax adamw, 200 leaves, eager": (lambda: _adamw(False), 5),
    "optax adamw, 200 leaves, jit": (lambda: _adamw(True), 200),
    "equinox MLP, filter_jit": (_equinox_mlp, 300),
    "flax nnx MLP, nnx.jit": (_nnx, 200),
    "diffrax solve": (_diffrax, 300),
}

_IMPORT = "import jax, jax.numpy, jax.lax, jax.random, jax.nn, jax.scipy.special, jax.sharding"


def measure(name: str) -> None:
    """Prints the CPU seconds of the first step, and of a steady one."""
    import jax

    make, count = CASES[name]
    step = make()
    started = time.process_time()
    jax.block_until_ready(step())
    first = time.process_time() - started
    jax.block_until_ready(step())
    times = []
    for _ in range(5):
        started = time.process_time()
        for _ in range(count):
            out = step()
        jax.block_until_ready(out)
        times.append((time.process_time() - started) / count)
    print(json.dumps([first, min(times)]))


def _cached(python: str, side: str, name: str, folder: str) -> list[float]:
    """CPU seconds as of `_run`, and of the first step with the cache of an earlier process."""
    if name == "import":
        return _run(python, side, name)
    cache = {
        "JAX_COMPILATION_CACHE_DIR": os.path.join(folder, side),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    _run(python, side, name, cache)  # fills it in the first round
    return [*_run(python, side, name), _run(python, side, name, cache)[0]]


def _run(python: str, side: str, name: str, cache: dict[str, str] | None = None) -> list[float]:
    prefix = [python, *(["-m", "weft.as_jax"] if side == "weft" else [])]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu", **(cache or {})}
    if name == "import":
        times = f"import time; s = time.process_time(); {_IMPORT}; print(time.process_time() - s)"
        return [float(subprocess.check_output([*prefix, "-c", times], env=env))]
    command = [*prefix, "-m", "benchmarks.library_speed", "--measure", name]
    return json.loads(subprocess.check_output(command, env=env, text=True).splitlines()[-1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", help="of the environment; default: that of `make libraries`")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(options.measure)
        return 0
    if options.python is None:
        from benchmarks.libraries import python

        options.python = python()
    compile_weft()
    folder = tempfile.mkdtemp()
    print("| case | first step | steady step | first step, cached |\n|--|--|--|--|")
    for name in ("import", *CASES):
        sides = ("jax", "weft")
        rounds = [
            [_cached(options.python, s, name, folder) for s in sides] for _ in range(options.rounds)
        ]
        ratios = [
            f"{statistics.median(weft[i] / jax[i] for jax, weft in rounds):.2f}"
            f" of {statistics.median(jax[i] for jax, _ in rounds) * 1e3:.3g} ms"
            for i in range(len(rounds[0][0]))
        ]
        print(f"| {name} | " + " | ".join(ratios) + " |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
