# Tests: tests/native/test_reductions.py, tests/native/test_extrema.py, tests/native/test_sorting.py
"""Sizes at which weft/native changes what the CPU runs, and the reason of each.

Those that follow from XLA's or a library's code hold on every machine. Those marked † are where
two ways took the same time on two cores with AVX2: elsewhere they cost some time, not a result.
"""

SMALLEST = 512
"""Elements from which operations are marked: a kernel's call takes as long as XLA's loop. †"""
UNEVEN = 1 << 17
"""Elements from which XLA:CPU shares an elementwise loop among two threads or more."""
UNFUSED_WAVES = 4096
"""Elements from which a kernel's sine or power gains more than fusing it would. †"""

SCALAR_CALLS, WIDE_CALLS, QUOTIENTS = 2048, 8192, 4096
"""Elements from which a formula gains more than it costs, where XLA computes one after the other:
functions of f64 and quotients of integers take less time for each. XLA runs programs on another
thread from 1000 operations on elements, and counts those of formulas, but no elementary functions.
†"""
VECTORS = 1 << 16
"""The same where XLA's loops are vectors: the logarithm of f32. †"""

# Sums and extrema
LARGE_SUMS = 1 << 13
"""Elements from which a sum over columns is marked; both take microseconds below. †"""
MATRIX, PLANE = 1 << 16, 64
"""Elements from which a matrix times a vector is computed by a kernel, and those of a row from
which a vector times a matrix is. †"""
VECTOR, READ_ONCE = 1 << 14, 1 << 22
"""Elements of a vector up to which a first-level cache holds it for all rows, and of matrices from
which longer rows are XLA's: it reads several rows for each part of the vector. †"""
COLUMNS, ROWS = 4096, 64
"""Elements of a plane, and of a row, from which they are combined by a kernel. †"""
UNROLLED = 32
"""Elements up to which XLA unrolls a reduction and makes vectors across results: half of it for
16-bit and 64-bit ones, and not where threads do not share the results evenly."""
DIVIDED = 1 << 14
"""Means up to which the thread of a kernel's call divides all sums: it takes microseconds. †"""
SOFTMAX_ROW = 32
"""Elements of a row from which a kernel computes its softmax: a vector of the longest kind. †"""
FEW_ROWS, LONG_ROWS = 8, 1024
"""Rows up to which, and elements of one from which, they are combined one after the other. A larger
number makes larger programs; short rows are no vectors."""
LIBRARY = 2048
"""Elements from which XLA may give a reduction to its library; it has done so from 4096."""
STEPS, LANES, STEPPED = range(4, 17), 8, 16384
"""How many elements make an extremum of the first step: XLA unrolls up to 32, processors have
sixteen registers or more. How many such extrema lie side by side: a vector of AVX2. From how many
elements two loops gain more than the second costs. †"""

# Copies
MOVED_BYTES, MOVED_RUN, SHARED_BYTES = 1 << 14, 128, 1 << 20
"""Bytes of a result from which joins and paddings are copied by a kernel, of a run of neighbors on
average, and of a result whose copy all threads share. †"""

# Loops
STACKED = 1 << 15
"""Elements from which stacked results start unwritten: their zeros cost more than a call. †"""

# Sorts
LONG = 16384
"""Elements of a row from which digits are wider and all threads share it: a first-level cache of
32-bit keys and their copy is full. †"""
SHARED_ROW = 1 << 16
"""Elements of a row from which all threads share the sort of its values in vectors. †"""
CARRIED = 1 << 18
"""Elements of a row from which values that go along are sorted with their keys: they leave a
second-level cache. †"""
VECTOR_ROW = 16
"""Elements from which a row is sorted by itself; shorter ones are sorted one in each lane. †"""
SELECTED, RANKS = 200, 8
"""Elements of a row from which selecting up to so many of its ranks is faster than sorting. †"""
LISTED = 64
"""Elements up to which the greatest of a row are kept in a list: as many as a block has. †"""

# Convolutions, products, transforms, decompositions
DEPTHWISE, ONE_FEATURE = 1024, 1024
"""Elements from which planes are padded for the kernel; of filters, up to which it is faster than
XLA's product of matrices where inputs have one feature. †"""
FILTERS = 1 << 20
"""Products from which the gradient of a filter is a kernel's: both take microseconds below. †"""
FEW_PLACES = 128
"""Places of a 1 × 1 convolution up to which all examples are one product and a transpose. †"""
LARGE_OPERAND, OPERAND_PART = 1 << 20, 1 << 16
"""Elements of an operand from which a batch of products is a loop, as it leaves the caches, and
elements of a step for each thread, which stay in one. †"""
TRANSFORMS = 1 << 16, 1 << 24
"""Lengths whose Fourier transforms go in two passes: shorter ones fit the cache, longer ones need
a table that does not. †"""
TRANSFORMED, ROW_TRANSFORMS = 4096, 1 << 14
"""Elements from which several rows are transformed side by side, and lengths up to which they, and
a copy, fit a cache. †"""
SHARED_MATRIX, LARGE_MATRIX = 48 * 48, 1 << 20
"""Elements from which OpenBLAS shares a matrix among threads, and, over their number, up to which
one thread is faster. †"""
SMALL_FACTOR = 8
"""Rows and columns of matrices up to which products of many are written out: larger ones make
larger programs, and XLA's own loops, where it takes them, are as fast. †"""
SMALL_MATRIX, SMALL_MATRICES = 8, 32
"""Rows of matrices up to which each lane of a vector decomposes one of its own, and how many
matrices that takes. †"""
