"""The planning example: what it says of 4096 devices follows from the model's sizes."""

import numpy as np

import weft
from examples import gpt, plan


def test_data_parallel_steps_send_every_gradient_around_the_ring(monkeypatch, capsys):
    sizes = gpt.Sizes(layers=2, width=32, heads=4, length=16, vocabulary=64)
    monkeypatch.setattr(plan, "SIZES", sizes)
    report = weft.comm(plan.step, *plan.arguments(4096, 1, 4096))
    params = weft.eval_shape(lambda: gpt.init(weft.random.key(0), sizes))
    count = sum(int(np.prod(x.shape)) for x in weft.tree.leaves(params))
    # All gradients, and the token table twice: its uses as input and output are summed apart.
    most = 2 * 4 * (count + 64 * 32) * 4095 / 4096
    assert 2 * 4 * count * 0.9 < report.total_bytes < most * 1.05
    assert {c.axes for c in report.collectives} == {("data",)}


def test_each_layout_that_divides_is_a_line(monkeypatch, capsys):
    sizes = gpt.Sizes(layers=1, width=32, heads=8, length=16, vocabulary=64)
    monkeypatch.setattr(plan, "SIZES", sizes)
    plan.main(["--devices", "1024", "--batch", "512"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("1024 × h100, 512 sequences")
    assert [line.split()[:3] for line in lines[2:5]] == [
        ["512", "×", "2"],
        ["256", "×", "4"],
        ["128", "×", "8"],
    ]
