"""Layouts: what arrays, device_put, jit and compiled programs make of them."""

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft.core.config import options
from weft.layout import Format, Layout, with_layout_constraint
from weft.sharding import AxisType, NamedSharding, P, SingleDeviceSharding

X = np.arange(12, dtype=np.float32).reshape(3, 4)
A = np.arange(64, dtype=np.float32).reshape(8, 8)
HERE = SingleDeviceSharding(weft.devices()[0])
MESH = weft.make_mesh((4, 2), ("x", "y"), (AxisType.Auto,) * 2)
SPLIT = NamedSharding(MESH, P("x", "y"))
ROWS, COLUMNS = Layout((0, 1)), Layout((1, 0))
SHAPE = weft.ShapeDtypeStruct((3, 4), "float32")


def columns(x=X, sharding=HERE):
    return weft.device_put(x, Format(COLUMNS, sharding))


def is_equal(x, expected):
    np.testing.assert_array_equal(np.asarray(x), expected)
    np.testing.assert_array_equal(np.asarray(x + x), 2 * expected)  # as programs read it
    return True


# Layouts and formats ----------------------------------------------------------------------------


def test_layouts_and_formats_compare_by_value():
    assert Layout([1, 0]) == COLUMNS != ROWS
    assert Layout((1, 0), ()) == COLUMNS != Layout((1, 0), [[2, 2]])
    assert COLUMNS.update(major_to_minor=(0, 1)) == ROWS
    assert len({Format(COLUMNS, HERE), Format(Layout((1, 0)), HERE), Format(ROWS, HERE)}) == 2


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: Layout((1, 1)), ValueError, "each dimension from 0 to n - 1 once"),
        (lambda: Layout((0, 1), ((0,),)), ValueError, "positive sizes"),
        (lambda: Format(COLUMNS), ValueError, "needs a sharding"),
        (lambda: Format("rows", HERE), TypeError, "layout must be a Layout"),
        (lambda: Format(COLUMNS, P("x")), TypeError, "sharding must be a Sharding"),
        (lambda: columns(np.ones(3)), ValueError, "is for 2 dimensions, .* has 1"),
        (lambda: weft.device_put(X, Format(Layout.AUTO, HERE)), ValueError, "is for weft.jit"),
        (lambda: weft.jit(columns)(X), TypeError, "arrays outside of traced functions"),
        (lambda: weft.jit(abs, in_shardings=COLUMNS)(X), TypeError, "must be a device, a sharding"),
        (
            lambda: weft.ShapeDtypeStruct((3,), "int8", sharding=Format(COLUMNS, HERE)),
            ValueError,
            "ShapeDtypeStruct: .* is for 2 dimensions",
        ),
        (
            lambda: weft.jit(abs, in_shardings=Format(COLUMNS, HERE))(1.0),
            ValueError,
            "in_shardings of abs, value 0: .* is for 2 dimensions",
        ),
        (
            lambda: weft.jit(abs, out_shardings=Format(COLUMNS, HERE))(1.0),
            ValueError,
            "out_shardings of abs, value 0: .* is for 2 dimensions",
        ),
    ],
)
def test_what_is_no_layout_of_a_value_is_refused(make, error, says):
    with pytest.raises(error, match=says):
        make()


# Arrays -----------------------------------------------------------------------------------------


def test_an_array_lies_as_its_format_says():
    x = columns()
    assert x.format == Format(COLUMNS, HERE)
    assert x.committed
    assert np.asarray(x).strides == (4, 12)
    assert is_equal(x, X)
    assert wnp.ones((3, 4)).format.layout == ROWS


@pytest.mark.parametrize("dtype", ["bool", "int4", "bfloat16", "complex64"])
def test_every_dtype_has_layouts(dtype):
    x = columns(wnp.asarray(X % 2).astype(dtype))
    assert x.format.layout.major_to_minor == (1, 0)
    np.testing.assert_array_equal(np.asarray((x + x).astype("complex64")).real > 0, X % 2 > 0)


def test_parts_of_a_split_array_lie_so():
    x = columns(A, SPLIT)
    assert x.format == Format(COLUMNS, SPLIT)
    assert all(part.data.format.layout == COLUMNS for part in x.addressable_shards)
    assert is_equal(x, A)


@pytest.mark.parametrize("sharding", [NamedSharding(MESH, P("y")), NamedSharding(MESH, P())])
def test_arrays_move_to_other_shardings(sharding):
    assert is_equal(weft.device_put(columns(A, SPLIT), sharding), A)
    moved = weft.device_put(columns(A, SPLIT), Format(COLUMNS, sharding))
    assert moved.format == Format(COLUMNS, sharding)
    assert is_equal(moved, A)


@pytest.mark.parametrize(
    "copy",
    [
        lambda x: x.copy(),
        lambda x: weft.device_put(x, weft.devices()[1]),
        lambda x: weft.device_put(x, HERE, may_alias=False),
        lambda x: weft.device_put(x, Format(None, HERE)),
    ],
)
def test_copies_keep_the_layout(copy):
    y = copy(columns())
    assert y.format.layout == COLUMNS
    assert is_equal(y, X)


def test_a_donated_array_gives_its_memory():
    x = columns()
    y = weft.device_put(x, Format(ROWS, HERE), donate=True)
    assert x.is_deleted()
    assert is_equal(y, X)


def test_an_array_of_parts_takes_the_layout_of_the_first():
    two = NamedSharding(weft.make_mesh((2,), ("x",), devices=weft.devices()[:2]), P("x"))
    parts = [columns(), weft.device_put(X, weft.devices()[1])]
    whole = weft.make_array_from_single_device_arrays((6, 4), two, parts)
    assert whole.format.layout == COLUMNS
    assert is_equal(whole, np.concatenate([X, X]))


def test_shared_memory_of_another_order_is_read_as_it_lies():
    memory = np.zeros(48 + 64, np.uint8)
    start = -memory.ctypes.data % 64  # as XLA aligns it, so that nothing is copied
    other = memory[start : start + 48].view(np.float32).reshape(4, 3).T
    other[...] = X
    assert is_equal(weft.dlpack.from_dlpack(other), X)


def test_refs_and_constants_may_lie_otherwise():
    x = columns(A, HERE)
    ref = weft.new_ref(x)
    ref[...] = ref[...] + 1
    np.testing.assert_array_equal(np.asarray(ref[...]), A + 1)
    big = columns(np.tile(A, (4, 4)), HERE)
    f = weft.jit(lambda y: big + y)
    for _ in range(2):
        np.testing.assert_array_equal(np.asarray(f(1.0)), np.tile(A, (4, 4)) + 1)


# jit --------------------------------------------------------------------------------------------


def test_one_function_serves_arrays_of_all_layouts():
    f = weft.jit(lambda x: x.T * 2)
    for x in [X, wnp.asarray(X), weft.device_put(X, HERE), columns()] * 3:
        np.testing.assert_array_equal(np.asarray(f(x)), X.T * 2)


def test_transformations_take_arrays_of_any_layout():
    np.testing.assert_array_equal(weft.grad(lambda x: (x * x).sum())(columns()), 2 * X)
    np.testing.assert_array_equal(weft.vmap(lambda x: x[::-1])(columns()), X[:, ::-1])


def test_a_jitted_function_lays_out_host_values_and_results():
    f = weft.jit(
        lambda x: x + 1, in_shardings=Format(COLUMNS, HERE), out_shardings=Format(COLUMNS, HERE)
    )
    for x in [X, wnp.asarray(X), columns()] * 3:
        y = f(x)
        assert y.format == Format(COLUMNS, HERE)
        assert is_equal(y, X + 1)
    with pytest.raises(ValueError, match=r"argument x has .*\(0, 1\).*asks for .*\(1, 0\)"):
        f(weft.device_put(X, HERE))
    np.testing.assert_array_equal(np.asarray(weft.vmap(f)(np.stack([X, X]))[1]), X + 1)


def test_xla_chooses_where_it_may():
    f = weft.jit(lambda x: x.T, out_shardings=Format(Layout.AUTO))
    assert f.lower(SHAPE).compile().output_formats == Format(COLUMNS, HERE)
    assert is_equal(f(X), X.T)
    g = weft.jit(lambda x: x.T, in_shardings=Format(Layout.AUTO))
    with pytest.raises(ValueError, match=r"argument x has .* asks for AUTO; pass a weft.Shape"):
        g(columns())


def test_the_module_says_which_layouts_are_asked_for():
    f = weft.jit(abs, in_shardings=Format(COLUMNS, HERE), out_shardings=Format(Layout.AUTO))
    text = f.lower(SHAPE).as_text()
    assert '%arg0: tensor<3x4xf32> {mhlo.layout_mode = "{0,1}"}' in text
    assert 'mhlo.layout_mode = "auto"' in text
    assert "layout" not in weft.jit(abs).lower(X).as_text()


def test_a_donated_argument_of_the_results_layout_gives_its_memory():
    f = weft.jit(lambda x: x + 1, donate_argnums=0, out_shardings=Format(COLUMNS, HERE))
    x = columns()
    where = x.unsafe_buffer_pointer()
    y = f(x)
    assert x.is_deleted()
    assert y.unsafe_buffer_pointer() == where
    np.testing.assert_array_equal(np.asarray(y), X + 1)


@pytest.mark.filterwarnings("ignore:.*donated buffers")
def test_a_donated_argument_of_another_layout_is_read_right():
    f = weft.jit(lambda x: x + x.T, donate_argnums=0)
    np.testing.assert_array_equal(np.asarray(f(columns(A))), A + A.T)


# Ahead of time ----------------------------------------------------------------------------------


def test_a_compiled_function_tells_its_formats():
    described = weft.ShapeDtypeStruct((3, 4), "float32", sharding=Format(COLUMNS, HERE))
    assert described.format.layout == COLUMNS
    f = weft.jit(lambda x, unread: x + 1).lower(described, 1.0).compile()
    assert f.input_formats == ((Format(COLUMNS, HERE), Format(None, None)), {})
    assert f.output_formats == Format(ROWS, HERE)
    assert is_equal(f(columns(), 1.0), X + 1)


def test_a_compiled_function_refuses_other_layouts():
    f = weft.jit(lambda x: x + 1)
    rows, wanted = f.lower(X).compile(), f.lower(columns()).compile()
    for _ in range(2):  # the second call of a signature needs no Python
        np.testing.assert_array_equal(np.asarray(rows(weft.device_put(X, HERE))), X + 1)
        np.testing.assert_array_equal(np.asarray(wanted(columns())), X + 1)
    for compiled, x in [(rows, columns()), (wanted, weft.device_put(X, HERE))]:
        with pytest.raises(ValueError, match=r"compiled for argument x with Layout.*input_formats"):
            compiled(x)
    for _ in range(2):  # host values lie nowhere yet
        np.testing.assert_array_equal(np.asarray(wanted(X)), X + 1)


def test_programs_from_the_cache_keep_their_layouts(tmp_path):
    layouts = [Format(ROWS, HERE), Format(COLUMNS, HERE)]
    with (
        options["compilation_cache_dir"](str(tmp_path)),
        options["persistent_cache_min_compile_time_secs"](0.0),
    ):
        for form in [*layouts, *layouts]:
            y = weft.jit(lambda x: x * 3, out_shardings=form)(X)
            assert y.format == form
            assert is_equal(y, X * 3)
    assert len([p for p in tmp_path.iterdir() if "lambda" in p.name]) == 2


# Several devices --------------------------------------------------------------------------------


@pytest.mark.parametrize("partitioner", ["weft", "xla"])
def test_split_programs_have_layouts_of_their_parts(partitioner):
    form = Format(COLUMNS, SPLIT)
    f = weft.jit(lambda x: x @ x.T, out_shardings=form, partitioner=partitioner)
    for x in (columns(A, SPLIT), A) * 3:
        y = f(x).block_until_ready()
        assert y.format == form
        np.testing.assert_array_equal(np.asarray(y), A @ A.T)
    g = weft.jit(
        lambda x: x + 1,
        in_shardings=form,
        out_shardings=form,
        donate_argnums=0,
        partitioner=partitioner,
    )
    x = columns(A, SPLIT)
    np.testing.assert_array_equal(np.asarray(g(x)), A + 1)
    assert x.is_deleted()


@pytest.mark.parametrize("partitioner", ["weft", "xla"])
def test_xla_chooses_layouts_of_split_programs(partitioner):
    f = weft.jit(
        lambda x: x.T,
        in_shardings=Format(Layout.AUTO, SPLIT),
        out_shardings=Format(Layout.AUTO),
        partitioner=partitioner,
    )
    compiled = f.lower(weft.ShapeDtypeStruct((8, 8), "float32")).compile()
    (wanted,), _ = compiled.input_formats
    y = compiled(weft.device_put(A, wanted))
    assert y.format == compiled.output_formats
    np.testing.assert_array_equal(np.asarray(y), A.T)


# with_layout_constraint -------------------------------------------------------------------------


def constrained(x, layout=COLUMNS):
    return with_layout_constraint(x + 1, layout)


def test_a_constrained_result_keeps_its_layout():
    y = weft.jit(constrained)(X)
    assert y.format.layout == COLUMNS
    assert is_equal(y, X + 1)
    y = weft.jit(lambda x: constrained(x) * 2)(X)
    assert y.format.layout == ROWS
    assert is_equal(y, 2 * X + 2)


def test_eager_constraints_lay_arrays_anew():
    y = constrained({"a": wnp.asarray(X)}["a"])
    assert y.format.layout == COLUMNS
    assert is_equal(y, X + 1)
    tree = with_layout_constraint({"a": wnp.asarray(X), "b": wnp.asarray(X)}, COLUMNS)
    assert tree["b"].format.layout == COLUMNS


def test_constraints_are_mapped_and_differentiated():
    y = weft.jit(weft.vmap(constrained, in_axes=1, out_axes=1))(np.stack([X, X], 1))
    assert y.format.layout.major_to_minor == (1, 2, 0)
    np.testing.assert_array_equal(np.asarray(y[:, 1]), X + 1)
    slope = weft.grad(lambda x: (constrained(x) ** 2).sum())(X)
    np.testing.assert_array_equal(np.asarray(slope), 2 * X + 2)


@pytest.mark.parametrize("partitioner", ["weft", "xla"])
def test_constraints_leave_values_split(partitioner):
    f = weft.jit(constrained, partitioner=partitioner)
    y = f(weft.device_put(A, SPLIT))
    assert y.sharding.is_equivalent_to(SPLIT, 2)
    assert y.format.layout == COLUMNS
    np.testing.assert_array_equal(np.asarray(y), A + 1)
    if partitioner == "weft":  # XLA's gathers constrained values (jaxlib 0.10.2)
        text = f.lower(weft.device_put(A, SPLIT)).compile().as_text()
        assert "all-gather" not in text


@pytest.mark.parametrize(
    ("layout", "error", "says"),
    [
        (Layout((0,)), ValueError, "with_layout_constraint: .* is for 1 dimensions"),
        (Layout((1, 0), ((2, 2),)), ValueError, "has tiles"),
        (Format(COLUMNS, HERE), TypeError, "layouts must be a Layout"),
    ],
)
def test_what_is_no_layout_constrains_nothing(layout, error, says):
    with pytest.raises(error, match=says):
        constrained(wnp.asarray(X), layout)


def test_formats_stand_where_shardings_do():
    form = Format(COLUMNS, SPLIT)
    columns = {"major_to_minor": COLUMNS.major_to_minor}
    made = weft.make_array_from_callback((8, 8), form, lambda index: A[index])
    local = weft.make_array_from_process_local_data(form, A)
    constrained = weft.jit(lambda a: weft.lax.with_sharding_constraint(a + 1, form))(A)
    for array, want in ((made, A), (local, A), (constrained, A + 1)):
        np.testing.assert_array_equal(array, want)
        assert array.sharding.is_equivalent_to(SPLIT, 2)
    for array in (made, local):
        assert array.format.layout.major_to_minor == columns["major_to_minor"]
    struct = weft.eval_shape(weft.jit(lambda a: a, out_shardings=form), A)
    assert struct.format.layout == COLUMNS and struct.sharding == SPLIT
