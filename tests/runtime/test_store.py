"""The store of caches on disk: damaged, planted and left-over files, and who may write."""

import os
import shutil
import socket
import subprocess
import sys
import time
import warnings

import pytest

from weft.ffi import build
from weft.runtime import store as module
from weft.runtime.store import Store

BODY = bytes(range(256)) * 4


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "cache", "test cache")


def read_quietly(store, name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return store.read(name)


def test_what_was_written_is_read(store):
    assert store.read("a") is None
    for body in (BODY, b"", b"x"):
        store.write("a", body)
        assert store.read("a") == body
    assert [p.name for p in store.folder.iterdir()] == ["a"]


def test_no_flipped_bit_goes_unseen(store):
    store.write("a", BODY)
    path = store.path("a")
    whole = path.read_bytes()
    for place in range(8 * len(whole)):  # every bit of the entry, its hash and its mark
        damaged = bytearray(whole)
        damaged[place // 8] ^= 1 << (place % 8)
        path.write_bytes(damaged)
        assert read_quietly(store, "a") is None, place
    for damaged in (whole[:-1], whole + b"\0", b"", whole[1:], whole * 2):
        path.write_bytes(damaged)
        assert read_quietly(store, "a") is None
    path.write_bytes(whole)
    assert store.read("a") == BODY


def test_a_damaged_entry_is_named_and_replaced(store):
    store.write("a", BODY)
    store.path("a").write_bytes(b"damaged")
    with pytest.warns(UserWarning, match="ignoring the test cache entry .*/a: it is damaged"):
        assert store.read("a") is None
    store.write("a", BODY)
    assert store.read("a") == BODY


def test_an_entry_under_another_name_is_none(store):
    store.write("a", BODY)
    store.path("a").rename(store.path("b"))
    assert read_quietly(store, "b") is None


PLANTED = {
    "pipe": os.mkfifo,
    "folder": os.mkdir,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "link to nothing": lambda path: path.symlink_to("nowhere"),
    "socket": lambda path: socket.socket(socket.AF_UNIX).bind(os.path.relpath(path)),
}


@pytest.mark.parametrize("kind", PLANTED)
def test_what_is_no_file_is_not_waited_for(store, kind, monkeypatch):
    store.write("other", BODY)
    monkeypatch.chdir(store.folder)  # names of sockets are short
    PLANTED[kind](store.path("a"))
    start = time.monotonic()
    assert read_quietly(store, "a") is None
    assert time.monotonic() - start < 30
    if kind == "folder":
        store.path("a").joinpath("full").touch()
    store.write("a", BODY)
    assert store.read("a") == BODY


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702, 0o1777])
def test_a_folder_that_others_can_write_is_refused_with_one_warning(store, mode):
    store.write("a", BODY)
    store.folder.chmod(mode)
    with pytest.warns(UserWarning, match="users other than you can write it.*chmod go-w") as seen:
        assert store.read("a") is None
        store.write("b", BODY)
        assert store.read("b") is None
    assert len(seen) == 1
    assert [p.name for p in store.folder.iterdir()] == ["a"]
    store.folder.chmod(0o700)
    assert store.read("a") == BODY


def test_a_file_that_others_can_write_is_refused(store):
    store.write("a", BODY)
    store.path("a").chmod(0o666)
    assert read_quietly(store, "a") is None


def test_what_belongs_to_another_user_is_refused(store, monkeypatch):
    store.write("a", BODY)
    monkeypatch.setattr(module, "_owners", lambda: (os.geteuid() + 1,))
    with pytest.warns(UserWarning, match="is not used"):
        assert store.read("a") is None


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o777])
def test_folders_and_entries_are_the_users_alone_whatever_the_umask(tmp_path, umask):
    store = Store(tmp_path / "one" / "two", "test cache")
    before = os.umask(umask)
    try:
        store.write("a", BODY)
    finally:
        os.umask(before)
    paths = (tmp_path / "one", store.folder, store.path("a"))
    assert [p.stat().st_mode & 0o777 for p in paths] == [0o700, 0o700, 0o600]


def test_what_a_killed_process_left_goes_and_what_another_writes_stays(store):
    store.write("a", BODY)
    old, new = store.folder / ".new-old", store.folder / ".new-new"
    old_folder = store.folder / ".new-folder"
    old_folder.mkdir()
    for path in (old, new, old_folder / "library.so"):
        path.write_bytes(b"part")
    for path in (old, old_folder):
        os.utime(path, (0, 0))
    module._swept.clear()
    store.write("b", BODY)
    assert {p.name for p in store.folder.iterdir()} == {"a", "b", ".new-new"}


def test_a_process_killed_while_it_writes_leaves_no_entry(store):
    program = f"""
import os, signal
from weft.runtime import store
s = store.Store({str(store.folder)!r}, "test cache")
store.os.replace = lambda *a: os.kill(os.getpid(), signal.SIGKILL)
s.write("a", b"x" * 1000)
"""
    done = subprocess.run([sys.executable, "-c", program], timeout=120)
    assert done.returncode == -9
    assert store.read("a") is None
    assert len(list(store.folder.iterdir())) == 1


def flip(path, place):
    data = bytearray(path.read_bytes())
    data[place] ^= 4
    path.write_bytes(data)


KERNEL = """
import numpy as np, weft
from weft import pallas as pl
from weft.native import engine
def kernel(x, out):
    out[...] = x[...] * 3.5
x = np.arange(4, dtype="f4")
got = pl.pallas_call(kernel, weft.ShapeDtypeStruct((4,), "float32"))(x)
print(*np.asarray(got), engine.statistics["compiled"])
"""


def test_damaged_machine_code_of_a_kernel_is_made_again(tmp_path):
    def run():
        done = subprocess.run(
            [sys.executable, "-c", KERNEL],
            env={**os.environ, "WEFT_KERNEL_CACHE_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=300,
            check=True,
        )
        return done.stdout.split(), "ignoring the kernel cache entry" in done.stderr

    values = ["0.0", "3.5", "7.0", "10.5"]
    assert run() == ([*values, "1"], False)
    [entry] = tmp_path.glob("*.o")
    whole = entry.read_bytes()
    flip(entry, len(whole) // 2)
    assert run() == ([*values, "1"], True)
    assert entry.read_bytes() == whole
    assert run() == ([*values, "0"], False)


ANSWER = 'extern "C" int answer() { return 37; }\n'


@pytest.mark.parametrize("suffix", [".so", ".headers"])
def test_a_damaged_build_is_made_again(tmp_path, suffix):
    path = build(ANSWER, targets=[], cache_dir=tmp_path / "whole").path
    # What is loaded is mapped, and would change below the process.
    folder = shutil.copytree(tmp_path / "whole", tmp_path / "damaged")
    [entry] = folder.glob(f"*{suffix}")
    flip(entry, entry.stat().st_size // 2)
    with pytest.warns(UserWarning, match="ignoring the build cache entry"):
        assert build(ANSWER, targets=[], cache_dir=folder).answer() == 37
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = build(ANSWER, targets=[], cache_dir=folder)
    assert again.answer() == 37 and again.path.name == path.name
    assert {p.suffix for p in folder.iterdir()} == {".so", ".headers"}


def test_a_build_does_without_a_cache_that_others_can_write(tmp_path):
    tmp_path.chmod(0o777)
    with pytest.warns(UserWarning, match="the build cache .* is not used"):
        library = build(ANSWER, targets=[], cache_dir=tmp_path)
    assert library.answer() == 37 and not list(tmp_path.iterdir())
    assert library.path.parent.stat().st_mode & 0o777 == 0o700
