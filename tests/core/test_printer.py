"""The text of jaxprs: types, names, nesting, what is left out, lines and scopes."""

import re
from html import unescape

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import P, lax
from weft.core.errors import mark_difference, mark_dimensions
from weft.sharding import AxisType, NamedSharding

X = np.ones((8, 64), np.float32)
MESH = weft.make_mesh((4, 2), ("data", "model"))


def body(jaxpr):
    return str(jaxpr).split("\n")[1:-1]


def test_types_show_shardings_and_manual_axes():
    x = weft.device_put(X, NamedSharding(MESH, P("data")))
    f = weft.shard_map(
        lambda a: lax.psum(a * 2, "model"), mesh=MESH, in_specs=P(None, "model"), out_specs=P()
    )
    text = str(weft.make_jaxpr(f)(weft.device_put(X, NamedSharding(MESH, P(None, "model")))))
    assert "f32[8,32]{V:model}" in text
    text = str(weft.make_jaxpr(wnp.sin)(x))
    assert text.startswith("{ lambda ; a:f32[8@data,64]. let\n    b:f32[8@data,64] = sin a\n")


@pytest.mark.parametrize(
    ("spec", "shown"),
    [
        (P("data", "model"), "f32[8@data,64@model]"),
        (P(("data", "model")), "f32[8@data+model,64]"),
        (P(None, "model"), "f32[8,64@model]"),
        (P(), "f32[8,64]"),
        (P("data", unreduced={"model"}), "f32[8@data,64]{U:model}"),
    ],
)
def test_a_type_is_written_with_its_axes(spec, shown):
    sharding = NamedSharding(MESH.abstract_mesh, spec)
    aval = weft.typeof(X).update(sharding=sharding)
    assert aval.str_short() == shown


def test_all_manual_states_are_shown():
    mat = weft.core.aval.Mat(varying=["model", "a"], unreduced=["b"], reduced=["c"])
    aval = weft.typeof(X).update(mat=mat)
    assert aval.str_short() == "f32[8,64]{V:a,model U:b R:c}"


def test_names_go_on_in_inner_jaxprs():
    inner = weft.jit(lambda a: wnp.sin(a) * 2)
    assert str(weft.make_jaxpr(lambda a: inner(a) + a)(1.0)) == "\n".join(
        (
            "{ lambda ; a:f32[]. let",
            "    b:f32[] = jit[",
            "      name=<lambda>",
            "      jaxpr={ lambda ; c:f32[]. let",
            "          d:f32[] = sin c",
            "          e:f32[] = mul d 2.0:f32[]",
            "        in (e,) }",
            "    ] a",
            "    f:f32[] = add b a",
            "  in (f,) }",
        )
    )


def test_params_that_are_not_set_are_left_out():
    [line] = body(weft.make_jaxpr(lambda a: lax.dot(a, a.T))(X[:, 0]))
    assert line == ("    b:f32[] = dot_general[dimension_numbers=(((0,), (0,)), ((), ()))] a a")
    text = str(weft.make_jaxpr(lambda a: lax.scan(lambda c, x: (c, x), a, a, reverse=True))(X[0]))
    assert "reverse=True" in text and "None" not in text and "False" not in text


def test_branches_are_listed_one_below_the_other():
    f = lambda a: lax.cond(a > 0, lambda x: x + 1, lambda x: x * 2, a)
    lines = [line.strip() for line in body(weft.make_jaxpr(f)(1.0))]
    start = lines.index("branches=(")
    assert [line.split(" = ")[-1] for line in lines[start + 1 : start + 7]] == [
        "{ lambda ; e:f32[]. let",
        "mul e 2.0:f32[]",
        "in (f,) }",
        "{ lambda ; g:f32[]. let",
        "add g 1.0:f32[]",
        "in (h,) }",
    ]


def test_literals_print_the_digits_of_their_dtype_and_arrays_are_constants():
    f = lambda a: a * np.float32(0.1) + np.arange(3, dtype=np.float32)
    text = str(weft.make_jaxpr(f)(X[0, :3]))
    assert text.startswith("{ lambda a:f32[3] ; b:f32[3]. let") and "0.1:f32[]" in text


def test_equal_programs_print_alike():
    @weft.custom_jvp
    def f(x):
        return x

    f.defjvp(lambda primals, tangents: (primals[0], tangents[0]))
    texts = {str(weft.make_jaxpr(lambda x: f(x))(1.0)) for _ in range(2)}
    assert len(texts) == 1 and "0x" not in texts.pop()


def test_lines_and_scopes_are_shown_when_asked():
    def f(x):
        y = wnp.sin(x)
        with weft.named_scope("head"):
            return y * 2

    jaxpr = weft.make_jaxpr(f)(1.0)
    line = f.__code__.co_firstlineno
    shown = jaxpr.pretty_print(source_info=True, name_stack=True).split("\n")
    assert shown[1].endswith(f"sin a  # test_printer.py:{line + 1}")
    assert shown[2].endswith(f"mul b 2.0:f32[]  # head test_printer.py:{line + 3}")
    assert "#" not in str(jaxpr)


def test_effects_without_results_have_no_name():
    text = str(weft.make_jaxpr(lambda x: weft.debug.print("{}", x))(1.0))
    assert "    _ = " in text and "in () }" in text


# Marks -------------------------------------------------------------------------------------------


def test_what_differs_in_the_second_type_is_marked():
    assert mark_difference("f32[3]", "f32[2,3]").split("\n") == [
        "  expected f32[3]",
        "  got      f32[2,3]",
        "               ^^^^",
    ]


def test_named_dimensions_are_marked_whatever_their_sharding():
    auto = weft.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    assert weft.typeof(weft.device_put(X, NamedSharding(auto, P("x")))).str_short() == "f32[8,64]"
    x = weft.typeof(weft.device_put(X, NamedSharding(MESH, P(("data", "model")))))
    y = weft.typeof(np.ones((3, 4, 5), np.int32))
    assert mark_dimensions(("lhs", x, [0]), ("other", y, [1, 2])).split("\n") == [
        "  lhs   f32[8@data+model,64]",
        "            ^^^^^^^^^^^^",
        "  other i32[3,4,5]",
        "              ^ ^",
    ]


def test_an_option_colors_every_text_of_a_jaxpr():
    jaxpr = weft.make_jaxpr(lambda x: x + 1)(np.ones(2, np.float32))
    plain = str(jaxpr)
    assert "\033" not in plain
    weft.config.update("pprint_use_color", True)
    try:
        assert re.sub("\033\\[\\d+m", "", str(jaxpr)) == plain != str(jaxpr)
        assert "\033" not in jaxpr.pretty_print(use_color=False)
    finally:
        weft.config.update("pprint_use_color", False)


def test_colors_leave_the_text_as_it_is():
    jaxpr = weft.make_jaxpr(lambda x: wnp.sin(x) * 2)(np.ones(2, np.float32))
    plain = jaxpr.pretty_print(source_info=True)
    colored = jaxpr.pretty_print(source_info=True, use_color=True)
    assert "\033[32m:f32[2]\033[0m" in colored and "\033[1mlet\033[0m" in colored
    stripped = re.sub("\033\\[\\d+m", "", colored)
    assert stripped == plain == jaxpr.jaxpr.pretty_print(source_info=True)


def test_notebooks_fold_inner_jaxprs():
    closed = weft.make_jaxpr(lambda x: weft.lax.scan(lambda c, _: (c * 2, c), x, None, 3))(1.0)
    html = closed._repr_html_()
    assert html.count("<details open>") == 1 and html.count("<details>") >= 1
    assert html.count("<details") == html.count("</details>")
    text = re.sub(r"<div[^>]*>|<details[^>]*>|<summary>", "", html)
    lines = re.split(r"</div>|</summary>|</details>", text)
    assert [unescape(line) for line in lines if line] == str(closed).splitlines()
