"""Linear algebra, under the names and with the semantics of jax.scipy.linalg."""

from weft.core.namespace import EagerPrograms, load_on_use

_PROGRAMS = """
    block_diag cholesky circulant companion convolution_matrix det eigh eigh_tridiagonal expm
    expm_frechet fiedler fiedler_companion funm hankel hessenberg inv leslie lu lu_factor polar qr
    qr_multiply rsf2csf schur solve solve_sylvester solve_triangular sqrtm svd toeplitz
"""
_OPTIONS = """
    assume_a blocksize calc_q check_finite compute_expm compute_uv conjugate debug disp eigvals
    eigvals_only full_matrices func lapack_driver lower lwork max_iterations max_squarings method
    mode output overwrite_a overwrite_b overwrite_c permute_l pivoting select select_range side
    trans turbo type unit_diagonal upper_triangular
"""


def _programs() -> EagerPrograms:
    from weft.numpy.eager import eager_programs  # where a function is used, not to import this

    return eager_programs(_PROGRAMS, joining="lu_solve", options=_OPTIONS)


__getattr__, _NAMES = load_on_use(
    globals(),
    {
        "factorizations": """cho_factor cho_solve cholesky det eigh hessenberg inv lu lu_factor
            lu_solve polar qr qr_multiply schur solve solve_triangular svd""",
        "functions": "eigh_tridiagonal expm expm_frechet funm rsf2csf solve_sylvester sqrtm",
        "special_matrices": """block_diag circulant companion convolution_matrix dft fiedler
            fiedler_companion hadamard hankel helmert hilbert invhilbert invpascal leslie pascal
            toeplitz""",
    },
    _programs,
)
