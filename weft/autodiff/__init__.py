"""The mechanism of derivatives and batching: traces, transposition, dead code."""
