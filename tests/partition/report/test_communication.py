"""The report: text, table, HTML page, sizes, memory."""

import io
import re

import pytest
from rich.console import Console

import weft
from tests.partition import browser
from tests.partition.test_collect import DOT, LOOP
from tests.web_page import parsed
from weft._xla import mlir
from weft.partition import partition
from weft.partition.cost import HardwareModel, Link
from weft.partition.report.communication import format_bytes, format_seconds, parse_bytes, report
from weft.partition.report.device_memory import estimate_memory
from weft.partition.report.source_lines import short
from weft.sharding.drawing import value_html


def made(text: str = DOT, **options):
    return report(partition(mlir.parse(text), explain=True), **options)


def test_the_text_has_a_line_and_a_reason_for_every_collective():
    text = str(made(hardware_model="h100"))
    assert re.search(r"all_reduce +y +2x4xf32 +32 B +× 1 +\d.*µs +model.py:12", text)
    assert "why: dot_general (model.py:12) splits what it sums over y" in text
    assert "mesh x=4 × y=2" in text and "on h100" in text


def test_totals_are_sums_over_collectives():
    r = made(LOOP)
    assert r.total_bytes == sum(c.bytes * c.trips for c in r.collectives)
    assert r.counts()["collective_permute"] == 5
    assert r.seconds == pytest.approx(sum(r.hardware.estimate(c) for c in r.collectives))


def test_it_prints_as_a_rich_table():
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(made())
    assert "all_reduce" in console.export_text()


def test_the_page_is_well_formed_and_loads_nothing(tmp_path):
    r = made()
    r.to_html(tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    page = parsed(text)
    assert not page.links and page.tags.count("script") == 1
    assert text.count('class="stage"') == 4
    assert page.tags.count("rect") >= 8 + 8  # the mesh, and the shards of an 4 × 2 argument
    assert "sdy.all_reduce" in text and "<mark" in text


@pytest.mark.parametrize(
    "dims, corners",
    [
        (((), (), ("model",)), {(0, 0), (48, 0)}),
        (((), ("data",), ()), {(0, 0), (24, 0), (48, 0), (72, 0)}),
        ((("data",), (), ("model",)), {(x, y) for x in (0, 48) for y in (0, 16, 32, 48)}),
        (((), (), ()), {(0, 0)}),
    ],
)
def test_a_drawing_shows_the_dimensions_that_are_split(dims, corners):
    html = value_html(((4, 8, 6), dims), {"data": 4, "model": 2}, ["x"])
    shards = html[html.index('aria-label="shards"') : html.index("</svg>")]
    found = re.findall(r'<rect x="([\d.]+)" y="([\d.]+)"', shards)
    assert {(float(x), float(y)) for x, y in found} == corners


def test_results_have_the_names_of_their_paths():
    text = """module { sdy.mesh @mesh = <["data"=2]>
      func.func public @main(%a: tensor<8xf32>) -> (
        tensor<8xf32> {jax.result_info = "result['loss']"}) { return %a : tensor<8xf32> } }"""
    assert [name for name, _, _ in made(text).results] == ["result['loss']"]


PROBE = """<script>
const report = [];
const box = e => e.getBoundingClientRect();
const seen = (name, list) => report.push(name + "=" + [...list].join(","));
addEventListener("load", () => {
  seen("bars", [...document.querySelectorAll(".bar")].map(b => Math.round(box(b).width)));
  seen("mesh", [document.querySelectorAll("svg.mesh rect").length]);
  seen("colours", new Set([...document.querySelectorAll("svg.holders")].map(
    s => new Set([...s.querySelectorAll("rect")].map(r => getComputedStyle(r).fill)).size)));
  seen("stages", [...document.querySelectorAll(".stage h3")].map(h => h.textContent));
  const tops = new Set([...document.querySelectorAll(".stage")].map(s => Math.round(box(s).top)));
  seen("rows", [tops.size]);
  const bar = document.querySelector("svg.time rect.moves");
  bar?.dispatchEvent(new MouseEvent("click", {bubbles: true}));
  seen("linked", new Set([...document.querySelectorAll(".stage .on")].map(x => x.dataset.at)));
  const panels = [...document.querySelectorAll(".stage")];
  seen("panels", [panels.filter(s => s.querySelector(".on")).length]);
  seen("marks", [document.querySelectorAll("mark.c").length]);
  document.documentElement.dataset.probe = report.join(";");
});
</script>"""


def test_chromium_draws_the_mesh_the_shards_and_the_stages_side_by_side(tmp_path):
    """Where there is no Chromium, the same facts are read from the page's source."""
    r = made()
    page = tmp_path / "report.html"
    r.to_html(page)
    source = page.read_text(encoding="utf-8")
    page.write_text(source.replace("</body>", PROBE + "</body>"), encoding="utf-8")
    shown = browser.dom(page, tmp_path / "profile")
    if shown is None:
        assert source.count('class="stage"') == 4 and source.count("<mark") > 0
        assert "display:flex" in source
        return
    found = re.search(r'data-probe="([^"]*)"', shown)
    assert found, shown[:500]
    facts = dict(part.split("=") for part in found[1].split(";"))
    widths = [int(w) for w in facts["bars"].split(",")]
    assert len(widths) == len(r.collectives) and max(widths) == 120
    assert facts["mesh"] == "8"  # one cell a device
    assert "8" in facts["colours"].split(",")  # an argument with eight different shards
    assert facts["stages"] == "propagated,collectives,local,hlo" and facts["rows"] == "1"
    assert int(facts["marks"]) > 0
    # A click on the collective's bar marks what comes from its line, in every stage.
    assert facts["linked"] == "model.py:12" and facts["panels"] == "4"


def test_stage_texts_carry_source_lines():
    stages = dict(made().stages)
    for name in ("propagated", "collectives", "local"):
        [line] = [s for s in stages[name].splitlines() if "stablehlo.dot_general" in s]
        assert line.endswith("// model.py:12")
        assert "loc(" not in stages[name]


def test_reasons_use_the_names_of_arguments():
    stages = partition(mlir.parse(DOT), explain=True, names=["weights['up']", "x"])
    assert "y from argument weights['up']" in str(report(stages))


def test_the_notebook_table_names_every_collective():
    r = made()
    assert r._repr_html_().count("<tr") == 1 + len(r.collectives)


@pytest.mark.parametrize(
    "count, text",
    [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (3.21e6, "3.21 MB"), (4e13, "40 TB")],
)
def test_bytes_have_units(count, text):
    assert format_bytes(count) == text


def test_seconds_have_units():
    assert [format_seconds(s) for s in (2.5, 0.0042, 3e-6, 4e-9)] == [
        "2.5 s",
        "4.2 ms",
        "3 µs",
        "4 ns",
    ]


@pytest.mark.parametrize("text, want", [("3 MB", 3e6), ("1.5kB", 1500), ("2 MiB", 2**21), (70, 70)])
def test_sizes_are_read(text, want):
    assert parse_bytes(text) == want


def test_a_size_that_is_none_says_how_to_write_one():
    with pytest.raises(ValueError, match="write a number and a unit, as in '3 MB'"):
        parse_bytes("three megs")


def test_memory_counts_arguments_results_and_the_peak_between():
    text = """module { func.func public @main(%a: tensor<256xf32>) -> tensor<256xf32> {
      %0 = stablehlo.negate %a : tensor<256xf32>
      %1 = stablehlo.abs %a : tensor<256xf32>
      %2 = stablehlo.add %0, %1 : tensor<256xf32>
      %3 = stablehlo.concatenate %2, %2, dim = 0
        : (tensor<256xf32>, tensor<256xf32>) -> tensor<512xf32>
      %4 = stablehlo.slice %3 [0:256] : (tensor<512xf32>) -> tensor<256xf32>
      return %4 : tensor<256xf32> } }"""
    m = estimate_memory(mlir.parse(text))
    assert (m.arguments, m.results) == (1024, 1024)
    assert m.temporaries == 3 * 1024  # %0, %1, %2 together; %2 and %3 together
    assert m.largest_bytes == 2048 and "concatenate" in m.largest


def test_the_timeline_has_each_operation_after_the_other_and_what_is_held():
    steps = made(hardware_model="h100").timeline()
    assert [s.name for s in steps] == ["dot_general", "all_reduce"]
    assert [s.communicates for s in steps] == [False, True]
    assert steps[1].start == pytest.approx(steps[0].seconds)
    r = made(hardware_model="h100")
    assert steps[1].seconds == pytest.approx(r.seconds, rel=0.01)
    assert steps[0].source == "model.py:12"
    assert steps[0].live == r.memory.arguments + r.memory.results


def test_the_time_of_a_product_is_that_of_its_arithmetic_or_of_its_bytes():
    text = """module {{ func.func public @main(%a: tensor<{0}x{0}xf32>) -> tensor<{0}x{0}xf32> {{
      %0 = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0]
        : (tensor<{0}x{0}xf32>, tensor<{0}x{0}xf32>) -> tensor<{0}x{0}xf32>
      return %0 : tensor<{0}x{0}xf32> }} }}"""
    model = HardwareModel("toy", ((None, Link(1e-6, 1e9)),), peak_flops=1e12, memory_bandwidth=1e9)
    for n in (4, 4096):
        [step] = made(text.format(n), hardware_model=model).timeline()
        assert step.seconds == pytest.approx(max(2 * n**3 / 1e12, 3 * 4 * n**2 / 1e9))


def test_two_reports_are_compared_by_their_collectives(tmp_path):
    dot, loop = made(), made(LOOP)
    assert (
        dot.diff(dot)
        == f"sent {format_bytes(dot.total_bytes)}, was {format_bytes(dot.total_bytes)}"
    )
    changed = dot.diff(loop).splitlines()[1:]
    assert [line[:2] for line in changed].count("- ") == len(loop.collectives)
    assert [line for line in changed if line[0] == "+"] == [
        "+ all_reduce y 2x4xf32 32 B × 1 model.py:12"
    ]
    dot.to_html(tmp_path / "compared.html", before=loop)
    assert "<h2>Compared</h2>" in (tmp_path / "compared.html").read_text("utf-8")


def test_several_places_are_each_relative_to_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert (
        short(f"{tmp_path}/a.py:1, /far/b.py:2, {tmp_path}/c.py:3") == "a.py:1, /far/b.py:2, c.py:3"
    )


def test_the_page_says_where_a_constraint_pads(tmp_path):
    mesh = weft.make_mesh((4,), ("x",), (weft.AxisType.Auto,), devices=weft.devices()[:4])
    rows = weft.NamedSharding(mesh, weft.P("x"))
    step = weft.jit(lambda x: weft.lax.with_sharding_constraint(x, rows) * 2)
    for size, padded in ((17, True), (16, False)):
        page = tmp_path / f"{size}.html"
        weft.comm(step, weft.numpy.ones(size)).to_html(page)
        text = page.read_text(encoding="utf-8")
        assert ("into 4 parts of 5, the last ones partly empty" in text) is padded


def test_show_takes_another_report_not_a_path():
    with pytest.raises(TypeError, match=r"before must be another report.*to_html\(path\)"):
        made().show("report.html")
