import logging

import numpy as np
import pytest

import weft
from weft import numpy as wnp

SIZE = 6


@pytest.fixture(autouse=True)
def separate():
    with weft.core.config.options["repeated_blocks"]("separate"):
        yield


def block(w, x):
    y = x @ w["a"] + w["b"]
    for k in range(1, 6):
        y = wnp.tanh(y + x / k - wnp.mean(x * x, axis=-1, keepdims=True))
    return y


def weights(rng, n):
    return [
        {
            "a": rng.normal(size=(SIZE, SIZE)).astype(np.float32),
            "b": rng.normal(size=SIZE).astype(np.float32),
        }
        for _ in range(n)
    ]


def model(ws, x):
    for w in ws:
        x = block(w, x)
    return x


def numpy_model(ws, x):
    for w in ws:
        y = x @ w["a"].astype(np.float64) + w["b"]
        for k in range(1, 6):
            y = np.tanh(y + x / k - np.mean(x * x, axis=-1, keepdims=True))
        x = y
    return x


def pieces(compiled):
    return [s for s in compiled.as_text().splitlines() if s.startswith("// ")]


def test_layers_are_compiled_once_and_compute_the_same(rng):
    ws, x = weights(rng, 6), rng.normal(size=(3, SIZE)).astype(np.float32)
    f = weft.jit(model)
    np.testing.assert_allclose(f(ws, x), numpy_model(ws, x), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(f(ws, x + 1), numpy_model(ws, x + 1), rtol=1e-4, atol=1e-4)
    assert any("runs 6×" in s or "runs 5×" in s for s in pieces(f.lower(ws, x).compile()))


def test_gradients_of_layers_are_compiled_once_and_agree_with_differences(rng):
    ws, x = weights(rng, 4), rng.normal(size=(3, SIZE)).astype(np.float32)
    loss = lambda ws, x: wnp.sum(model(ws, x) ** 2)
    gradient = weft.jit(weft.grad(loss))
    compiled = gradient.lower(ws, x).compile()
    assert len(pieces(compiled)) <= 6
    grads = gradient(ws, x)
    step = 1e-6
    for k, name in ((0, "b"), (2, "b"), (3, "b")):
        wide = [{n: v.astype(np.float64) for n, v in w.items()} for w in ws]
        wide[k][name][1] += step
        above = np.sum(numpy_model(wide, x.astype(np.float64)) ** 2)
        wide[k][name][1] -= 2 * step
        below = np.sum(numpy_model(wide, x.astype(np.float64)) ** 2)
        np.testing.assert_allclose(
            grads[k][name][1], (above - below) / (2 * step), rtol=2e-3, atol=1e-6
        )


def test_results_that_are_arguments_constants_or_the_same_come_back_as_arrays(rng):
    ws, x = weights(rng, 4), rng.normal(size=(3, SIZE)).astype(np.float32)
    table = np.arange(4, dtype=np.float32)

    @weft.jit
    def f(ws, x):
        y = model(ws, x)
        return y, y, x, 3.0, ws[1]["b"], wnp.asarray(table) + 0, [y + 1]

    y, again, same, three, b, constant, more = f(ws, x)
    want = numpy_model(ws, x)
    for got, expected in ((y, want), (again, want), (more[0], want + 1)):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(same, x)
    np.testing.assert_array_equal(b, ws[1]["b"])
    np.testing.assert_array_equal(constant, table)
    assert float(three) == 3 and three.weak_type


def test_donated_arguments_are_given_up_whether_a_piece_can_use_them_or_not(rng):
    host, x = weights(rng, 5), weft.device_put(rng.normal(size=(3, SIZE)).astype(np.float32))
    # What is computed shares no memory with NumPy's arrays, which would keep it.
    ws = weft.jit(lambda ws: weft.tree.map(lambda w: w * 1, ws))(host)

    def update(ws, x):
        grads = weft.grad(lambda ws: wnp.sum(model(ws, x)))(ws)
        return weft.tree.map(lambda w, g: w - 0.5 * g, ws, grads)

    new = weft.jit(update, donate_argnums=0)(ws, x)
    assert all(leaf.is_deleted() for leaf in weft.tree.leaves(ws))
    assert not x.is_deleted()
    with weft.core.config.options["repeated_blocks"]("inline"):
        grads = weft.grad(lambda ws: wnp.sum(model(ws, np.asarray(x))))(host)
    for a, b, g in zip(*map(weft.tree.leaves, (new, host, grads)), strict=True):
        np.testing.assert_allclose(a, b - 0.5 * np.asarray(g), rtol=1e-4, atol=1e-4)
    with pytest.raises(RuntimeError, match="deleted|donated"):
        weft.jit(update, donate_argnums=0)(ws, x)


def test_blocks_read_random_keys(rng):
    ws, x = weights(rng, 6), np.ones((3, SIZE), np.float32)

    @weft.jit
    def f(ws, x, key):
        for w in ws:
            key, own = weft.random.split(key)
            x = block(w, x) * weft.random.bernoulli(own, 0.5, x.shape)
        return x, key

    key = weft.random.key(3)
    got, left = f(ws, x, key)
    expected = x.astype(np.float64)
    for w in ws:
        key, own = weft.random.split(key)
        kept = np.asarray(weft.random.bernoulli(own, 0.5, x.shape))
        expected = numpy_model([w], expected) * kept
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(weft.random.key_data(left), weft.random.key_data(key))


def test_analyses_add_the_runs_up(rng):
    ws, x = weights(rng, 6), np.ones((3, SIZE), np.float32)
    compiled = weft.jit(model).lower(ws, x).compile()
    memory = compiled.memory_analysis()
    size = x.nbytes + sum(leaf.nbytes for leaf in weft.tree.leaves(ws))
    assert memory.argument_size_in_bytes == size
    assert memory.output_size_in_bytes == x.nbytes
    assert compiled.cost_analysis()["flops"] >= 6 * 2 * 3 * SIZE * SIZE
    (ws_formats, x_format), _ = compiled.input_formats
    assert x_format.layout.major_to_minor == (0, 1) and len(ws_formats) == 6


def test_the_log_names_each_piece_and_how_often_it_runs(rng, caplog):
    ws, x = weights(rng, 6), np.ones((3, SIZE), np.float32)
    with weft.core.config.options["log_compiles"](True), caplog.at_level(logging.WARNING):
        weft.jit(lambda ws, x: model(ws, x))(ws, x)  # compiled by nobody before
    assert ".block" in caplog.text and ("x6 compiled" in caplog.text or "x5" in caplog.text)


def test_a_program_is_compiled_whole_where_asked_or_too_small(rng):
    ws, x = weights(rng, 6), np.ones((3, SIZE), np.float32)
    for choice in ("inline", "auto"):
        with weft.core.config.options["repeated_blocks"](choice):
            assert pieces(weft.jit(model).lower(ws, x).compile()) == []


def test_large_layers_are_compiled_once_without_being_asked(rng):
    ws = [
        {"a": rng.normal(size=(128, 128)).astype(np.float32) / 100, "b": np.zeros(128, np.float32)}
        for _ in range(60)
    ]
    x = rng.normal(size=(256, 128)).astype(np.float32)
    with weft.core.config.options["repeated_blocks"]("auto"):
        compiled = weft.jit(model).lower(ws, x).compile()
        assert len(pieces(compiled)) <= 3
        np.testing.assert_allclose(compiled(ws, x), numpy_model(ws, x), rtol=1e-2, atol=1e-2)


def test_programs_with_effects_or_several_devices_are_compiled_whole(rng):
    ws, x = weights(rng, 4), np.ones((8, SIZE), np.float32)

    def printing(ws, x):
        weft.debug.print("{}", x[0, 0])
        return model(ws, x)

    np.testing.assert_allclose(weft.jit(printing)(ws, x), numpy_model(ws, x), rtol=1e-4, atol=1e-4)
    mesh = weft.make_mesh((2,), ("i",))
    split = weft.device_put(x, weft.NamedSharding(mesh, weft.P("i")))
    np.testing.assert_allclose(weft.jit(model)(ws, split), numpy_model(ws, x), rtol=1e-4, atol=1e-4)


def test_a_committed_argument_keeps_its_device(rng):
    ws, x = weights(rng, 4), np.ones((3, SIZE), np.float32)
    device = weft.devices()[1]
    out = weft.jit(model)(ws, weft.device_put(x, device))
    assert out.devices() == {device} and out.committed
    np.testing.assert_allclose(out, numpy_model(ws, x), rtol=1e-4, atol=1e-4)


def test_programs_that_call_the_host_are_compiled_whole(rng):
    ws, x = weights(rng, 4), np.ones((3, SIZE), np.float32)

    def halved(ws, x):
        for w in ws:
            x = block(w, x)
            x = weft.pure_callback(lambda a: np.asarray(a) / 2, weft.typeof(x), x)
        return x

    want = x
    for w in ws:
        want = numpy_model([w], want) / 2
    f = weft.jit(halved)
    np.testing.assert_allclose(f(ws, x), want, rtol=1e-4, atol=1e-4)
    assert pieces(f.lower(ws, x).compile()) == []


def test_refs_and_loops_inside_blocks(rng):
    ws, x = weights(rng, 4), rng.normal(size=(3, SIZE)).astype(np.float32)

    def with_ref(ws, x):
        ref = weft.new_ref(x)
        for w in ws:
            ref[...] = weft.lax.fori_loop(0, 3, lambda i, v: v * 0.5, block(w, ref[...]))
        return ref[...]

    want = x
    for w in ws:
        want = numpy_model([w], want) / 8
    f = weft.jit(with_ref)
    np.testing.assert_allclose(f(ws, x), want, rtol=1e-4, atol=1e-4)
    assert len(pieces(f.lower(ws, x).compile())) > 0


def test_blocks_with_other_literals_are_other_blocks(rng):
    ws, x = weights(rng, 4), rng.normal(size=(3, SIZE)).astype(np.float32)

    def alternating(ws, x):
        for k, w in enumerate(ws):
            x = block(w, x) * (1.0 + k)
        return x

    want = x
    for k, w in enumerate(ws):
        want = numpy_model([w], want) * (1.0 + k)
    np.testing.assert_allclose(weft.jit(alternating)(ws, x), want, rtol=1e-3, atol=1e-3)


def test_debug_nans_names_the_operation_of_a_block(rng):
    ws, x = weights(rng, 4), np.ones((3, SIZE), np.float32)
    with weft.debug_nans(True), pytest.raises(FloatingPointError, match="log"):
        weft.jit(lambda ws, x: wnp.log(model(ws, x) - 100))(ws, x)


def test_a_buffer_given_up_twice_is_refused_before_anything_runs(rng):
    ws, x = weights(rng, 4), wnp.ones((3, SIZE))
    f = weft.jit(lambda x, y, ws: model(ws, x) + y, donate_argnums=0)
    with pytest.raises(ValueError, match="stands in the call 2 times"):
        f(x, x, ws)
    assert not x.is_deleted()
