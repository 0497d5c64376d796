"""Differentiation, batching, rules and per-device programs as users call them."""
