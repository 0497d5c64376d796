"""build: compiling, caching, registering, compiler errors."""

import ctypes
import shutil

import numpy as np
import pytest

from weft.ffi import BuildError, build, ffi_call

C_SOURCE = """
#include "xla/ffi/api/c_api.h"
#ifdef __cplusplus
extern "C"
#endif
int answer(void) { return ANSWER; }
"""
BROKEN = """
#include "xla/ffi/api/ffi.h"
namespace ffi = xla::ffi;
static ffi::Error Impl(ffi::Buffer<ffi::F32> x) { return undeclared_name; }
"""
X = np.arange(4, dtype=np.float32)


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "answer.cc"
    path.write_text(C_SOURCE)
    return path


def test_code_in_a_string_is_compiled_with_flags(tmp_path):
    library = build(C_SOURCE, targets=[], flags=["-DANSWER=42"], cache_dir=tmp_path)
    assert library.answer() == 42 and library.targets == ()
    assert library.path.parent == tmp_path and "answer" not in repr(library.targets)


def test_a_library_is_compiled_once(source, tmp_path):
    options = {"targets": [], "cache_dir": tmp_path / "cache"}
    first = build(source, flags=["-DANSWER=1"], **options)
    changed = first.path.stat().st_mtime_ns
    again = build([source], flags=["-DANSWER=1"], compiler=None, **options)
    assert again.path == first.path and again.path.stat().st_mtime_ns == changed
    assert build(source, flags=["-DANSWER=2"], **options).answer() == 2
    source.write_text(C_SOURCE + "\n")
    assert build(source, flags=["-DANSWER=1"], **options).path != first.path


def test_a_damaged_library_is_compiled_again(source, tmp_path):
    options = {"targets": [], "flags": ["-DANSWER=3"]}
    whole = build(source, cache_dir=tmp_path / "whole", **options).path
    damaged = shutil.copytree(tmp_path / "whole", tmp_path / "damaged") / whole.name
    damaged.write_bytes(b"no library")
    assert build(source, cache_dir=damaged.parent, **options).answer() == 3
    assert damaged.stat().st_size == whole.stat().st_size


@pytest.mark.parametrize("code", [C_SOURCE, None], ids=["code", "file"])
def test_a_cache_folder_that_cannot_be_written_is_named(source, tmp_path, code):
    (tmp_path / "occupied").write_text("")
    with pytest.raises(BuildError, match="cannot write to the cache folder .*occupied.*cache_dir="):
        build(code or source, targets=[], cache_dir=tmp_path / "occupied")


def test_changed_headers_of_the_users_own_are_compiled_anew(tmp_path):
    (tmp_path / "answer.h").write_text("#define ANSWER 5\n")
    code = '#include "answer.h"\nextern "C" int answer() { return ANSWER; }\n'
    options = {"targets": [], "include_dirs": [tmp_path], "cache_dir": tmp_path / "cache"}
    assert build(code, **options).answer() == 5
    (tmp_path / "answer.h").write_text("#define ANSWER 6\n")
    assert build(code, **options).answer() == 6


def test_compiler_errors_show_the_users_line(tmp_path):
    path = tmp_path / "broken.cc"
    path.write_text(BROKEN)
    with pytest.raises(BuildError, match=r"broken\.cc:4:\d+: error: .*undeclared_name") as e:
        build(path, targets=["Impl"], cache_dir=tmp_path)
    assert len(str(e.value).splitlines()) <= 8


def test_a_failed_build_leaves_nothing_in_the_cache(tmp_path):
    with pytest.raises(BuildError):
        build(BROKEN, targets=["Impl"], cache_dir=tmp_path)
    assert not list(tmp_path.glob("*.so"))


@pytest.mark.parametrize(
    "sources, options, error, words",
    [
        ([], {}, ValueError, "sources is empty"),
        ("missing.cc", {}, ValueError, "no source file 'missing.cc'"),
        (C_SOURCE, {}, ValueError, "define no handler with XLA_FFI_DEFINE_HANDLER_SYMBOL"),
        (C_SOURCE, {"targets": ["Absent"]}, ValueError, "exports no symbol 'Absent'"),
        (
            C_SOURCE,
            {"targets": {"t": {"execute": "Absent"}}},
            ValueError,
            "exports no symbol 'Absent'",
        ),
        (C_SOURCE, {"types": {"T": "NoType"}}, ValueError, "exports no symbol 'NoType'"),
        (C_SOURCE, {"compiler": "no-such-compiler"}, BuildError, "no-such-compiler"),
    ],
)
def test_what_cannot_be_built_is_refused(tmp_path, sources, options, error, words):
    with pytest.raises(error, match=words):
        build(sources, flags=["-DANSWER=1"], cache_dir=tmp_path, **options)


def test_a_missing_compiler_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(BuildError, match=r"found no C\+\+17 compiler .* pass compiler="):
        build(C_SOURCE, targets=[], cache_dir=tmp_path)
    with pytest.raises(BuildError, match="nvcc"):
        cuda = tmp_path / "kernel.cu"
        cuda.write_text("__global__ void f() {}\n")
        build(cuda, targets=[], cache_dir=tmp_path)


def test_targets_are_found_in_the_sources_and_named_by_choice(handlers):
    assert "Scale" in handlers.targets and "Scalars" in handlers.targets
    build(handlers_source(), targets={"scale_by_another_name": "Scale"}, flags=["-O1"])
    result = ffi_call("scale_by_another_name", X)(X, scale=np.float32(2))
    np.testing.assert_array_equal(result, 2 * X)


def handlers_source():
    from tests.ffi.conftest import FOLDER

    return FOLDER / "handlers.cc"


def test_other_functions_of_the_library_are_attributes(handlers):
    handlers.CountedCalls.restype = ctypes.c_int64
    assert handlers.CountedCalls() >= 0
    with pytest.raises(AttributeError):
        _ = handlers.NoSuchFunction


def test_a_source_in_c_is_compiled_as_c(tmp_path):
    source = handlers_source().parents[2] / "examples" / "ffi" / "saxpy.c"
    build(source, targets={"SaxpyInC": "Saxpy"}, cache_dir=tmp_path)
    got = ffi_call("SaxpyInC", X)(X, X, a=np.float32(2))
    np.testing.assert_array_equal(got, 3 * X)


def test_cuda_sources_go_to_nvcc_for_the_cuda_platform(handlers, tmp_path, monkeypatch):
    """A stand-in for nvcc writes down its arguments and gives a library of handlers."""
    nvcc = tmp_path / "nvcc"
    nvcc.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/arguments\n'
        f'while [ $# -gt 1 ]; do [ "$1" = -o ] && out=$2; shift; done\n'
        f'[ -z "$out" ] || cp {handlers.path} "$out"\n'
    )
    nvcc.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    kernel = tmp_path / "kernel.cu"
    kernel.write_text("__global__ void f() {}\n")
    library = build(kernel, targets={"OnCuda": "Scale"}, cache_dir=tmp_path / "cache")
    assert library.targets == ("OnCuda",)
    arguments = (tmp_path / "arguments").read_text()
    assert "-Xcompiler -fPIC" in arguments and "kernel.cu" in arguments
    with pytest.raises(ValueError, match="registered for CUDA only"):
        ffi_call("OnCuda", X)(X)


@pytest.mark.parametrize(
    "sources, flags, words",
    [
        (3, [], "sources must be a list of strings, got 3"),
        ([3], [], "sources holds 3, which is no string"),
        ("f.cc", "-O2", "flags must be a list of strings, got '-O2'"),
    ],
)
def test_arguments_of_the_wrong_kind_are_refused(sources, flags, words):
    with pytest.raises(TypeError, match=words):
        build(sources, flags=flags)
