"""The text of an error ends with the name of its section in docs/errors.md."""

import pickle
import re

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from tests.test_docs import DOCS, public_errors

LINKED = sorted(public_errors() - {weft.errors.JaxRuntimeError}, key=lambda c: c.__name__)


def anchors() -> set[str]:
    """The anchors of the page's sections, as sites and repositories make them of headings."""
    text = (DOCS / "errors.md").read_text("utf-8")
    headings = re.findall(r"^##+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h).lower().replace(" ", "-") for h in headings}


def make(cls, text):
    return cls(text, "line", "reason") if cls is weft.partition.Unsupported else cls(text)


@pytest.mark.parametrize("cls", LINKED, ids=[c.__name__ for c in LINKED])
def test_the_text_ends_with_the_section_of_the_class(cls):
    error = make(cls, "words")
    text, _, link = str(error).rpartition("\n")
    name = "checkifyjaxruntimeerror" if cls is weft.checkify.JaxRuntimeError else cls.__name__
    assert link == f"[docs/errors.md#{name.lower()}]"
    assert re.search("#(.*)]", link)[1] in anchors()
    assert text == error.args[0] and "words" in text
    assert link not in repr(error)
    # Public where programs import it from, so that copies find their class.
    copied = pickle.loads(pickle.dumps(error))
    assert type(copied) is cls and copied.args == error.args and str(copied) == str(error)


def test_a_class_of_the_users_own_names_the_section_of_its_base():
    class Mine(weft.errors.ShapeError):
        pass

    assert str(Mine("words")) == "words\n[docs/errors.md#shapeerror]"
    assert str(Mine()) == "[docs/errors.md#shapeerror]"


def test_text_that_is_passed_on_has_one_section_that_of_the_outer_class():
    inner = weft.errors.IndivisibleError("six by four")
    outer = weft.errors.ShapeError(f"argument x: {inner}")
    assert str(outer) == "argument x: six by four\n[docs/errors.md#shapeerror]"


def test_groups_hold_errors_with_their_sections():
    with pytest.raises(ExceptionGroup) as caught:
        raise ExceptionGroup("several", [weft.errors.ShapeError("words"), KeyError("k")])
    matched, rest = caught.value.split(weft.errors.ShapeError)
    assert str(matched.exceptions[0]).endswith("#shapeerror]")
    assert [type(e) for e in rest.exceptions] == [KeyError]


def test_an_error_through_native_code_keeps_its_section():
    # Python's own sort, in C, asks a traced value for its truth.
    with pytest.raises(weft.errors.TracerBoolConversionError) as caught:
        weft.jit(lambda x, y: sorted([x, y])[0])(1.0, 2.0)
    assert str(caught.value).endswith("\n[docs/errors.md#tracerboolconversionerror]")
    # And a callback that XLA calls.
    with pytest.raises(weft.errors.ShapeError) as caught:
        f = lambda x: weft.pure_callback(lambda x: wnp.ones(3) @ wnp.ones(4), x, x)
        np.asarray(weft.jit(f)(1.0))
    assert str(caught.value).endswith("\n[docs/errors.md#shapeerror]")


def test_messages_still_match():
    with pytest.raises(weft.errors.ShapeError, match=r"^weft.numpy.matmul: the summed"):
        wnp.ones((2, 3)) @ wnp.ones((4, 5))


def test_a_message_around_another_error_s_text_keeps_all_words_and_one_link():
    inner = weft.errors.ShapeError("a is odd")
    outer = weft.errors.ArgumentError(f"{inner}; b too")
    assert str(outer) == "a is odd; b too\n[docs/errors.md#argumenterror]"
    assert f"f: {inner}" == "f: a is odd"
    assert str(weft.errors.ArgumentError(f"{inner!s} and b")) == (
        "a is odd and b\n[docs/errors.md#argumenterror]"
    )
