"""Types of weft.collectives, written by `make stubs` from the definitions."""

from collections.abc import Sequence
from typing import Any, Never, TypeVar, overload

from weft.collectives.async_ import Future
from weft.typing import Array as Array
from weft.typing import ArrayLike

_T = TypeVar("_T")

@overload
def all_gather(
    x: Never,
    axis_name: Any,
    *,
    axis_index_groups: Any = ...,
    axis: int = ...,
    tiled: bool = ...,
    to: str = ...,
) -> Any:
    """Return the values of all devices along named axes, on each of them; pytrees leaf …"""

@overload
def all_gather(
    x: ArrayLike,
    axis_name: Any,
    *,
    axis_index_groups: Any = ...,
    axis: int = ...,
    tiled: bool = ...,
    to: str = ...,
) -> Array:
    """Return the values of all devices along named axes, on each of them; pytrees leaf …"""

@overload
def all_gather(
    x: _T,
    axis_name: Any,
    *,
    axis_index_groups: Any = ...,
    axis: int = ...,
    tiled: bool = ...,
    to: str = ...,
) -> _T:
    """Return the values of all devices along named axes, on each of them; pytrees leaf …"""

def all_gather_start(
    x: ArrayLike,
    axis_name: Any,
    *,
    axis_index_groups: Any = ...,
    axis: int = ...,
    tiled: bool = ...,
    to: str = ...,
) -> Future:
    """Start `all_gather`; `.done()` on the result gives its value."""

@overload
def all_to_all(
    x: Never,
    axis_name: Any,
    split_axis: int,
    concat_axis: int,
    *,
    axis_index_groups: Any = ...,
    tiled: bool = ...,
) -> Any:
    """Split each device's array, send part q to the device of rank q and join what …"""

@overload
def all_to_all(
    x: ArrayLike,
    axis_name: Any,
    split_axis: int,
    concat_axis: int,
    *,
    axis_index_groups: Any = ...,
    tiled: bool = ...,
) -> Array:
    """Split each device's array, send part q to the device of rank q and join what …"""

@overload
def all_to_all(
    x: _T,
    axis_name: Any,
    split_axis: int,
    concat_axis: int,
    *,
    axis_index_groups: Any = ...,
    tiled: bool = ...,
) -> _T:
    """Split each device's array, send part q to the device of rank q and join what …"""

def all_to_all_start(
    x: ArrayLike,
    axis_name: Any,
    split_axis: int,
    concat_axis: int,
    *,
    axis_index_groups: Any = ...,
    tiled: bool = ...,
) -> Future:
    """Start `all_to_all`; `.done()` on the result gives its value."""

def axis_index(axis_name: Any) -> Any:
    """Return the index of the device (or vmapped example) along a named axis, an int32 …"""

def axis_size(axis_name: Any) -> int:
    """Return the size of a named axis, a Python int; of a tuple of axes, their product."""

def pargmax(x: ArrayLike, axis_name: Any) -> Any:
    """Return the index along named axes of the device with the maximum, int32."""

def pargmin(x: ArrayLike, axis_name: Any) -> Any:
    """Return the index along named axes of the device with the minimum, int32."""

@overload
def pbroadcast(x: Never, axis_name: Any, source: int) -> Any:
    """Broadcast the value of one device along named axes; pytrees leaf by leaf."""

@overload
def pbroadcast(x: ArrayLike, axis_name: Any, source: int) -> Array:
    """Broadcast the value of one device along named axes; pytrees leaf by leaf."""

@overload
def pbroadcast(x: _T, axis_name: Any, source: int) -> _T:
    """Broadcast the value of one device along named axes; pytrees leaf by leaf."""

def pbroadcast_start(x: ArrayLike, axis_name: Any, source: int) -> Future:
    """Start `pbroadcast`; `.done()` on the result gives its value."""

@overload
def pcast(x: Never, axis_name: Any, *, to: str) -> Any:
    """Cast values, leaf by leaf, to another state along manual axes; no data moves."""

@overload
def pcast(x: ArrayLike, axis_name: Any, *, to: str) -> Array:
    """Cast values, leaf by leaf, to another state along manual axes; no data moves."""

@overload
def pcast(x: _T, axis_name: Any, *, to: str) -> _T:
    """Cast values, leaf by leaf, to another state along manual axes; no data moves."""

@overload
def pmax(x: Never, axis_name: Any, *, axis_index_groups: Any = ...) -> Any:
    """Return the maximum over the devices along named axes, leaf by leaf."""

@overload
def pmax(x: ArrayLike, axis_name: Any, *, axis_index_groups: Any = ...) -> Array:
    """Return the maximum over the devices along named axes, leaf by leaf."""

@overload
def pmax(x: _T, axis_name: Any, *, axis_index_groups: Any = ...) -> _T:
    """Return the maximum over the devices along named axes, leaf by leaf."""

@overload
def pmean(x: Never, axis_name: Any, *, axis_index_groups: Any = ...) -> Any:
    """Return the mean over the devices along named axes, on each of them; pytrees leaf …"""

@overload
def pmean(x: ArrayLike, axis_name: Any, *, axis_index_groups: Any = ...) -> Array:
    """Return the mean over the devices along named axes, on each of them; pytrees leaf …"""

@overload
def pmean(x: _T, axis_name: Any, *, axis_index_groups: Any = ...) -> _T:
    """Return the mean over the devices along named axes, on each of them; pytrees leaf …"""

@overload
def pmin(x: Never, axis_name: Any, *, axis_index_groups: Any = ...) -> Any:
    """Return the minimum over the devices along named axes, leaf by leaf."""

@overload
def pmin(x: ArrayLike, axis_name: Any, *, axis_index_groups: Any = ...) -> Array:
    """Return the minimum over the devices along named axes, leaf by leaf."""

@overload
def pmin(x: _T, axis_name: Any, *, axis_index_groups: Any = ...) -> _T:
    """Return the minimum over the devices along named axes, leaf by leaf."""

@overload
def ppermute(x: Never, axis_name: Any, perm: Sequence[tuple[int, int]]) -> Any:
    """Send values between devices along named axes; pytrees leaf by leaf."""

@overload
def ppermute(x: ArrayLike, axis_name: Any, perm: Sequence[tuple[int, int]]) -> Array:
    """Send values between devices along named axes; pytrees leaf by leaf."""

@overload
def ppermute(x: _T, axis_name: Any, perm: Sequence[tuple[int, int]]) -> _T:
    """Send values between devices along named axes; pytrees leaf by leaf."""

def ppermute_start(x: ArrayLike, axis_name: Any, perm: Sequence[tuple[int, int]]) -> Future:
    """Start `ppermute`; `.done()` on the result gives its value."""

def precv(token: Any, out_shape: Any, axis_name: Any, perm: Sequence[tuple[int, int]]) -> Any:
    """Receive the values that `psend` sent, zeros on devices that are no target."""

def psend(x: ArrayLike, axis_name: Any, perm: Sequence[tuple[int, int]]) -> Any:
    """Start sending values along a named axis; return the token that `precv` takes."""

@overload
def pshuffle(x: Never, axis_name: Any, perm: Sequence[int]) -> Any:
    """Permute values along a named axis: device i receives that of device perm[i]."""

@overload
def pshuffle(x: ArrayLike, axis_name: Any, perm: Sequence[int]) -> Array:
    """Permute values along a named axis: device i receives that of device perm[i]."""

@overload
def pshuffle(x: _T, axis_name: Any, perm: Sequence[int]) -> _T:
    """Permute values along a named axis: device i receives that of device perm[i]."""

@overload
def psum(x: Never, axis_name: Any, *, axis_index_groups: Any = ...) -> Any:
    """Return the sum over the devices along named axes, on each of them; pytrees leaf by …"""

@overload
def psum(x: ArrayLike, axis_name: Any, *, axis_index_groups: Any = ...) -> Array:
    """Return the sum over the devices along named axes, on each of them; pytrees leaf by …"""

@overload
def psum(x: _T, axis_name: Any, *, axis_index_groups: Any = ...) -> _T:
    """Return the sum over the devices along named axes, on each of them; pytrees leaf by …"""

@overload
def psum_scatter(
    x: Never,
    axis_name: Any,
    *,
    scatter_dimension: int = ...,
    axis_index_groups: Any = ...,
    tiled: bool = ...,
) -> Any:
    """Sum along named axes; each device keeps its own part. Pytrees go leaf by leaf."""

@overload
def psum_scatter(
    x: ArrayLike,
    axis_name: Any,
    *,
    scatter_dimension: int = ...,
    axis_index_groups: Any = ...,
    tiled: bool = ...,
) -> Array:
    """Sum along named axes; each device keeps its own part. Pytrees go leaf by leaf."""

@overload
def psum_scatter(
    x: _T,
    axis_name: Any,
    *,
    scatter_dimension: int = ...,
    axis_index_groups: Any = ...,
    tiled: bool = ...,
) -> _T:
    """Sum along named axes; each device keeps its own part. Pytrees go leaf by leaf."""

def psum_scatter_start(
    x: ArrayLike,
    axis_name: Any,
    *,
    scatter_dimension: int = ...,
    axis_index_groups: Any = ...,
    tiled: bool = ...,
) -> Future:
    """Start `psum_scatter`; `.done()` on the result gives its value."""

def psum_start(x: ArrayLike, axis_name: Any, *, axis_index_groups: Any = ...) -> Future:
    """Start `psum`; `.done()` on the result gives its value."""

@overload
def pswapaxes(x: Never, axis_name: Any, axis: int, *, axis_index_groups: Any = ...) -> Any:
    """Exchange the named axis with the array dimension `axis`, of the group's size."""

@overload
def pswapaxes(x: ArrayLike, axis_name: Any, axis: int, *, axis_index_groups: Any = ...) -> Array:
    """Exchange the named axis with the array dimension `axis`, of the group's size."""

@overload
def pswapaxes(x: _T, axis_name: Any, axis: int, *, axis_index_groups: Any = ...) -> _T:
    """Exchange the named axis with the array dimension `axis`, of the group's size."""

@overload
def pvary(x: Never, axis_name: Any) -> Any:
    """Cast values to varying along the axes over which they are invarying."""

@overload
def pvary(x: ArrayLike, axis_name: Any) -> Array:
    """Cast values to varying along the axes over which they are invarying."""

@overload
def pvary(x: _T, axis_name: Any) -> _T:
    """Cast values to varying along the axes over which they are invarying."""

def ragged_all_to_all(
    operand: ArrayLike,
    output: Any,
    input_offsets: Any,
    send_sizes: Any,
    output_offsets: Any,
    recv_sizes: Any,
    *,
    axis_name: Any,
    axis_index_groups: Any = ...,
) -> Any:
    """Send slices of rows to all devices along named axes; lengths may differ and are …"""
