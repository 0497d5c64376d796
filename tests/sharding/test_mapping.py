"""Sharding rules as users write them."""

from types import SimpleNamespace

import pytest

from weft.sharding.mapping import (
    BATCHING,
    ArrayMapping,
    CompoundFactor,
    SdyShardingRule,
    parse_rule,
)


def shapes(*all_shapes):
    return [SimpleNamespace(shape=s) for s in all_shapes]


@pytest.mark.parametrize(
    ("text", "operands", "results", "attribute"),
    [
        (
            "i k, k j -> i j",
            [(2, 3), (3, 4)],
            [(2, 4)],
            "([i, j], [j, k])->([i, k]) {i=2, j=3, k=4}",
        ),
        ("... i -> ... i", [(5, 2, 3)], [(5, 2, 3)], "([i, j, k])->([i, j, k]) {i=5, j=2, k=3}"),
        ("...1 a, ...2 a -> ...1 ...2", None, None, "stands in front"),
        ("...1 a, ...2 -> ...2", [(2, 3), (4,)], [(4,)], "([i, j], [k])->([k]) {i=2, j=3, k=4}"),
        ("(a b) -> a b", [(6,)], [(2, 3)], "([ij])->([i, j]) {i=2, j=3}"),
        ("a b -> (a b)", [(2, 3)], [(6,)], "([i, j])->([ij]) {i=2, j=3}"),
        ("i ->", [(4,)], [()], "([i])->([]) {i=4}"),
        ("->", [()], [()], "([])->([]) {}"),
        ("i, i -> i", [(8,), (4,)], [(8,)], "([i], [i])->([i]) {i=4}"),
    ],
)
def test_a_rule_is_shardys_attribute(text, operands, results, attribute):
    if operands is None:
        with pytest.raises(ValueError, match=attribute):
            parse_rule(text)
        return
    made = parse_rule(text).attribute_text(shapes(*operands), shapes(*results), "f")
    assert made == f"#sdy.op_sharding_rule<{attribute}, custom>"


def test_kinds_of_factors_stand_in_the_attribute_in_order():
    rule = parse_rule(
        "a b c d, b -> a d",
        reduction_factors=("b",),
        need_replication_factors=("d", "a"),
        permutation_factors=("c",),
    )
    made = rule.attribute_text(shapes((2, 3, 4, 5), (3,)), shapes((2, 5)), "f")
    assert made.endswith(" reduction={j} need_replication={i, l} permutation={k}, custom>")


def test_a_rule_is_the_same_from_text_and_from_mappings():
    by_hand = SdyShardingRule(
        (ArrayMapping(BATCHING, CompoundFactor("h", "d")), ("d", "e")),
        (ArrayMapping(BATCHING, "h", "e"),),
        reduction_factors=("d",),
    )
    assert by_hand == parse_rule("... (h d), d e -> ... h e", reduction_factors=("d",))
    assert hash(by_hand) == hash(parse_rule("...(h d),d e->...h e", reduction_factors=("d",)))


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        ("i j", {}, "one '->'"),
        ("i -> j -> k", {}, "one '->'"),
        ("i . -> i", {}, "'.' means nothing"),
        ("i… -> i", {}, "means nothing"),
        ("1i -> i", {}, "is no name of a factor"),
        ("i ... -> i", {}, "stands in front"),
        ("(i ...) -> i", {}, "stands in front"),
        ("((i j) k) -> i", {}, "without inner brackets"),
        ("(i j -> i", {}, "not closed"),
        ("(i, j) -> i", {}, "not closed"),
        ("i) -> i", {}, "closes nothing"),
        ("(i) -> i", {}, "two factors at least"),
        ("(i j) -> i", {}, "give its size: j="),
        ("i -> i", {"i": 2}, "leave it out"),
        ("i -> i", {"q": 2}, "is no factor"),
        ("i -> i", {"reduction_factors": ("q",)}, "reduction_factors names 'q'"),
        ("i -> i", {"reduction_factors": ["i"]}, "must be a tuple"),
        ("i -> i", {"reduction_factors": ("i",), "permutation_factors": ("i",)}, "name it once"),
    ],
)
def test_a_rule_that_does_not_hold_together_says_why(text, options, words):
    with pytest.raises(ValueError, match=words):
        parse_rule(text, **options)


@pytest.mark.parametrize(
    ("text", "operands", "results", "options", "words"),
    [
        ("i -> i", [(2,), (2,)], [(2,)], {}, "1 operands, there are 2"),
        ("i -> i", [(2,)], [(2,), (2,)], {}, "1 results, there are 2"),
        ("i j -> i", [(2,)], [(2,)], {}, "gives it 2 dimensions"),
        ("... i -> ...", [(2, 3)], [()], {}, "'...' is 0 dimensions here, elsewhere 1"),
        ("... i -> ... i", [(2, 3)], [(4, 3)], {}, "leading dimension 0 has size 2"),
        ("(a b) -> a", [(6,)], [(2,)], {"b": 4}, "has 8 elements"),
    ],
)
def test_a_rule_that_does_not_fit_the_arrays_says_where(text, operands, results, options, words):
    with pytest.raises(ValueError, match=words):
        parse_rule(text, **options).attribute_text(shapes(*operands), shapes(*results), "f")
