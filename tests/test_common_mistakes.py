"""Every row of the table of common mistakes: its error, words, line, and how the page shows it."""

import re
import sys
import traceback

import pytest

from tests import mistakes
from weft.core.source import is_internal_file

ROWS = [(section, row) for section, rows in mistakes.MISTAKES.items() for row in rows]


@pytest.mark.parametrize(
    ("section", "row"), ROWS, ids=[f"{i} {row[0]}" for i, (_, row) in enumerate(ROWS)]
)
def test_the_message_names_what_is_wrong_and_the_way_out(section, row, capsys):
    _, run, error, words = row
    with pytest.raises(error) as caught:
        run()
    text = str(caught.value)
    if error is AttributeError:  # Python adds a name that is alike when it prints the error
        sys.__excepthook__(error, caught.value, None)
        text += capsys.readouterr().err
    for word in words:
        assert re.search(word, text), text
    # The last frame is the user's, or of what the user's line called outside of weft.
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert not is_internal_file(frames[-1].filename) or error is AttributeError, frames[-1]
    lines = {f.lineno for f in frames if f.filename == mistakes.__file__}
    assert lines & set(range(run.__code__.co_firstlineno, run.__code__.co_firstlineno + 8))
    page = mistakes.PAGE.read_text("utf-8").split(f"## {section}\n")[1].split("\n## ")[0]
    start = mistakes.row_start(row)
    shown = [line.removeprefix(start) for line in page.split("\n") if line.startswith(start)]
    assert shown, f"the page has no such row, run `python -m tests.mistakes`: {start}"
    # Other words of a message may change without the page; its type and what matters may not.
    assert any(
        line.startswith(mistakes.cell(mistakes.message_text(caught.value))[:-1].split(":")[0])
        and (error is AttributeError or all(re.search(w, line) for w in words if "\n" not in w))
        for line in shown
    ), f"run `python -m tests.mistakes`; the page shows {shown}"


def test_the_page_has_the_rows_of_the_table():
    page = mistakes.PAGE.read_text("utf-8")
    assert len(ROWS) >= 200
    assert page.count("\n| ") == len(ROWS) + len(mistakes.MISTAKES)  # and the tables' heads
    assert f"{len(ROWS)} programs" in page
