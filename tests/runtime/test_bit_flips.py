"""No flipped bit of a cache on disk reaches a linker, a loader or XLA.

The suite flips some hundred bits; `python -m tests.runtime.test_bit_flips 10000` as many as asked,
and then loads what the flips left in processes of their own.
"""

import os
import random
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest

import weft
from weft import ffi
from weft.ffi import library
from weft.native import engine
from weft.runtime import disk_cache

CODE = 'extern "C" int answer() { return 37; }\n'
KERNEL = "define i64 @answer() #0 {\nentry:\n  ret i64 37\n}\n"
PROGRAM = """
import sys, warnings, numpy as np, weft
from weft import ffi, pallas as pl
warnings.simplefilter("ignore")
folder = sys.argv[1]
weft.config.update("compilation_cache_dir", folder + "/programs")
weft.config.update("persistent_cache_min_compile_time_secs", 0)
def kernel(x, out):
    out[...] = x[...] * 3.5
x = np.arange(4, dtype="f4")
got = pl.pallas_call(kernel, weft.ShapeDtypeStruct((4,), "float32"))(x)
assert np.asarray(got).tolist() == [0.0, 3.5, 7.0, 10.5], got
assert np.asarray(weft.jit(lambda x: x * x + 1)(x)).tolist() == [1, 2, 5, 10]
source = 'extern "C" int answer() { return 37; }' + chr(10)
assert ffi.build(source, targets=[], cache_dir=folder + "/builds").answer() == 37
"""


class Kernels:
    """Machine code of kernels: what reaches the linker."""

    def __init__(self, folder, patch):
        patch.setenv("WEFT_KERNEL_CACHE_DIR", str(folder))
        self.folder, self.linked = folder, []
        self.key = engine.key_of(KERNEL)
        engine.compile_text(KERNEL, "answer")
        (entry,) = folder.iterdir()
        self.good = engine.kernel_cache().read(entry.name)
        patch.setattr(engine, "_assemble", lambda text, opt: self.good)
        patch.setattr(engine, "_link", lambda code, *rest: self.linked.append(code))

    def load(self):
        engine._addresses.pop(self.key, None)
        engine.compile_text(KERNEL, "answer")
        engine._addresses.pop(self.key, None)
        return self.linked.pop() == self.good


class Builds:
    """Libraries and lists of headers: what reaches the loader."""

    def __init__(self, folder, patch):
        self.folder, self.opened = folder, []
        ffi.build(CODE, targets=[], cache_dir=folder)
        self.good = next(folder.glob("*.so")).read_bytes()
        made = []
        run = library.Compilation.run

        def once(compilation, scratch):
            if not made:
                made.append(run(compilation, scratch))
            return made[0]

        patch.setattr(library.Compilation, "run", once)
        patch.setattr(library, "_open", lambda path: self.opened.append(path.read_bytes()))

    def load(self):
        ffi.build(CODE, targets=[], cache_dir=self.folder)
        return self.opened.pop() == self.good


class Programs:
    """Executables: what reaches XLA."""

    def __init__(self, folder, patch):
        self.folder = folder
        compiled = weft.jit(lambda x: x * x + 1).lower(np.arange(4.0)).compile()
        self.entry = disk_cache.Entry(str(folder), "program", "0" * 40)
        self.entry.write(weft.devices()[0].client, compiled.runtime_executable())
        self.good = self.entry.store.read(self.entry.name)
        patch.setattr(disk_cache._xla_compile, "deserialize", lambda client, body, *rest: body)

    def load(self):
        body = self.entry.read(None, None, None)
        if body is None:
            self.entry.store.write(self.entry.name, self.good)
        return body in (None, self.good)


KINDS = {"kernels": Kernels, "builds": Builds, "programs": Programs}


def flip(path, place):
    data = bytearray(path.read_bytes())
    data[place // 8] ^= 1 << place % 8
    # What a process has mapped stays as it is: the damaged file is another one.
    damaged = path.with_name(".damaged")
    damaged.write_bytes(data)
    damaged.chmod(0o600)
    os.replace(damaged, path)


def flip_and_load(kind, folder, count, seed):
    """Flip one bit, load, `count` times; returns how many loads gave something else."""
    folder.mkdir(mode=0o700)
    choose = random.Random(seed)
    wrong = 0
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cache = KINDS[kind](folder, patch)
        for _ in range(count):
            path = choose.choice(sorted(p for p in folder.iterdir() if p.is_file()))
            flip(path, choose.randrange(8 * path.stat().st_size))
            wrong += not cache.load()
    return wrong


@pytest.mark.parametrize("kind", KINDS)
def test_no_flipped_bit_reaches_what_runs(tmp_path, kind):
    assert flip_and_load(kind, tmp_path / kind, 100, kind) == 0


def load_in_processes(folder, count, seed):
    """Flip a bit of every entry and run a program on them, `count` times; returns the failures."""
    choose = random.Random(seed)
    failures = []
    variables = {**os.environ, "WEFT_KERNEL_CACHE_DIR": f"{folder}/kernels"}
    for trial in range(count + 1):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(folder)],
            env=variables,
            capture_output=True,
            text=True,
            timeout=600,
        )
        if done.returncode:
            failures.append((trial, done.returncode, done.stderr[-300:]))
        for path in sorted(p for p in Path(folder).rglob("*") if p.is_file()):
            flip(path, choose.randrange(8 * path.stat().st_size))
    return failures


if __name__ == "__main__":
    total = int(sys.argv[1])
    with tempfile.TemporaryDirectory() as temporary:
        for name in KINDS:
            wrong = flip_and_load(name, Path(temporary, name), total // len(KINDS), "all")
            print(f"{name}: {total // len(KINDS)} flips, {wrong} wrong", flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        failures = load_in_processes(temporary, max(1, total // 500), "processes")
        print(f"processes: {max(1, total // 500)} runs, failures: {failures}")
