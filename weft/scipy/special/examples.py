"""Examples of the functions of weft.scipy.special, which their docstrings end with."""

from weft.core.namespace import examples_of

EXAMPLES = examples_of(
    "from weft import numpy as wnp; from weft.scipy import special",
    r"""
bernoulli
>>> [round(float(y), 4) for y in special.bernoulli(4)]
[1.0, -0.5, 0.1667, 0.0, -0.0333]

bessel_jn
>>> [round(float(y), 3) for y in special.bessel_jn(1.0, v=2)]
[0.765, 0.44, 0.115]

beta
>>> round(float(special.beta(2.0, 3.0)), 4)
0.0833

betainc
>>> round(float(special.betainc(2.0, 2.0, 0.5)), 4)
0.5

betaln
>>> round(float(special.betaln(2.0, 3.0)), 4)
-2.4849

boxcox
>>> round(float(special.boxcox(4.0, 0.5)), 4)
2.0

boxcox1p
>>> round(float(special.boxcox1p(3.0, 0.5)), 4)
2.0

comb
>>> round(float(special.comb(5, 2)), 4)
10.0

dawsn
>>> round(float(special.dawsn(0.5)), 4)
0.4244

digamma
>>> round(float(special.digamma(0.5)), 4)
-1.9635

entr
>>> round(float(special.entr(0.5)), 4)
0.3466

erf
>>> round(float(special.erf(0.5)), 4)
0.5205

erfc
>>> round(float(special.erfc(0.5)), 4)
0.4795

erfcx
>>> round(float(special.erfcx(0.5)), 4)
0.6157

erfinv
>>> round(float(special.erfinv(0.5)), 4)
0.4769

exp1
>>> round(float(special.exp1(0.5)), 4)
0.5598

expi
>>> round(float(special.expi(0.5)), 4)
0.4542

expit
>>> round(float(special.expit(0.5)), 4)
0.6225

expn
>>> round(float(special.expn(2, 0.5)), 4)
0.3266

factorial
>>> round(float(special.factorial(4)), 4)
24.0

fresnel
>>> [round(float(y), 4) for y in special.fresnel(0.5)]
[0.0647, 0.4923]

gamma
>>> round(float(special.gamma(5.0)), 4)
24.0

gammainc
>>> round(float(special.gammainc(2.0, 1.0)), 4)
0.2642

gammaincc
>>> round(float(special.gammaincc(2.0, 1.0)), 4)
0.7358

gammaln
>>> round(float(special.gammaln(0.5)), 4)
0.5724

gammasgn
>>> special.gammasgn(-0.5)
Array(-1., dtype=float32)

hyp1f1
>>> round(float(special.hyp1f1(1.0, 2.0, 0.5)), 4)
1.2974

hyp2f1
>>> round(float(special.hyp2f1(1.0, 1.0, 2.0, 0.5)), 4)
1.3863

i0
>>> round(float(special.i0(0.5)), 4)
1.0635

i0e
>>> round(float(special.i0e(0.5)), 4)
0.645

i1
>>> round(float(special.i1(0.5)), 4)
0.2579

i1e
>>> round(float(special.i1e(0.5)), 4)
0.1564

kl_div
>>> round(float(special.kl_div(0.5, 0.25)), 4)
0.0966

log_ndtr
>>> round(float(special.log_ndtr(0.5)), 4)
-0.3689

log_softmax
>>> [round(float(y), 3) for y in special.log_softmax(wnp.array([0.0, 1.0]))]
[-1.313, -0.313]

loggamma
>>> round(float(special.loggamma(0.5)), 4)
0.5724

logit
>>> round(float(special.logit(0.5)), 4)
0.0

logsumexp
>>> round(float(special.logsumexp(wnp.array([0.0, 1.0]))), 4)
1.3133

multigammaln
>>> round(float(special.multigammaln(3.0, 2)), 4)
1.5502

ndtr
>>> round(float(special.ndtr(0.5)), 4)
0.6915

ndtri
>>> round(float(special.ndtri(0.5)), 4)
0.0

owens_t
>>> round(float(special.owens_t(0.5, 1.0)), 4)
0.1067

poch
>>> round(float(special.poch(2.0, 3.0)), 4)
24.0

polygamma
>>> round(float(special.polygamma(1, 0.5)), 4)
4.9348

rel_entr
>>> round(float(special.rel_entr(0.5, 0.25)), 4)
0.3466

sici
>>> [round(float(y), 4) for y in special.sici(0.5)]
[0.4931, -0.1778]

softmax
>>> [round(float(y), 3) for y in special.softmax(wnp.array([0.0, 1.0]))]
[0.269, 0.731]

spence
>>> round(float(special.spence(0.5)), 4)
0.5822

sph_harm_y
>>> round(float(special.sph_harm_y(wnp.array(1), wnp.array(0), 0.5, 0.0).real), 4)
0.4288

wofz
>>> round(float(special.wofz(0.5j).real), 4)
0.6157

xlog1py
>>> round(float(special.xlog1py(0.5, 1.0)), 4)
0.3466

xlogy
>>> round(float(special.xlogy(0.5, 2.0)), 4)
0.3466

zeta
>>> round(float(special.zeta(2.0, 1.0)), 4)
1.6449
""",
)
__test__ = EXAMPLES
