/* A handler in plain C: y = a * x + y, as any language with C functions can write one.
 *
 *   cc -O3 -shared -fPIC -I"$(python -c 'import weft; print(weft.ffi.include_dir())')" saxpy.c
 */

#include <string.h>

#include "xla/ffi/api/c_api.h"

static XLA_FFI_Error* Refuse(XLA_FFI_CallFrame* frame, const char* message) {
  XLA_FFI_Error_Create_Args error = {XLA_FFI_Error_Create_Args_STRUCT_SIZE, NULL, message,
                                     XLA_FFI_Error_Code_INVALID_ARGUMENT};
  return frame->api->XLA_FFI_Error_Create(&error);
}

XLA_FFI_Error* Saxpy(XLA_FFI_CallFrame* frame) {
  /* At registration XLA asks which version of the interface this was compiled with. */
  XLA_FFI_Metadata_Extension* asked = (XLA_FFI_Metadata_Extension*)frame->extension_start;
  if (asked != NULL && asked->extension_base.type == XLA_FFI_Extension_Metadata) {
    asked->metadata->api_version.major_version = XLA_FFI_API_MAJOR;
    asked->metadata->api_version.minor_version = XLA_FFI_API_MINOR;
    return NULL;
  }
  if (frame->args.size != 2 || frame->rets.size != 1)
    return Refuse(frame, "expected two operands and one result");
  if (frame->attrs.size != 1 || frame->attrs.types[0] != XLA_FFI_AttrType_SCALAR ||
      strncmp(frame->attrs.names[0]->ptr, "a", frame->attrs.names[0]->len) != 0)
    return Refuse(frame, "expected one attribute, a number named a");

  XLA_FFI_Buffer* x = (XLA_FFI_Buffer*)frame->args.args[0];
  XLA_FFI_Buffer* y = (XLA_FFI_Buffer*)frame->args.args[1];
  XLA_FFI_Buffer* out = (XLA_FFI_Buffer*)frame->rets.rets[0];
  XLA_FFI_Scalar* a = (XLA_FFI_Scalar*)frame->attrs.attrs[0];
  if (x->dtype != XLA_FFI_DataType_F32 || a->dtype != XLA_FFI_DataType_F32)
    return Refuse(frame, "expected float32");

  int64_t count = 1;
  for (int64_t d = 0; d < x->rank; ++d) count *= x->dims[d];
  const float factor = *(const float*)a->value;
  const float *xs = (const float*)x->data, *ys = (const float*)y->data;
  float* outs = (float*)out->data;
  for (int64_t i = 0; i < count; ++i) outs[i] = factor * xs[i] + ys[i];
  return NULL;
}
