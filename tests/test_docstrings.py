"""Every public name says what it is; functions also show it."""

import functools
import importlib
import inspect
from types import FunctionType

import pytest

import weft

MODULES = ["weft"] + [
    f"weft.{name}"
    for name in (
        *("lax", "numpy", "numpy.linalg", "numpy.fft", "nn", "nn.initializers", "random", "ops"),
        *("lax.linalg", "collectives", "scipy.special", "scipy.linalg"),
        *("scipy.stats", "scipy.signal", "scipy.ndimage", "scipy.fft", "scipy.optimize"),
        *(
            "scipy.cluster.vq",
            "scipy.integrate",
            "scipy.interpolate",
            "scipy.spatial.transform",
            "scipy.sparse.linalg",
            "image",
        ),
        *("pallas", "ffi", "sharding", "tree", "tree_util", "testing", "debug", "communication"),
        *("custom_batching", "custom_derivatives", "ad_checkpoint", "distributed", "dlpack"),
        *("dtypes", "errors", "flatten_util", "mesh_utils", "monitoring", "profiler", "ref"),
        *("custom_partitioning", "shard_alike"),
        *("multihost_utils", "partition", "stages", "typing", "export"),
    )
]

# Classes that are met, not made; effects_barrier is in the example of weft.debug.print.
WITHOUT_EXAMPLE = {"AxisType", "Ref", "effects_barrier"}


def public(name):
    module = importlib.import_module(name)
    for member in getattr(module, "__all__", None) or dir(module):
        value = getattr(module, member)
        ours = str(getattr(value, "__module__", None)).startswith("weft")
        if not member.startswith("_") and callable(value) and ours:
            yield member, value


@pytest.mark.parametrize("name", MODULES)
def test_every_public_name_has_a_docstring_of_its_own(name):
    bare = [member for member, value in public(name) if not (value.__doc__ or "").strip()]
    assert not bare


@pytest.mark.parametrize("name", MODULES)
def test_a_docstring_begins_with_one_line_that_ends_as_a_sentence(name):
    wrong = {}
    for member, value in public(name):
        first = (inspect.getdoc(value) or "").split("\n\n")[0]
        if len(first) < 6 or first[-1] not in ".…:?)":
            wrong[member] = first
    assert not wrong


@pytest.mark.parametrize("name", MODULES)
def test_every_public_function_shows_an_example(name):
    lacking = [
        member
        for member, value in public(name)
        if isinstance(value, FunctionType | functools.partial)
        and ">>>" not in (inspect.getdoc(value) or "")
    ]
    assert set(lacking) <= WITHOUT_EXAMPLE


def test_what_weft_itself_offers_shows_an_example():
    lacking = {
        member
        for member, value in public("weft")
        if ">>>" not in (inspect.getdoc(value) or "") and not inspect.ismodule(value)
    }
    assert lacking <= WITHOUT_EXAMPLE


@pytest.mark.parametrize("table", ["numpy", "lax"])
def test_tables_of_examples_name_functions_that_exist_and_show_a_result(table):
    space = importlib.import_module(f"weft.{table}")
    for name, example in importlib.import_module(f"weft.{table}.examples").EXAMPLES.items():
        function = functools.reduce(getattr, name.split("."), space)
        lines = inspect.getdoc(function).splitlines()
        assert example.splitlines()[-1].strip() == lines[-1].strip()
        assert name.split(".")[-1] in example.splitlines()[1] or name in example


def test_all_names_are_listed_by_dir():
    assert {"print", "callback", "visualize_array_sharding"} <= set(dir(weft.debug))
    assert {"jit", "grad", "numpy", "lax", "config", "ad_checkpoint"} <= set(dir(weft))
