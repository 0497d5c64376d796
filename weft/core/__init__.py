"""The language itself: types, primitives, tracing and the jaxpr IR."""
