"""What notebooks show: the repr of every object, and a drawing of those that have one."""

import subprocess
import sys

import numpy as np
import pytest

import weft
from tests.web_page import parsed
from weft import NamedSharding, P

AUTO = (weft.AxisType.Auto,) * 2
MESH = weft.make_mesh((4, 2), ("a<b", "y&z"), axis_types=AUTO)
ROWS = NamedSharding(MESH, P("a<b"))
X = weft.device_put(np.arange(16, dtype=np.float32).reshape(8, 2), ROWS)


def loop(x):
    return weft.lax.scan(lambda c, _: (c * 2, c), x, None, 3)


DRAWN = {
    "mesh": (MESH, "a<b = 4 × y&z = 2: 8 devices"),
    "abstract_mesh": (MESH.abstract_mesh, "a<b = 4 × y&z = 2: 8 devices"),
    "sharding": (ROWS, "P('a<b',)"),
    "unconstrained": (NamedSharding(MESH, P(P.UNCONSTRAINED, "y&z")), "(–, y&z)"),
    "array": (X, "[8, 2] (a<b, –)"),
    "type": (weft.ShapeDtypeStruct((8, 2), "int8", sharding=ROWS), "[8, 2] (a<b, –)"),
    "closed_jaxpr": (weft.make_jaxpr(loop)(1.0), "scan"),
    "jaxpr": (weft.make_jaxpr(loop)(1.0).jaxpr, "scan"),
    "report": (weft.comm(weft.numpy.sum, X), "all_reduce"),
    "plan": (
        weft.comm(
            weft.numpy.sum,
            weft.ShapeDtypeStruct(
                (64,),
                "float32",
                sharding=NamedSharding(
                    weft.sharding.AbstractMesh((64,), ("pod<1>",), axis_types=AUTO[:1]),
                    P("pod<1>"),
                ),
            ),
            hardware="b200",
        ),
        "mesh pod<1>=64",
    ),
}
TEXT_ONLY = {
    "array_of_one_device": weft.device_put(np.ones(3), weft.devices()[0]),
    "its_sharding": weft.sharding.SingleDeviceSharding(weft.devices()[0]),
    "type_without_sharding": weft.ShapeDtypeStruct((3,), "float32"),
    "type_over_the_context": weft.ShapeDtypeStruct((8,), "float32", sharding=P("x")),
}


@pytest.mark.parametrize(("shown", "words"), DRAWN.values(), ids=DRAWN)
def test_notebooks_get_the_repr_and_html_that_escapes_names(shown, words):
    bundle = shown._repr_mimebundle_()
    assert list(bundle) == ["text/plain", "text/html"]
    assert bundle["text/plain"] == repr(shown)
    page = parsed(bundle["text/html"])
    assert words in page.text
    assert "script" not in page.tags and not page.links
    assert "a<b" not in bundle["text/html"] and "pod<1>" not in bundle["text/html"]


@pytest.mark.parametrize("shown", TEXT_ONLY.values(), ids=TEXT_ONLY)
def test_what_has_no_drawing_is_text(shown):
    assert shown._repr_mimebundle_() == {"text/plain": repr(shown)}


def test_an_array_that_was_deleted_still_shows():
    x = weft.device_put(np.ones((8, 2)), ROWS)
    x.delete()
    assert "deleted" in x._repr_mimebundle_()["text/html"]


@pytest.mark.parametrize(
    ("options", "kinds"),
    [
        ({"include": ["text/html"]}, {"text/html"}),
        ({"exclude": ["text/html"]}, {"text/plain"}),
        ({"include": ["image/png"]}, set()),
    ],
)
def test_a_front_end_says_which_kinds_it_wants(options, kinds):
    assert set(MESH._repr_mimebundle_(**options)) == kinds


def test_drawing_is_imported_only_when_something_is_shown():
    program = (
        "import sys, weft; before = set(sys.modules); "
        "assert not [m for m in before if m.startswith('html') or m.endswith('.drawing')]; "
        "weft.sharding.AbstractMesh((2,), ('x',))._repr_mimebundle_(); "
        "assert 'weft.sharding.drawing' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
