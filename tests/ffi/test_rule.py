"""Sharding rules: text to factors, sizes, Shardy's attribute, factors of explicit types."""

import pytest

from weft.core.aval import ShapedArray
from weft.ffi import ShardingRule
from weft.ffi.rule import as_rule, batch_rule


def f32(*shape):
    return ShapedArray(shape, "float32")


def test_a_rule_is_read_into_factors_of_operands_and_results():
    rule = ShardingRule("b i, i j -> b j", reduction="i")
    assert rule.operands == (("b", "i"), ("i", "j"))
    assert rule.results == (("b", "j"),)
    assert repr(rule) == "ShardingRule('b i, i j -> b j', reduction=('i',))"


def test_rules_are_values():
    assert ShardingRule("b->b") == ShardingRule(" b -> b ") and len({ShardingRule("b->b")}) == 1
    assert ShardingRule("b i->b", reduction="i") != ShardingRule("b i->b")


def test_scalars_have_empty_groups():
    rule = ShardingRule("b, -> b")
    assert rule.operands == (("b",), ())
    assert rule.sizes([f32(3), f32()], [f32(3)], "call") == {"b": 3}


@pytest.mark.parametrize(
    "spec, options, words",
    [
        ("b i", {}, "with one '->'"),
        (3, {}, "with one '->'"),
        ("b i -> b -> i", {}, "with one '->'"),
        ("b b -> b", {}, "'b b' repeats a factor"),
        ("b (i j) -> b", {}, r"'\(i' is no name of a factor"),
        ("b -> b", {"reduction": "k"}, "reduction names 'k', which is no factor"),
        ("b -> b", {"reduction": "b"}, "cannot be a dimension of a result"),
    ],
)
def test_a_malformed_rule_is_refused(spec, options, words):
    with pytest.raises(ValueError, match=words):
        ShardingRule(spec, **options)


@pytest.mark.parametrize(
    "spec, ins, outs, words",
    [
        ("b i -> b", [f32(2, 3), f32(2)], [f32(2)], "describes 1 operands, the call has 2"),
        ("b i -> b", [f32(2)], [f32(2)], "gives operand 0 the factors 'b i', but its type is"),
        ("b i -> b", [f32(2, 3)], [f32(4)], "factor 'b' .* size 2 in operand 0 and 4 in result 0"),
    ],
)
def test_a_rule_that_does_not_fit_the_shapes_is_refused(spec, ins, outs, words):
    with pytest.raises(ValueError, match=words):
        ShardingRule(spec).sizes(ins, outs, "ffi_call of 'f'")


def test_only_strings_and_rules_are_rules():
    assert as_rule(None) is None
    with pytest.raises(TypeError, match="must be a string such as"):
        as_rule(3)


def test_factors_on_one_side_only_need_their_dimension_whole():
    text = ShardingRule("b i -> b k").text([f32(2, 3)], [f32(2, 4)], "call")
    assert "([i, j])->([i, k]) {i=2, j=3, k=4} need_replication={j, k}" in text


def test_every_kind_of_factor_reaches_shardy():
    rule = ShardingRule("b i p n -> b p n", reduction="i", permutation="p", need_replication="n")
    text = rule.text([f32(2, 3, 4, 5)], [f32(2, 4, 5)], "call")
    assert "reduction={j} need_replication={l} permutation={k}" in text


def test_factors_that_are_no_names_are_refused():
    with pytest.raises(TypeError, match="factors are given as a string .* got 3"):
        ShardingRule("b i -> b", reduction=3)


def test_a_side_without_factors_may_be_one_scalar():
    rule = ShardingRule("i ->", reduction="i")
    assert rule.fit(1, 1).results == ((),)
    assert rule.fit(1, 0) is rule
    assert rule.fit(1, 1).sizes([f32(3)], [f32()], "call") == {"i": 3}


def test_many_factors_have_names():
    names = " ".join(f"f{i}" for i in range(20))
    text = ShardingRule(f"{names} -> {names}").text([f32(*[2] * 20)], [f32(*[2] * 20)], "call")
    assert "z_1=2" in text and "z_2=2" in text


def test_a_batch_rule_shares_the_leading_dimensions_and_no_others():
    rule = batch_rule([f32(4, 3), f32(1, 3)], [f32(4, 3)], 1)
    assert rule.spec == "b0 o0_1, o1_0 o1_1 -> b0 r0_1"
    assert rule.leading_shared() == 0
    assert batch_rule([f32(4, 3)], [f32(4, 5)], 1).leading_shared() == 1


def test_explicit_types_read_the_same_rule():
    rule = ShardingRule("b i n m -> b n k", reduction="i", need_replication="n")
    assert rule.factor_text() == "b +i !n !m -> b * *"
