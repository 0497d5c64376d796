"""Different programs, one after the other, do not fill memory: caches are bounded or cleared."""

import ast
import gc
from pathlib import Path

import numpy as np
import pytest

import weft
from weft import P

PACKAGE = Path(weft.__file__).parent

FINITE = {
    "_xla/client.py": {"platform_of"},
    "_xla/compile.py": {"_with_switches"},
    "_xla/cuda.py": {"load_plugin", "register_kernels"},
    "_xla/mlir.py": {"element_type", "unknown_location", "_numpy_dtypes"},
    "_xla/passes.py": {"_registered"},
    "_xla/tpu.py": {"_load"},
    "core/dtypes.py": {"_join", "_promote"},
    "core/namespace.py": {"_maker"},
    "lowering/context.py": {"bool_attr", "comparison_kind", "_small"},
    "numpy/determinants.py": {"_slogdet_by_qr"},
    "numpy/pseudo_inverse.py": {"_inverse"},
    "ffi/library.py": {"_private_folder"},
    "native/engine.py": {"host"},
    "native/calls.py": {"_digest", "has_compiler"},
    "native/lapack.py": {"_openblas", "_target"},
    "native/objects.py": {"_address"},
    "native/parallel.py": {"threads"},
    "native/rewrite.py": {"rule"},
    "pallas/cpu/interrupt.py": {"counter_address"},
    "pallas/cpu/nontemporal.py": {"last_cache_bytes"},
    "pallas/gpu/emitter.py": {"element_type"},
    "runtime/host_calls.py": {"finish_before_exit"},
    "runtime/store.py": {"host_cpu"},
    "scipy/special/error_functions.py": {"_weideman_coefficients"},
    "scipy/special/integrals.py": {
        *("_debye_coefficients", "_expi_fits", "_fresnel_fits", "_sici_fits"),
    },
}
"""Functions whose results are kept without bound: of dtypes, this machine, weft's own code."""


def lower_a_shape(i):
    f = weft.jit(lambda x: (weft.numpy.sin(x) * float(i)).sum() + x[1:].mean())
    f.lower(weft.ShapeDtypeStruct((3 + i, 5), np.float32))


def lower_a_gradient(i):
    f = weft.jit(weft.vmap(weft.grad(lambda x: weft.numpy.dot(x, x) ** i)))
    f.lower(weft.ShapeDtypeStruct((2, 3 + i), np.float32))


def lower_over_a_mesh(i):
    mesh = weft.make_mesh((4, 2), (f"a{i}", f"b{i}"))
    f = weft.jit(
        weft.shard_map(
            lambda x: weft.lax.all_gather(weft.lax.psum(x, f"b{i}"), f"a{i}"),
            mesh=mesh,
            in_specs=P(f"a{i}", f"b{i}"),
            out_specs=P(f"a{i}"),
        )
    )
    split = weft.sharding.NamedSharding(mesh, P(f"a{i}", f"b{i}"))
    f.lower(weft.ShapeDtypeStruct((8, 4), np.float32, sharding=split))


def trace_a_kernel(i):
    def kernel(x, out, scratch):
        scratch[...] = x[...] + float(i)
        out[...] = scratch[...]

    pl = weft.pallas
    call = pl.pallas_call(
        kernel,
        weft.ShapeDtypeStruct((4 + i,), np.float32),
        scratch_shapes=[pl.LOCAL((4 + i,), "float32")],
    )
    weft.eval_shape(call, weft.ShapeDtypeStruct((4 + i,), np.float32))


@pytest.mark.parametrize(
    "program", [lower_a_shape, lower_a_gradient, lower_over_a_mesh, trace_a_kernel]
)
def test_clear_caches_lets_a_thousand_programs_go(program):
    def run(numbers):
        for i in numbers:
            program(i)
        weft.clear_caches()
        return len(gc.get_objects())

    before = run(range(20))
    after = run(range(20, 1020))
    assert after - before < 200, f"{after - before} objects are left of 1,000 programs"


def uncleared(path):
    """The functions of a module under a cache that has no bound and that nothing clears."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef):
            names = {ast.unparse(d).removeprefix("functools.") for d in node.decorator_list}
            if names & {"cache", "lru_cache(maxsize=None)"} and "clearable" not in names:
                yield node.name


def test_only_caches_over_finite_domains_are_without_bound():
    found = {
        str(path.relative_to(PACKAGE)): names
        for path in PACKAGE.rglob("*.py")
        if (names := set(uncleared(path)))
    }
    assert found == FINITE, "bound it (lru_cache(maxsize=...)) or list it with caches.clearable"


def test_tracing_an_interpreted_kernel_again_adds_no_lines():
    from weft.pallas.interpret.races import _sources

    pl = weft.pallas

    def run(n):
        def kernel(x, out, shared):
            shared[...] = x[...] + 1.0
            out[...] = shared[...]

        call = pl.kernel(
            kernel,
            weft.ShapeDtypeStruct((n,), np.float32),
            mesh=pl.Mesh({"core": 1}),
            scratch_types=[pl.SHARED((n,), "float32")],
            interpret=True,
        )
        np.testing.assert_array_equal(call(np.zeros(n, np.float32)), np.ones(n))
        return len(_sources)

    before = len(_sources)
    for _ in range(4):  # Python (3.12) may place a call a little later when it has seen it before
        first = run(4)
    assert first > before
    assert [run(n) for n in (4, 5, 6)] == [first] * 3
