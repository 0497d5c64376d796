"""What notebooks show of meshes and shardings."""

import re

import pytest

import weft
from weft import NamedSharding, P

MESH = weft.sharding.AbstractMesh((4, 2), ("data", "model"))


def colours(svg: str) -> list[str]:
    return re.findall(r'fill="([^"]*)"', svg)


@pytest.mark.parametrize(
    "mesh", [MESH, weft.make_mesh((4, 2), ("data", "model"))], ids=["abstract", "mesh"]
)
def test_a_mesh_is_drawn_with_a_cell_for_each_device(mesh):
    html = mesh._repr_html_()
    assert "data = 4 × model = 2: 8 devices" in html
    assert re.findall(r">(\d)</text>", html) == [*"01234567"] and len(set(colours(html))) == 8


@pytest.mark.parametrize(
    ("spec", "parts", "holders"),
    [
        (P(), 1, [0] * 8),
        (P("data"), 4, [0, 0, 1, 1, 2, 2, 3, 3]),
        (P(None, "model"), 2, [0, 1] * 4),
        (P("data", "model"), 8, [*range(8)]),
        (P(("model", "data")), 8, [0, 4, 1, 5, 2, 6, 3, 7]),
    ],
)
def test_a_sharding_shows_its_parts_and_who_holds_which(spec, parts, holders):
    html = NamedSharding(MESH, spec)._repr_html_()
    value, devices = re.findall(r"<svg.*?</svg>", html)
    shades = colours(value)
    assert len(set(shades)) == parts
    order = sorted(set(shades), key=lambda c: int(re.search(r"\d+", c)[0]))
    assert [order.index(c) for c in colours(devices)] == holders
    assert repr(spec).replace("'", "&#x27;") in html
