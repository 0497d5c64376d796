"""Rotations and their interpolation, against SciPy."""

import numpy as np
import pytest
import scipy.spatial.transform as ref

import weft
from weft.scipy.spatial.transform import Rotation, Slerp

SEQUENCES = ["xyz", "XYZ", "zyx", "ZYX", "zxz", "ZXZ", "yxy", "YZX"]


def _quats(rng, n=6):
    q = rng.standard_normal((n, 4)).astype(np.float32)
    return q / np.linalg.norm(q, axis=-1, keepdims=True)


def _close(x, y, tolerance=2e-5):
    np.testing.assert_allclose(np.asarray(x), y, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize(
    "method", ["as_matrix", "as_mrp", "as_rotvec", "magnitude", "as_quat", "inv"]
)
@pytest.mark.parametrize("jit", [False, True])
def test_conversions_equal_scipys(rng, method, jit):
    q = _quats(rng)

    def convert(quat):
        result = getattr(Rotation.from_quat(quat), method)()
        return result.as_matrix() if method == "inv" else result

    expected = getattr(ref.Rotation.from_quat(q), method)()
    expected = expected.as_matrix() if method == "inv" else expected
    _close((weft.jit(convert) if jit else convert)(q), expected)
    _close(weft.vmap(convert)(q), expected)
    _close(convert(q[0]), expected[0])


@pytest.mark.parametrize("name", ["matrix", "mrp", "rotvec"])
def test_rotations_are_made_as_scipy_makes_them(rng, name):
    data = getattr(ref.Rotation.from_quat(_quats(rng)), f"as_{name}")().astype(np.float32)
    expected = getattr(ref.Rotation, f"from_{name}")(data).as_matrix()
    _close(getattr(Rotation, f"from_{name}")(data).as_matrix(), expected)
    _close(weft.vmap(lambda d: getattr(Rotation, f"from_{name}")(d).as_matrix())(data), expected)


def test_matrices_of_half_turns_become_quaternions():
    for diagonal in ([1, -1, -1], [-1, 1, -1], [-1, -1, 1], [1, 1, 1]):
        m = np.diag(diagonal).astype(np.float32)
        _close(Rotation.from_matrix(m).as_matrix(), m)


@pytest.mark.parametrize("seq", SEQUENCES)
def test_euler_angles_equal_scipys(rng, seq):
    angles = rng.uniform(-3, 3, (8, 3)).astype(np.float32)
    expected = ref.Rotation.from_euler(seq, angles)
    r = Rotation.from_euler(seq, angles)
    _close(r.as_matrix(), expected.as_matrix())
    _close(Rotation.from_euler(seq, r.as_euler(seq)).as_matrix(), expected.as_matrix(), 1e-4)
    _close(r.as_euler(seq, degrees=True), expected.as_euler(seq, degrees=True), 5e-2)


@pytest.mark.parametrize("seq", SEQUENCES)
def test_gimbal_lock_leaves_the_third_angle_0(seq):
    for middle in (0, np.pi) if seq[0] == seq[2] else (np.pi / 2, -np.pi / 2):
        with weft.enable_x64(True):
            r = Rotation.from_euler(seq, np.array([0.3, middle, 0.5]))
            angles = r.as_euler(seq)
            assert angles[2] == 0
            _close(Rotation.from_euler(seq, angles).as_matrix(), r.as_matrix())


@pytest.mark.parametrize("shape", [(), (1,), (5,), (5, 1)])
def test_one_axis_takes_angles_of_the_shapes_that_scipy_takes(rng, shape):
    angles = rng.uniform(-100, 100, shape).astype(np.float32)
    column = angles[:, None] if shape == (5,) else angles  # SciPy 1.17.1 refuses (n,)
    expected = ref.Rotation.from_euler("y", column, degrees=True).as_matrix()
    _close(
        Rotation.from_euler("y", angles, degrees=True).as_matrix().reshape(expected.shape), expected
    )


def test_rotations_compose_and_apply(rng):
    p, q, v = _quats(rng), _quats(rng), rng.standard_normal((6, 3)).astype(np.float32)
    a, b = Rotation.from_quat(p), Rotation.from_quat(q)
    x, y = ref.Rotation.from_quat(p), ref.Rotation.from_quat(q)
    _close((a * b).as_matrix(), (x * y).as_matrix())
    _close((a[0] * b).as_matrix(), (x[0] * y).as_matrix())
    _close(a.apply(v), x.apply(v))
    _close(a.apply(v, inverse=True), x.apply(v, inverse=True))
    _close(a[1:3].apply(v[0]), x[1:3].apply(v[0]))
    joined = Rotation.concatenate([a, b[0]])
    assert len(joined) == 7 and not joined.single and joined[0].single


def test_means_equal_scipys(rng):
    q, w = _quats(rng), rng.uniform(0.5, 2, 6).astype(np.float32)
    expected = ref.Rotation.from_quat(q)
    _close(Rotation.from_quat(q).mean().as_matrix(), expected.mean().as_matrix(), 1e-4)
    _close(Rotation.from_quat(q).mean(w).as_matrix(), expected.mean(w).as_matrix(), 1e-4)


def test_random_rotations_are_rotations():
    m = np.asarray(Rotation.random(weft.random.key(0), 50).as_matrix())
    _close(m @ m.swapaxes(1, 2), np.broadcast_to(np.eye(3), m.shape))
    _close(np.linalg.det(m), np.ones(50))


def test_interpolation_equals_scipys(rng):
    q, times = _quats(rng), np.array([0, 1, 2.5, 3, 4, 6], np.float32)
    at = np.array([0, 0.4, 1, 2.7, 5.9, 6], np.float32)
    expected = ref.Slerp(times, ref.Rotation.from_quat(q))(at).as_matrix()
    slerp = Slerp.init(list(times), Rotation.from_quat(q))
    _close(slerp(at).as_matrix(), expected)
    _close(weft.jit(lambda s, t: s(t).as_matrix())(slerp, at), expected)
    _close(weft.vmap(lambda t: slerp(t).as_matrix())(at), expected)


def test_derivatives_of_rotations_at_0_are_the_generators():
    def turned(v):
        return Rotation.from_rotvec(v).apply(np.array([1, 2, 3], np.float32))

    columns = [np.cross(e, [1, 2, 3]) for e in np.eye(3)]
    _close(weft.jacobian(turned)(np.zeros(3, np.float32)), np.stack(columns, 1))
    back = weft.jacobian(lambda v: Rotation.from_rotvec(v).as_rotvec())
    _close(back(np.zeros(3, np.float32)), np.eye(3))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Rotation.from_euler("xq", [0.0, 1.0]), "seq must be one to three"),
        (lambda: Rotation.from_euler("xYz", [0.0, 1.0, 2.0]), "seq must be one to three"),
        (lambda: Rotation.from_euler("xyz", np.ones(2)), "must end with the 3 axes"),
        (lambda: Rotation.identity().as_euler("xxy"), "neighbors distinct"),
        (lambda: Rotation.from_quat(np.ones(3)), "quat must end with"),
        (lambda: Rotation.identity(3).mean(np.ones(2)), "one element for each"),
        (lambda: Slerp.init(np.ones(3), Rotation.identity(2)), "one element for each"),
    ],
)
def test_bad_input_says_what_is_wrong(make, words):
    with pytest.raises(ValueError, match=words):
        make()
