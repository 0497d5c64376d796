"""Picking values by a mask, and putting them back."""

from weft.core.masks import closed_under, pick, unpick


def test_unpicked_values_stand_where_they_were_picked():
    mask = [True, False, True]
    assert pick("abc", mask) == ["a", "c"]
    assert unpick("ac", mask) == ["a", None, "c"]


def test_masks_share_an_iterator_of_values():
    values = iter("abc")
    assert unpick(values, [True, False]) == ["a", None]
    assert unpick(values, [True, True]) == ["b", "c"]


def test_a_mask_grows_until_nothing_is_added():
    after = {0: 1, 1: 2}
    grown = closed_under(
        [True, False, False, False],
        lambda marks: [any(marks[i] and after.get(i) == k for i in range(4)) for k in range(4)],
    )
    assert grown == [True, True, True, False]
