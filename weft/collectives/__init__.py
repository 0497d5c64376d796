"""Communication along named axes: every collective, typed, under every transformation.

The public names are in weft.lax:

    psum pmean                                  reduce.py
    pmax pmin pargmax pargmin                   extrema.py
    all_gather pbroadcast                       gather.py
    psum_scatter                                scatter.py
    ppermute pshuffle psend precv               permute.py
    all_to_all pswapaxes                        exchange.py
    ragged_all_to_all                           ragged.py
    axis_index axis_size                        axis.py
    pcast pvary                                 casts.py
    psum_start all_gather_start … (.done())     async_.py
"""

from weft.collectives.async_ import (
    all_gather_start,
    all_to_all_start,
    pbroadcast_start,
    ppermute_start,
    psum_scatter_start,
    psum_start,
)
from weft.collectives.axis import axis_index, axis_size
from weft.collectives.casts import pcast, pvary
from weft.collectives.exchange import all_to_all, pswapaxes
from weft.collectives.extrema import pargmax, pargmin, pmax, pmin
from weft.collectives.gather import all_gather, pbroadcast
from weft.collectives.permute import ppermute, precv, psend, pshuffle
from weft.collectives.ragged import ragged_all_to_all
from weft.collectives.reduce import pmean, psum
from weft.collectives.scatter import psum_scatter
from weft.core.namespace import seal

__all__ = [
    "all_gather",
    "all_gather_start",
    "all_to_all",
    "all_to_all_start",
    "axis_index",
    "axis_size",
    "pargmax",
    "pargmin",
    "pbroadcast",
    "pbroadcast_start",
    "pcast",
    "pmax",
    "pmean",
    "pmin",
    "ppermute",
    "ppermute_start",
    "precv",
    "psend",
    "pshuffle",
    "psum",
    "psum_scatter",
    "psum_scatter_start",
    "psum_start",
    "pswapaxes",
    "pvary",
    "ragged_all_to_all",
]
seal(globals(), home="weft.lax")
