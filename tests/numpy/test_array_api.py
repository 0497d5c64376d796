"""What the array API standard says beyond values: inspection, containers, dtypes."""

from __future__ import annotations

import pickle

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


def test_asarray_without_a_copy_refuses_what_needs_one() -> None:
    x = wnp.ones(3)
    assert wnp.asarray(x, copy=False) is x
    with pytest.raises(ValueError, match="needs a copy"):
        wnp.asarray(x, dtype=wnp.int32, copy=False)
    with pytest.raises(ValueError, match="needs a copy"):
        wnp.asarray(np.ones(3, np.float32), dtype=wnp.int32, copy=False)
    assert wnp.expand_dims(x).shape == (1, 3)
