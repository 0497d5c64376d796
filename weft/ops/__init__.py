"""The ops: one definition each, with all its rules."""
