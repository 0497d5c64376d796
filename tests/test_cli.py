"""`weft explain`: runs a file and reports what it jits."""

import subprocess
import sys

import pytest

from weft.cli import main, parse_mesh

PROGRAM = """
import sys
import numpy as np
import weft
from weft import NamedSharding, P

mesh = weft.make_mesh((4, 2), ("data", "model"), (weft.AxisType.Auto,) * 2)

def layer(x, w):
    return weft.numpy.sum(x @ w, axis=0)

def other(x):
    return x + 1

place = lambda *spec: NamedSharding(mesh, P(*spec))
x = weft.device_put(np.ones((16, 8), np.float32), place("data"))
w = weft.device_put(np.ones((8, 4), np.float32), place(None, "model"))
weft.jit(layer)(x, w)
weft.jit(other)(x)
print("arguments", sys.argv[1:])
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def explain(*args):
    command = [sys.executable, "-m", "weft.cli", "explain", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_every_program_over_several_devices_is_reported(file, tmp_path):
    page = tmp_path / "out.html"
    done = explain(file, "--devices", 8, "--html", page, "--stage", "local", "--", "--steps", "3")
    assert done.returncode == 0, done.stderr
    assert "all_reduce  data" in done.stdout and "program.py:10" in done.stdout
    assert "local of layer" in done.stdout and "stablehlo.all_reduce" in done.stdout
    assert "\nother\n" in done.stdout and "arguments ['--steps', '3']" in done.stdout
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_one_function_can_be_chosen(file):
    done = explain(f"{file}:layer", "--hardware", "h100")
    assert done.returncode == 0, done.stderr
    assert "layer" in done.stdout and "other" not in done.stdout and "on h100" in done.stdout


def test_a_function_that_was_not_jitted_names_those_that_were(file):
    done = explain(f"{file}:lawyer")
    assert done.returncode == 2
    assert "jitted no function 'lawyer'" in done.stderr and "layer" in done.stderr


def test_a_missing_file_is_an_error(capsys):
    assert main(["explain", "nowhere.py"]) == 2
    assert "there is no file 'nowhere.py'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--hardware", "abacus"], "presets are cpu, a100"),
        (["--stage", "loom"], "the stages are jaxpr, stablehlo"),
        (["--html", "nowhere/page.html"], "there is no folder 'nowhere'"),
        (["--devices", "0"], "give 1 or more"),
        (["--devices", "4096"], "AbstractMesh"),
        (["--mesh", "data=64,model=64"], "AbstractMesh"),
        (["--mesh", "data=4,data=2"], "axis 'data' is there twice"),
    ],
)
def test_options_are_checked_before_the_file_runs(options, words, capsys, file):
    assert main(["explain", str(file), *options]) == 2
    streams = capsys.readouterr()
    assert words in streams.err and "arguments" not in streams.out


def test_a_folder_is_no_program(capsys, tmp_path):
    assert main(["explain", str(tmp_path)]) == 2
    assert "is a folder" in capsys.readouterr().err


def test_options_of_the_program_stand_after_two_dashes(capsys, file):
    with pytest.raises(SystemExit):
        main(["explain", str(file), "--hardwre", "h100"])
    assert "--hardwre" in capsys.readouterr().err


def test_a_program_that_fails_shows_its_own_lines(tmp_path):
    path = tmp_path / "fails.py"
    path.write_text("import weft\nweft.numpy.ones(3) @ weft.numpy.ones(4)\n")
    done = explain(path)
    assert done.returncode == 1
    assert 'fails.py", line 2' in done.stderr and "cli.py" not in done.stderr
    assert "runpy" not in done.stderr and done.stderr.endswith("fails.py failed\n")


def test_a_program_that_exits_keeps_its_status(tmp_path):
    path = tmp_path / "exits.py"
    path.write_text("raise SystemExit(3)")
    done = explain(path)
    assert done.returncode == 3 and "exited with status 3" in done.stderr


def test_a_module_is_run_by_its_name():
    done = explain("examples.plan:step", "--hardware", "h100", "--", "--devices", "2")
    assert done.returncode == 0, done.stderr
    assert "all_reduce" in done.stdout and "examples/gpt.py" in done.stdout
    assert "argument state.params" in done.stdout


def test_a_mesh_is_read():
    assert parse_mesh("data=4,model=2") == {"data": 4, "model": 2}


@pytest.mark.parametrize("text", ["data", "data=0", "data=4;model=2", "=3"])
def test_a_mesh_that_is_none_says_how_to_write_one(text, capsys, file):
    assert main(["explain", str(file), "--mesh", text]) == 2
    assert "write NAME=SIZE" in capsys.readouterr().err


def test_too_few_devices_for_the_mesh_is_an_error(capsys, file):
    assert main(["explain", str(file), "--mesh", "data=4", "--devices", "2"]) == 2
    assert "needs 4 devices, --devices is 2" in capsys.readouterr().err


def test_without_a_command_the_help_is_shown(capsys):
    assert main([]) == 2 and "explain" in capsys.readouterr().out


def test_the_command_works_where_python_drops_docstrings():
    command = [sys.executable, "-OO", "-m", "weft.cli", "explain", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "FILE.py[:FUNCTION]" in done.stdout
