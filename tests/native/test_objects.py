"""Machine code from object files: the same functions, loaded here or linked by LLVM."""

import ctypes
import math
import os
import platform
import subprocess
import sys
import textwrap

import pytest

from weft.native import engine, objects

LOADED_HERE = sys.platform == "linux" and platform.machine() == "x86_64"
TEXT = """
@shared = external global i64
@table = private constant [4 x double] [double 3.5, double -1.25, double 8.0, double 0.5]
declare double @sin(double)
declare ptr @memcpy(ptr, ptr, i64)

define double @both(i64 %i, double %x, ptr %to, ptr %from) #0 {
  %p = getelementptr double, ptr @table, i64 %i
  %t = load double, ptr %p
  %s = call double @sin(double %x)
  %n = load i64, ptr @shared
  %f = sitofp i64 %n to double
  %copied = call ptr @memcpy(ptr %to, ptr %from, i64 24)
  %a = fadd double %t, %s
  %b = fadd double %a, %f
  %r = call double @kind(i64 %i)
  %c = fadd double %b, %r
  ret double %c
}

define internal double @kind(i64 %i) noinline #0 {
  switch i64 %i, label %other [ i64 0, label %a i64 1, label %b i64 2, label %c i64 3, label %d ]
a:
  ret double 100.0
b:
  ret double 270.0
c:
  ret double 3000.0
d:
  ret double 41000.0
other:
  ret double -1.0
}
"""


def run(address, number):
    function = ctypes.CFUNCTYPE(
        ctypes.c_double, ctypes.c_int64, ctypes.c_double, ctypes.c_void_p, ctypes.c_void_p
    )(address)
    source, target = (ctypes.c_int64 * 3)(7, number, -9), (ctypes.c_int64 * 3)()
    results = [
        function(i, 0.75, ctypes.addressof(target), ctypes.addressof(source)) for i in range(4)
    ]
    assert list(target) == [7, number, -9]
    return results


@pytest.mark.parametrize("by_llvm", [False, True])
def test_tables_branches_and_names_of_elsewhere(by_llvm, monkeypatch):
    if by_llvm:
        monkeypatch.setattr(objects, "load", lambda *_: None)
    code = engine._assemble(TEXT, 2)
    shared = ctypes.c_int64(12)
    address = engine._link(code, "both", f"both {by_llvm}", {"shared": ctypes.addressof(shared)})
    tables, kinds = (3.5, -1.25, 8.0, 0.5), (100.0, 270.0, 3000.0, 41000.0)
    for number in (12, -5):
        shared.value = number
        expected = [t + math.sin(0.75) + number + k for t, k in zip(tables, kinds, strict=True)]
        assert run(address, number) == pytest.approx(expected, rel=1e-15)


def test_what_cannot_be_loaded_is_left_to_llvm():
    code = engine._assemble(TEXT, 2)
    there = {"shared": ctypes.addressof(ctypes.c_int64())}
    assert (objects.load(code, "both", there) is not None) == LOADED_HERE
    assert objects.load(code, "absent", there) is None
    assert objects.load(code, "both", {}) is None  # nothing in this process is called `shared`
    assert objects.load(b"\xcf\xfa\xed\xfe" + code[4:], "both", there) is None
    written = TEXT.replace("@table = private constant", "@table = internal global")
    written = written.replace("%s = call", "store double %x, ptr %p\n  %s = call")
    assert objects.load(engine._assemble(written, 0), "both", there) is None


def test_code_from_disk_needs_no_llvm(tmp_path):
    program = textwrap.dedent("""
        import sys, numpy as np, weft
        x = np.arange(3000.0, dtype="f4")[::-1].copy()
        assert (np.asarray(weft.jit(weft.numpy.sort)(x)) == np.arange(3000)).all()
        print("llvmlite.binding" in sys.modules)
    """)
    environment = {**os.environ, "WEFT_KERNEL_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", program]
    runs = [
        subprocess.run(command, env=environment, capture_output=True, text=True) for _ in range(2)
    ]
    assert not any(run.returncode for run in runs), runs[-1].stderr
    assert [run.stdout.strip() for run in runs] == ["True", str(not LOADED_HERE)]
