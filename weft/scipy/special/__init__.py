"""Special functions, under the names and with the semantics of jax.scipy.special."""

import weft.numpy  # noqa: F401  (arrays get their methods)
from weft.core.namespace import seal
from weft.nn.exponential_sums import log_softmax as _log_softmax
from weft.nn.exponential_sums import logsumexp
from weft.nn.exponential_sums import softmax as _softmax
from weft.numpy.eager import eager_programs
from weft.scipy.special.entropies import (
    boxcox,
    boxcox1p,
    entr,
    expit,
    kl_div,
    logit,
    rel_entr,
    xlog1py,
    xlogy,
)
from weft.scipy.special.error_functions import (
    dawsn,
    erf,
    erfc,
    erfcx,
    erfinv,
    log_ndtr,
    ndtr,
    ndtri,
    owens_t,
    wofz,
)
from weft.scipy.special.examples import EXAMPLES
from weft.scipy.special.factorials import (
    bernoulli,
    beta,
    betainc,
    betaln,
    comb,
    digamma,
    factorial,
    gamma,
    gammainc,
    gammaincc,
    gammaln,
    gammasgn,
    loggamma,
    multigammaln,
    poch,
    polygamma,
    zeta,
)
from weft.scipy.special.harmonics import bessel_jn, i0, i0e, i1, i1e, sph_harm_y
from weft.scipy.special.hypergeometric import hyp1f1, hyp2f1
from weft.scipy.special.integrals import exp1, expi, expn, fresnel, sici, spence


def softmax(x, /, *, axis=None):
    """exp(x) over its sum along an axis, or along all.

    Source: scipy.special.softmax.

    >>> import weft.numpy as wnp
    >>> from weft.scipy import special
    >>> [round(float(y), 3) for y in special.softmax(wnp.array([0.0, 1.0]))]
    [0.269, 0.731]
    """
    return _softmax(x, axis=axis)


def log_softmax(x, /, *, axis=None):
    """The logarithm of softmax, accurate where it is small.

    Source: scipy.special.log_softmax.

    >>> import weft.numpy as wnp
    >>> from weft.scipy import special
    >>> [round(float(y), 3) for y in special.log_softmax(wnp.array([0.0, 1.0]))]
    [-1.313, -0.313]
    """
    return _log_softmax(x, axis=axis)


__all__ = [
    "bernoulli",
    "bessel_jn",
    "beta",
    "betainc",
    "betaln",
    "boxcox",
    "boxcox1p",
    "comb",
    "dawsn",
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfcx",
    "erfinv",
    "exp1",
    "expi",
    "expit",
    "expn",
    "factorial",
    "fresnel",
    "gamma",
    "gammainc",
    "gammaincc",
    "gammaln",
    "gammasgn",
    "hyp1f1",
    "hyp2f1",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "kl_div",
    "log_ndtr",
    "log_softmax",
    "loggamma",
    "logit",
    "logsumexp",
    "multigammaln",
    "ndtr",
    "ndtri",
    "owens_t",
    "poch",
    "polygamma",
    "rel_entr",
    "sici",
    "softmax",
    "spence",
    "sph_harm_y",
    "wofz",
    "xlog1py",
    "xlogy",
    "zeta",
]
_PROGRAMS = """
    beta betaln boxcox boxcox1p dawsn entr erfcx exp1 expi fresnel gamma gammasgn hyp1f1 hyp2f1
    kl_div log_ndtr log_softmax loggamma logit logsumexp multigammaln ndtr ndtri owens_t poch
    polygamma rel_entr sici softmax spence wofz xlog1py xlogy zeta
"""
seal(
    globals(),
    examples=EXAMPLES,
    programs=eager_programs(_PROGRAMS, options="d return_sign", operands="n"),
)
