"""Picking values by a mask, and putting them back."""

from weft.core.masks import pick, unpick


def test_unpicked_values_stand_where_they_were_picked():
    mask = [True, False, True]
    assert pick("abc", mask) == ["a", "c"]
    assert unpick("ac", mask) == ["a", None, "c"]


def test_masks_share_an_iterator_of_values():
    values = iter("abc")
    assert unpick(values, [True, False]) == ["a", None]
    assert unpick(values, [True, True]) == ["b", "c"]
