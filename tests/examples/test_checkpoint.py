"""Saved states come back: in one file, or part by part and over another mesh."""

import json
import warnings

import numpy as np
import pytest

import weft
from examples import checkpoint


def test_a_checkpoint_restores_values_and_shardings(tmp_path):
    mesh = weft.make_mesh((8,), ("data",))
    rows = weft.NamedSharding(mesh, weft.P("data"))
    state = {"a": weft.device_put(np.arange(8.0, dtype=np.float32), rows), "b": (np.int32(3),)}
    checkpoint.save(tmp_path / "state.npz", state)
    state["b"] = (weft.numpy.int32(0),)
    loaded = checkpoint.load(tmp_path / "state.npz", state)
    np.testing.assert_array_equal(loaded["a"], np.arange(8.0))
    assert loaded["a"].sharding == rows
    assert int(loaded["b"][0]) == 3


def test_a_checkpoint_of_another_model_is_refused(tmp_path):
    checkpoint.save(tmp_path / "state.npz", {"a": np.zeros(3, np.float32)})
    with pytest.raises(ValueError, match=r"\['a'\] is float32\(3,\)"):
        checkpoint.load(tmp_path / "state.npz", {"a": weft.numpy.zeros(4)})


def test_a_damaged_checkpoint_is_named_or_gives_what_was_saved(tmp_path, rng):
    path, want = tmp_path / "state.npz", rng.standard_normal((2, 30)).astype(np.float32)
    like = {"a": weft.numpy.zeros((2, 30)), "b": weft.numpy.zeros(())}
    checkpoint.save(path, {"a": want, "b": np.float32(2)})
    whole, refused = path.read_bytes(), 0
    damages = [whole[:n] for n in (0, 10, len(whole) // 2, len(whole) - 1)]
    for place in rng.integers(0, 8 * len(whole), 300):
        flipped = bytearray(whole)
        flipped[place // 8] ^= 1 << (place % 8)
        damages.append(bytes(flipped))
    for damaged in damages:
        path.write_bytes(damaged)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                loaded = checkpoint.load(path, like)
        except ValueError as error:
            refused += 1
            assert str(path) in str(error) and "remove" in str(error)
        else:  # in bytes of the archive that say nothing, such as dates
            np.testing.assert_array_equal(loaded["a"], want)
    assert refused > len(damages) / 2
    path.unlink()
    with pytest.raises(FileNotFoundError):
        checkpoint.load(path, like)


def placed(value, shape, spec):
    mesh = weft.make_mesh(shape, ("x", "y"), axis_types=(weft.sharding.AxisType.Auto,) * 2)
    return weft.device_put(value, weft.NamedSharding(mesh, spec))


@pytest.fixture
def state():
    value = np.arange(8 * 12, dtype=np.float32).reshape(8, 12)
    return {
        "split": placed(value, (4, 2), weft.P("x", "y")),
        "copied": placed(value.astype("bfloat16"), (4, 2), weft.P(None, "y")),
        "step": placed(np.int32(7), (4, 2), weft.P()),
        "none": placed(np.zeros((0, 4), np.int8), (4, 2), weft.P()),
    }


@pytest.mark.parametrize(
    ("shape", "spec"),
    [((4, 2), ("x", "y")), ((2, 4), ("x", "y")), ((2, 4), ("y", None)), ((8, 1), (None, None))],
)
def test_parts_come_back_over_any_mesh(tmp_path, state, shape, spec):
    checkpoint.save_shards(tmp_path, state)

    def like(x):
        sharding = placed(np.zeros(()), shape, weft.P()).sharding.mesh
        parts = weft.P(*spec) if x.ndim and x.size else weft.P()
        return weft.ShapeDtypeStruct(x.shape, x.dtype, sharding=weft.NamedSharding(sharding, parts))

    types = weft.tree.map(like, state)
    loaded = checkpoint.load_shards(tmp_path, types)
    value = np.arange(8 * 12, dtype=np.float32).reshape(8, 12)
    np.testing.assert_array_equal(loaded["split"], value)
    np.testing.assert_array_equal(loaded["copied"], value.astype("bfloat16"))
    assert int(loaded["step"]) == 7 and loaded["none"].shape == (0, 4)
    assert all(loaded[k].sharding == types[k].sharding for k in state)


def test_copies_of_a_part_are_written_once(tmp_path, state):
    checkpoint.save_shards(tmp_path, state)
    index = json.loads((tmp_path / "index-0.json").read_text())
    assert [len(index[f"['{k}']"]["parts"]) for k in state] == [8, 2, 1, 1]
    assert sum(f.stat().st_size for f in tmp_path.glob("*.bin")) == 8 * 12 * (4 + 2) + 4


def test_parts_that_are_missing_or_of_other_types_are_refused(tmp_path, state):
    with pytest.raises(ValueError, match="no index"):
        checkpoint.load_shards(tmp_path, state)
    checkpoint.save_shards(tmp_path, state)
    with pytest.raises(ValueError, match=r"\['split'\] is float32\(8, 12\), asked for int32"):
        checkpoint.load_shards(tmp_path, {"split": state["split"].astype("int32")})
    path = tmp_path / "index-0.json"
    index = json.loads(path.read_text())
    index["['split']"]["parts"].pop()
    path.write_text(json.dumps(index))
    with pytest.raises(ValueError, match="a process did not save"):
        checkpoint.load_shards(tmp_path, state)
