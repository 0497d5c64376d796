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
    """The values of all devices along named axes, on each of them; pytrees leaf by leaf."""

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
    """The values of all devices along named axes, on each of them; pytrees leaf by leaf."""

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
    """The values of all devices along named axes, on each of them; pytrees leaf by leaf."""

def all_gather_start(
    x: ArrayLike,
    axis_name: Any,
    *,
    axis_index_groups: Any = ...,
    axis: int = ...,
    tiled: bool = ...,
    to: str = ...,
) -> Future:
    """Starts `all_gather`; `.done()` on the result gives its value."""

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
    """Splits each device's array, sends part q to the device of rank q and joins what …"""

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
    """Splits each device's array, sends part q to the device of rank q and joins what …"""

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
    """Splits each device's array, sends part q to the device of rank q and joins what …"""

def all_to_all_start(
    x: ArrayLike,
    axis_name: Any,
    split_axis: int,
    concat_axis: int,
    *,
    axis_index_groups: Any = ...,
    tiled: bool = ...,
) -> Future:
    """Starts `all_to_all`; `.done()` on the result gives its value."""

def axis_index(axis_name: Any) -> Any:
    """The index of the device (or vmapped example) along a named axis, an int32 scalar."""

def axis_size(axis_name: Any) -> int:
    """The size of a named axis, a Python int; of a tuple of axes, their product."""

def pargmax(x: ArrayLike, axis_name: Any) -> Any:
    """The index along named axes of the device with the maximum, int32."""

def pargmin(x: ArrayLike, axis_name: Any) -> Any:
    """The index along named axes of the device with the minimum, int32."""

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
    """Starts `pbroadcast`; `.done()` on the result gives its value."""

@overload
def pcast(x: Never, axis_name: Any, *, to: str) -> Any:
    """Casts values, leaf by leaf, to another state along manual axes; no data moves."""

@overload
def pcast(x: ArrayLike, axis_name: Any, *, to: str) -> Array:
    """Casts values, leaf by leaf, to another state along manual axes; no data moves."""

@overload
def pcast(x: _T, axis_name: Any, *, to: str) -> _T:
    """Casts values, leaf by leaf, to another state along manual axes; no data moves."""

@overload
def pmax(x: Never, axis_name: Any, *, axis_index_groups: Any = ...) -> Any:
    """The maximum over the devices along named axes; pytrees leaf by leaf."""

@overload
def pmax(x: ArrayLike, axis_name: Any, *, axis_index_groups: Any = ...) -> Array:
    """The maximum over the devices along named axes; pytrees leaf by leaf."""

@overload
def pmax(x: _T, axis_name: Any, *, axis_index_groups: Any = ...) -> _T:
    """The maximum over the devices along named axes; pytrees leaf by leaf."""

@overload
def pmean(x: Never, axis_name: Any, *, axis_index_groups: Any = ...) -> Any:
    """The mean over the devices along named axes, on each of them; pytrees leaf by leaf."""

@overload
def pmean(x: ArrayLike, axis_name: Any, *, axis_index_groups: Any = ...) -> Array:
    """The mean over the devices along named axes, on each of them; pytrees leaf by leaf."""

@overload
def pmean(x: _T, axis_name: Any, *, axis_index_groups: Any = ...) -> _T:
    """The mean over the devices along named axes, on each of them; pytrees leaf by leaf."""

@overload
def pmin(x: Never, axis_name: Any, *, axis_index_groups: Any = ...) -> Any:
    """The minimum over the devices along named axes; pytrees leaf by leaf."""

@overload
def pmin(x: ArrayLike, axis_name: Any, *, axis_index_groups: Any = ...) -> Array:
    """The minimum over the devices along named axes; pytrees leaf by leaf."""

@overload
def pmin(x: _T, axis_name: Any, *, axis_index_groups: Any = ...) -> _T:
    """The minimum over the devices along named axes; pytrees leaf by leaf."""

@overload
def ppermute(x: Never, axis_name: Any, perm: Sequence[tuple[int, int]]) -> Any:
    """Sends values between devices along named axes; pytrees leaf by leaf."""

@overload
def ppermute(x: ArrayLike, axis_name: Any, perm: Sequence[tuple[int, int]]) -> Array:
    """Sends values between devices along named axes; pytrees leaf by leaf."""

@overload
def ppermute(x: _T, axis_name: Any, perm: Sequence[tuple[int, int]]) -> _T:
    """Sends values between devices along named axes; pytrees leaf by leaf."""

def ppermute_start(x: ArrayLike, axis_name: Any, perm: Sequence[tuple[int, int]]) -> Future:
    """Starts `ppermute`; `.done()` on the result gives its value."""

def precv(token: Any, out_shape: Any, axis_name: Any, perm: Sequence[tuple[int, int]]) -> Any:
    """Receive the values that `psend` sent, zeros on devices that are no target."""

def psend(x: ArrayLike, axis_name: Any, perm: Sequence[tuple[int, int]]) -> Any:
    """Starts sending values along a named axis; returns the token that `precv` takes."""

@overload
def pshuffle(x: Never, axis_name: Any, perm: Sequence[int]) -> Any:
    """Permutes values along a named axis: device i receives that of device perm[i]."""

@overload
def pshuffle(x: ArrayLike, axis_name: Any, perm: Sequence[int]) -> Array:
    """Permutes values along a named axis: device i receives that of device perm[i]."""

@overload
def pshuffle(x: _T, axis_name: Any, perm: Sequence[int]) -> _T:
    """Permutes values along a named axis: device i receives that of device perm[i]."""

@overload
def psum(x: Never, axis_name: Any, *, axis_index_groups: Any = ...) -> Any:
    """The sum over the devices along named axes, on each of them; pytrees leaf by leaf."""

@overload
def psum(x: ArrayLike, axis_name: Any, *, axis_index_groups: Any = ...) -> Array:
    """The sum over the devices along named axes, on each of them; pytrees leaf by leaf."""

@overload
def psum(x: _T, axis_name: Any, *, axis_index_groups: Any = ...) -> _T:
    """The sum over the devices along named axes, on each of them; pytrees leaf by leaf."""

@overload
def psum_scatter(
    x: Never,
    axis_name: Any,
    *,
    scatter_dimension: int = ...,
    axis_index_groups: Any = ...,
    tiled: bool = ...,
) -> Any:
    """The sum along named axes, of which each device keeps its own part; pytrees leaf by …"""

@overload
def psum_scatter(
    x: ArrayLike,
    axis_name: Any,
    *,
    scatter_dimension: int = ...,
    axis_index_groups: Any = ...,
    tiled: bool = ...,
) -> Array:
    """The sum along named axes, of which each device keeps its own part; pytrees leaf by …"""

@overload
def psum_scatter(
    x: _T,
    axis_name: Any,
    *,
    scatter_dimension: int = ...,
    axis_index_groups: Any = ...,
    tiled: bool = ...,
) -> _T:
    """The sum along named axes, of which each device keeps its own part; pytrees leaf by …"""

def psum_scatter_start(
    x: ArrayLike,
    axis_name: Any,
    *,
    scatter_dimension: int = ...,
    axis_index_groups: Any = ...,
    tiled: bool = ...,
) -> Future:
    """Starts `psum_scatter`; `.done()` on the result gives its value."""

def psum_start(x: ArrayLike, axis_name: Any, *, axis_index_groups: Any = ...) -> Future:
    """Starts `psum`; `.done()` on the result gives its value."""

@overload
def pswapaxes(x: Never, axis_name: Any, axis: int, *, axis_index_groups: Any = ...) -> Any:
    """Exchanges the named axis with the array dimension `axis`, of the group's size."""

@overload
def pswapaxes(x: ArrayLike, axis_name: Any, axis: int, *, axis_index_groups: Any = ...) -> Array:
    """Exchanges the named axis with the array dimension `axis`, of the group's size."""

@overload
def pswapaxes(x: _T, axis_name: Any, axis: int, *, axis_index_groups: Any = ...) -> _T:
    """Exchanges the named axis with the array dimension `axis`, of the group's size."""

@overload
def pvary(x: Never, axis_name: Any) -> Any:
    """Casts values to varying along the axes over which they are invarying."""

@overload
def pvary(x: ArrayLike, axis_name: Any) -> Array:
    """Casts values to varying along the axes over which they are invarying."""

@overload
def pvary(x: _T, axis_name: Any) -> _T:
    """Casts values to varying along the axes over which they are invarying."""

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
    """Sends slices of rows to all devices along named axes; lengths may differ and are …"""
