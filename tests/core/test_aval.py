"""Types: interning, printing, manual-axis states."""

import pickle

import numpy as np
import pytest

from weft.core.aval import NO_MAT, Mat, ShapedArray
from weft.sharding.mesh import AbstractMesh, AxisType


def test_equal_types_are_one_object():
    assert ShapedArray((2, 3), "float32") is ShapedArray([2, 3], np.float32)
    assert ShapedArray((2,), "float32") is not ShapedArray((2,), "float32", weak_type=True)


def test_size_and_bytes_follow_from_the_shape():
    a = ShapedArray((2, 3, 4), "int16")
    assert (a.ndim, a.size, a.nbytes, len(a)) == (3, 24, 48, 2)
    assert ShapedArray((), "int16").size == 1
    with pytest.raises(TypeError, match="scalar"):
        len(ShapedArray((), "int16"))


def test_update_changes_only_what_is_named():
    a = ShapedArray((2,), "float32", weak_type=True, mat=Mat({"x"}))
    b = a.update(shape=(5,))
    assert b.shape == (5,) and b.weak_type and b.mat is a.mat


def test_pickling_gives_the_same_object():
    a = ShapedArray((2,), "bfloat16", mat=Mat(["x"], ["y"], ["z"]))
    assert pickle.loads(pickle.dumps(a)) is a


def test_types_print_with_their_manual_axes():
    a = ShapedArray((8, 64), "float32", mat=Mat({"model"}, {"data"}))
    assert a.str_short() == "f32[8,64]{V:model U:data}"
    assert str(ShapedArray((), "bool")) == "bool[]"


def test_states_of_a_mat():
    m = Mat(["a"], ["b"], ["c"])
    assert [m.state(x) for x in "abcd"] == ["varying", "unreduced", "reduced", "invarying"]
    assert Mat() is NO_MAT and not NO_MAT and m
    assert m.replace(varying=()) == Mat([], ["b"], ["c"])


def test_an_axis_has_one_state():
    with pytest.raises(ValueError, match=r"\['x'\].*more than one"):
        Mat(["x"], ["x"])


def test_manual_axis_types_tell_their_axes_and_those_of_cotangents():
    mat = Mat(varying={"x"}, reduced={"y"})
    assert mat.vur == {"x", "y"}
    assert not mat.empty
    assert mat.update(varying=()).to_ct_mat() is Mat(unreduced={"y"})
    manual = AxisType.Manual
    mesh = AbstractMesh((2, 2, 2), ("x", "y", "z"), (manual,) * 3)
    assert mat.invarying(mesh) == {"z"}
