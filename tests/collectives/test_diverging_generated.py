"""Random programs of branches and loops that devices take differently, as the reference runs them.

On the reference machine, every device takes every branch and keeps what its own one gives: those
that communicate decide alike.
"""

import subprocess
import sys
from pathlib import Path

# A device that waits in a collective can only be stopped with its process.
PROGRAM = """
import os
os.environ["WEFT_NUM_CPU_DEVICES"] = "8"
import random
import warnings
import numpy as np
import weft
from tests import spmd_reference as ref
from weft import P, lax

warnings.simplefilter("error")
MACHINE = ref.Machine(m=2, a=2, b=2)
AXES = MACHINE.names
mesh = weft.make_mesh((2, 2, 2), AXES, (weft.AxisType.Auto,) * 3)


def sequence(r, depth, free):
    steps = [step(r, depth, free) for _ in range(r.randint(1, 3))]

    def run(v):
        for own, _ in steps:
            v = own(v)
        return v

    def meaning(value):
        for _, model in steps:
            value = model(value)
        return value

    return run, meaning


def step(r, depth, free):
    # What a device does with its own value, and what becomes of the values of all.
    kinds = [communicate] * 3 * bool(free) + [branch, loop, scan] * (depth > 0)
    return r.choice(kinds)(r, depth, free) if kinds else (lambda v: v - 1, lambda x: combined(x, 1))


def combined(value, other):
    return {d: x - (other[d] if isinstance(other, dict) else other) for d, x in value.items()}


def communicate(r, depth, free):
    team = tuple(r.sample(free, r.randint(1, len(free))))
    size = MACHINE.size(team)
    some = r.randint(1, size)
    perm = list(zip(r.sample(range(size), some), r.sample(range(size), some)))
    source = r.randrange(size)
    function, model = r.choice([
        (lambda v: lax.ppermute(v, team, perm), lambda x: ref.ppermute(MACHINE, x, team, perm)),
        (
            lambda v: lax.ppermute_start(v, team, perm).done(),
            lambda x: ref.ppermute(MACHINE, x, team, perm),
        ),
        (
            lambda v: lax.precv(lax.psend(v, team, perm), v, team, perm),
            lambda x: ref.ppermute(MACHINE, x, team, perm),
        ),
        (lambda v: lax.pmax(v, team), lambda x: ref.pmax(MACHINE, x, team)),
        (
            lambda v: lax.pbroadcast(v, team, source),
            lambda x: ref.pbroadcast(MACHINE, x, team, source),
        ),
        (
            lambda v: lax.all_to_all(v, team, 0, 0, tiled=True),
            lambda x: ref.all_to_all(MACHINE, x, team, 0, 0, tiled=True),
        ),
    ])
    return lambda v: v - function(v), lambda x: combined(x, model(x))


def decided(r, free):
    axes = tuple(r.sample(AXES, r.randint(1, 2)))
    return axes, [a for a in free if a not in axes]


def branch(r, depth, free):
    axes, inside = decided(r, free)
    (yes, model_yes), (no, model_no) = (sequence(r, depth - 1, inside) for _ in range(2))

    def meaning(value):
        ways = model_no(value), model_yes(value)
        return {d: ways[MACHINE.index(d, axes) > 0][d] for d in value}

    return lambda v: lax.cond(lax.axis_index(axes) > 0, yes, no, v), meaning


def loop(r, depth, free):
    axes, inside = decided(r, free)
    body, model = sequence(r, depth - 1, inside)

    def meaning(value):
        for turn in range(MACHINE.size(axes)):
            after = model(value)
            value = {d: (after if turn < MACHINE.index(d, axes) else value)[d] for d in value}
        return value

    return lambda v: lax.fori_loop(0, lax.axis_index(axes), lambda _, v: body(v), v), meaning


def scan(r, depth, free):
    body, model = sequence(r, depth - 1, free)
    run = lambda v: lax.scan(lambda v, _: (body(v), None), v, None, length=2)[0]
    return run, lambda value: model(model(value))


x = np.random.default_rng(0).integers(-9, 9, size=(2, 2, 2, 8)).astype(np.float32)
for seed in range(12):
    run, meaning = sequence(random.Random(seed), 3, list(AXES))
    body = lambda v: lax.pvary(run(v[0, 0, 0]), AXES)[None, None, None]
    spec, check_vma = P(*AXES), seed % 2 == 0
    f = weft.shard_map(body, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=check_vma)
    want = MACHINE.stack(meaning(MACHINE.unstack(x)))
    np.testing.assert_array_equal(np.asarray(weft.jit(f)(x)), want, f"seed {seed}")
"""


def test_devices_that_run_different_parts_of_a_program_agree_with_the_reference():
    root, python = Path(__file__).parents[2], [sys.executable, "-"]
    subprocess.run(python, input=PROGRAM, text=True, check=True, timeout=300, cwd=root)
