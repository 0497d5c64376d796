"""The counter of bytes that partitioned programs send."""

import pytest

from benchmarks.partition import bytes_sent, shape_bytes

LOOP = """\
HloModule jit_f

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum = f32[] add(%a, %b)
}

%body (carry: (s32[], f32[16,128])) -> (s32[], f32[16,128]) {
  %x = f32[16,128]{1,0} get-tuple-element(%carry), index=1
  %r = f32[16,128]{1,0} all-reduce(%x), channel_id=1, replica_groups=[4,2]<=[8], to_apply=%add
}

ENTRY %main (p: f32[16,128]) -> f32[16,128] {
  %g = f32[64,128]{1,0} all-gather(%p), replica_groups={{0,2,4,6},{1,3,5,7}}, dimensions={0}
  %w = (s32[], f32[16,128]{1,0}) while(%t), condition=%cond, body=%body, \
backend_config={"known_trip_count":{"n":"6"}}
}
"""


def test_collectives_in_a_loop_count_once_for_each_trip():
    gather = 64 * 128 * 4 * 3 / 4
    reduce_in_loop = 6 * 2 * (16 * 128 * 4) / 2
    assert bytes_sent(LOOP, devices=8) == gather + reduce_in_loop


def test_a_program_without_collectives_sends_nothing():
    assert bytes_sent("ENTRY %main (p: f32[2]) -> f32[2] {\n  %p = f32[2] copy(%p)\n}\n", 8) == 0


@pytest.mark.parametrize(
    ("shape", "size"),
    [("f32[]", 4), ("bf16[2,3]{1,0}", 12), ("(f32[8,4]{1,0}, s32[], pred[5])", 137)],
)
def test_shape_bytes_add_up_over_a_tuple(shape, size):
    assert shape_bytes(shape) == size
