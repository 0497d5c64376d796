"""Kernels in the language of `weft.native.language`; `weft.native.calls` compiles them."""
