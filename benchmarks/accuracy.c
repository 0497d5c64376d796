// Errors of functions in units in the last place, against quadruple precision (GCC's libquadmath).

#include <math.h>
#include <quadmath.h>
#include <stddef.h>

typedef __float128 quad;
static const quad ROOT_HALF = 0.707106781186547524400844362104849039Q;

static quad logistic(quad x) { return 1 / (1 + expq(-x)); }
static quad softplus(quad x) { return (x > 0 ? x : 0) + log1pq(expq(-fabsq(x))); }
static quad ndtr(quad x) { return erfcq(-x * ROOT_HALF) / 2; }
static quad log_ndtr(quad x) {
  if (x > 0) return log1pq(-ndtr(-x));
  if (x > -40) return logq(ndtr(x));
  // Abramowitz and Stegun 26.2.12: the terms decrease up to x * x / 2.
  quad square = x * x, term = 1, sum = 1;
  for (int k = 1; k < 200 && fabsq(term) > 1e-36Q; ++k) sum += term *= -(2 * k - 1) / square;
  return logq(sum / -x) - square / 2 - logq(2 * M_PIq) / 2;
}
static quad digamma(quad x) {
  if (x < 0.5Q) {
    quad part = x - rintq(x);
    return part == 0 ? nanq("") : digamma(1 - x) - M_PIq / tanq(M_PIq * part);
  }
  static const quad bernoulli[] = {1.0Q / 6, -1.0Q / 30, 1.0Q / 42, -1.0Q / 30, 5.0Q / 66,
      -691.0Q / 2730, 7.0Q / 6, -3617.0Q / 510, 43867.0Q / 798, -174611.0Q / 330};
  quad sum = 0;
  for (; x < 60; x += 1) sum -= 1 / x;
  quad square = 1 / (x * x), power = square, series = 0;
  for (int k = 1; k <= 10; ++k, power *= square) series += bernoulli[k - 1] / (2 * k) * power;
  return sum + logq(x) - 0.5Q / x - series;
}
// By Newton's method, from what was computed.
static quad inverse_of(quad (*f)(quad), quad (*slope)(quad), quad x, quad y) {
  for (int k = 0; k < 4; ++k) y -= (f(y) - x) / slope(y);
  return y;
}
static quad erf_slope(quad y) { return M_2_SQRTPIq * expq(-y * y); }
static quad erfc_slope(quad y) { return -erf_slope(y); }
static quad ndtr_slope(quad y) { return expq(-y * y / 2) * ROOT_HALF * M_2_SQRTPIq / 2; }
static quad erf_inv(quad x, double y) {
  if (!(fabsq(x) < 1)) return fabsq(x) == 1 ? x * HUGE_VALQ : nanq("");
  if (fabsq(x) < 0.5Q) return inverse_of(erfq, erf_slope, x, y);
  quad size = inverse_of(erfcq, erfc_slope, 1 - fabsq(x), fabs(y));
  return x < 0 ? -size : size;
}
static quad ndtri(quad x, double y) {
  if (x == 0 || x == 1) return x ? HUGE_VALQ : -HUGE_VALQ;
  if (!(x > 0 && x < 1)) return nanq("");
  return x <= 0.5Q ? inverse_of(ndtr, ndtr_slope, x, y) : -inverse_of(ndtr, ndtr_slope, 1 - x, -y);
}
static quad gelu_tanh(quad x) {
  // (1 + tanh(u)) / 2 is the logistic function of 2 u.
  return x * logistic(2 * sqrtq(2 / M_PIq) * (x + 0.044715Q * x * x * x));
}
static quad sinc(quad x) {
  quad whole = rintq(x), sine = sinq(M_PIq * (x - whole));
  return x == 0 ? 1 : (fmodq(whole, 2) == 0 ? sine : -sine) / (M_PIq * x);
}
static quad logaddexp(quad x, quad y) {
  return x == y ? x + M_LN2q : fmaxq(x, y) + log1pq(expq(-fabsq(x - y)));
}

// The error of `out` in units in the last place of the exact value rounded; -1 where that is no
// normal number and `out` is it or 0, else infinity.
#define ERROR(T, TINY, NEXT)                                                    \
  static double error_##T(quad exact, T out) {                                  \
    T rounded = (T)exact, size = rounded < 0 ? -rounded : rounded;              \
    if (isnan(rounded)) return isnan(out) ? -1 : INFINITY;                      \
    if (isinf(rounded)) return out == rounded ? -1 : INFINITY;                  \
    if (size < TINY) return out <= TINY && out >= -TINY ? -1 : INFINITY;        \
    if (isinf(out) || isnan(out)) return INFINITY;                              \
    return (double)(fabsq(exact - out) / ((quad)NEXT(size, INFINITY) - size)); \
  }
ERROR(float, 0x1p-126f, nextafterf)
ERROR(double, 0x1p-1022, nextafter)

#define OF_TYPE(T, NAME, VALUE)                                                              \
  void NAME##_##T(size_t n, const T *xs, const T *ys, const T *outs, double *errors) {       \
    for (size_t i = 0; i < n; ++i) {                                                         \
      quad x = xs[i], y = ys[i];                                                             \
      double out = outs[i];                                                                  \
      (void)y, (void)out;                                                                    \
      errors[i] = error_##T(VALUE, outs[i]);                                                 \
    }                                                                                        \
  }
#define FUNCTION(NAME, VALUE) OF_TYPE(float, NAME, VALUE) OF_TYPE(double, NAME, VALUE)

FUNCTION(exp, expq(x))
FUNCTION(exp2, exp2q(x))
FUNCTION(expm1, expm1q(x))
FUNCTION(log, logq(x))
FUNCTION(log2, log2q(x))
FUNCTION(log10, log10q(x))
FUNCTION(log1p, log1pq(x))
FUNCTION(sin, sinq(x))
FUNCTION(cos, cosq(x))
FUNCTION(tan, tanq(x))
FUNCTION(sinc, sinc(x))
FUNCTION(arcsin, asinq(x))
FUNCTION(arccos, acosq(x))
FUNCTION(arctan, atanq(x))
FUNCTION(arctan2, atan2q(x, y))
FUNCTION(sinh, sinhq(x))
FUNCTION(cosh, coshq(x))
FUNCTION(tanh, tanhq(x))
FUNCTION(arcsinh, asinhq(x))
FUNCTION(arccosh, acoshq(x))
FUNCTION(arctanh, atanhq(x))
FUNCTION(sqrt, sqrtq(x))
FUNCTION(rsqrt, 1 / sqrtq(x))
FUNCTION(cbrt, cbrtq(x))
FUNCTION(power, powq(x, y))
FUNCTION(logistic, logistic(x))
FUNCTION(logit, logq(x / (1 - x)))
FUNCTION(silu, x * logistic(x))
FUNCTION(softplus, softplus(x))
FUNCTION(log_sigmoid, -softplus(-x))
FUNCTION(logaddexp, logaddexp(x, y))
FUNCTION(gelu, x * ndtr(x))
FUNCTION(gelu_tanh, gelu_tanh(x))
FUNCTION(erf, erfq(x))
FUNCTION(erfc, erfcq(x))
FUNCTION(erfinv, erf_inv(x, out))
FUNCTION(ndtr, ndtr(x))
FUNCTION(log_ndtr, log_ndtr(x))
FUNCTION(ndtri, ndtri(x, out))
FUNCTION(gammaln, x == rintq(x) && x <= 0 ? HUGE_VALQ : lgammaq(x))
FUNCTION(gamma, tgammaq(x))
FUNCTION(digamma, digamma(x))
