"""`lowered.stages`: every stage prints, diffs against its neighbour, and carries source lines."""

import numpy as np
import pytest

import weft
from weft import NamedSharding, P
from weft.driver.program_stages import NAMES


def lowered(mesh):
    place = lambda *spec: NamedSharding(mesh, P(*spec))
    function = weft.jit(
        lambda x, w: weft.numpy.tanh(x @ w),
        in_shardings=(place(None, "x"), place("x", None)),
        out_shardings=place(),
    )
    shape = lambda *s: weft.ShapeDtypeStruct(s, np.float32)
    return function.lower(shape(8, 16), shape(16, 4))


@pytest.fixture(scope="module")
def stages():
    mesh = weft.make_mesh((8,), ("x",), (weft.AxisType.Auto,))
    return lowered(mesh).stages


SIGNS = {
    "jaxpr": "dot_general",
    "stablehlo": "sdy.sharding",
    "propagated": "sdy.sharding_origins",
    "collectives": "sdy.all_reduce",
    "local": "stablehlo.all_reduce",
    "hlo": "all-reduce(",
    "optimized": "all-reduce",
}


@pytest.mark.parametrize("name", NAMES)
def test_each_stage_prints_what_it_is_for(stages, name):
    assert SIGNS[name] in str(stages[name]) and str(getattr(stages, name)) == str(stages[name])


@pytest.mark.parametrize("name", NAMES)
def test_each_stage_carries_source_lines_when_asked(stages, name):
    text = stages[name].text(sources=True)
    product = [line for line in text.splitlines() if "dot" in line]
    assert any("test_program_stages.py:" in line for line in product), text
    assert "// " not in str(stages[name])


def test_a_stage_diffs_against_the_one_before(stages):
    diff = stages.collectives.diff()
    assert diff.startswith("--- propagated\n+++ collectives")
    assert any(line.startswith("+") and "sdy.all_reduce" in line for line in diff.splitlines())
    assert stages.jaxpr.diff() == ""
    assert "+++ local" in stages.local.diff(stages.stablehlo)


def test_stages_are_listed_and_counted(stages):
    assert [s.name for s in stages] == list(NAMES) and len(stages) == 7
    assert "lines>" in repr(stages.local)


def test_a_stage_that_does_not_exist_names_those_that_do(stages):
    with pytest.raises(AttributeError, match="no stage 'global'; its stages are jaxpr, stablehlo"):
        stages.__getattr__("global")


def test_an_abstract_mesh_has_all_stages_but_the_last():
    mesh = weft.sharding.AbstractMesh((64,), ("x",))
    place = NamedSharding(mesh, P("x"))
    x = weft.ShapeDtypeStruct((128, 4), np.float32, sharding=place)
    made = weft.jit(lambda x: weft.numpy.sum(x, 0)).lower(x).stages
    assert "tensor<2x4xf32>" in str(made.local) and "all-reduce" in str(made.hlo)


def test_one_device_has_nothing_to_propagate():
    made = weft.jit(lambda x: x + 1).lower(np.ones(4, np.float32)).stages
    assert str(made.local) == str(made.stablehlo)


def test_programs_are_written_to_the_folder_that_is_set(tmp_path):
    weft.config.update("jax_dump_ir_to", str(tmp_path / "ir"))
    weft.config.update("jax_dump_ir_modes", "jaxpr,stablehlo")
    try:
        weft.jit(lambda x: weft.numpy.cos(x) + 7, inline=False)(np.ones(3))
    finally:
        weft.config.update("dump_ir_to", None)
        weft.config.update("dump_ir_modes", "stablehlo")
    jaxpr, stablehlo = sorted((tmp_path / "ir").iterdir())
    assert jaxpr.name.endswith("__lambda_.jaxpr.txt") and "cos" in jaxpr.read_text()
    assert stablehlo.name.endswith(".stablehlo.txt")
    assert "stablehlo.cosine" in stablehlo.read_text()
    with pytest.raises(ValueError, match="expected some of jaxpr, stablehlo, .*by commas"):
        weft.config.update("dump_ir_modes", "eqn_count_pprof")
