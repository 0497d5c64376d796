"""Every op that transformations and control flow define has its rules, or a reason not to."""

import importlib
import pkgutil

import pytest

import weft.api
import weft.autodiff
import weft.driver
import weft.ops.control
from weft.core.primitive import PRIMITIVES

for package in (weft.autodiff, weft.driver, weft.api, weft.ops.control):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)

HOMES = ("weft.autodiff", "weft.driver", "weft.api", "weft.ops.control")
FAMILIES = {f"weft.autodiff.{m}" for m in ("op_families", "shape", "zeros", "manual_casts")}
"""Where ops are made whose rules are tables in tests/ops."""
OPS = sorted(
    (
        p
        for p in PRIMITIVES.values()
        if p.abstract
        and p.abstract.__module__.startswith(HOMES)
        and p.abstract.__module__ not in FAMILIES
    ),
    key=lambda p: p.name,
)
# What an op does without, and why.
NO_JVP = {
    "custom_vjp_linear": "stands in linear programs only, to be transposed",
    "platform_index": "an integer that depends on nothing",
}
NO_TRANSPOSE = {"platform_index": "an integer that depends on nothing"}


def test_the_ops_are_found():
    names = {p.name for p in OPS}
    assert {"jit", "scan", "while", "cond", "remat2", "shard_map", "name"} <= names
    assert {"custom_jvp_call", "custom_vjp_call", "custom_vmap_call", "linear_call"} <= names


@pytest.mark.parametrize("prim", OPS, ids=lambda p: p.name)
def test_an_op_has_all_its_rules(prim):
    missing = [rule for rule in ("abstract", "batch", "lower") if getattr(prim, rule) is None]
    if prim.jvp is None and prim.linearize is None and prim.name not in NO_JVP:
        missing.append("jvp")
    if prim.transpose is None and prim.name not in NO_TRANSPOSE:
        missing.append("transpose")
    assert not missing, f"{prim.name} lacks {missing}"


def test_reasons_are_given_for_missing_rules_only():
    assert all(PRIMITIVES[n].jvp is None and PRIMITIVES[n].linearize is None for n in NO_JVP)
    assert all(PRIMITIVES[n].transpose is None for n in NO_TRANSPOSE)


@pytest.mark.parametrize("prim", [p for p in OPS if p.higher_order], ids=lambda p: p.name)
def test_ops_with_inner_programs_tell_the_axes_they_communicate_over(prim):
    calls_python = prim.name.endswith(("_callback", "debug_print"))
    if prim.name != "custom_vjp_linear" and not calls_python:
        assert prim.named_axes is not None, f"{prim.name} lacks named_axes"
