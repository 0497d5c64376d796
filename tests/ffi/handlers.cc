// Handlers for the tests: small functions that show what reached them.

#include <atomic>
#include <csignal>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string_view>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;
using F32 = ffi::Buffer<ffi::F32>;
using F32Result = ffi::ResultBuffer<ffi::F32>;

// y = scale * x.
static ffi::Error ScaleImpl(F32 x, F32Result y, float scale) {
  for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = scale * x.typed_data()[i];
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    Scale, ScaleImpl, ffi::Ffi::Bind().Arg<F32>().Ret<F32>().Attr<float>("scale"));

// Fills y with the number of elements that this call sees: of x, plus a thousand times those of w.
static ffi::Error ProbeImpl(F32 x, F32 w, F32Result y) {
  float seen = x.element_count() + 1000.0f * w.element_count();
  for (size_t i = 0; i < y->element_count(); ++i) y->typed_data()[i] = seen;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    Probe, ProbeImpl, ffi::Ffi::Bind().Arg<F32>().Arg<F32>().Ret<F32>());

// Quotient and remainder.
static ffi::Error DivModImpl(F32 x, F32 y, F32Result q, F32Result r) {
  for (size_t i = 0; i < x.element_count(); ++i) {
    float a = x.typed_data()[i], b = y.typed_data()[i];
    q->typed_data()[i] = std::floor(a / b);
    r->typed_data()[i] = a - b * std::floor(a / b);
  }
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    DivMod, DivModImpl, ffi::Ffi::Bind().Arg<F32>().Arg<F32>().Ret<F32>().Ret<F32>());

// Copies any dtype.
static ffi::Error CopyImpl(ffi::AnyBuffer x, ffi::Result<ffi::AnyBuffer> y) {
  std::memcpy(y->untyped_data(), x.untyped_data(), x.size_bytes());
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    CopyAny, CopyImpl, ffi::Ffi::Bind().Arg<ffi::AnyBuffer>().Ret<ffi::AnyBuffer>());

// y[b] = sum of row b of x, rows of the last dimension.
static ffi::Error RowSumImpl(F32 x, F32Result y) {
  size_t rows = y->element_count(), n = rows ? x.element_count() / rows : 0;
  for (size_t r = 0; r < rows; ++r) {
    float sum = 0;
    for (size_t i = 0; i < n; ++i) sum += x.typed_data()[r * n + i];
    y->typed_data()[r] = sum;
  }
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(RowSum, RowSumImpl, ffi::Ffi::Bind().Arg<F32>().Ret<F32>());

// y = cumulative sum along the last dimension (its shards depend on each other), and its backward.
static ffi::Error CumSumImpl(F32 x, F32Result y, bool reverse) {
  auto dims = x.dimensions();
  size_t n = dims.back(), rows = n ? x.element_count() / n : 0;
  for (size_t r = 0; r < rows; ++r) {
    float sum = 0;
    for (size_t k = 0; k < n; ++k) {
      size_t i = r * n + (reverse ? n - 1 - k : k);
      y->typed_data()[i] = sum += x.typed_data()[i];
    }
  }
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    CumSum, CumSumImpl, ffi::Ffi::Bind().Arg<F32>().Ret<F32>().Attr<bool>("reverse"));

// x + 1 where it stands: an error if the result has memory of its own.
static ffi::Error InPlaceImpl(F32 x, F32Result y) {
  if (x.typed_data() != y->typed_data()) return ffi::Error::Internal("not the same memory");
  for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] += 1;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(InPlace, InPlaceImpl, ffi::Ffi::Bind().Arg<F32>().Ret<F32>());

// Square roots; negative elements are an error.
static ffi::Error SqrtImpl(F32 x, F32Result y) {
  for (size_t i = 0; i < x.element_count(); ++i) {
    if (x.typed_data()[i] < 0) return ffi::Error::InvalidArgument("x has a negative element");
    y->typed_data()[i] = std::sqrt(x.typed_data()[i]);
  }
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(CheckedSqrt, SqrtImpl, ffi::Ffi::Bind().Arg<F32>().Ret<F32>());

// Fails with the status code that it is told.
static ffi::Error FailImpl(F32 x, F32Result y, int32_t code) {
  return ffi::Error(static_cast<ffi::ErrorCode>(code), "as asked");
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    Fail, FailImpl, ffi::Ffi::Bind().Arg<F32>().Ret<F32>().Attr<int32_t>("code"));

// Is interrupted, as by Ctrl-C, if the first element is below 2, and fails if it is negative.
static ffi::Error InterruptedImpl(F32 x, F32Result y) {
  if (x.typed_data()[0] < 2) std::raise(SIGINT);
  if (x.typed_data()[0] < 0) return ffi::Error::Internal("interrupted and wrong");
  std::memcpy(y->typed_data(), x.typed_data(), x.size_bytes());
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    Interrupted, InterruptedImpl, ffi::Ffi::Bind().Arg<F32>().Ret<F32>());

// Throws an exception of C++ if the first element is negative, an int if it is more than 100.
static ffi::Error ThrowImpl(F32 x, F32Result y) {
  if (x.typed_data()[0] < 0) throw std::out_of_range("a negative number");
  if (x.typed_data()[0] > 100) throw 5;
  std::memcpy(y->typed_data(), x.typed_data(), x.size_bytes());
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(Throw, ThrowImpl, ffi::Ffi::Bind().Arg<F32>().Ret<F32>());

// Effects: counts its calls.
static std::atomic<int64_t> counted{0};
extern "C" int64_t CountedCalls() { return counted.load(); }
static ffi::Error CountImpl() {
  ++counted;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(Count, CountImpl, ffi::Ffi::Bind());

// Tokens order calls: writes how many calls came before.
static std::atomic<int64_t> tickets{0};
static ffi::Error TicketImpl(ffi::Token, ffi::Result<ffi::Token>, F32Result y) {
  y->typed_data()[0] = static_cast<float>(tickets++);
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    Ticket, TicketImpl, ffi::Ffi::Bind().Arg<ffi::Token>().Ret<ffi::Token>().Ret<F32>());

// Attributes: every scalar type by width, then strings, arrays, a dict and an enum.
enum class Mode : int32_t { kFirst = 1, kSecond = 2 };
XLA_FFI_REGISTER_ENUM_ATTR_DECODING(Mode);

static ffi::Error ScalarsImpl(F32Result y, bool b, int8_t i8, int16_t i16, int32_t i32,
                              int64_t i64, uint8_t u8, uint16_t u16, uint32_t u32, uint64_t u64,
                              float f32, double f64, Mode mode) {
  double seen[] = {double(b),   double(i8),  double(i16), double(i32), double(i64), double(u8),
                   double(u16), double(u32), double(u64), f32,         f64,         double(mode)};
  for (int i = 0; i < 12; ++i) y->typed_data()[i] = static_cast<float>(seen[i]);
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(Scalars, ScalarsImpl,
                              ffi::Ffi::Bind()
                                  .Ret<F32>()
                                  .Attr<bool>("b")
                                  .Attr<int8_t>("i8")
                                  .Attr<int16_t>("i16")
                                  .Attr<int32_t>("i32")
                                  .Attr<int64_t>("i64")
                                  .Attr<uint8_t>("u8")
                                  .Attr<uint16_t>("u16")
                                  .Attr<uint32_t>("u32")
                                  .Attr<uint64_t>("u64")
                                  .Attr<float>("f32")
                                  .Attr<double>("f64")
                                  .Attr<Mode>("mode"));

static ffi::Error CompoundImpl(F32Result y, std::string_view text, ffi::Span<const int64_t> ints,
                               ffi::Span<const float> floats, ffi::Span<const int8_t> bytes,
                               ffi::Dictionary dict) {
  float* out = y->typed_data();
  out[0] = text.size();
  out[1] = static_cast<unsigned char>(text.front());
  out[2] = static_cast<unsigned char>(text.back());
  out[3] = out[4] = out[5] = 0;
  for (int64_t i : ints) out[3] += i;
  for (float f : floats) out[4] += f;
  for (int8_t b : bytes) out[5] += b;
  auto depth = dict.get<int64_t>("depth");
  auto inner = dict.get<ffi::Dictionary>("inner");
  if (depth.has_error()) return depth.error();
  if (inner.has_error()) return inner.error();
  auto rate = inner->get<double>("rate");
  if (rate.has_error()) return rate.error();
  out[6] = *depth;
  out[7] = *rate;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(Compound, CompoundImpl,
                              ffi::Ffi::Bind()
                                  .Ret<F32>()
                                  .Attr<std::string_view>("text")
                                  .Attr<ffi::Span<const int64_t>>("ints")
                                  .Attr<ffi::Span<const float>>("floats")
                                  .Attr<ffi::Span<const int8_t>>("bytes")
                                  .Attr<ffi::Dictionary>("dict"));

// Untyped calls, as they were before the typed FFI: the sizes are in the code or the opaque string.
extern "C" void LegacyDouble(void* out, const void** in) {
  for (int i = 0; i < 4; ++i)
    static_cast<float*>(out)[i] = 2 * static_cast<const float*>(in[0])[i];
}
extern "C" void LegacyConfigured(void* out, const void** in, const char* opaque, size_t length,
                                 void*) {
  for (int i = 0; i < 4; ++i)
    static_cast<float*>(out)[i] = static_cast<const float*>(in[0])[i] + float(length);
}
