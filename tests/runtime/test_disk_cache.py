"""The persistent compilation cache: what it gives back, and what it does with files of others."""

import warnings

import numpy as np
import pytest

from weft.core.aval import ShapedArray
from weft.core.config import config, options
from weft.runtime import backend, disk_cache
from weft.runtime.compile import compile_module
from weft.runtime.executable import Executable
from weft.sharding.physical import SingleDeviceSharding

DEVICE = backend.devices()[0]
DOUBLE = """module @d { func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %x, %x : tensor<4xf32>
  return %0 : tensor<4xf32>
} }"""
SQUARE = DOUBLE.replace("add", "multiply")


def run(loaded, *args):
    aval, place = ShapedArray((4,), np.float32), SingleDeviceSharding(DEVICE)
    n = len(args)
    return Executable(loaded, [aval] * n, [place] * n, [aval], [place]).call(args)[0]


def test_the_cache_gives_a_program_back_and_ignores_source_locations(tmp_path):
    with options["compilation_cache_dir"](str(tmp_path / "new")):
        first = compile_module(DOUBLE, [DEVICE])
        second = compile_module(DOUBLE.replace(" %0 =", "\n\n %0 ="), [DEVICE])
        other = compile_module(SQUARE, [DEVICE])
    assert [p.from_cache for p in (first, second, other)] == [False, True, False]
    assert len(list((tmp_path / "new").iterdir())) == 2
    np.testing.assert_array_equal(run(second, np.ones(4, np.float32)), np.full(4, 2))


def test_devices_and_options_are_part_of_the_cache_key(tmp_path):
    with options["compilation_cache_dir"](str(tmp_path)):
        compile_module(DOUBLE, [DEVICE])
        elsewhere = compile_module(DOUBLE, [backend.devices()[1]])
        fast = compile_module(DOUBLE, [DEVICE], compiler_options={"xla_cpu_enable_fast_math": True})
    assert not elsewhere.from_cache and not fast.from_cache


def test_every_release_of_jaxlib_has_its_own_entries(tmp_path, monkeypatch):
    with options["compilation_cache_dir"](str(tmp_path)):
        compile_module(DOUBLE, [DEVICE])
        monkeypatch.setattr(disk_cache, "release", f"{disk_cache.release}.1")
        assert not compile_module(DOUBLE, [DEVICE]).from_cache


@pytest.mark.parametrize(
    "damage", [lambda b: b[:-7], lambda b: b"", lambda b: b[:200] + b"?" + b[201:]]
)
def test_a_damaged_entry_is_ignored_with_a_warning_and_replaced(tmp_path, damage):
    with options["compilation_cache_dir"](str(tmp_path)):
        compile_module(DOUBLE, [DEVICE])
        [entry] = tmp_path.iterdir()
        entry.write_bytes(damage(entry.read_bytes()))
        with pytest.warns(UserWarning, match="ignoring the compilation cache entry"):
            again = compile_module(DOUBLE, [DEVICE])
        assert not again.from_cache
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert compile_module(DOUBLE, [DEVICE]).from_cache
    assert [p.name for p in tmp_path.iterdir()] == [entry.name]


def test_a_cache_directory_that_cannot_be_written_is_a_warning(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        options["compilation_cache_dir"](str(tmp_path / "file" / "below")),
        pytest.warns(UserWarning, match="cannot write the compilation cache"),
    ):
        compile_module(DOUBLE, [DEVICE])


def test_quick_compilations_stay_out_of_the_cache_when_asked(tmp_path):
    with (
        options["compilation_cache_dir"](str(tmp_path)),
        options["persistent_cache_min_compile_time_secs"](60.0),
    ):
        compile_module(DOUBLE, [DEVICE])
    assert not list(tmp_path.iterdir())
    assert config.compilation_cache_dir is None


def test_an_entry_under_another_programs_name_is_not_that_program(tmp_path):
    threes = np.full(4, 3, np.float32)
    with options["compilation_cache_dir"](str(tmp_path)):
        compile_module(DOUBLE, [DEVICE])
        [double] = tmp_path.iterdir()
        compile_module(SQUARE, [DEVICE])
        [square] = set(tmp_path.iterdir()) - {double}
        square.write_bytes(double.read_bytes())
        with pytest.warns(UserWarning, match="truncated, renamed or of another format"):
            again = compile_module(SQUARE, [DEVICE])
    np.testing.assert_array_equal(run(again, threes), 3 * threes)


def test_an_empty_folder_in_an_entrys_place_makes_room_for_it(tmp_path):
    with options["compilation_cache_dir"](str(tmp_path)):
        compile_module(DOUBLE, [DEVICE])
        [entry] = tmp_path.iterdir()
        entry.unlink()
        entry.mkdir()
        with pytest.warns(UserWarning, match="it is no file. It is made again"):
            again = compile_module(DOUBLE, [DEVICE])
        assert not again.from_cache
        assert entry.is_file() and compile_module(DOUBLE, [DEVICE]).from_cache


def test_the_folder_may_be_named_from_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    with options["compilation_cache_dir"]("~/programs"):
        compile_module(DOUBLE, [DEVICE])
    assert len(list((tmp_path / "programs").iterdir())) == 1
