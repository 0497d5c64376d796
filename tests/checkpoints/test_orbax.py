"""Checkpoints that Orbax 0.12.8 wrote (`tests/checkpoints/orbax`) are read, and written like it."""

import json
import shutil
from pathlib import Path
from typing import NamedTuple

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


class Moments(NamedTuple):
    mu: object
    nu: object


def state():
    """The tree that Orbax wrote as step 5 of `zarr3`."""
    split = weft.NamedSharding(weft.make_mesh((4, 2), ("x", "y")), P(("x", "y")))
    w = np.arange(32, dtype=np.float32).reshape(8, 4)
    return {
        "w": weft.device_put(w, split),
        "o": Moments(weft.numpy.ones(2, "bfloat16"), np.arange(3)),
        "s": "text",
        "n": None,
        "i": 7,
        "e": ({}, [], ()),
        "k": weft.random.key(3),
    }


def assert_is_state(found):
    np.testing.assert_array_equal(found["w"], np.arange(32).reshape(8, 4))
    np.testing.assert_array_equal(np.asarray(found["o"].mu, np.float32), np.ones(2))
    np.testing.assert_array_equal(found["o"].nu, np.arange(3))
    assert (found["s"], found["n"], found["i"], found["e"]) == ("text", None, 7, ({}, [], ()))
    np.testing.assert_array_equal(weft.random.key_data(found["k"]), [0, 3])


def test_steps_of_a_manager_with_strings_keys_and_named_tuples_are_read():
    manager = weft.checkpoints.Manager(FOLDER / "zarr3", layout="orbax")
    assert manager.all_steps() == (5,)
    assert_is_state(manager.restore(like=state()))


def test_what_is_written_says_what_orbax_says(tmp_path):
    with weft.checkpoints.Manager(tmp_path, layout="orbax") as manager:
        manager.save(5, state())
    ours, theirs = tmp_path / "5" / "default", FOLDER / "zarr3" / "5" / "default"
    for name in ("_METADATA", "_sharding", "_strings.json", "array_metadatas/process_0"):
        mine, their = (json.loads((f / name).read_text()) for f in (ours, theirs))
        if name.startswith("array"):
            mine, their = (
                {x["array_metadata"]["param_name"]: x for x in y["array_metadatas"]}
                for y in (mine, their)
            )
            mine = {key: mine[key] for key in their}  # Orbax lists arrays of devices alone
        if name == "_sharding":
            mine, their = ({k: json.loads(v) for k, v in x.items()} for x in (mine, their))
        assert mine == their
    said = json.loads((tmp_path / "5" / "_CHECKPOINT_METADATA").read_text())
    assert said.keys() == json.loads((ours.parent / "_CHECKPOINT_METADATA").read_text()).keys()
    assert list(said["item_handlers"]) == ["default"]
    for zarr in theirs.glob("*/zarr.json"):
        here, there = (
            json.loads((f / zarr.parent.name / zarr.name).read_text()) for f in (ours, theirs)
        )
        assert all(here[k] == there[k] for k in ("shape", "data_type", "chunk_grid", "zarr_format"))


def test_what_is_written_comes_back_and_damage_is_named(tmp_path):
    weft.checkpoints.save(tmp_path / "c", state(), layout="orbax")
    assert_is_state(weft.checkpoints.restore(tmp_path / "c", state()))
    chunk = tmp_path / "c" / "w" / "c" / "3" / "0"
    content = bytearray(chunk.read_bytes())
    content[5] ^= 4
    chunk.write_bytes(content)
    with pytest.raises(weft.checkpoints.CheckpointError, match=r"\['w'\].*"):
        weft.checkpoints.restore(tmp_path / "c", state())


def test_steps_are_kept_deleted_and_left_ones_removed(tmp_path):
    (tmp_path / "7.orbax-checkpoint-tmp").mkdir()
    with weft.checkpoints.Manager(tmp_path, layout="orbax", max_to_keep=2) as manager:
        for step in range(4):
            manager.save(step, {"x": np.full(3, step)})
    assert sorted(p.name for p in tmp_path.iterdir()) == ["2", "3"]
    np.testing.assert_array_equal(manager.restore()["['x']"], [3, 3, 3])


@pytest.mark.parametrize(
    ("tree", "said"),
    [
        ({"a": {"b": 1}, "a.b": 2}, "the name of another leaf"),
        ({"a/b": 1}, "no name of a folder"),
        ({"..": {"x": np.ones(2)}, "_METADATA": 1}, "no name of a folder"),
        (np.ones(2), "wrap it in a dict"),
    ],
)
def test_names_that_the_layout_cannot_hold_are_refused(tmp_path, tree, said):
    with pytest.raises(ValueError, match=said):
        weft.checkpoints.save(tmp_path / "c", tree, layout="orbax")
    assert not (tmp_path / "c").exists()


def test_an_unknown_layout_is_refused(tmp_path):
    with pytest.raises(ValueError, match="layout must be 'weft' or 'orbax', got 'zarr'"):
        weft.checkpoints.save(tmp_path / "c", {"x": 1}, layout="zarr")
    with pytest.raises(ValueError, match="layout must be 'weft' or 'orbax', got 'zarr'"):
        weft.checkpoints.Manager(tmp_path, layout="zarr")
