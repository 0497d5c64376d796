# ruff: noqa: E501 - lines of MLIR text read better whole
"""Programs written per device from end to end are the program of one device as they stand."""

import numpy as np
import pytest

import weft
from tests.partition import harness
from tests.partition.test_localize import module
from weft import lax
from weft._xla import mlir
from weft.driver import use_partitioner
from weft.partition import manual, partition
from weft.partition.collect import collect

MESH = ((4, 2), ("x", "y"))


def mapped(body, in_specs, out_specs, **options):
    mesh = weft.make_mesh(*MESH, axis_types=(weft.AxisType.Auto,) * len(MESH[0]))
    return weft.shard_map(body, mesh=mesh, in_specs=in_specs, out_specs=out_specs, **options)


def ring(v, w):
    total = lax.psum(v @ w, ("x", "y"))
    moved = lax.ppermute(v, "x", [(i, (i + 1) % 4) for i in range(4)])
    return total, moved * lax.axis_index("x"), lax.all_gather(moved, "y", tiled=True)


def looped(v, w):
    def step(carry, _):
        carry = carry + lax.pmean(carry @ w, "x")
        return carry, lax.pmax(carry.sum(), ("x", "y"))

    out, highest = lax.scan(step, v, None, length=3)
    return out, highest


P = weft.P
PROGRAMS = {
    "ring": (ring, (P(("x", "y")), P()), (P(), P(("x", "y")), P("x"))),
    "loop": (looped, (P(("x", "y")), P()), (P(("x", "y")), P())),
}


def recognized(lowered):
    with mlir.context(), mlir.unknown_location():
        return manual.recognize(lowered._program.module)


def arguments(rng):
    return [rng.integers(-4, 5, s).astype(np.float32) for s in ((16, 4), (4, 4))]


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_short_way_gives_the_collectives_of_the_long_way(name, rng):
    body, ins, outs = PROGRAMS[name]
    lowered = weft.jit(mapped(body, ins, outs, check_vma=False)).lower(*arguments(rng))
    assert recognized(lowered) is not None
    found = []
    with mlir.context(), mlir.unknown_location():
        for keep in (False, True):  # stages to keep take the long way
            stages = partition(lowered._program.module, keep_stages=keep)
            stages.local.operation.verify()
            assert "sdy" not in str(stages.local)
            assert "channel" not in str(stages.local)
            one = [(c.kind, c.axes, c.bytes, c.trips) for c in collect(stages.local, stages.mesh)]
            found.append((sorted(one), stages.arguments, stages.results))
    assert found[0] == found[1]


def test_rings_and_loops_per_device_equal_numpy(rng):
    v, w = arguments(rng)
    blocks = np.split(v, 8)
    total, moved, gathered = weft.jit(mapped(*PROGRAMS["ring"], check_vma=False))(v, w)
    np.testing.assert_array_equal(total, sum(b @ w for b in blocks))
    turned = [blocks[(i - 2) % 8] for i in range(8)]
    np.testing.assert_array_equal(
        moved, np.concatenate([b * (i // 2) for i, b in enumerate(turned)])
    )
    np.testing.assert_array_equal(gathered, np.concatenate(turned))
    out, highest = weft.jit(mapped(*PROGRAMS["loop"], check_vma=False))(v, w)
    carry, sums = np.stack(blocks), []
    for _ in range(3):
        mean = (carry @ w).reshape(4, 2, 2, 4).mean(0)
        carry = carry + np.tile(mean, (4, 1, 1))
        sums.append(carry.sum((1, 2)).max())
    np.testing.assert_allclose(out, carry.reshape(16, 4), rtol=1e-5)
    np.testing.assert_allclose(highest, sums, rtol=1e-5)


def test_lowering_leaves_the_program_of_one_device_to_compiling(rng, monkeypatch):
    calls = []

    def counted(*args, **options):
        calls.append(args)
        return partition(*args, **options)

    monkeypatch.setattr(use_partitioner, "partition", counted)
    body, ins, outs = PROGRAMS["ring"]
    v, w = arguments(rng)
    lowered = weft.jit(mapped(body, ins, outs, check_vma=False)).lower(v, w)
    assert not calls
    compiled = lowered.compile()
    assert len(calls) == 1
    np.testing.assert_array_equal(compiled(v, w)[0], sum(b @ w for b in np.split(v, 8)))


def test_arguments_come_split_as_the_region_takes_them(rng):
    body, ins, outs = PROGRAMS["ring"]
    compiled = weft.jit(mapped(body, ins, outs, check_vma=False)).lower(*arguments(rng)).compile()
    mesh = weft.make_mesh(*MESH, axis_types=(weft.AxisType.Auto,) * len(MESH[0]))
    wanted = [weft.NamedSharding(mesh, spec) for spec in (*ins, *outs)]
    given = [*compiled.input_shardings[0], *compiled.output_shardings]
    assert all(a.is_equivalent_to(b, 2) for a, b in zip(given, wanted, strict=True))


REGION = """
    %0 = sdy.manual_computation({operands}) in_shardings={ins} out_shardings=[<@mesh, [{{"x"}}]>] manual_axes={{{axes}}} ({inner}) {{
      {body}
      sdy.return %r : tensor<{local}xf32>
    }} : ({types}) -> tensor<8xf32>"""


def test_layouts_of_arguments_stay_as_promised_where_calls_leave_one_unused(rng):
    """Inlining may not simplify: a computation that takes less is another one."""

    @weft.jit
    def first(v, w):
        return v * 2

    lowered = weft.jit(mapped(first, (P("x"), P("x")), P("x"))).lower(*[np.ones((8, 4))] * 2)
    found = recognized(lowered)
    with mlir.context(), mlir.unknown_location():
        stages = partition(lowered._program.module, keep_stages=False)
    assert found is not None
    assert stages.arguments == found.arguments
    types = str(stages.local).split("@main(")[1].split("->")[0]
    assert types.count("tensor<2x4xf32>") == 2


def region(
    operands="%a", axes='"x", "y"', body="%r = stablehlo.negate %p : tensor<2xf32>", spec='[{"x"}]'
):
    return REGION.format(
        operands=operands, ins=f"[<@mesh, {spec}>]", axes=axes, inner="%p: tensor<2xf32>",
        body=body, local=2, types="tensor<8xf32>",
    )  # fmt: skip


def program(inner: str, argument: str = "", result: str = "", returned: str = "%0") -> str:
    return module(
        f"  func.func public @main(%a: tensor<8xf32>{argument}) -> (tensor<8xf32>{result}) {{"
        f"{inner}\n    return {returned} : tensor<8xf32>\n  }}"
    )


SPLIT = ' {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}'
WHOLE = " {sdy.sharding = #sdy.sharding<@mesh, [{}]>}"
OPEN = ' {sdy.sharding = #sdy.sharding<@mesh, [{"x", ?}]>}'


def find(text: str):
    with mlir.context(), mlir.unknown_location():
        return manual.recognize(mlir.parse(text))


@pytest.mark.parametrize("argument", ["", SPLIT])
@pytest.mark.parametrize("result", ["", SPLIT])
def test_equal_shardings_around_a_region_take_the_short_way(argument, result, rng):
    text = program(region(), argument, result)
    assert find(text) is not None
    a = rng.normal(size=8).astype(np.float32)
    np.testing.assert_array_equal(harness.run(text, a)[0], -a)


@pytest.mark.parametrize(
    "text",
    [
        program(region(), WHOLE),
        program(region(), "", WHOLE),
        program(region(), OPEN),
        program("\n    %b = stablehlo.abs %a : tensor<8xf32>" + region("%b")),
        program(region() + "\n    %1 = stablehlo.abs %0 : tensor<8xf32>", returned="%1"),
        program(region(), returned="%a"),
        program(region() + '\n    %1 = sdy.sharding_constraint %0 <@mesh, [{}]> : tensor<8xf32>', returned="%1"),
        program(region(axes='"x"')),
        program(region(body="%r = stablehlo.custom_call @other(%p) : (tensor<2xf32>) -> tensor<2xf32>")),
    ],
    ids=[
        "argument whole", "result whole", "argument open", "work before", "work after",
        "argument returned", "constraint", "free axis", "custom call",
    ],
)  # fmt: skip
def test_anything_else_takes_the_long_way(text):
    assert find(text) is None


def test_devices_know_their_numbers():
    text = program(
        region(
            body="""%n = stablehlo.partition_id : tensor<ui32>
      %m = stablehlo.convert %n : (tensor<ui32>) -> tensor<f32>
      %r = stablehlo.broadcast_in_dim %m, dims = [] : (tensor<f32>) -> tensor<2xf32>"""
        )
    ).replace("}: tensor", ": tensor")
    assert find(text) is not None
    with mlir.context(), mlir.unknown_location():
        local = partition(mlir.parse(text), keep_stages=False).local
    assert "replica_id" in str(local)
    assert "partition_id" not in str(local)
