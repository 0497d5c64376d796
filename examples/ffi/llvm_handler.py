"""A handler compiled at run time with llvmlite: `python -m examples.ffi.llvm_handler`.

The function has the C signature of an XLA FFI handler and reads the call frame at the offsets of
xla/ffi/api/c_api.h. No Python runs when XLA calls it.
"""

from __future__ import annotations

import llvmlite.binding as llvm
import numpy as np

import weft

# Words of XLA_FFI_CallFrame: 1 extension, then args at 5 (size, types, args at +2, +3, +4), rets at
# 10. A buffer: 3 data, 4 rank, 5 dims.
CODE = r"""
define i64 @cube(ptr %frame) {
entry:
  %extension.at = getelementptr i64, ptr %frame, i64 1
  %extension = load ptr, ptr %extension.at
  %asked = icmp ne ptr %extension, null
  br i1 %asked, label %answer, label %work

answer:  ; metadata: the version of the interface, 0.3
  %metadata.at = getelementptr i64, ptr %extension, i64 3
  %metadata = load ptr, ptr %metadata.at
  %version = getelementptr i64, ptr %metadata, i64 3
  store i64 12884901888, ptr %version
  ret i64 0

work:
  %args.at = getelementptr i64, ptr %frame, i64 9
  %args = load ptr, ptr %args.at
  %x = load ptr, ptr %args
  %rets.at = getelementptr i64, ptr %frame, i64 14
  %rets = load ptr, ptr %rets.at
  %y = load ptr, ptr %rets
  %x.data.at = getelementptr i64, ptr %x, i64 3
  %xs = load ptr, ptr %x.data.at
  %y.data.at = getelementptr i64, ptr %y, i64 3
  %ys = load ptr, ptr %y.data.at
  %dims.at = getelementptr i64, ptr %x, i64 5
  %dims = load ptr, ptr %dims.at
  %count = load i64, ptr %dims
  %empty = icmp sle i64 %count, 0
  br i1 %empty, label %done, label %loop

loop:
  %i = phi i64 [0, %work], [%next, %loop]
  %from = getelementptr float, ptr %xs, i64 %i
  %to = getelementptr float, ptr %ys, i64 %i
  %v = load float, ptr %from
  %square = fmul float %v, %v
  %value = fmul float %square, %v
  store float %value, ptr %to
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %loop, label %done

done:
  ret i64 0
}
"""


def compile_handler(code: str, name: str) -> tuple[llvm.ExecutionEngine, int]:
    """The engine, which must stay alive, and the function's address."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(
        opt=3, cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten()
    )
    module = llvm.parse_assembly(code)
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(3))
    builder.getModulePassManager().run(module, builder)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    return engine, engine.get_function_address(name)


engine, address = compile_handler(CODE, "cube")
weft.ffi.register_ffi_target("Cube", weft.ffi.pycapsule(address))


def cube_call(x: weft.Array) -> weft.Array:
    """x cubed in native code, for float32 [n]."""
    call = weft.ffi.ffi_call(
        "Cube",
        weft.ShapeDtypeStruct(x.shape, np.float32),
        vmap_method="sequential",
        sharding_rule="i -> i",
    )
    return call(x)


cube = weft.ffi.differentiable(lambda x: (cube_call(x), x), lambda x, ct: (3 * x * x * ct,))


def main() -> None:
    x = weft.numpy.arange(5.0)
    print("cube", weft.jit(cube)(x))
    print("gradient", weft.grad(lambda x: cube(x).sum())(x))


if __name__ == "__main__":
    main()
