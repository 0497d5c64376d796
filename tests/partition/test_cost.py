"""The α-β model and its presets."""

import pytest

from weft.partition.cost import CPU, H100, PRESETS, TPU_V5P, HardwareModel, Link, hardware


def test_time_is_steps_times_latency_plus_bytes_over_bandwidth():
    model = HardwareModel("m", levels=((None, Link(1e-6, 1e9)),))
    assert model.seconds("all_reduce", 4, 4, 3e6) == pytest.approx(6e-6 + 3e-3)
    assert model.seconds("collective_permute", 2, 2, 1e6) == pytest.approx(1e-6 + 1e-3)
    assert model.seconds("all_gather", 8, 8, 0) == pytest.approx(7e-6)


def test_groups_inside_a_node_use_the_fast_links():
    inside = H100.seconds("all_gather", 8, 8, 1e9)
    across = H100.seconds("all_gather", 8, 57, 1e9)
    assert inside == pytest.approx(1e9 / 450e9, rel=0.05)
    assert across == pytest.approx(1e9 / 50e9, rel=0.05)


def test_an_axis_with_its_own_link_overrides_the_levels():
    model = HardwareModel(
        "m", levels=((None, Link(0, 1e9)),), axes={"model": Link(0, 4e9), "data": Link(0, 2e9)}
    )
    assert model.seconds("collective_permute", 2, 2, 8e9, ("model",)) == pytest.approx(2)
    assert model.seconds("collective_permute", 2, 2, 8e9, ("model", "data")) == pytest.approx(4)
    assert model.seconds("collective_permute", 2, 2, 8e9, ("model:(2)2",)) == pytest.approx(2)


TPUS = ("tpu_v5p", "tpu_v5e", "tpu_v6e")


def test_presets_cite_their_sources_and_are_found_by_name():
    assert set(PRESETS) == {"cpu", "a100", "h100", "h200", "b200", *TPUS}
    assert all(len(m.source) > 40 and m.memory_bytes > 1e9 for m in PRESETS.values())
    assert hardware("tpu_v5p") is TPU_V5P and hardware(None) is CPU


def test_an_unknown_preset_lists_those_there_are():
    with pytest.raises(ValueError, match="'b100' is unknown; presets are cpu, a100, h100"):
        hardware("b100")


BAD_MODELS = {
    "levels of numbers": ({"levels": (3,)}, TypeError, "levels must be a tuple of pairs"),
    "no link": ({"levels": ((None, 3.0),)}, TypeError, "levels must be a tuple of pairs"),
    "axes": ({"axes": {"x": 3}}, TypeError, "axes must give a Link"),
    "name": ({"name": 3}, TypeError, "name must be a string"),
    "flops": ({"peak_flops": "fast"}, ValueError, "peak_flops must be a number"),
    "memory": ({"memory_bytes": -1}, ValueError, "memory_bytes must be a number"),
}


@pytest.mark.parametrize("case", BAD_MODELS)
def test_a_field_of_another_kind_is_named(case):
    changes, error, match = BAD_MODELS[case]
    fields = {"name": "m", "levels": ((None, Link(1e-6, 1e9)),), **changes}
    with pytest.raises(error, match=match):
        HardwareModel(**fields)


@pytest.mark.parametrize("levels", [(), ((8, Link(1e-6, 0.0)),), ((0, Link(1e-6, 1e9)),)])
def test_a_model_that_makes_no_sense_is_refused(levels):
    with pytest.raises(ValueError, match="HardwareModel"):
        HardwareModel("m", levels=levels)
