"""Communication along named axes: every collective, typed, under every transformation.

The public names are in weft.lax. A `…_start` gives a future, whose `done()` is the result.
"""

from weft.core.namespace import load_on_use

__getattr__, _NAMES = load_on_use(
    globals(),
    {
        "reduce": "psum pmean",
        "extrema": "pmax pmin pargmax pargmin",
        "gather": "all_gather pbroadcast",
        "scatter": "psum_scatter",
        "permute": "ppermute pshuffle psend precv",
        "exchange": "all_to_all pswapaxes",
        "ragged": "ragged_all_to_all",
        "axis": "axis_index axis_size",
        "casts": "pcast pvary",
        "async_": """psum_start all_gather_start all_to_all_start pbroadcast_start ppermute_start
            psum_scatter_start""",
    },
    home="weft.lax",
)
