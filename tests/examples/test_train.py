"""The training example: layouts agree, losses fall, a killed run goes on where it was."""

import re
import signal
from functools import partial

import numpy as np
import pytest

import weft
from examples import adamw, gpt, train
from examples.text import Text, batch
from tests.processes import end, python, start

SMALL = partial(gpt.Sizes, layers=2, width=16, heads=2, length=16)


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(gpt, "Sizes", SMALL)


def arguments(*words):
    return train.parse(["--batch", "8", "--steps", "20", *words])


def test_layouts_agree_and_the_loss_falls(small):
    args = arguments()
    text = Text()
    sizes = gpt.Sizes(vocabulary=len(text.alphabet))
    runs = [train.Run(layout, sizes, args) for layout in train.LAYOUTS]
    seen = []
    for step in range(10):
        crops = batch(text.train, args.batch, sizes.length, (0, step))
        seen.append([run.advance(crops) for run in runs])
    assert np.ptp(seen, axis=1).max() < 1e-4
    assert seen[-1][0] < seen[0][0] - 0.3


def test_scanned_and_unrolled_blocks_give_one_loss(small):
    sizes = gpt.Sizes(vocabulary=92)
    params = gpt.init(weft.random.key(0), sizes)
    crops = batch(Text().train, 2, sizes.length, (0, 0))
    losses = [
        gpt.loss(gpt.Sizes(vocabulary=92, scan=scan), params, crops) for scan in (True, False)
    ]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)


def test_the_first_loss_is_that_of_guessing(small):
    """Logits of a fresh model are small, so the loss is close to log of the alphabet's size."""
    sizes = gpt.Sizes(vocabulary=92)
    params = gpt.init(weft.random.key(0), sizes)
    loss = gpt.loss(sizes, params, batch(Text().train, 4, sizes.length, (0, 0)))
    assert abs(float(loss) - np.log(92)) < 1.0


def test_a_position_sees_only_those_before_it(small):
    sizes = gpt.Sizes(vocabulary=92)
    params = gpt.init(weft.random.key(0), sizes)
    ids = np.arange(sizes.length)[None]
    changed = ids.copy()
    changed[0, 10] = 50
    before, after = gpt.logits(sizes, params, ids), gpt.logits(sizes, params, changed)
    np.testing.assert_allclose(before[0, :10], after[0, :10], rtol=1e-5, atol=1e-5)
    assert np.abs(np.asarray(before[0, 10:] - after[0, 10:])).max() > 1e-3


def test_adamw_moves_as_its_formula_says():
    p, g = np.array([[1.0, -2.0]], np.float32), np.array([[0.3, -0.4]], np.float32)
    state = adamw.update(adamw.start({"w": p}), {"w": g}, 0.1)
    m, s = 0.1 * g / (1 - 0.9), 0.02 * g * g / (1 - 0.98)
    want = p - 0.1 * (m / (np.sqrt(s) + 1e-8) + 0.05 * p)
    np.testing.assert_allclose(state.params["w"], want, rtol=1e-5)
    assert int(state.step) == 1


def test_gradients_are_scaled_down_to_norm_one():
    g = np.array([30.0, -40.0], np.float32)
    state = adamw.update(adamw.start({"w": np.zeros(2, np.float32)}), {"w": g}, 0.1)
    np.testing.assert_allclose(state.mean["w"], 0.1 * g / 50, rtol=1e-5)


def test_the_rate_rises_then_falls_to_a_tenth():
    rates = [float(adamw.rate(np.int32(s), 1.0, 10, 100)) for s in (0, 9, 10, 55, 100)]
    np.testing.assert_allclose(rates, [0.1, 1.0, 1.0, 0.55, 0.1], atol=1e-6)


PROGRAM = """
import os, signal
from functools import partial
from examples import gpt, train
gpt.Sizes = partial(gpt.Sizes, layers=1, width=16, heads=2, length=16)
show = train.show

def show_and_die(step, *args):
    show(step, *args)
    if step == KILLED:
        os.kill(os.getpid(), signal.SIGKILL)

train.show = show_and_die
train.train(train.parse())
"""


def test_a_killed_run_goes_on_and_loses_only_the_step_in_flight(tmp_path):
    options = ["--layout", "single", "--batch", "2", "--steps", "6", "--out", tmp_path]
    killed = start(f"KILLED = 3\n{PROGRAM}", *options)
    [(out, errors)] = end(killed)
    assert killed.returncode == -signal.SIGKILL and " 3/6 " in out, errors

    def last_loss(output):
        (line,) = [line for line in output.splitlines() if " 6/6 " in line]
        return line.split("loss ")[1].split()[0]

    resumed, whole = (python(f"KILLED = 0\n{PROGRAM}", *options) for _ in range(2))
    # The step before the one in flight was being written.
    assert re.search("going on after step [12] ", resumed)
    assert "finished run; starting anew" in whole
    assert last_loss(resumed) == last_loss(whole)
