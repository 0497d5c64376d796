"""Ratios, budgets and the written table, from made-up values."""

import pytest

from benchmarks import table
from benchmarks.case import CASES, Case
from benchmarks.groups import GROUPS, load_groups
from benchmarks.harness import CONTROL, Child, Row, measure


def row(weft, jax, budget=0.5):
    made = Row(Case("some case", "eager", budget, "cpu", "s"))
    made.values["weft"], made.values["jax"] = weft, jax
    return made


def test_the_ratio_is_the_median_of_the_pairs_of_a_round():
    assert row([1.0, 2.0, 9.0], [2.0, 5.0, 10.0]).ratio == 0.5


@pytest.mark.parametrize(
    ("weft", "verdict"),
    [
        ([0.4], "✓"),
        ([0.5], "✓"),
        ([0.6], "✗"),
        ([0.51] * 5 + [0.49] * 2, "≈"),
        ([0.51] * 6 + [0.49], "✗"),
    ],
)
def test_a_budget_is_met_up_to_its_own_value(weft, verdict):
    assert row(weft, [1.0] * len(weft)).verdict == verdict


@pytest.mark.parametrize(
    ("weft", "undecided"),
    [
        ([0.52], True),
        ([0.48, 0.51], True),
        ([0.6, 0.62], True),
        ([0.8, 0.82], False),
        ([0.3, 0.31], False),
        ([0.5, 0.5], False),  # bytes do not change
        ([0.51, 0.5] * 4, False),  # enough
    ],
)
def test_cases_near_their_budgets_get_more_rounds(weft, undecided):
    assert row(weft, [1.0] * len(weft)).undecided is undecided


def test_a_side_that_failed_is_reported_and_meets_nothing():
    failed = row([], [1.0])
    failed.errors["weft"] = "TypeError: no"
    assert failed.verdict == "" and not failed.undecided
    assert "weft failed on some case: TypeError: no" in table.as_text([failed])


def test_the_control_compares_jax_with_itself():
    made = Row(Case("some case", "eager", 1.0, "cpu", "s"), CONTROL)
    made.values["jax again"], made.values["jax"] = [2.0], [4.0]
    text = table.as_text([made])
    assert made.ratio == 0.5 and "JAX again" in text and "weft" not in text


def test_the_table_replaces_only_what_stands_between_its_markers(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"before\n{table.MARKERS[0]}\nold\n{table.MARKERS[1]}\nafter\n")
    table.write_between_markers(page, table.as_markdown([row([1e-6], [4e-6])]))
    text = page.read_text()
    assert text.startswith("before\n") and text.endswith("after\n") and "old" not in text
    assert "| eager: some case | 1 µs | 4 µs | 0.25× | 0.25–0.25 (1) | ≤ 0.5× | ✓ |" in text
    assert "1 of 1 budgets are met" in text


def test_a_page_without_markers_is_refused(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("no markers\n")
    with pytest.raises(ValueError, match="write the table between"):
        table.write_between_markers(page, "")


def test_every_group_declares_cases():
    load_groups()
    assert {case.group for case in CASES.values()} == set(GROUPS)


@pytest.fixture
def child():
    child = Child("weft")
    yield child
    child.close()


def test_a_child_sets_a_case_up_and_takes_samples(child):
    answer = child.ask("x + y")
    assert answer["seconds"] > 0
    assert child.ask("")["value"] > 0
    assert "KeyError" in child.ask("no such case")["error"]
    assert child.alive


def test_a_round_gives_each_side_one_value(child):
    load_groups()
    measured = Row(CASES["x + y"])
    measure([child], measured)
    [value] = measured.values["weft"]
    assert value > 0 and not measured.values["jax"] and not measured.errors


def test_a_child_that_dies_leaves_its_last_words(child):
    child._process.kill()
    assert "error" in child.ask("x + y") and not child.alive
