// A handler with state, in four stages.

#include <atomic>
#include <cstdint>
#include <memory>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;
using F32 = ffi::Buffer<ffi::F32>;
using F32Result = ffi::ResultBuffer<ffi::F32>;

// State: made once for each compiled call, read by each execution.
struct Factor {
  static ffi::TypeId id;
  static ffi::TypeInfo info;
  float value;
  explicit Factor(float value) : value(value) { ++alive; }
  ~Factor() { --alive; }
  static std::atomic<int64_t> alive;
};
ffi::TypeId Factor::id = {};
ffi::TypeInfo Factor::info = ffi::MakeTypeInfo<Factor>();
std::atomic<int64_t> Factor::alive{0};

extern "C" void* FactorTypeId() { return &Factor::id; }
extern "C" void* FactorTypeInfo() { return &Factor::info; }
extern "C" int64_t FactorsAlive() { return Factor::alive.load(); }

static std::atomic<int64_t> stages[4];
extern "C" int64_t StageCalls(int32_t stage) { return stages[stage].load(); }

static ffi::ErrorOr<std::unique_ptr<Factor>> FactorInstantiateImpl(float factor) {
  ++stages[0];
  if (factor == 0) return ffi::Unexpected(ffi::Error::InvalidArgument("factor is zero"));
  return std::make_unique<Factor>(factor);
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(FactorInstantiate, FactorInstantiateImpl,
                              ffi::Ffi::BindInstantiate().Attr<float>("factor"));

static ffi::Error FactorPrepareImpl(float) {
  ++stages[1];
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(FactorPrepare, FactorPrepareImpl,
                              ffi::Ffi::BindPrepare().Attr<float>("factor"));

static ffi::Error FactorInitializeImpl(float) {
  ++stages[2];
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(FactorInitialize, FactorInitializeImpl,
                              ffi::Ffi::BindInitialize().Attr<float>("factor"));

static ffi::Error FactorExecuteImpl(Factor* state, F32 x, F32Result y, float) {
  ++stages[3];
  for (size_t i = 0; i < x.element_count(); ++i)
    y->typed_data()[i] = state->value * x.typed_data()[i];
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(FactorExecute, FactorExecuteImpl,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::State<Factor>>()
                                  .Arg<F32>()
                                  .Ret<F32>()
                                  .Attr<float>("factor"));
