// Handlers of XLA's typed FFI whose errors name the call, and whose C++ exceptions are errors.
//
// weft.ffi.build includes this file in front of every source. Elsewhere, include it behind
// "xla/ffi/api/ffi.h". It wraps XLA_FFI_DEFINE_HANDLER_SYMBOL: the macro's handler makes errors
// through a copy of XLA's table of functions, in which the one that makes errors adds what weft
// wrote to `<symbol>_called`: the target and the lines of Python that call it.
#if defined(__cplusplus) && !defined(WEFT_FFI_H_)
#define WEFT_FFI_H_

#include <cstring>
#include <exception>
#include <string>
#include <typeinfo>

#if __has_include(<cxxabi.h>)
#include <cxxabi.h>
#endif

#include "xla/ffi/api/ffi.h"

namespace weft::ffi {

struct Call {
  const XLA_FFI_Api* api;
  const char* name;
};

inline thread_local Call current = {nullptr, nullptr};

inline XLA_FFI_Error* CreateNamed(XLA_FFI_Error_Create_Args* args) {
  std::string message = std::string(current.name) + ": " + args->message;
  XLA_FFI_Error_Create_Args named = *args;
  named.message = message.c_str();
  return current.api->XLA_FFI_Error_Create(&named);
}

inline std::string CurrentExceptionType() {
#if __has_include(<cxxabi.h>)
  const std::type_info* type = abi::__cxa_current_exception_type();
  if (type == nullptr) return "an exception";
  int status = 0;
  char* text = abi::__cxa_demangle(type->name(), nullptr, nullptr, &status);
  std::string name = text != nullptr ? text : type->name();
  std::free(text);
  return name;
#else
  return "an exception";
#endif
}

inline XLA_FFI_Error* Failed(const std::string& message) {
  XLA_FFI_Error_Create_Args args = {XLA_FFI_Error_Create_Args_STRUCT_SIZE, nullptr,
                                    message.c_str(), XLA_FFI_Error_Code_UNKNOWN};
  return CreateNamed(&args);
}

inline XLA_FFI_Error* Run(XLA_FFI_Handler* handler, XLA_FFI_CallFrame* frame, const char* name) {
  alignas(XLA_FFI_Api) char table[1024];
  const XLA_FFI_Api* api = frame->api;
  // XLA asks for a handler's metadata by a frame without a context.
  if (api == nullptr || frame->ctx == nullptr || api->struct_size > sizeof(table))
    return handler(frame);
  std::memcpy(table, api, api->struct_size);
  reinterpret_cast<XLA_FFI_Api*>(table)->XLA_FFI_Error_Create = CreateNamed;
  Call outer = current;
  current = {api, name};
  frame->api = reinterpret_cast<XLA_FFI_Api*>(table);
  XLA_FFI_Error* error;
  try {
    error = handler(frame);
  } catch (const std::exception& e) {
    error = Failed("the handler threw " + CurrentExceptionType() + ": " + e.what());
  } catch (...) {
    error = Failed("the handler threw " + CurrentExceptionType());
  }
  frame->api = api;
  current = outer;
  return error;
}

}  // namespace weft::ffi

#undef XLA_FFI_DEFINE_HANDLER_SYMBOL
#define XLA_FFI_DEFINE_HANDLER_SYMBOL(fn, impl, ...)                 \
  extern "C" {                                                       \
  const char* fn##_called = #fn;                                     \
  }                                                                  \
  extern "C" XLA_FFI_Error* fn(XLA_FFI_CallFrame* call_frame) {      \
    XLA_FFI_DEFINE_HANDLER(handler, impl, ##__VA_ARGS__);            \
    return ::weft::ffi::Run(handler, call_frame, fn##_called);       \
  }                                                                  \
  static_assert(true, "a semicolon follows")

#endif  // WEFT_FFI_H_
