"""What the array API standard says beyond values: inspection, containers, dtypes."""

from __future__ import annotations

import inspect
import pickle
from typing import Any

import array_api_strict
import numpy as np
import pytest

import weft
import weft.numpy as wnp


def test_the_namespace_tells_of_itself() -> None:
    info = wnp.__array_namespace_info__()
    assert wnp.__array_api_version__ == "2024.12"
    assert set(info.capabilities()) == {
        "boolean indexing",
        "data-dependent shapes",
        "max dimensions",
    }
    assert info.default_device() in info.devices()
    assert set(weft.devices()) <= set(info.devices())
    for device in info.devices():
        for name, dtype in info.dtypes(device=device).items():
            assert wnp.empty(1, dtype=dtype, device=device).dtype == np.dtype(name)


def test_dtypes_follow_x64_and_kind() -> None:
    info = wnp.__array_namespace_info__()
    assert "int64" not in info.dtypes()
    assert info.default_dtypes()["integral"] == np.int32
    with weft.enable_x64(True):
        assert info.dtypes(kind=("bool", "real floating")) == {
            "bool": np.dtype("bool"),
            "float32": np.dtype("float32"),
            "float64": np.dtype("float64"),
        }
        assert info.default_dtypes()["indexing"] == np.int64
        assert wnp.searchsorted(wnp.arange(3.0), wnp.arange(2.0)).dtype == np.int64
    with pytest.raises(ValueError, match="kind must be one of bool"):
        info.dtypes(kind="reals")


def test_broadcast_arrays_gives_a_tuple_and_expand_dims_an_index_error() -> None:
    assert isinstance(wnp.broadcast_arrays(wnp.ones((2, 1)), wnp.ones(3)), tuple)
    for axis in (3, -4):
        with pytest.raises(IndexError):
            wnp.expand_dims(wnp.ones((2, 3)), axis=axis)


@pytest.mark.parametrize("name", ["bfloat16", "float16", "float32", "complex64"])
def test_limits_of_dtypes_are_python_floats(name: str) -> None:
    info = wnp.finfo(name)
    for field in ("eps", "max", "min", "smallest_normal"):
        assert type(getattr(info, field)) is float
    assert type(info.bits) is int
    assert info.max == float(weft.dtypes.finfo(info.dtype).max)
    assert pickle.loads(pickle.dumps(info)).eps == info.eps


def test_asarray_without_a_copy_takes_what_needs_one_as_jax_does() -> None:
    x = wnp.ones(3)
    assert wnp.asarray(x, copy=False) is x
    for value in (x, np.ones(3, np.float32)):
        assert wnp.asarray(value, dtype=wnp.int32, copy=False).dtype == np.int32
    assert wnp.expand_dims(x).shape == (1, 3)


def test_booleans_fit_every_dtype() -> None:
    with weft.enable_x64(True):
        for name, dtype in wnp.__array_namespace_info__().dtypes().items():
            for value in (True, False):
                got = wnp.asarray(value, dtype=dtype)
                assert got.dtype == np.dtype(name)
                assert got == value


def _functions(namespace: Any) -> dict[str, Any]:
    inspecting = (
        "set_array_api_strict_flags get_array_api_strict_flags reset_array_api_strict_flags"
    )
    own = {*inspecting.split(), "requires_api_version", "requires_extension"}
    names = set(getattr(namespace, "__all__", dir(namespace))) - own
    members = {name: getattr(namespace, name) for name in names if not name.startswith("_")}
    return {name: f for name, f in members.items() if inspect.isfunction(f)}


@pytest.mark.parametrize("extension", [None, "linalg", "fft"])
def test_functions_take_the_standards_arguments(extension: str | None) -> None:
    namespaces = (array_api_strict, wnp)
    standard, own = (getattr(n, extension) if extension else n for n in namespaces)
    for name, function in _functions(standard).items():
        theirs = inspect.signature(function).parameters
        ours = inspect.signature(getattr(own, name)).parameters
        for position, (argument, parameter) in enumerate(theirs.items()):
            if parameter.kind is parameter.KEYWORD_ONLY:
                assert argument in ours, f"{name} has no {argument}="
            elif parameter.kind is parameter.POSITIONAL_ONLY:
                kinds = {p.kind for p in list(ours.values())[: position + 1]}
                assert parameter.KEYWORD_ONLY not in kinds, f"{name}: {argument} is by name only"
            elif parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
                assert ours[argument].kind is parameter.kind, f"{name}: {argument}"


def test_arrays_of_other_libraries_have_the_dtype_that_they_name() -> None:
    class Foreign:
        dtype = np.dtype("float64")

    assert wnp.result_type(Foreign(), 1, "int8") == np.float32
    with weft.enable_x64(True):
        assert wnp.result_type(Foreign(), 1, "int8") == np.float64
    with pytest.raises(TypeError, match="not an array or a number"):
        wnp.result_type(object())
