"""PartitionSpec: normal form, equality, errors."""

import pickle

import pytest

from weft.sharding.spec import P


def test_equal_specs_are_one_object():
    assert P("x", None) is P("x", None)
    assert P(("x",)) is P("x")
    assert P(()) is P(None)
    assert P("x") is not P("x", None)
    assert P("x", unreduced="y") is P("x", unreduced={"y"})
    assert len({P("x"), P("x"), P("y")}) == 2


def test_specs_are_read_like_sequences():
    spec = P("x", None, ("y", "z"))
    assert len(spec) == 3
    assert list(spec) == ["x", None, ("y", "z")]
    assert spec[0] == "x" and spec[1:] == (None, ("y", "z"))
    assert spec.axes == (("x",), (), ("y", "z"))
    assert spec + P("w") is P("x", None, ("y", "z"), "w")


def test_the_text_of_a_spec_shows_how_to_write_it():
    assert repr(P("x", None, ("y", "z"))) == "P('x', None, ('y', 'z'))"
    assert repr(P(unreduced={"b", "a"})) == "P(unreduced={'a', 'b'})"
    assert repr(P(P.UNCONSTRAINED)) == "P(UNCONSTRAINED,)"


def test_specs_survive_pickling_as_the_same_object():
    spec = P("x", P.UNCONSTRAINED, unreduced="y", reduced="z")
    assert pickle.loads(pickle.dumps(spec)) is spec


@pytest.mark.parametrize("name", ["unreduced", "reduced"])
def test_partial_sums_are_over_named_axes(name):
    with pytest.raises(ValueError, match="hold names of mesh axes, not None"):
        P("x", **{name: {None}})


@pytest.mark.parametrize(
    "make, places",
    [
        (lambda: P("x", "x"), "dimension 0 and dimension 1"),
        (lambda: P(("x", "y"), "y"), "dimension 0 and dimension 1"),
        (lambda: P(("x", "x")), "dimension 0 and dimension 0"),
        (lambda: P("x", unreduced="x"), "dimension 0 and unreduced"),
        (lambda: P(unreduced="x", reduced="x"), "unreduced and reduced"),
    ],
)
def test_an_axis_used_twice_is_refused_with_both_places(make, places):
    with pytest.raises(ValueError, match=f"twice, for {places}"):
        make()


@pytest.mark.parametrize("entry", [3, True, 1.5, {"x": 1}, ("x", None), (("x",),)])
def test_an_entry_that_is_no_axis_name_is_refused(entry):
    with pytest.raises(TypeError, match="PartitionSpec entry 1"):
        P(None, entry)


def test_padding_and_removing_axes():
    assert P("x").padded(3) is P("x", None, None)
    assert P("x", "y").padded(1) is P("x", "y")
    assert P(("x", "y"), P.UNCONSTRAINED, unreduced="z").without({"y", "z"}) is P(
        "x", P.UNCONSTRAINED
    )
    assert P("x").axes_of(5) == ()


def test_entries_are_found_and_counted_as_in_a_tuple():
    spec = P("x", None, ("y", "z"), None)
    assert (spec.index(None), spec.index(("y", "z")), spec.count(None)) == (1, 2, 2)
    with pytest.raises(ValueError):
        spec.index("y")


def test_the_cotangent_of_a_partial_sum_is_reduced():
    spec = P("x", unreduced={"y"}, reduced={"z"})
    assert spec.to_ct_spec() is P("x", unreduced={"z"}, reduced={"y"})
    assert spec.to_tangent_spec() is spec
