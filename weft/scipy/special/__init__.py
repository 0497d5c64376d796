"""Special functions, under the names and with the semantics of jax.scipy.special."""

from weft.core.namespace import EagerPrograms, load_on_use
from weft.scipy.special.examples import EXAMPLES

_PROGRAMS = """
    beta betaln boxcox boxcox1p dawsn entr erfcx exp1 expi fresnel gamma gammasgn hyp1f1 hyp2f1
    kl_div log_ndtr log_softmax loggamma logit logsumexp multigammaln ndtr ndtri owens_t poch
    polygamma rel_entr sici softmax spence wofz xlog1py xlogy zeta
"""


def _programs() -> EagerPrograms:
    from weft.numpy.eager import eager_programs  # where a function is used, not to import this

    return eager_programs(_PROGRAMS, options="d return_sign", operands="n")


__getattr__, _NAMES = load_on_use(
    globals(),
    {
        "entropies": "boxcox boxcox1p entr expit kl_div logit rel_entr xlog1py xlogy",
        "error_functions": "dawsn erf erfc erfcx erfinv log_ndtr ndtr ndtri owens_t wofz",
        "exponentials": "log_softmax softmax",
        "weft.nn.exponential_sums": "logsumexp",
        "factorials": """bernoulli beta betainc betaln comb digamma factorial gamma gammainc
            gammaincc gammaln gammasgn loggamma multigammaln poch polygamma zeta""",
        "harmonics": "bessel_jn i0 i0e i1 i1e sph_harm_y",
        "hypergeometric": "hyp1f1 hyp2f1",
        "integrals": "exp1 expi expn fresnel sici spence",
    },
    _programs,
    examples=EXAMPLES,
)
