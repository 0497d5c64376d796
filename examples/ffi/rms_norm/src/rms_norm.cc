// RMS normalization of rows and its derivative, for any number of leading dimensions.
//
// y = x * r with r = 1 / sqrt(mean(x^2) + eps);  dx = r * dy - x * r^3 * mean(x * dy).

#include <cmath>
#include <cstdint>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;
using Floats = ffi::Buffer<ffi::F32>;
using FloatsOut = ffi::ResultBuffer<ffi::F32>;

static int64_t RowLength(Floats x) { return x.dimensions().size() ? x.dimensions().back() : 1; }

static ffi::Error RmsNormImpl(Floats x, FloatsOut y, FloatsOut r, float eps) {
  const int64_t n = RowLength(x), rows = n ? x.element_count() / n : 0;
  if (static_cast<int64_t>(r->element_count()) != rows)
    return ffi::Error::InvalidArgument("the second result needs one element for each row");
  for (int64_t row = 0; row < rows; ++row) {
    const float* xs = x.typed_data() + row * n;
    float* ys = y->typed_data() + row * n;
    float squares = 0;
#pragma omp simd reduction(+ : squares)
    for (int64_t i = 0; i < n; ++i) squares += xs[i] * xs[i];
    const float scale = 1 / std::sqrt(squares / n + eps);
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) ys[i] = xs[i] * scale;
    r->typed_data()[row] = scale;
  }
  return ffi::Error::Success();
}

static ffi::Error RmsNormGradImpl(Floats x, Floats r, Floats dy, FloatsOut dx) {
  const int64_t n = RowLength(x), rows = n ? x.element_count() / n : 0;
  for (int64_t row = 0; row < rows; ++row) {
    const float* xs = x.typed_data() + row * n;
    const float* dys = dy.typed_data() + row * n;
    float* dxs = dx->typed_data() + row * n;
    float product = 0;
#pragma omp simd reduction(+ : product)
    for (int64_t i = 0; i < n; ++i) product += xs[i] * dys[i];
    const float scale = r.typed_data()[row];
    const float pull = scale * scale * scale * product / n;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) dxs[i] = scale * dys[i] - pull * xs[i];
  }
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(RmsNorm, RmsNormImpl,
                              ffi::Ffi::Bind()
                                  .Arg<Floats>()       // x
                                  .Ret<Floats>()       // y
                                  .Ret<Floats>()       // r
                                  .Attr<float>("eps"));

XLA_FFI_DEFINE_HANDLER_SYMBOL(RmsNormGrad, RmsNormGradImpl,
                              ffi::Ffi::Bind()
                                  .Arg<Floats>()       // x
                                  .Arg<Floats>()       // r
                                  .Arg<Floats>()       // dy
                                  .Ret<Floats>());     // dx
