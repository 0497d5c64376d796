# Tests: tests/native/test_sorting.py, tests/native/test_reductions.py
"""Shared parts of kernels: the handler that XLA calls, and loops over threads.

Chunks run on the thread of the call and on XLA's own pool, which the FFI lends. The caller takes
chunks too and waits only for those that somebody has begun, so a pool without a free thread delays
nothing. A helper that comes late finds no chunk left and touches nothing but the job, which its
last user frees.
"""

from __future__ import annotations

import os
from functools import cache

# XLA_FFI_CallFrame and what it points to: offsets of xla/ffi/api/c_api.h, API version 0.3.
_EXTENSION, _API, _CONTEXT, _ARGUMENTS, _RESULTS, _ATTRIBUTES = 8, 16, 24, 72, 112, 160
_DATA, _SCHEDULE, _ERROR_DESTROY = 24, 136, 64


METADATA = [
    f"  %xp = getelementptr i8, ptr %frame, i64 {_EXTENSION}",
    "  %extension = load ptr, ptr %xp",
    "  %asked = icmp ne ptr %extension, null",
    "  br i1 %asked, label %ask, label %work",
    "ask:",
    "  %kp = getelementptr i8, ptr %extension, i64 8",
    "  %kind = load i32, ptr %kp",
    "  %metadata = icmp eq i32 %kind, 1",
    "  br i1 %metadata, label %answer, label %work",
    "answer:",
    "  %rp = getelementptr i8, ptr %extension, i64 24",
    "  %record = load ptr, ptr %rp",
    "  %major = getelementptr i8, ptr %record, i64 24",
    "  store i32 0, ptr %major",
    "  %minor = getelementptr i8, ptr %record, i64 28",
    "  store i32 3, ptr %minor",
    "  %traits = getelementptr i8, ptr %record, i64 32",
    "  store i32 0, ptr %traits",
    "  ret ptr null",
    "work:",
]
"""The beginning of a handler: it answers XLA's question for its API version, then works."""


@cache
def threads() -> int:
    """Return how many threads share the chunks of a kernel: the CPUs this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def handler(entry: str, buffers: int) -> str:
    """`handler(frame)`, which calls entry(frame, operands…, results…, parameters).

    The parameters are the one attribute of the call, an array of i64. How many of the buffers are
    operands is told by the frame.
    """
    # XLA first calls a handler with an extension that asks for the API version and traits.
    lines = [
        "define ptr @handler(ptr %frame) #0 {",
        *METADATA,
        "  %np = getelementptr i8, ptr %frame, i64 56",
        "  %operands = load i64, ptr %np",
        f"  %ap = getelementptr i8, ptr %frame, i64 {_ARGUMENTS}",
        "  %args = load ptr, ptr %ap",
        f"  %sp = getelementptr i8, ptr %frame, i64 {_RESULTS}",
        "  %rets = load ptr, ptr %sp",
    ]
    call = ["ptr %frame"]
    for k in range(buffers):
        # Buffer k is operand k, or result k - operands: pointers to both have one layout.
        lines += [
            f"  %is{k} = icmp sgt i64 %operands, {k}",
            f"  %off{k} = sub i64 {k}, %operands",
            f"  %at{k} = select i1 %is{k}, i64 {k}, i64 %off{k}",
            f"  %in{k} = select i1 %is{k}, ptr %args, ptr %rets",
            f"  %bp{k} = getelementptr ptr, ptr %in{k}, i64 %at{k}",
            f"  %b{k} = load ptr, ptr %bp{k}",
            f"  %dp{k} = getelementptr i8, ptr %b{k}, i64 {_DATA}",
            f"  %d{k} = load ptr, ptr %dp{k}",
        ]
        call.append(f"ptr %d{k}")
    lines += [
        f"  %tp = getelementptr i8, ptr %frame, i64 {_ATTRIBUTES}",
        "  %attrs = load ptr, ptr %tp",
        "  %attr = load ptr, ptr %attrs",
        "  %vp = getelementptr i8, ptr %attr, i64 16",
        "  %parameters = load ptr, ptr %vp",
        f"  call void @{entry}({', '.join([*call, 'ptr %parameters'])})",
        "  ret ptr null",
        "}",
    ]
    return "\n".join(lines)


# A job: next chunk (0), chunks done (64), users (128), then total, function, slots, frame.
PARALLEL = f"""
declare ptr @aligned_alloc(i64, i64)
declare void @free(ptr)
declare i32 @sched_yield()

define internal void @job_run(ptr %job) noinline #0 {{
  %tp = getelementptr i8, ptr %job, i64 192
  %total = load i64, ptr %tp
  %first = atomicrmw add ptr %job, i64 1 monotonic
  %some = icmp slt i64 %first, %total
  br i1 %some, label %start, label %out
start:
  %fp = getelementptr i8, ptr %job, i64 200
  %function = load ptr, ptr %fp
  %sp = getelementptr i8, ptr %job, i64 208
  %slots = load ptr, ptr %sp
  %rp = getelementptr i8, ptr %job, i64 216
  %frame = load ptr, ptr %rp
  %dp = getelementptr i8, ptr %job, i64 64
  br label %chunk
chunk:
  %index = phi i64 [ %first, %start ], [ %after, %chunk ]
  call void %function(ptr %frame, i64 %index, ptr %slots)
  %done = atomicrmw add ptr %dp, i64 1 release
  %after = atomicrmw add ptr %job, i64 1 monotonic
  %more = icmp slt i64 %after, %total
  br i1 %more, label %chunk, label %out
out:
  ret void
}}

define internal void @job_leave(ptr %job) noinline #0 {{
  %up = getelementptr i8, ptr %job, i64 128
  %left = atomicrmw sub ptr %up, i64 1 acq_rel
  %last = icmp eq i64 %left, 1
  br i1 %last, label %release, label %out
release:
  call void @free(ptr %job)
  br label %out
out:
  ret void
}}

define internal void @job_help(ptr %job) noinline #0 {{
  call void @job_run(ptr %job)
  call void @job_leave(ptr %job)
  ret void
}}

define internal void @parallel_for(ptr %frame, ptr %function, i64 %total, ptr %slots) noinline #0 {{
entry:
  %record = alloca [5 x i64]
  %gone = alloca [3 x i64]
  %many = icmp sgt i64 %total, 1
  br i1 %many, label %share, label %alone
alone:
  %any = icmp sgt i64 %total, 0
  br i1 %any, label %turn, label %out
turn:
  %k = phi i64 [ 0, %alone ], [ %k1, %turn ]
  call void %function(ptr %frame, i64 %k, ptr %slots)
  %k1 = add i64 %k, 1
  %again = icmp slt i64 %k1, %total
  br i1 %again, label %turn, label %out
share:
  %job = call ptr @aligned_alloc(i64 64, i64 256)
  %made = icmp ne ptr %job, null
  br i1 %made, label %fill, label %turn2
turn2:
  br label %alone
fill:
  store i64 0, ptr %job
  %dp = getelementptr i8, ptr %job, i64 64
  store i64 0, ptr %dp
  %few = icmp slt i64 %total, @@THREADS@@
  %users = select i1 %few, i64 %total, i64 @@THREADS@@
  %up = getelementptr i8, ptr %job, i64 128
  store i64 %users, ptr %up
  %tp = getelementptr i8, ptr %job, i64 192
  store i64 %total, ptr %tp
  %fp = getelementptr i8, ptr %job, i64 200
  store ptr %function, ptr %fp
  %sp = getelementptr i8, ptr %job, i64 208
  store ptr %slots, ptr %sp
  %rp = getelementptr i8, ptr %job, i64 216
  store ptr %frame, ptr %rp
  %ap = getelementptr i8, ptr %frame, i64 {_API}
  %api = load ptr, ptr %ap
  %cp = getelementptr i8, ptr %frame, i64 {_CONTEXT}
  %context = load ptr, ptr %cp
  store i64 40, ptr %record
  %r1 = getelementptr i8, ptr %record, i64 8
  store ptr null, ptr %r1
  %r2 = getelementptr i8, ptr %record, i64 16
  store ptr %context, ptr %r2
  %r3 = getelementptr i8, ptr %record, i64 24
  store ptr @job_help, ptr %r3
  %r4 = getelementptr i8, ptr %record, i64 32
  store ptr %job, ptr %r4
  %hp = getelementptr i8, ptr %api, i64 {_SCHEDULE}
  %schedule = load ptr, ptr %hp
  %ep = getelementptr i8, ptr %api, i64 {_ERROR_DESTROY}
  %destroy = load ptr, ptr %ep
  br label %ask
ask:
  %h = phi i64 [ 1, %fill ], [ %h1, %asked ]
  %need = icmp slt i64 %h, %users
  br i1 %need, label %call, label %help
call:
  %error = call ptr %schedule(ptr %record)
  %refused = icmp ne ptr %error, null
  br i1 %refused, label %drop, label %asked
drop:
  %fewer = atomicrmw sub ptr %up, i64 1 monotonic
  store i64 24, ptr %gone
  %g1 = getelementptr i8, ptr %gone, i64 8
  store ptr null, ptr %g1
  %g2 = getelementptr i8, ptr %gone, i64 16
  store ptr %error, ptr %g2
  call void %destroy(ptr %gone)
  br label %asked
asked:
  %h1 = add i64 %h, 1
  br label %ask
help:
  call void @job_run(ptr %job)
  br label %wait
wait:
  %turns = phi i64 [ 0, %help ], [ %turns1, %idle ]
  %now = load atomic i64, ptr %dp acquire, align 8
  %finished = icmp sge i64 %now, %total
  br i1 %finished, label %leave, label %spin
spin:
  %turns1 = add i64 %turns, 1
  %long = icmp sgt i64 %turns, 4096
  br i1 %long, label %yield, label %idle
yield:
  %y = call i32 @sched_yield()
  br label %idle
idle:
  br label %wait
leave:
  call void @job_leave(ptr %job)
  br label %out
out:
  ret void
}}
"""
