"""Programs written with weft: `python -m examples.train`, `.cnn`, `.rnn`, `.plan`."""
