"""Two processes form one platform: devices, transfers of local data, a collective."""

from tests.processes import run_pair

PROGRAM = """
import sys
import numpy as np
from weft._xla import distributed
from weft.runtime import backend
rank, address = int(sys.argv[1]), sys.argv[2]
service = distributed.make_service(address, 2) if rank == 0 else None
client = distributed.make_client(address, rank)
client.connect()
backend.distributed_state.update(client=client, process_id=rank, num_processes=2)
assert backend.device_count() == 4 and backend.local_device_count() == 2
assert backend.process_index() == rank and backend.process_count() == 2

from weft.runtime.compile import compile_module
from weft.runtime.make_array import make_array_from_process_local_data
from weft.runtime.executable import Executable
from weft.core.aval import ShapedArray
from weft.sharding import AxisType, NamedSharding, P
from weft.sharding.mesh import make_mesh

mesh = make_mesh((4,), ("x",), (AxisType.Auto,))
split, whole = NamedSharding(mesh, P("x")), NamedSharding(mesh, P())
local = np.float32([1, 2]) + 2 * rank
x = make_array_from_process_local_data(split, local)
assert x.shape == (4,) and not x.is_fully_addressable
assert [float(s.data.item()) for s in x.addressable_shards] == list(local)
try:
    np.asarray(x)
except RuntimeError as error:
    assert "other processes" in str(error)
else:
    raise AssertionError("a value with parts on other processes cannot be read")
text = '''module @total attributes {mhlo.num_partitions = 4 : i32} {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%x: tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>})
      -> (tensor<f32> {sdy.sharding = #sdy.sharding<@mesh, []>}) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %sum = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0]
      : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
    return %sum : tensor<f32>
  }
}'''
aval = ShapedArray((), np.float32)
total = Executable(compile_module(text, mesh.devices), [x.aval], [split], [aval], [whole])
print("total", float(total.call([x])[0]))
client.wait_at_barrier("end", 20_000)
client.shutdown()
if service is not None:
    service.shutdown()
"""


def test_two_processes_add_up_their_data():
    for status, out in run_pair(PROGRAM, devices=2):
        assert status == 0 and "total 10.0" in out, out[-3000:]
