"""Decompositions of matrices and Fourier transforms as loops of other ops, for native kernels.

XLA calls libraries for these ops; a kernel has none. The forms here are chosen for matrices as
large as blocks: every step is a few ops on whole matrices, without data-dependent shapes.
Sources: G. Golub, C. Van Loan, "Matrix Computations", 4th ed., 2013 (3.4, 4.2, 5.1, 5.2, 8.5,
8.6); R. Brent, F. Luk, "The solution of singular-value and symmetric eigenvalue problems on
multiprocessor arrays", 1985, for the order of rotations; J. Cooley, J. Tukey, "An algorithm for
the machine calculation of complex Fourier series", 1965.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from weft.core import dtypes
from weft.core.jaxpr import Eqn
from weft.core.trace import typeof

SWEEPS = 20
"""Passes over all pairs of columns after which rotations end; a dozen are enough for most."""


def function(eqn: Eqn) -> Callable | None:
    """The function of operands and parameters that an op of this file stands for, if it is one."""
    name = eqn.primitive.name
    of_matrices = _DECOMPOSITIONS.get(name)
    if of_matrices is None or eqn.params.get("pivoting"):
        return _WHOLE.get(name)

    def run(*args: Any, **params: Any) -> Any:
        from weft.api.vmap_api import vmap

        mapped: Callable = lambda *xs: of_matrices(*xs, **params)
        for _ in range(typeof(args[0]).ndim - 2):
            mapped = vmap(mapped)
        return mapped(*args)

    return run


def _modules() -> tuple[Any, Any]:
    import weft.numpy as jnp
    from weft import lax

    return jnp, lax


def _indices(m: int, n: int) -> tuple[Any, Any]:
    """The numbers of rows, (m, 1), and of columns, (1, n)."""
    _, lax = _modules()
    return lax.broadcasted_iota("int32", (m, 1), 0), lax.broadcasted_iota("int32", (1, n), 1)


def _adjoint(x: Any) -> Any:
    jnp, _ = _modules()
    return jnp.conj(x).T if dtypes.is_complex(x.dtype) else x.T


def _conj(x: Any) -> Any:
    jnp, _ = _modules()
    return jnp.conj(x) if dtypes.is_complex(x.dtype) else x


def _squares(x: Any) -> Any:
    """|x|² of each element, real."""
    jnp, _ = _modules()
    if dtypes.is_complex(x.dtype):
        return jnp.real(x) ** 2 + jnp.imag(x) ** 2
    return x * x


def _column(a: Any, k: Any) -> Any:
    """Column k as (m, 1)."""
    _, lax = _modules()
    return lax.dynamic_slice_in_dim(a, k, 1, axis=1)


# Triangles --------------------------------------------------------------------------------------


def _cholesky(a: Any) -> Any:
    """Column after column: what the columns before leave of a's column, over its root."""
    jnp, lax = _modules()
    n = a.shape[0]
    i, j = _indices(n, n)

    def step(k: Any, factor: Any) -> Any:
        row = lax.dynamic_slice_in_dim(factor, k, 1, axis=0)
        rest = _column(a, k) - jnp.dot(factor, _adjoint(row))
        pivot = jnp.sqrt(jnp.real(jnp.where(i == k, rest, 0).sum()))
        column = jnp.where(i > k, rest / pivot, jnp.where(i == k, pivot.astype(a.dtype), 0))
        return jnp.where(j == k, column, factor)

    factor = lax.fori_loop(0, n, step, jnp.zeros_like(a))
    ok = (jnp.where(i == j, _squares(factor), 1) > 0).all()  # also false for NaN
    return jnp.where((i >= j) & ~ok, jnp.nan, factor)


def _triangular_solve(
    a: Any,
    b: Any,
    *,
    left_side: bool,
    lower: bool,
    transpose_a: bool,
    conjugate_a: bool,
    unit_diagonal: bool,
) -> Any:
    """Substitution, one row of the solution after the other."""
    jnp, lax = _modules()
    if conjugate_a:
        a = _conj(a)
    if transpose_a:
        a, lower = a.T, not lower
    if not left_side:  # x a = b is aᵀ xᵀ = bᵀ
        a, b, lower = a.T, b.T, not lower
    n = a.shape[0]
    i, j = _indices(n, n)
    a = jnp.where(i >= j if lower else i <= j, a, 0)

    def step(count: Any, x: Any) -> Any:
        k = count if lower else n - 1 - count
        row = lax.dynamic_slice_in_dim(a, k, 1, axis=0)
        found = lax.dynamic_slice_in_dim(b, k, 1, axis=0) - jnp.dot(row, x)
        if not unit_diagonal:
            found = found / jnp.where(j == k, row, 0).sum()
        return jnp.where(i == k, found, x)

    x = lax.fori_loop(0, n, step, jnp.zeros_like(b))
    return x if left_side else x.T


def _lu(a: Any) -> tuple[Any, Any, Any]:
    """Elimination with the largest pivot of each column."""
    jnp, lax = _modules()
    from weft.ops.linalg.lu import lu_pivots_to_permutation

    m, n = a.shape
    i, j = _indices(m, n)
    rows = i[:, 0]
    number = lax.iota("int32", min(m, n))

    def step(k: Any, carry: tuple) -> tuple:
        a, pivots = carry
        size = jnp.where(i >= k, jnp.sqrt(_squares(_column(a, k))), -1)
        p = jnp.argmax(size[:, 0]).astype("int32")
        upper = lax.dynamic_slice_in_dim(a, k, 1, axis=0)
        chosen = lax.dynamic_slice_in_dim(a, p, 1, axis=0)
        a = jnp.where(i == k, chosen, jnp.where(i == p, upper, a))
        pivot = jnp.where(j == k, chosen, 0).sum()
        column = _column(a, k)
        factor = jnp.where((i > k) & (pivot != 0), column / jnp.where(pivot == 0, 1, pivot), 0)
        a = jnp.where((i > k) & (j > k), a - factor * chosen, a)
        a = jnp.where((i > k) & (j == k) & (pivot != 0), factor, a)
        return a, jnp.where(number == k, p, pivots)

    packed, pivots = lax.fori_loop(0, min(m, n), step, (a, jnp.zeros_like(number)))
    return packed, pivots, lu_pivots_to_permutation(pivots, rows.shape[0])


def _permutation(pivots: Any, *, permutation_size: int) -> Any:
    """Where the rows are once the swaps are done, one after the other."""
    jnp, lax = _modules()
    if pivots.ndim > 1:
        from weft.api.vmap_api import vmap

        return vmap(lambda p: _permutation(p, permutation_size=permutation_size))(pivots)
    number = lax.iota(pivots.dtype, permutation_size)

    def swap(k: Any, rows: Any) -> Any:
        p = lax.dynamic_index_in_dim(pivots, k, keepdims=False)
        mine, other = (jnp.where(number == at, rows, 0).sum(dtype=rows.dtype) for at in (k, p))
        return jnp.where(number == k, other, jnp.where(number == p, mine, rows))

    return lax.fori_loop(0, pivots.shape[0], swap, number)


def _lu_solve(a: Any, packed: Any, permutation: Any, b: Any, *, transposed: bool) -> Any:
    """Two substitutions, the rows moved by a product."""
    jnp, _ = _modules()
    _, j = _indices(*packed.shape)
    rows = (permutation[:, None] == j).astype(b.dtype)
    form = {"left_side": True, "conjugate_a": False, "transpose_a": transposed}

    def lower(x: Any) -> Any:
        return _triangular_solve(packed, x, lower=True, unit_diagonal=True, **form)

    def upper(x: Any) -> Any:
        return _triangular_solve(packed, x, lower=False, unit_diagonal=False, **form)

    if transposed:
        return jnp.dot(rows.T, lower(upper(b)), precision="highest")
    return upper(lower(jnp.dot(rows, b, precision="highest")))


# Reflectors -------------------------------------------------------------------------------------


def _geqrf(a: Any) -> tuple[Any, Any]:
    """R above, the reflectors 1 - tau v vᴴ below the diagonal, as LAPACK keeps them."""
    jnp, lax = _modules()
    m, n = a.shape
    i, j = _indices(m, n)
    number = lax.iota("int32", min(m, n))

    def step(k: Any, carry: tuple) -> tuple:
        a, taus = carry
        column = _column(a, k)
        alpha = jnp.where(i == k, column, 0).sum()
        below = jnp.where(i > k, column, 0)
        rest = _squares(below).sum()
        norm = jnp.sqrt(_squares(alpha) + rest)
        beta = jnp.where(jnp.real(alpha) >= 0, -norm, norm)
        done = rest == 0
        if dtypes.is_complex(a.dtype):
            done = done & (jnp.imag(alpha) == 0)
        safe = jnp.where(done, 1, beta).astype(a.dtype)
        tau = jnp.where(done, 0, (safe - alpha) / safe)
        v = jnp.where(i == k, 1, below / jnp.where(done, 1, alpha - safe)).astype(a.dtype)
        turned = a - _conj(tau) * v * jnp.dot(_adjoint(v), a)
        diagonal = jnp.where(done, alpha, safe)
        kept = jnp.where(i > k, v, jnp.where(i == k, diagonal, column))
        a = jnp.where(j > k, turned, jnp.where(j == k, kept, a))
        return a, jnp.where(number == k, tau, taus)

    start = (a, jnp.zeros((min(m, n),), a.dtype))
    return lax.fori_loop(0, min(m, n), step, start)


def _householder_product(a: Any, taus: Any) -> Any:
    """The reflectors applied to columns of the identity, the last one first."""
    jnp, lax = _modules()
    m, n = a.shape
    i, j = _indices(m, n)
    count = taus.shape[0]

    def step(turn: Any, q: Any) -> Any:
        k = count - 1 - turn
        v = jnp.where(i > k, _column(a, k), jnp.where(i == k, 1, 0)).astype(a.dtype)
        tau = lax.dynamic_index_in_dim(taus, k, keepdims=False)
        return q - tau * v * jnp.dot(_adjoint(v), q)

    return lax.fori_loop(0, count, step, (i == j).astype(a.dtype))


def _qr(a: Any, *, pivoting: bool, full_matrices: bool) -> tuple[Any, Any]:
    jnp, _ = _modules()
    m, n = a.shape
    k = m if full_matrices else min(m, n)
    packed, taus = _geqrf(a)
    start = packed[:, :k] if k <= n else _padded(packed, m, k)
    i, j = _indices(k, n)
    return _householder_product(start, taus), jnp.where(i <= j, packed[:k], 0)


# Rotations --------------------------------------------------------------------------------------


def _rotation(first: Any, second: Any, between: Any) -> tuple[Any, Any, Any]:
    """(c, s, phase) of the rotations that make 2×2 Hermitian matrices diagonal."""
    jnp, _ = _modules()
    # Scaled before it is squared: the phase of a tiny number must have the length 1 too.
    scale = jnp.abs(between)
    if dtypes.is_complex(between.dtype):
        scale = jnp.maximum(jnp.abs(jnp.real(between)), jnp.abs(jnp.imag(between)))
    none = scale <= dtypes.finfo(between.dtype).tiny
    scale = jnp.where(none, 1, scale)
    unit = jnp.where(none, 1, between / scale.astype(between.dtype))
    length = jnp.sqrt(_squares(unit))
    phase = unit / length.astype(unit.dtype)
    safe = scale * length
    ratio = (second - first) / (2 * safe)
    t = jnp.where(ratio >= 0, 1, -1) / (jnp.abs(ratio) + jnp.sqrt(1 + ratio * ratio))
    t = jnp.where(none, 0, t)
    c = 1 / jnp.sqrt(1 + t * t)
    return c.astype(between.dtype), (t * c).astype(between.dtype), _conj(phase)


def _turned(x: Any, c: Any, s: Any, phase: Any) -> Any:
    """Column k and column k + half of x rotated, for all k, and then moved: in n - 1 turns every
    column meets every other one once."""
    jnp, _ = _modules()
    h = x.shape[1] // 2
    a, b = x[:, :h], x[:, h:]
    x = jnp.concatenate([a * c - b * (s * phase), a * s + b * (c * phase)], axis=1)
    if h == 1:
        return x
    cuts = ((0, 1), (h, h + 1), (1, h - 1), (h + 1, 2 * h), (h - 1, h))
    return jnp.concatenate([x[:, a:b] for a, b in cuts if a < b], axis=1)


def _sweeps(n: int, body: Callable, converged: Callable, start: tuple) -> tuple:
    """Sweeps of n - 1 turns until the values have converged."""
    _, lax = _modules()

    def more(carry: tuple) -> Any:
        return (carry[0] < SWEEPS) & ~converged(carry[1])

    def once(carry: tuple) -> tuple:
        return carry[0] + 1, lax.fori_loop(0, n - 1, lambda _, v: body(v), carry[1])

    return lax.while_loop(more, once, (np.int32(0), start))[1]


def _sorted_columns(keys: Any, columns: Any, descending: bool) -> tuple[Any, Any]:
    """The keys in order and the columns with them, moved by a product."""
    jnp, _ = _modules()
    n = keys.shape[0]
    i, j = _indices(n, n)
    mine, other = keys[:, None], keys[None, :]
    before = other > mine if descending else other < mine
    place = (before | ((other == mine) & (j < i))).sum(axis=1, keepdims=True, dtype="int32")
    chosen = (place == j).astype(keys.dtype)
    moved = jnp.dot(columns, chosen.astype(columns.dtype), precision="highest")
    bad = jnp.isnan(keys).any()
    keys = jnp.where(bad, jnp.nan, (mine * chosen).sum(axis=0))
    return keys, jnp.where(bad, jnp.nan, moved)


def _padded(x: Any, rows: int, columns: int) -> Any:
    jnp, _ = _modules()
    if x.shape == (rows, columns):
        return x
    return jnp.pad(x, ((0, rows - x.shape[0]), (0, columns - x.shape[1])))


def _eigh(a: Any, *, lower: bool, sort_eigenvalues: bool) -> tuple[Any, Any]:
    """Jacobi's method: rotations of half of the pairs of rows and columns at a time."""
    jnp, _ = _modules()
    n = a.shape[0]
    i, j = _indices(n, n)
    half = jnp.where(i > j if lower else i < j, a, 0)
    a = half + _adjoint(half) + jnp.where(i == j, jnp.real(a).astype(a.dtype), 0)
    if n == 1:
        return jnp.ones_like(a), jnp.real(a)[0]
    even = n + n % 2
    a = _padded(a, even, even)
    i, j = _indices(even, even)
    eye = (i == j).astype(a.dtype)
    eps = dtypes.finfo(a.dtype).eps

    def turn(values: tuple) -> tuple:
        a, v = values
        h = even // 2
        diagonal = jnp.real(jnp.where(i == j, a, 0).sum(axis=1))
        between = jnp.where(i[:h] == j[:, :h], a[:h, h:], 0).sum(axis=1)
        c, s, phase = _rotation(diagonal[:h], diagonal[h:], between)
        a = _turned(_adjoint(_turned(a, c, s, phase)), c, s, phase)
        return a, _turned(v, c, s, phase)

    def converged(values: tuple) -> Any:
        squares = _squares(values[0])
        off = jnp.where(i == j, 0, squares).sum()
        return ~(off > 4 * n * eps**2 * squares.sum())

    a, v = _sweeps(even, turn, converged, (a, eye))
    w = jnp.real(jnp.where(i == j, a, 0).sum(axis=1))[:n]
    w, v = _sorted_columns(w, v[:n, :n], False)
    return v, w


def _svd(a: Any, *, full_matrices: bool, compute_uv: bool, algorithm: Any) -> tuple:
    """Rotations that make columns orthogonal; their lengths are the singular values."""
    jnp, _ = _modules()
    m, n = a.shape
    if m < n:
        s, *vectors = _svd(
            _adjoint(a), full_matrices=full_matrices, compute_uv=compute_uv, algorithm=algorithm
        )
        return (s, *(_adjoint(x) for x in reversed(vectors)))
    even = max(2, n + n % 2)
    i, j = _indices(even, even)
    # The matrix and, below it, what is made of the identity by the same rotations.
    start = jnp.concatenate([_padded(a, m, even), (i == j).astype(a.dtype)], axis=0)
    eps = dtypes.finfo(a.dtype).eps
    h = even // 2

    def turn(values: tuple) -> tuple:
        (both,) = values
        x = both[:m]
        lengths = _squares(x).sum(axis=0)
        between = (_conj(x[:, :h]) * x[:, h:]).sum(axis=0)
        return (_turned(both, *_rotation(lengths[:h], lengths[h:], between)),)

    def converged(values: tuple) -> Any:
        """Whether the angles between columns are tiny; columns of length 0 have none."""
        x = values[0][:m]
        squares = _squares(jnp.dot(_adjoint(x), x, precision="highest"))
        diagonal = jnp.where(i == j, squares, 0).sum(axis=0)
        least = dtypes.finfo(a.dtype).eps ** 4 * diagonal.max()
        limit = (4 * eps) ** 2 * jnp.sqrt(diagonal)[:, None] * jnp.sqrt(diagonal)
        return ~jnp.any((i != j) & (squares > limit + least))

    (both,) = _sweeps(even, turn, converged, (start,))
    lengths = jnp.sqrt(_squares(both[:m]).sum(axis=0))[:n]
    s, both = _sorted_columns(lengths, both[: m + n, :n], True)
    if not compute_uv:
        return (s,)
    large = s > eps * jnp.max(s) * max(m, n)
    u = jnp.where(large, both[:m] / jnp.where(large, s, 1).astype(a.dtype), 0)
    # Reflectors of the columns found complete them to a basis.
    packed, taus = _geqrf(u)
    diagonal = jnp.where(_indices(m, n)[0] == _indices(m, n)[1], packed, 0).sum(axis=0)
    signs = jnp.where(jnp.real(diagonal) < 0, -1, 1)
    width = m if full_matrices else n
    basis = _householder_product(_padded(packed, m, width), taus)
    signs = jnp.concatenate([signs, jnp.ones((width - n,), signs.dtype)]) if width > n else signs
    return s, basis * signs.astype(a.dtype), _adjoint(both[m:])


# Fourier ----------------------------------------------------------------------------------------

RADIX = 16
"""Transforms of at most this length, and of primes, are products with the matrix."""


def _waves(rows: int, columns: int, n: int, sign: int, dtype: Any) -> tuple[Any, Any]:
    """cos and sin of ±2π j k / n, computed in double precision."""
    turns = np.outer(np.arange(rows), np.arange(columns)) % n * (sign * 2 * np.pi / n)
    return np.cos(turns).astype(dtype), np.sin(turns).astype(dtype)


def _dft(re: Any, im: Any, sign: int) -> tuple[Any, Any]:
    """The transform of the last of two dimensions; im may be None."""
    jnp, _ = _modules()
    count, n = re.shape
    dtype = re.dtype
    radix = next((d for d in range(min(RADIX, n), 1, -1) if n % d == 0), n)
    if n <= RADIX or radix == n:
        # One product: the parts below each other times cos and sin side by side.
        both = re if im is None else jnp.concatenate([re, im], axis=0)
        waves = np.concatenate(_waves(n, n, n, sign, dtype), axis=1)
        out = jnp.dot(both, waves, precision="highest")
        c, s = out[:, :n], out[:, n:]
        return (c, s) if im is None else (c[:count] - s[count:], s[:count] + c[count:])
    other = n // radix

    def split(x: Any) -> Any:  # (count, radix, other) → rows of length radix
        return x.reshape(count, radix, other).transpose(0, 2, 1).reshape(count * other, radix)

    re, im = _dft(split(re), None if im is None else split(im), sign)
    c, s = (np.tile(w, (count, 1)) for w in _waves(other, radix, n, sign, dtype))
    re, im = re * c - im * s, re * s + im * c

    def turn(x: Any) -> Any:
        x = x.reshape(count, other, radix).transpose(0, 2, 1)
        return x.reshape(count * radix, other)

    parts = _dft(turn(re), turn(im), sign)
    re, im = (x.reshape(count, radix, other).transpose(0, 2, 1).reshape(count, n) for x in parts)
    return re, im


def _fft(x: Any, *, fft_type: Any, fft_lengths: tuple[int, ...]) -> Any:
    """Dimension by dimension: a product with the matrix, or by the factors of the length."""
    jnp, lax = _modules()
    kind = fft_type.name
    sign = 1 if kind in ("IFFT", "IRFFT") else -1
    rank = len(fft_lengths)
    complex_ = dtypes.is_complex(x.dtype)
    re, im = (jnp.real(x), jnp.imag(x)) if complex_ else (x, None)
    first = x.ndim - rank
    axes = list(range(first, x.ndim))
    if kind == "RFFT":
        axes.reverse()
    for axis in axes:
        last = axis == x.ndim - 1
        n = fft_lengths[axis - first]
        re = jnp.moveaxis(re, axis, -1)
        im = None if im is None else jnp.moveaxis(im, axis, -1)
        lead = re.shape[:-1]
        re = re.reshape(-1, re.shape[-1])
        im = None if im is None else im.reshape(re.shape)
        if last and kind == "IRFFT":
            re, im = _mirrored(re, n, 1), _mirrored(im, n, -1)
        re, im = _dft(re, im, sign)
        if last and kind == "RFFT":
            re, im = re[:, : n // 2 + 1], im[:, : n // 2 + 1]
        re, im = (jnp.moveaxis(v.reshape(*lead, v.shape[-1]), -1, axis) for v in (re, im))
    if sign > 0:
        scale = np.asarray(1 / math.prod(fft_lengths), re.dtype)
        re, im = re * scale, im * scale
    return re if kind == "IRFFT" else lax.complex(re, im)


def _mirrored(half: Any, n: int, sign: int) -> Any:
    """All n frequencies of a real signal from the first n // 2 + 1."""
    jnp, _ = _modules()
    if sign < 0:  # where a frequency is its own mirror image the imaginary part counts as 0
        own = np.ones(half.shape[1], bool)
        own[0] = False
        if n % 2 == 0:
            own[-1] = False
        half = half * own.astype(half.dtype)
    rest = half[:, 1 : (n + 1) // 2][:, ::-1]
    return jnp.concatenate([half, rest * half.dtype.type(sign)], axis=1)


_WHOLE: dict[str, Callable] = {"fft": _fft, "lu_pivots_to_permutation": _permutation}
_DECOMPOSITIONS: dict[str, Callable] = {
    "cholesky": _cholesky,
    "triangular_solve": _triangular_solve,
    "lu": _lu,
    "lu_solve": _lu_solve,
    "qr": _qr,
    "geqrf": _geqrf,
    "householder_product": _householder_product,
    "eigh": _eigh,
    "svd": _svd,
}
