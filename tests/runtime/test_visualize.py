"""Drawings of shardings."""

import numpy as np
import pytest

import weft
from weft.debug import visualize_array_sharding
from weft.runtime.device_put import device_put
from weft.runtime.visualize import sharding_text, visualize_sharding
from weft.sharding.mesh import make_mesh
from weft.sharding.named import NamedSharding
from weft.sharding.spec import P

MESH = make_mesh((4, 2), ("x", "y"))


def test_a_matrix_is_drawn_as_a_grid_of_parts():
    assert sharding_text((8, 8), NamedSharding(MESH, P("y"))) == (
        "┌─────────────┐\n│ CPU 0,2,4,6 │\n├─────────────┤\n│ CPU 1,3,5,7 │\n└─────────────┘"
    )


def test_a_vector_is_drawn_as_a_row_that_fits_the_width():
    text = sharding_text((8,), NamedSharding(MESH, P(("x", "y"))), max_width=60)
    lines = text.splitlines()
    assert len(lines) == 3 and all(len(line) <= 60 for line in lines)
    assert [f"CPU {i}" in lines[1] for i in range(8)] == [True] * 8


def test_visualize_prints_the_drawing(capsys):
    sharding = NamedSharding(MESH, P("x", "y"))
    visualize_sharding((8, 8), sharding)
    assert capsys.readouterr().out.strip() == sharding_text((8, 8), sharding)
    visualize_array_sharding(device_put(np.ones((2, 2))))
    assert "CPU 0" in capsys.readouterr().out


def test_other_ranks_are_refused():
    with pytest.raises(ValueError, match="rank 1 or 2"):
        visualize_sharding((2, 2, 2), NamedSharding(MESH, P()))


def test_inside_jit_types_over_explicit_axes_tell_the_placement(capsys):
    seen = []

    def f(x):
        weft.debug.inspect_array_sharding(x.T, callback=seen.append)
        weft.debug.visualize_array_sharding(x)
        return x

    weft.jit(f)(device_put(np.ones((8, 8)), NamedSharding(MESH, P("x"))))
    assert [s.spec for s in seen] == [P(None, "x")]
    assert seen[0].device_set == set(weft.devices())
    assert "CPU 0,1" in capsys.readouterr().out


def test_an_array_tells_its_sharding():
    seen = []
    x = device_put(np.ones((8, 8)), NamedSharding(MESH, P("y")))
    weft.debug.inspect_array_sharding(x, callback=seen.append)
    assert seen == [x.sharding]


def test_cells_are_stretched_by_a_scale(capsys):
    sharding = NamedSharding(MESH, P("x"))
    for scale in (1.0, 2.0):
        weft.debug.visualize_sharding((8,), sharding, scale=scale, max_width=120)
    narrow, wide = (line for line in capsys.readouterr().out.splitlines() if "┌" in line)
    assert len(narrow.split("┬")[1]) * 2 == len(wide.split("┬")[1])
    with pytest.raises(ValueError, match="scale must be positive"):
        weft.debug.visualize_sharding((8,), sharding, scale=0)


def test_a_color_map_gives_the_colors_of_the_parts(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLORTERM", "truecolor")
    weft.debug.visualize_sharding(
        (8,), NamedSharding(MESH, P("x")), color_map=lambda level: (level, 0.0, 1.0, 1.0)
    )
    out = capsys.readouterr().out
    assert "48;2;0;0;255m" in out and "48;2;255;0;255m" in out
