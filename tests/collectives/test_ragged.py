"""ragged_all_to_all: random slices, several for a device, groups, derivatives, batches."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import weft
from tests import spmd_reference as ref
from tests.collectives.harness import COMPILER_OPTIONS, Context, program, run
from tests.spmd_reference import Machine
from weft import lax

ROWS = 6


@st.composite
def exchanges(draw):
    """(machine, context, axis, groups, slices a device, start, size, place) of rows that fit."""
    machine, context = draw(
        st.sampled_from(
            [
                (Machine(a=4), Context()),
                (Machine(a=4), Context(("a",))),
                (Machine(a=2, b=4), Context(("a",))),
                (Machine(a=2, b=2), Context(("a", "b"), check_vma=False)),
            ]
        )
    )
    axis = draw(st.sampled_from([*machine.names, machine.names[::-1]]))
    size = machine.size(ref.axes_of(axis))
    groups = None
    if size == 4 and draw(st.booleans()):
        groups = [[0, 2], [3, 1]]
    k = (size if groups is None else 2) * draw(st.integers(1, 2))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    start = {d: rng.integers(0, ROWS, k).astype(np.int32) for d in machine.devices}
    longest = draw(st.sampled_from([1, ROWS]))
    length = {d: rng.integers(0, np.minimum(ROWS - s, longest) + 1).astype(np.int32)
              for d, s in start.items()}  # fmt: skip
    return machine, context, axis, groups, k, start, length, rng


def places(machine, axis, groups, k, length):
    """Where slices go so that none overlap, and how many rows arrive: by sender, by receiver."""
    place = {d: np.zeros(k, np.int32) for d in machine.devices}
    arriving = {d: np.zeros(k, np.int32) for d in machine.devices}
    most = 0
    for group in machine.groups(ref.axes_of(axis), groups):
        each = k // len(group)
        for r, receiver in enumerate(group):
            at = 0
            for q, sender in enumerate(group):
                for e in range(each):
                    n = length[sender][r * each + e]
                    place[sender][r * each + e] = at
                    arriving[receiver][q * each + e] = n
                    at += n
            most = max(most, at)
    return place, arriving, max(most, 1)


def expected(machine, axis, groups, k, operand, output, start, length, place):
    """As the reference machine does it, for several slices a device."""
    out = {d: x.copy() for d, x in output.items()}
    for group in machine.groups(ref.axes_of(axis), groups):
        each = k // len(group)
        for sender in group:
            for i in range(k):
                rows = operand[sender][start[sender][i] :][: length[sender][i]]
                out[group[i // each]][place[sender][i] :][: len(rows)] = rows
    return out


@given(exchanges())
def test_random_slices_arrive_where_they_belong(drawn):
    machine, context, axis, groups, k, start, length, rng = drawn
    place, arriving, most = places(machine, axis, groups, k, length)
    operand = {d: rng.integers(0, 99, (ROWS, 2)).astype(np.float32) for d in machine.devices}
    output = {d: -np.ones((most + 1, 2), np.float32) for d in machine.devices}

    def fun(*arrays):
        return lax.ragged_all_to_all(*arrays, axis_name=axis, axis_index_groups=groups)

    got = run(machine, fun, context, operand, output, start, length, place, arriving)
    want = expected(machine, axis, groups, k, operand, output, start, length, place)
    np.testing.assert_array_equal(got, machine.stack(want))


@pytest.mark.parametrize("context", [Context(), Context(("a",))], ids=["vmap", "shard_map"])
def test_the_derivative_sends_cotangents_back(context, rng):
    """Adjoint: <ct, f'(t, u)> = <f'ᵀ ct, (t, u)>, where overlapping sources add up."""
    machine = Machine(a=3)
    start = {d: np.array([0, 1, 1], np.int32) for d in machine.devices}
    length = {d: np.array([2, 1, 3], np.int32) for d in machine.devices}
    place, arriving, most = places(machine, "a", None, 3, length)
    x, t = (rng.normal(size=(3, ROWS, 2)).astype(np.float32) for _ in range(2))
    y, u, ct = (rng.normal(size=(3, most + 2, 2)).astype(np.float32) for _ in range(3))
    from tests.collectives.harness import program

    index = [machine.stack(v) for v in (start, length, place, arriving)]

    def f(x, y):
        fun = lambda *arrays: lax.ragged_all_to_all(*arrays, axis_name="a")
        return program(machine, fun, context)(x, y, *index)

    def everything(x, y, t, u, ct):
        out, tangent = weft.jvp(f, (x, y), (t, u))
        return out, tangent, weft.vjp(f, x, y)[1](ct)

    _, tangent, (back_x, back_y) = weft.jit(everything, compiler_options=COMPILER_OPTIONS)(
        x, y, t, u, ct
    )
    want = expected(
        machine, "a", None, 3, machine.unstack(t), machine.unstack(u), start, length, place
    )
    np.testing.assert_array_equal(tangent, machine.stack(want))
    pairing = np.sum(np.asarray(back_x) * t) + np.sum(np.asarray(back_y) * u)
    np.testing.assert_allclose(np.sum(ct * np.asarray(tangent)), pairing, rtol=1e-4)


def test_a_batch_of_operands_and_of_offsets_over_devices(rng):
    machine = Machine(a=2)
    rows = np.arange(2, dtype=np.int32)
    x = rng.normal(size=(2, 3, 4)).astype(np.float32)  # device, example, rows
    starts = np.array([[[0, 1], [2, 0], [1, 3]]] * 2, np.int32)
    ones = np.ones(2, np.int32)

    def fun(x, starts):
        def one(x, starts):
            to = np.zeros(2, np.int32) + lax.axis_index("a")
            return lax.ragged_all_to_all(x, x * 0, starts, ones, to, ones, axis_name="a")

        return weft.vmap(one)(x, starts)

    got = run(machine, fun, Context(("a",)), machine.unstack(x), machine.unstack(starts))
    want = np.zeros_like(x)
    for sender in rows:
        for example in range(3):
            for to in rows:
                want[to, example, sender] = x[sender, example, starts[sender, example, to]]
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", ["int8", "bool", "bfloat16", "complex64"])
def test_rows_of_any_dtype_are_exchanged(dtype):
    x = weft.numpy.asarray(np.arange(8).reshape(2, 4) % 3).astype(dtype)
    at, n = np.array([0, 2], np.int32), np.array([2, 2], np.int32)

    def fun(x):
        to = np.zeros(2, np.int32) + 2 * lax.axis_index("a")
        return lax.ragged_all_to_all(x, x, at, n, to, n, axis_name="a")

    got = np.asarray(weft.vmap(fun, axis_name="a")(x))
    np.testing.assert_array_equal(got, np.asarray(x).reshape(2, 2, 2).swapaxes(0, 1).reshape(2, 4))


@pytest.mark.parametrize("context", [Context(), Context(("x",))], ids=["examples", "devices"])
@pytest.mark.parametrize(("rows", "kept"), [(0, 5), (5, 0)])
def test_an_exchange_without_rows_keeps_the_output_and_has_a_derivative(context, rows, kept):
    x, out = np.ones((4, rows, 2), np.float32), np.ones((4, kept, 2), np.float32)
    none = np.zeros(4, np.int32)

    def exchange(x, out):
        return lax.ragged_all_to_all(x, out, none, none, none, none, axis_name="x")

    whole = program(Machine(x=4), exchange, context)
    y, back = weft.vjp(whole, x, out)
    of_x, of_out = back(np.full_like(out, 3))
    np.testing.assert_array_equal(y, out)
    np.testing.assert_array_equal(of_x, 0 * x)
    np.testing.assert_array_equal(of_out, 3 * out)
