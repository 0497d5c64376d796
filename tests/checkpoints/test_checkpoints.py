"""Checkpoints hold what was saved, whole, whatever happens to the process or the files."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import weft
from tests import processes
from weft import P
from weft.checkpoints import CheckpointError, Manager, layout, restore, save

ROOT = Path(__file__).parents[2]


def sharded(value, mesh, *spec):
    return weft.device_put(value, weft.NamedSharding(mesh, P(*spec)))


def mesh_of(**sizes):
    return weft.make_mesh(tuple(sizes.values()), tuple(sizes))


DTYPES = ["float32", "bfloat16", "float16", "int8", "uint32", "bool", "complex64", "float8_e4m3fn"]


@pytest.mark.parametrize("dtype", [*DTYPES, "int4"])
def test_arrays_of_every_kind_come_back(tmp_path, dtype):
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    value = (np.arange(12).reshape(4, 3) % 5).astype(kind)
    save(tmp_path / "c", {"x": weft.numpy.asarray(value)})
    back = restore(tmp_path / "c")["['x']"]
    assert back.dtype == kind
    np.testing.assert_array_equal(back.astype(np.complex64), value.astype(np.complex64))


def test_a_tree_comes_back_with_its_values_and_structure(tmp_path):
    tree = {"a": [np.float32(2), np.zeros((0, 3))], "n": 3, "s": "text", "none": None, "b": True}
    save(tmp_path / "c", tree)
    back = restore(tmp_path / "c", tree)
    assert (back["n"], back["s"], back["none"], back["b"]) == (3, "text", None, True)
    assert back["a"][1].shape == (0, 3) and float(back["a"][0]) == 2


def test_keys_come_back(tmp_path):
    key = weft.random.key(5)
    save(tmp_path / "c", {"key": key})
    back = restore(tmp_path / "c", {"key": key})["key"]
    np.testing.assert_array_equal(weft.random.key_data(back), weft.random.key_data(key))


@pytest.mark.parametrize("spec", [(), ("x",), (None, "y"), ("y", "x"), (("x", "y"),)])
@pytest.mark.parametrize("after", [(), ("x",), (None, "y"), (("y", "x"),)])
def test_another_sharding_and_mesh_read_the_same(tmp_path, spec, after):
    value = np.arange(8 * 16, dtype=np.float32).reshape(8, 16)
    save(tmp_path / "c", sharded(value, mesh_of(x=4, y=2), *spec))
    other = weft.NamedSharding(mesh_of(x=2, y=4), P(*after))
    like = weft.ShapeDtypeStruct(value.shape, "bfloat16", sharding=other)
    back = restore(tmp_path / "c", like)
    assert back.sharding.spec == P(*after) and back.dtype == "bfloat16"
    np.testing.assert_array_equal(np.asarray(back, np.float32), value.astype(ml_dtypes.bfloat16))


def test_a_part_of_the_tree_is_read_alone(tmp_path):
    save(tmp_path / "c", {"a": np.ones(3), "b": np.zeros(2)})
    shutil.rmtree(layout.array_folder(tmp_path / "c", 1))
    np.testing.assert_array_equal(restore(tmp_path / "c", {"a": np.ones(3)})["a"], np.ones(3))


def test_large_shards_are_several_chunks():
    assert layout.chunk_shape((1 << 14, 1 << 13), 4) == [1 << 12, 1 << 12]
    assert layout.chunk_shape((7, 0), 4) == [7, 1]


def test_what_is_donated_meanwhile_is_saved_as_it_was(tmp_path):
    step = weft.jit(lambda x: x * 0, donate_argnums=0)
    x = weft.numpy.arange(1 << 16)
    with Manager(tmp_path) as manager:
        manager.save(0, {"x": x})
        step(x)
        back = manager.restore()["['x']"]
    np.testing.assert_array_equal(back, np.arange(1 << 16))


def test_steps_are_kept_and_deleted(tmp_path):
    with Manager(tmp_path, max_to_keep=2, keep_period=4) as manager:
        for step in range(10):
            manager.save(step, {"x": np.full(2, step)})
        manager.wait()
        assert manager.all_steps() == (0, 4, 8, 9) and manager.latest_step() == 9
        assert manager.bytes_written() == 16
        assert manager.restore(4)["['x']"].tolist() == [4, 4]


def test_a_run_is_cleared_and_what_a_kill_left_is_removed(tmp_path):
    (tmp_path / "step_00000003").mkdir()
    (tmp_path / "step_00000004.partial").mkdir()
    with Manager(tmp_path) as manager:
        assert not list(tmp_path.iterdir()) and manager.latest_step() is None
        manager.save(5, {"x": np.ones(2)})
        manager.clear()
        assert manager.all_steps() == () and not list(tmp_path.iterdir())


def test_a_step_that_lost_its_manifest_is_kept_aside_and_named(tmp_path):
    with Manager(tmp_path) as manager:
        for step in (1, 2):
            manager.save(step, {"x": np.full(2, step)})
    (tmp_path / "step_00000002" / layout.MANIFEST).unlink()
    with pytest.warns(UserWarning, match=r"step 2 has lost its manifest.json .*2\.damaged"):
        manager = Manager(tmp_path)
    assert manager.all_steps() == (1,) and (tmp_path / "step_00000002.damaged" / "arrays").is_dir()
    manager.save(2, {"x": np.full(2, 7)})
    assert manager.restore()["['x']"].tolist() == [7, 7]
    manager.close()
    Manager(tmp_path).close()  # says it once


def test_errors_of_writing_come_at_the_next_call(tmp_path):
    manager = Manager(tmp_path / "run")
    shutil.rmtree(tmp_path / "run")
    (tmp_path / "run").write_text("a file")
    manager.save(1, {"x": np.ones(2)})
    with pytest.raises(OSError):
        manager.wait()
    manager.close()


BAD = {
    "exists": (lambda p: save(p, {}), FileExistsError, "save to another folder"),
    "none there": (lambda p: restore(p / "no"), FileNotFoundError, "does not exist"),
    "no manifest": (lambda p: restore(p.parent), FileNotFoundError, "no manifest.json"),
    "type": (lambda p: save(p / "n", {"f": object()}), TypeError, r"\['f'\] is of type object"),
    "dtype": (lambda p: save(p / "n", np.array(["a"])), TypeError, "no dtype of weft"),
    "name": (lambda p: restore(p, {"y": np.ones(2)}), CheckpointError, r"has no \['y'\]; it has"),
    "shape": (lambda p: restore(p, {"x": np.ones(3)}), CheckpointError, r"float64\[2\].*\[3\]"),
    "keep": (lambda p: Manager(p, max_to_keep=0), ValueError, "at least 1"),
    "step": (lambda p: Manager(p).restore(3), FileNotFoundError, "no step 3; it has none"),
    "empty": (lambda p: Manager(p).restore(), FileNotFoundError, "holds no steps"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_is_named(tmp_path, name):
    call, error, text = BAD[name]
    save(tmp_path / "c", {"x": np.ones(2)})
    with pytest.raises(error, match=text):
        call(tmp_path / "c")


def test_damage_is_found_and_named(tmp_path, rng):
    """Bits of a small checkpoint are flipped: an error, or the same values."""
    value = np.arange(24, dtype=np.float32).reshape(4, 6)
    save(tmp_path / "c", {"x": sharded(value, mesh_of(x=2), "x"), "n": 1})
    harmless = 0
    for file in layout.files_under(tmp_path / "c"):
        good = file.read_bytes()
        places = rng.choice(len(good), size=min(60, len(good)), replace=False)
        for place in places:
            bad = bytearray(good)
            bad[place] ^= 1 << rng.integers(8)
            file.write_bytes(bad)
            try:
                back = restore(tmp_path / "c")
            except CheckpointError as error:
                assert "restore" in str(error)
                continue
            # White space and names that nothing reads.
            np.testing.assert_array_equal(back["['x']"], value)
            harmless += 1
        for cut in (0, len(good) // 2, len(good) - 1):
            file.write_bytes(good[:cut])
            with pytest.raises(CheckpointError):
                restore(tmp_path / "c")
        file.unlink()
        with pytest.raises((CheckpointError, FileNotFoundError)):
            restore(tmp_path / "c")
        file.write_bytes(good)
    assert harmless < 60


def test_foreign_manifests_are_refused(tmp_path):
    save(tmp_path / "c", {"x": np.ones(2)})
    for text in ("[]", "{}", "null", '{"format": "other"}'):
        (tmp_path / "c" / layout.MANIFEST).write_text(text)
        with pytest.raises(CheckpointError, match="damaged or foreign"):
            restore(tmp_path / "c")
    content = {"format": layout.FORMAT, "version": 99, "arrays": {}, "values": {}}
    (tmp_path / "c" / layout.MANIFEST).write_text(json.dumps({**content, "digest": ""}))
    with pytest.raises(CheckpointError, match="version 99"):
        restore(tmp_path / "c")


KILLED = """
import sys, numpy as np
from weft.checkpoints import Manager
manager = Manager(sys.argv[1], max_to_keep=2)
print("ready", flush=True)
for step in range(1000):
    manager.save(step, {"a": np.full(40_000, step), "b": np.full(1000, step), "step": step})
    manager.wait()
    print(step, flush=True)
"""


def test_a_kill_at_any_moment_leaves_the_last_committed_step(tmp_path, rng):
    for number in range(8):
        folder = tmp_path / str(number)
        run = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(folder)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "WEFT_NUM_CPU_DEVICES": "1"},
        )
        assert run.stdout is not None and run.stdout.readline() == "ready\n"
        time.sleep(rng.uniform(0.02, 0.6))
        run.send_signal(signal.SIGKILL)
        said = run.communicate()[0].split()
        steps = Manager(folder).all_steps()
        # A step that was announced is there, unless newer ones have replaced it.
        assert not said or steps[-1] >= int(said[-1])
        for step in steps:
            found = Manager(folder).restore(step)
            assert found["['step']"] == step
            assert (found["['a']"] == step).all() and (found["['b']"] == step).all()
        assert not list(folder.glob("*.partial"))


PROCESSES = """
import sys, numpy as np, weft
from weft import P
address, rank, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
weft.distributed.initialize(address, 2, rank)
mesh = weft.make_mesh((4,), ("x",))
value = np.arange(32.0, dtype=np.float32).reshape(8, 4)
split = weft.NamedSharding(mesh, P("x"))
x = weft.make_array_from_callback(value.shape, split, lambda i: value[i])
with weft.checkpoints.Manager(folder, layout=sys.argv[4]) as manager:
    manager.save(3, {"x": x, "r": np.float32(7)})
    manager.wait()
    other = weft.NamedSharding(mesh, P(None, "x"))
    back = manager.restore(like={"x": weft.ShapeDtypeStruct((8, 4), "float32", sharding=other)})
for shard in back["x"].addressable_shards:
    np.testing.assert_array_equal(shard.data, value[shard.index])
print("same")
"""


@pytest.mark.parametrize("layout", ["weft", "orbax"])
def test_two_processes_write_their_shards_and_one_reads_all(tmp_path, layout):
    with processes.free_address() as address:
        runs = [
            processes.start(PROCESSES, address, rank, tmp_path, layout, WEFT_NUM_CPU_DEVICES="2")
            for rank in range(2)
        ]
        for out, errors in processes.end(*runs):
            assert "same" in out, errors[-3000:]
    value = np.arange(32.0, dtype=np.float32).reshape(8, 4)
    np.testing.assert_array_equal(Manager(tmp_path, layout=layout).restore()["['x']"], value)
