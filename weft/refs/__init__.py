"""Mutable references: reading, writing, views, discharge."""
