"""Meshes and shardings as MLIR text."""

from weft.sharding.mesh import AxisType, make_mesh
from weft.sharding.named import NamedSharding
from weft.sharding.spec import P
from weft.sharding.text import mesh_sdy_text, mhlo_sharding_text, sdy_sharding_text

MESH = make_mesh((4, 2), ("x", "y"))


def named(*partitions, mesh=MESH, **sets):
    return NamedSharding(mesh, P(*partitions, **sets))


def test_sdy_texts():
    assert mesh_sdy_text(MESH) == '<["x"=4, "y"=2]>'
    assert mesh_sdy_text(MESH, [1, 0, 2, 3, 4, 5, 6, 7]) == (
        '<["x"=4, "y"=2], device_ids=[1, 0, 2, 3, 4, 5, 6, 7]>'
    )
    auto = make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    assert sdy_sharding_text(named("x", P.UNCONSTRAINED, mesh=auto), 3) == (
        '#sdy.sharding<@mesh, [{"x"}, {?}, {}]>'
    )
    assert sdy_sharding_text(named(("y", "x")), 1) == '#sdy.sharding<@mesh, [{"y", "x"}]>'
    text = sdy_sharding_text(
        named("x", unreduced="y"), 2, open_dims=(0, 1), priorities={0: 1, 1: 2}, mesh_name="m"
    )
    assert text == '#sdy.sharding<@m, [{"x", ?}p1, {?}p2], unreduced={"y"}>'
    assert sdy_sharding_text(named(), 0, replicated=("y", "x")) == (
        '#sdy.sharding<@mesh, [], replicated={"x", "y"}>'
    )


def test_sdy_texts_parse():
    from weft._xla import mlir

    for text in (
        sdy_sharding_text(named("x", unreduced="y"), 2, open_dims=(1,), priorities={0: 1}),
        sdy_sharding_text(named(), 0, replicated=("y",)),
    ):
        assert str(mlir.ir.Attribute.parse(text, mlir.context())) == text


def test_mhlo_texts():
    assert mhlo_sharding_text(named("x", "y"), 2) == "{devices=[4,2]<=[8]}"
    assert mhlo_sharding_text(named(), 2) == "{replicated}"
    assert (
        mhlo_sharding_text(named("y"), 1) == "{devices=[2,4]<=[4,2]T(1,0) last_tile_dim_replicate}"
    )


def test_manual_axes_are_manual_subgroups():
    mesh = make_mesh((4, 2), ("x", "y"), (AxisType.Manual, AxisType.Auto))
    assert "manual" in mhlo_sharding_text(named("y", mesh=mesh), 1)
    whole = make_mesh((8,), ("x",), (AxisType.Manual,))
    assert mhlo_sharding_text(named(mesh=whole), 1) == "{manual}"
