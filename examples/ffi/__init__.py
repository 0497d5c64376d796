"""Native code in weft programs: a C++ package, a C library, a function compiled from Python."""
