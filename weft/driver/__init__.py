"""From a signature to a running program: jit, its key, its executable.

jit, jit_info               the public function; what it keeps, and the way of a call
static_arguments, described_arguments, donation_guard, logged_jit, changeable
                            calls that compiled dispatch does not answer by itself
execute                     the key of a program, its run, and eager ops
program                     a program: placed, lowered, partitioned, compiled
devices, donated_buffers, result_memories, use_partitioner, final_shardings
                            steps of a program that not every one takes
partial_sums, partitioned_calls
                            what XLA's partitioner has wrong; calls that know their shards
pieces, repeats             blocks that repeat are compiled once
jit_op                      jit inside of other transformations
staging, ahead_of_time, program_stages
                            tracing without running; lowered and compiled forms
context, debug_nans, dump_ir, explain_miss, inspect_sharding
                            options, and tools that look at programs
"""
