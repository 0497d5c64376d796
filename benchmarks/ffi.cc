// Handlers for the benchmarks of native calls.

#include <cstring>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;
using F32 = ffi::Buffer<ffi::F32>;

static ffi::Error CopyImpl(F32 x, ffi::ResultBuffer<ffi::F32> y) {
  std::memcpy(y->typed_data(), x.typed_data(), x.size_bytes());
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(BenchCopy, CopyImpl, ffi::Ffi::Bind().Arg<F32>().Ret<F32>());

static ffi::Error NegateImpl(F32 x, ffi::ResultBuffer<ffi::F32> y) {
  const float* in = x.typed_data();
  float* out = y->typed_data();
  for (size_t i = 0, n = x.element_count(); i < n; ++i) out[i] = -in[i];
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(BenchNegate, NegateImpl, ffi::Ffi::Bind().Arg<F32>().Ret<F32>());
