"""Checkpoints that Orbax 0.12.8 wrote (`tests/checkpoints/orbax`) are restored."""

import shutil
from pathlib import Path

import numpy as np
import pytest

import weft
from weft import P

pytest.importorskip("tensorstore")
FOLDER = Path(__file__).parent / "orbax"
TREE = {
    "['params']['w']": np.arange(12, dtype=np.float32).reshape(3, 4),
    "['params']['b']": np.arange(3),
    "['layers'][0]": np.ones(2),
    "['layers'][1]": np.zeros(()),
    "['step']": 7,
}


@pytest.mark.parametrize("name", ["ocdbt", "zarr", "step"])
def test_every_layout_is_read_whole(name):
    found = weft.checkpoints.restore(FOLDER / name)
    assert found.keys() == TREE.keys()
    for key, value in TREE.items():
        np.testing.assert_array_equal(np.asarray(found[key], np.float64), value)
    assert found["['layers'][0]"].dtype == "bfloat16" and found["['params']['b']"].dtype == "int64"


@pytest.mark.parametrize("name", ["ocdbt", "zarr", "step"])
def test_a_part_is_read_onto_a_mesh_with_another_dtype(name):
    split = weft.NamedSharding(weft.make_mesh((4,), ("x",)), P(None, "x"))
    like = {
        "params": {"w": weft.ShapeDtypeStruct((3, 4), "bfloat16", sharding=split)},
        "layers": [np.zeros(2, np.float32)],
        "step": 0,
    }
    found = weft.checkpoints.restore(FOLDER / name, like)
    assert found["params"]["w"].sharding.spec == P(None, "x")
    np.testing.assert_array_equal(
        np.asarray(found["params"]["w"], np.float32), TREE["['params']['w']"]
    )
    assert found["step"] == 7 and found["layers"][0].dtype == np.float32


def test_what_is_missing_or_damaged_is_named(tmp_path):
    with pytest.raises(weft.checkpoints.CheckpointError, match=r"no \['params'\]\['v'\]"):
        weft.checkpoints.restore(FOLDER / "ocdbt", {"params": {"v": np.zeros(3)}})
    with pytest.raises(weft.checkpoints.CheckpointError, match="`like` has float64"):
        weft.checkpoints.restore(FOLDER / "zarr", {"params": {"w": np.zeros(3)}})
    copy = tmp_path / "copy"
    shutil.copytree(FOLDER / "ocdbt", copy)
    (copy / "_METADATA").write_text("{")
    with pytest.raises(weft.checkpoints.CheckpointError, match="_METADATA is damaged"):
        weft.checkpoints.restore(copy)
    shutil.rmtree(copy)
    shutil.copytree(FOLDER / "zarr", copy)
    shutil.rmtree(copy / "params.w")
    with pytest.raises(weft.checkpoints.CheckpointError, match=r"\['params'\]\['w'\] of"):
        weft.checkpoints.restore(copy)
