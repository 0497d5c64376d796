"""Linear algebra, transforms and statistics."""

from __future__ import annotations

from tests.partition.corpus.entry import program


@program((16, 32), (32, 16), (16, 8))
def matmul_chain(np, lib):
    return lambda a, b, c: (a @ b) @ c


@program((8, 16), (16, 32), (32, 8))
def mlp(np, lib):
    return lambda x, w, v: np.tanh(x @ w) @ v + x.mean(1, keepdims=True)


@program((4, 8, 6), (4, 6, 8))
def batched_matmul(np, lib):
    return lambda a, b: np.einsum("bij,bjk->bik", a, b)


@program((8, 4, 6), (6, 8, 3))
def tensor_contraction(np, lib):
    return lambda a, b: np.tensordot(a, b, axes=((0, 2), (1, 0)))


@program((16,), (8,))
def outer(np, lib):
    return lambda a, b: np.outer(a, b) + a[:, None] * b


@program((16, 4), (8, 4))
def pairwise_distance(np, lib):
    return lambda a, b: np.sqrt(((a[:, None] - b[None]) ** 2).sum(-1) + 1e-3)


@program((16, 16), (16,))
def power_iteration(np, lib):
    def run(a, v):
        s = a @ a.T / 16
        for _ in range(4):
            v = s @ v
            v = v / np.sqrt((v * v).sum())
        return v, v @ (s @ v)

    return run


@program((16, 4))
def gram_schmidt(np, lib):
    def run(a):
        columns = []
        for j in range(4):
            v = a[:, j]
            for q in columns:
                v = v - (q @ v) * q
            columns.append(v / np.sqrt(v @ v))
        return np.stack(columns, axis=1)

    return run


@program((4, 4), (4, 2))
def kronecker(np, lib):
    return lambda a, b: (a[:, None, :, None] * b[None, :, None, :]).reshape(16, 8)


@program((8, 4, 4), (4, 4))
def batched_product_chain(np, lib):
    return lambda a, b: np.einsum("nij,jk,nkl->nil", a, b, a) + np.swapaxes(a, 1, 2) @ b


@program((16, 12), (16,), (12,))
def rank_one_update(np, lib):
    return lambda a, u, v: (a + u[:, None] * v[None], a @ v - u, u @ a)


@program((24, 8), (8, 8))
def quadratic_form(np, lib):
    return lambda x, a: (np.einsum("bi,ij,bj->b", x, a, x), ((x @ a) * x).sum(-1))


BLOCKS = ({"x": 4, "y": 2}, (("x", "y"), ("x", "y"))), ({"x": 2, "y": 4}, (("y", "x"), ("x", "y")))


@program((32, 32), (32, 32), layouts=BLOCKS)
def block_product(np, lib):
    return lambda a, b: lib.pin(a @ b, *("x", "y"))


@program((6, 8, 8), (6, 8))
def batched_solve(np, lib):
    return lambda a, b: np.linalg.solve(a + 8 * np.eye(8, dtype=a.dtype), b[..., None])[..., 0]


@program((8, 6, 6))
def cholesky(np, lib):
    def run(a):
        spd = a @ np.swapaxes(a, -1, -2) + 4 * np.eye(6, dtype=a.dtype)
        return np.linalg.cholesky(spd)

    return run


@program((8, 6, 4))
def singular_values(np, lib):
    return lambda a: np.linalg.svd(a, compute_uv=False)


@program((4, 6, 6))
def eigenvalues(np, lib):
    return lambda a: np.linalg.eigvalsh(a + np.swapaxes(a, -1, -2))


@program((8, 8, 4))
def orthonormal_projection(np, lib):
    def run(a):
        q, r = np.linalg.qr(a)
        return q @ np.swapaxes(q, -1, -2), np.abs(np.diagonal(r, axis1=-2, axis2=-1))

    return run


@program((8, 5, 5))
def determinant(np, lib):
    return lambda a: np.linalg.det(a + 3 * np.eye(5, dtype=a.dtype))


@program((16, 16), (16,))
def conjugate_gradient(np, lib):
    def run(a, b):
        s = a @ a.T / 16 + np.eye(16, dtype=a.dtype)

        def step(_, state):
            x, r, p = state
            sp = s @ p
            alpha = (r @ r) / (p @ sp)
            after = r - alpha * sp
            return x + alpha * p, after, after + (after @ after) / (r @ r) * p

        return lib.lax.fori_loop(0, 6, step, (np.zeros_like(b), b, b))[0]

    return run


@program((12, 12))
def matrix_powers(np, lib):
    def run(a):
        b = a / 12
        return np.linalg.matrix_power(b, 5) * 1e3, b @ b.T

    return run


@program((16, 8), (16, 8))
def complex_product(np, lib):
    def run(a, b):
        z = a + 1j * b
        w = z @ np.conj(z).T
        return np.real(w), np.imag(w), np.abs(z)

    return run


@program((8, 16))
def fourier_rows(np, lib):
    def run(a):
        f = np.fft.fft(a, axis=1)
        return np.abs(f).astype(np.float32), np.real(np.fft.ifft(f, axis=1)).astype(np.float32)

    return run


@program((8, 16))
def fourier_columns(np, lib):
    return lambda a: np.abs(np.fft.fft(a, axis=0)).astype(np.float32)


@program((16, 16))
def power_spectrum(np, lib):
    return lambda a: (np.abs(np.fft.fft2(a)) ** 2).astype(np.float32) / 256


@program((8, 32), (8, 32))
def fourier_convolution(np, lib):
    def run(a, b):
        return np.fft.irfft(np.fft.rfft(a) * np.fft.rfft(b), n=32).astype(np.float32)

    return run


@program((32, 6))
def principal_component(np, lib):
    def run(x):
        x = x - x.mean(0)
        c = x.T @ x / 32
        v = np.ones(6, np.float32)
        for _ in range(3):
            v = c @ v
            v = v / np.sqrt((v * v).sum())
        return np.abs(v), x @ c

    return run


@program((24, 4))
def standardized_covariance(np, lib):
    def run(x):
        z = (x - x.mean(0)) / (x.std(0) + 1e-3)
        return z.T @ z / 24, np.quantile(x, 0.3, axis=0)

    return run
