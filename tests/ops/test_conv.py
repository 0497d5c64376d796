"""Convolutions against a direct sum in NumPy: strides, dilations, groups, layouts."""

import itertools

import numpy as np
import pytest

import weft
from tests.ops.numerics import Case, check
from weft import lax

R = np.random.default_rng(3)


def dilate(x, axes, factors):
    for axis, factor in zip(axes, factors, strict=True):
        shape = list(x.shape)
        shape[axis] = (shape[axis] - 1) * factor + 1 if shape[axis] else 0
        out = np.zeros(shape, x.dtype)
        index = [slice(None)] * x.ndim
        index[axis] = slice(None, None, factor)
        out[tuple(index)] = x
        x = out
    return x


def reference(x, k, strides, pads, xd=None, kd=None, groups=1, batch_groups=1):
    """NCHW by OIHW, one result element after the other."""
    n = x.ndim - 2
    x = dilate(x, range(2, 2 + n), xd or (1,) * n)
    k = dilate(k, range(2, 2 + n), kd or (1,) * n)
    for axis, (lo, hi) in enumerate(pads, 2):
        width = [(0, 0)] * x.ndim
        width[axis] = (max(lo, 0), max(hi, 0))
        x = np.pad(x, width)
        cut = [slice(None)] * x.ndim
        cut[axis] = slice(max(-lo, 0), x.shape[axis] - max(-hi, 0))
        x = x[tuple(cut)]
    spatial = [(d - w) // s + 1 for d, w, s in zip(x.shape[2:], k.shape[2:], strides, strict=True)]
    out = np.zeros((x.shape[0] // batch_groups, k.shape[0], *spatial), np.result_type(x, k))
    share = k.shape[0] // max(groups, batch_groups)
    for o in range(k.shape[0]):
        g = o // share
        features = slice(g * k.shape[1], (g + 1) * k.shape[1]) if groups > 1 else slice(None)
        rows = slice(g * out.shape[0], (g + 1) * out.shape[0]) if batch_groups > 1 else slice(None)
        for place in itertools.product(*map(range, spatial)):
            window = tuple(
                slice(p * s, p * s + w) for p, s, w in zip(place, strides, k.shape[2:], strict=True)
            )
            part = x[(rows, features, *window)]
            out[(slice(None), o, *place)] = (part * k[o]).reshape(len(part), -1).sum(-1)
    return out


def case(name, x, k, strides, pads, **options):
    names = {"xd": "lhs_dilation", "kd": "rhs_dilation"}
    names |= {"groups": "feature_group_count", "batch_groups": "batch_group_count"}
    kwargs = {names[key]: value for key, value in options.items()}
    return Case(
        "conv_general_dilated",
        lambda x, k: lax.conv_general_dilated(x, k, strides, pads, **kwargs),
        lambda x, k: reference(x, k, strides, pads, **options),
        (R.standard_normal(x), R.standard_normal(k)),
        (0, 1),
        name,
    )


CASES = [
    case("plain", (2, 3, 5, 4), (4, 3, 2, 3), (1, 1), ((0, 0), (0, 0))),
    case("strided", (2, 2, 7), (3, 2, 3), (2,), ((1, 2),)),
    case("dilated", (2, 2, 6), (3, 2, 2), (2,), ((2, 1),), xd=(2,), kd=(3,)),
    case("cropped", (1, 2, 8), (3, 2, 3), (1,), ((-1, -2),)),
    case("groups", (2, 4, 5), (6, 2, 2), (2,), ((1, 1),), groups=2),
    case("depthwise", (2, 3, 5), (6, 1, 2), (1,), ((1, 0),), groups=3),
    case("batch groups", (4, 3, 5), (6, 3, 2), (1,), ((1, 1),), batch_groups=2),
    case("no space", (2, 3), (4, 3), (), ()),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_values_batches_and_derivatives(case, rng):
    check(case, rng)


def test_layouts_are_permutations_of_one_result():
    x, k = R.standard_normal((2, 3, 5, 4)), R.standard_normal((4, 3, 2, 3))
    want = reference(x, k, (1, 2), ((1, 0), (1, 1)))
    with weft.enable_x64(True):
        got = lax.conv_general_dilated(
            x.transpose(0, 2, 3, 1),
            k.transpose(2, 3, 1, 0),
            (1, 2),
            ((1, 0), (1, 1)),
            dimension_numbers=("NHWC", "HWIO", "HWNC"),
        )
    np.testing.assert_allclose(got, want.transpose(2, 3, 0, 1), atol=1e-12)


@pytest.mark.parametrize("padding", ["SAME", "VALID", "SAME_LOWER"])
def test_named_padding_gives_the_promised_sizes(padding):
    x, k = R.standard_normal((1, 1, 7)), R.standard_normal((1, 1, 4))
    total = {"VALID": 0}.get(padding, 3)
    low = {"VALID": 0, "SAME": 1, "SAME_LOWER": 2}[padding]
    with weft.enable_x64(True):
        got = lax.conv(x, k, (2,), padding)
    np.testing.assert_allclose(got, reference(x, k, (2,), ((low, total - low),)), atol=1e-12)
    assert got.shape[2] == (2 if padding == "VALID" else 4)


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_conv_transpose_is_the_gradient_of_the_convolution(padding, stride):
    """With transpose_kernel, of the convolution whose result has the transpose's operand's size."""
    x, k = R.standard_normal((1, 6 * stride, 2)), R.standard_normal((3, 2, 3))
    over = max(k.shape[0] - stride, 0) if padding == "SAME" else 0
    pads = [(over // 2, over - over // 2)]

    def forward(x):
        out = reference(np.moveaxis(x, 2, 1), k.transpose(2, 1, 0), (stride,), pads)
        return np.moveaxis(out, 1, 2)

    ct = R.standard_normal(forward(x).shape)
    basis = np.eye(x.size).reshape(x.size, *x.shape)
    want = np.array([(forward(e) * ct).sum() for e in basis]).reshape(x.shape)
    with weft.enable_x64(True):
        got = lax.conv_transpose(ct, k, (stride,), padding, transpose_kernel=True)
    size = min(got.shape[1], want.shape[1])
    np.testing.assert_allclose(got[:, :size], want[:, :size], atol=1e-12)


def test_patches_are_the_windows_by_channel():
    x = R.standard_normal((2, 3, 5, 4))
    with weft.enable_x64(True):
        got = np.asarray(lax.conv_general_dilated_patches(x, (2, 3), (1, 1), "VALID"))
    windows = np.lib.stride_tricks.sliding_window_view(x, (2, 3), (2, 3))
    want = windows.transpose(0, 1, 4, 5, 2, 3).reshape(2, 18, 4, 2)
    np.testing.assert_allclose(got, want)


def test_a_local_convolution_has_a_kernel_for_each_place():
    x, k = R.standard_normal((2, 3, 5)), R.standard_normal((4, 6, 4))
    with weft.enable_x64(True):
        got = lax.conv_general_dilated_local(x, k, (1,), "VALID", (2,))
    windows = np.lib.stride_tricks.sliding_window_view(x, 2, 2)  # n, c, place, k
    want = np.einsum("ncpk,ockp->nop", windows, k.reshape(4, 3, 2, 4))
    np.testing.assert_allclose(got, want, atol=1e-12)


def test_preferred_element_type_is_the_results_dtype():
    x, k = np.ones((1, 1, 4), np.int8), np.full((1, 1, 2), 100, np.int8)
    out = lax.conv_general_dilated(x, k, (1,), "VALID", preferred_element_type=np.int32)
    np.testing.assert_array_equal(out, np.full((1, 1, 3), 200, np.int32))


def test_shape_functions_agree_with_the_ops():
    args = ((2, 9, 3), (4, 3, 5), (2,), "SAME", ("NHC", "HIO", "NHC"))
    assert lax.conv_general_shape_tuple((2, 9, 3), (4, 3, 5), *args[2:]) == (2, 5, 5)
    assert lax.conv_transpose_shape_tuple((2, 9, 3), (4, 3, 5), *args[2:]) == (2, 18, 5)
    assert lax.padtype_to_pads((9,), (4,), (2,), "SAME") == [(1, 2)]


@pytest.mark.parametrize(
    ("args", "options", "error", "words"),
    [
        (((1, 3, 4), (2, 2, 2), (1,), "VALID"), {}, ValueError, "has 3 features"),
        (((1, 3, 4), (2, 3), (1,), "VALID"), {}, TypeError, "equal ranks"),
        (((1, 3, 4), (2, 3, 2), (1, 1), "VALID"), {}, TypeError, "window_strides"),
        (((1, 3, 4), (2, 3, 2), (1,), "FULL"), {}, ValueError, "'SAME'"),
        (
            ((1, 3, 4), (2, 3, 2), (1,), "SAME"),
            {"lhs_dilation": (2,)},
            ValueError,
            "conv_transpose",
        ),
        (((3, 3, 4), (2, 3, 2), (1,), "SAME"), {"batch_group_count": 2}, ValueError, "divide lhs"),
        (
            ((1, 3, 4), (2, 3, 2), (1,), "SAME"),
            {"dimension_numbers": ("NCH", "OIW", "NCH")},
            ValueError,
            "same spatial",
        ),
    ],
)
def test_errors_name_the_argument(args, options, error, words):
    x, k = (np.ones(s, np.float32) for s in args[:2])
    with pytest.raises(error, match=words):
        lax.conv_general_dilated(x, k, *args[2:], **options)
