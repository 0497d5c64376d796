"""Documents of jax._src.pretty_printer."""

import pytest

from weft.compat.jax._src import pretty_printer as pp


def call(*arguments):
    separated = pp.join(pp.concat([pp.text(","), pp.brk()]), [pp.text(a) for a in arguments])
    inside = pp.nest(2, pp.concat([pp.brk(""), separated]))
    return pp.group(pp.concat([pp.text("f("), inside, pp.brk(""), pp.text(")")]))


@pytest.mark.parametrize(
    ("width", "lines"),
    [(16, ["f(first, second)"]), (15, ["f(", "  first,", "  second", ")"])],
)
def test_a_group_is_broken_where_it_does_not_fit(width, lines):
    assert call("first", "second").format(width) == "\n".join(lines)


def test_an_inner_group_stays_in_one_line():
    inner = pp.color(call("a", "b"), foreground=pp.Color.RED)
    doc = pp.group(pp.text("g(") + pp.nest(1, pp.brk("") + inner) + pp.text(")"))
    assert doc.format(8) == "g(\n f(a, b))"
    assert str(pp.nil() + pp.join(pp.text(","), [])) == ""


def test_notes_stand_behind_the_longest_line():
    doc = pp.text("a", annotation="here") + pp.brk() + pp.text("longer")
    assert doc.format() == "a      # here\nlonger"


def test_parts_are_found_by_their_sources():
    inside = pp.text("gh") + pp.brk("") + pp.text("ijkl")
    doc = pp.concat([pp.text("abc"), pp.source_map(pp.text("def"), 101), pp.source_map(inside, 77)])
    found = []
    assert doc.format(source_map=found) == "abcdefgh\nijkl"
    assert found == [[(3, 6, 101), (6, 8, 77)], [(0, 4, 77)]]
